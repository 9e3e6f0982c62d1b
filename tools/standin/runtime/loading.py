"""From a stored model to a loaded one: parameters, device and precision, simulated time, and the ways to fail."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from .errors import ApiError, MalformedModelError
from .manifests import Manifest, ModelConfig, is_runnable
from .parameters import ModelParameters, parse_parameters
from .store import Store, StoredModel
from .switches import SwitchBoard, Switches

_log = logging.getLogger("ollaya")


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model a child process would now hold in memory."""

    model: StoredModel
    parameters: ModelParameters
    device: str
    precision: str


@dataclass(frozen=True, slots=True)
class Loader:
    """Loads models the way `device` (a value of ``OLLAYA_DEVICE``) and `timeout` (seconds) tell it to.

    `stopping` ends a load under way, `loaded` hears of every model that came up.
    """

    store: Store
    board: SwitchBoard
    device: str
    timeout: float
    stopping: threading.Event
    loaded: Callable[[LoadedModel], None]

    def load(self, model: StoredModel) -> LoadedModel:
        """Return the loaded model after its load time; ApiError `MODEL_LOAD_FAILED` or `UNSUPPORTED_MODEL`."""
        name = model.name.model
        if not is_runnable(model.config):
            raise ApiError("UNSUPPORTED_MODEL", f"this build cannot run format {model.config.model_format!r}")
        parameters = self._parameters(model)
        switches = self.board.current.over(parameters.switches)
        device = switches.device or self._usable_device(name, switches)
        self._take_time(name, parameters, switches)
        if switches.load_failure is not None:
            raise _load_failed(name, switches.load_failure)
        precision = choose_precision(model.manifest, model.config, device)
        text = "loaded model model=%s device=%s precision=%s engine=standin memory=%d"
        _log.info(text, name, device, precision, parameters.memory_bytes)
        result = LoadedModel(model, parameters, device, precision)
        self.loaded(result)
        return result

    def _parameters(self, model: StoredModel) -> ModelParameters:
        layer = model.manifest.layer("decision")
        if layer is None:
            return ModelParameters()
        try:
            return parse_parameters(self.store.read_blob(layer))
        except MalformedModelError as error:
            raise _load_failed(model.name.model, str(error)) from None

    def _usable_device(self, name: str, switches: Switches) -> str:
        gpu = switches.gpu or "none"
        device = choose_device(self.device, gpu)
        if device is None:
            raise _load_failed(name, f"device {self.device} is not usable | no such device")
        if self.device == "auto" and gpu == "broken":
            _log.warning("the GPU failed its first request, falling back to the CPU model=%s", name)
        return device

    def _take_time(self, name: str, parameters: ModelParameters, switches: Switches) -> None:
        wanted = parameters.load_seconds if switches.load_seconds is None else switches.load_seconds
        never_ends = switches.load_hangs or wanted > self.timeout
        if self.stopping.wait(self.timeout if never_ends else wanted):
            raise _load_failed(name, "the daemon is shutting down")
        if never_ends:
            raise _load_failed(name, f"timed out loading after {self.timeout:g} s")


def choose_device(configured: str, gpu: str) -> str | None:
    """Return the device a load ends up on, None when the load must fail (spec section 6, device behaviour)."""
    if configured == "cpu":
        return "cpu"
    if configured == "auto":
        return "cuda:0" if gpu == "working" else "cpu"
    if configured.startswith("cuda") and gpu == "working":
        return configured if ":" in configured else f"{configured}:0"
    return None


def choose_precision(manifest: Manifest, config: ModelConfig, device: str) -> str:
    """Return the precision loaded: the GGUF type, half on a GPU where a graph for it exists, else full."""
    if config.model_format == "gguf":
        return next(iter(manifest.annotated("quantization")), "Q8_0")
    available = manifest.annotated("precision") or ("fp32",)
    preferred = "fp32" if device == "cpu" else "fp16"
    return shown_precision(preferred if preferred in available else available[0])


def shown_precision(annotation: str) -> str:
    """Return ``F16`` for ``fp16`` and so on."""
    return annotation.upper().replace("FP", "F")


def carried_precisions(manifest: Manifest) -> str:
    """Return everything the manifest carries, as `/api/tags` lists it: ``F16/F32``."""
    shown = {shown_precision(value) for value in manifest.annotated("precision")}
    return "/".join(sorted(shown | set(manifest.annotated("quantization"))))


def _load_failed(name: str, reason: str) -> ApiError:
    return ApiError("MODEL_LOAD_FAILED", f'model "{name}" failed to load: {reason}')
