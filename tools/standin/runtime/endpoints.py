"""What each path of the API does, given the parts of a daemon (spec sections 2.5 to 2.10)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

from . import faults
from .catalog import Catalog
from .decisions import Decisions
from .durations import rfc3339
from .errors import ApiError
from .http_message import Request, Response, json_line, json_response
from .loading import carried_precisions
from .names import ModelName
from .presets import Presets
from .pull import Line, PullDesk, is_last
from .residency import Residency, Resident
from .settings import Settings
from .store import Store, StoredModel, details
from .switches import SwitchBoard
from .validation import validate_decision, validate_model

_NEW_PS_FIELDS: Final = ("model", "size", "size_vram", "context_length")


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The API over the parts of one daemon."""

    settings: Settings
    store: Store
    catalog: Catalog
    board: SwitchBoard
    residency: Residency
    decisions: Decisions
    pulls: PullDesk
    presets: Presets

    def alive(self, _: Request) -> Response:
        """Answer `/`: the process runs, which says nothing about models."""
        return Response(200, b"Ollaya is running", "text/plain; charset=utf-8")

    def version(self, _: Request) -> Response:
        """Answer `/api/version`."""
        return json_response({"version": self.settings.version})

    def tags(self, _: Request) -> Response:
        """Answer `/api/tags`: what is in the store, newest first."""
        newest_first = sorted(
            self.store.models(), key=lambda model: (-model.modified_at, self.catalog.canonical(model.name))
        )
        return json_response({"models": [self._tag(model) for model in newest_first]})

    def ps(self, _: Request) -> Response:
        """Answer `/api/ps`: what is loaded, with its digest, device and residency."""
        return json_response({"models": [self._loaded(resident) for resident in self.residency.residents()]})

    def show(self, request: Request) -> Response:
        """Answer `/api/show`: everything about a model but its digest."""
        model = self.store.read(self._name(request.json_object()))
        config, table = model.config, self.catalog.router_table(model)
        return json_response(
            {
                "license": config.license,
                "modelfile": f"FROM {self.catalog.canonical(model.name)}\n",
                "parameters": "",
                "questions": self.catalog.questions_document(model),
                "router": None if table is None else asdict(table),
                "details": details(model, carried_precisions(model.manifest)),
                "model_info": _model_info(model),
                "capabilities": ["choice", "score", "noul"],
                "modified_at": rfc3339(model.modified_at),
            }
        )

    def models(self, _: Request) -> Response:
        """Answer `/v1/models`."""
        entries = [
            {
                "name": self.catalog.canonical(model.name),
                "description": model.config.description,
                "release_date": model.config.release_date,
            }
            for model in self.store.models()
        ]
        return json_response({"models": sorted(entries, key=lambda entry: entry["name"])})

    def systemone(self, request: Request) -> Response:
        """Answer `/v1/systemone` and its alias."""
        parsed = validate_decision(request.json_object(), native=False)
        return self.decisions.answer(parsed, request, native=False)

    def decide(self, request: Request) -> Response:
        """Answer `/api/decide`: a decision, or without a state a load or an unload."""
        presets = self.settings.supports("presets")
        parsed = validate_decision(request.json_object(), native=True, presets=presets)
        if parsed.state is None:
            return self.decisions.load_or_unload(parsed, request)
        return self.decisions.answer(parsed, request, native=True)

    def pull(self, request: Request) -> Response:
        """Answer `/api/pull`: statuses line by line; what fails before the first layer is an HTTP error."""
        body = request.json_object()
        name = self._name(body)
        lines = self.pulls.watch(name, request.client_is_gone)
        if body.get("stream") is False:
            return json_response(_final(list(lines)))
        begun = []
        for line in lines:
            begun.append(line)
            if is_last(line) or "digest" in line:
                break
        if "digest" not in begun[-1]:
            _final(begun)
        return Response(200, content_type="application/x-ndjson", lines=_stream(begun, lines))

    def copy(self, request: Request) -> Response:
        """Answer `/api/copy`: a second name for a model, over any model of that name."""
        body = request.json_object()
        self.store.copy(self._name(body, "source"), self._name(body, "destination"))
        return Response(200)

    def delete(self, request: Request) -> Response:
        """Answer `/api/delete`."""
        self.store.delete(self._name(request.json_object()))
        return Response(200)

    def list_presets(self, _: Request) -> Response:
        """Answer `/api/presets`."""
        return json_response({"presets": self.presets.listing()})

    def show_preset(self, request: Request) -> Response:
        """Answer `/api/presets/show`."""
        return json_response(self.presets.show(validate_model(request.json_object(), "name")))

    def create_preset(self, request: Request) -> Response:
        """Answer `/api/presets/create`."""
        self.presets.create(request.json_object())
        return Response(200)

    def delete_preset(self, request: Request) -> Response:
        """Answer `/api/presets/delete`."""
        self.presets.delete(validate_model(request.json_object(), "name"))
        return Response(200)

    def not_implemented(self, request: Request) -> Response:
        """Refuse the reserved paths and, here, model creation."""
        raise ApiError("NOT_IMPLEMENTED", f"{request.method} {request.path} is not implemented")

    def _name(self, body: dict[str, Any], field: str = "model") -> ModelName:
        return self.catalog.name(validate_model(body, field), field)

    def _tag(self, model: StoredModel) -> dict[str, Any]:
        name = self.catalog.canonical(model.name)
        return {
            "name": name,
            "model": name,
            "modified_at": rfc3339(model.modified_at),
            "size": model.manifest.size,
            "digest": model.digest,
            "details": details(model, carried_precisions(model.manifest)),
        }

    def _loaded(self, resident: Resident) -> dict[str, Any]:
        loaded = resident.loaded
        on_disk = self._on_disk(loaded.model.name)
        size = loaded.model.manifest.size
        switches = self.board.current.over(loaded.parameters.switches)
        entry = {
            "name": resident.name,
            "model": resident.name,
            "size": size,
            "digest": switches.digest or loaded.model.digest,
            "details": details(on_disk, loaded.precision),
            "expires_at": None if resident.expires_at is None else rfc3339(resident.expires_at),
            "size_vram": 0 if loaded.device == "cpu" else size,
            "context_length": on_disk.config.context_length if on_disk else 0,
            "device": loaded.device,
        }
        return faults.with_field_set(entry, switches, dropped=_NEW_PS_FIELDS)

    def _on_disk(self, name: ModelName) -> StoredModel | None:
        try:
            return self.store.read(name)
        except ApiError:
            return None  # the name has left the store under a live child: spec 2.5 shows empty texts


def _model_info(model: StoredModel) -> dict[str, Any]:
    config, family = model.config, model.config.family
    engine = {"gguf": "llama"}.get(config.model_format, config.model_format)
    return {
        "general.architecture": family,
        "general.languages": list(config.languages),
        "general.source": config.source,
        "general.engine": config.engine or engine,
        f"{family}.layout": config.layout,
        f"{family}.context_length": config.context_length,
        f"{family}.quantization": carried_precisions(model.manifest),
    }


def _final(lines: list[Line]) -> Line:
    """Return the last line of a pull; ApiError when it tells of a failure."""
    last = lines[-1] if lines else {"error": "the client left", "code": "INTERNAL"}
    if "error" in last:
        raise ApiError(last["code"], last["error"])
    return last


def _stream(begun: list[Line], lines: Iterator[Line]) -> Iterator[bytes]:
    try:
        for line in begun:
            yield json_line(line)
        for line in lines:
            yield json_line(line)
    finally:
        getattr(lines, "close", lambda: None)()
