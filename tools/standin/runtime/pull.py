"""A pull, step by step, and its clients: joined, watched, given up when nobody watches (spec sections 5.1 and 5.2)."""

from __future__ import annotations

import http.client
import logging
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from .errors import ApiError, InvalidModelNameError, MalformedModelError, StandinError
from .manifests import Descriptor, Manifest, is_runnable, parse_config, parse_manifest, parse_router
from .names import ModelName, relative_name
from .settings import Settings
from .store import Store
from .switches import SwitchBoard

if TYPE_CHECKING:
    from .fetch import Fetcher

_MOST_MANIFEST_BYTES: Final = 4 * 1024 * 1024
_MOST_LINES_WAITING: Final = 1024
_LOOK_AGAIN_SECONDS: Final = 0.1
_MANIFEST_READ_SECONDS: Final = 60.0

_log = logging.getLogger("ollaya")

Line = dict[str, Any]
Report = Callable[[Line], None]


class Puller:
    """Pulls one model at a time into the store; `pull` may run in several threads for several names."""

    def __init__(self, settings: Settings, store: Store, board: SwitchBoard) -> None:
        self._settings = settings
        self._store = store
        self._board = board

    def pull(self, name: ModelName, report: Report, cancelled: threading.Event) -> None:
        """Bring `name` and, for a router, its targets; ApiError says what failed, the manifest is written last."""
        report({"status": "pulling manifest"})
        try:
            self._pull(name, report, cancelled)
        except OSError as error:
            raise ApiError("REGISTRY_ERROR", f"writing to the store: {error}") from None

    def _pull(self, name: ModelName, report: Report, cancelled: threading.Event) -> None:
        from .fetch import Fetcher  # noqa: PLC0415 - a daemon that never pulls stays small

        fetcher = Fetcher(self._settings.version, self._settings.hugging_face)
        raw = self._fetch_manifest(fetcher, name)
        try:
            manifest = parse_manifest(raw)
            self._blob(fetcher, name, manifest.config, report, cancelled)
            config = parse_config(self._store.read_blob(manifest.config))
        except MalformedModelError as error:
            raise ApiError("REGISTRY_ERROR", f"{name.manifest_url}: {error}") from None
        if not is_runnable(config):
            raise ApiError("UNSUPPORTED_MODEL", f"this build cannot run format {config.model_format!r}")
        for layer in manifest.layers:
            self._blob(fetcher, name, layer, report, cancelled)
        report({"status": "verifying sha256 digest"})
        if config.model_format == "router":
            for target in self._router_targets(name, manifest):
                self._pull(target, report, cancelled)
        report({"status": "writing manifest"})
        self._store.write_manifest(name, raw)

    def _fetch_manifest(self, fetcher: Fetcher, name: ModelName) -> bytes:
        from .fetch import FetchError  # noqa: PLC0415 - see above

        try:
            with fetcher.open(name.manifest_url, _MANIFEST_READ_SECONDS) as response:
                raw: bytes = response.read(_MOST_MANIFEST_BYTES + 1)
        except FetchError as error:
            if error.status != 404:
                raise ApiError("REGISTRY_ERROR", str(error)) from None
            canonical = name.canonical(self._settings.registry)
            text = f'model "{canonical}" not found in registry {name.host}'
            raise ApiError("MODEL_NOT_FOUND", text) from None
        except (OSError, http.client.HTTPException) as error:
            raise ApiError("REGISTRY_ERROR", f"reading {name.manifest_url}: {error}") from None
        if len(raw) > _MOST_MANIFEST_BYTES:
            raise ApiError("REGISTRY_ERROR", f"{name.manifest_url} is larger than {_MOST_MANIFEST_BYTES} bytes")
        return raw

    def _blob(
        self, fetcher: Fetcher, name: ModelName, blob: Descriptor, report: Report, cancelled: threading.Event
    ) -> None:
        from .download import Download, Pace  # noqa: PLC0415 - see above

        def show(completed: int) -> None:
            short = blob.digest.removeprefix("sha256:")[:12]
            line = {"status": f"pulling {short}", "digest": blob.digest, "total": blob.size, "completed": completed}
            report(line)

        if self._store.holds(blob):
            show(blob.size)
            return
        show(0)
        scale = self._board.current.backoff_scale
        pace = Pace() if scale is None else Pace(scale=scale)
        url = blob.urls[0] if blob.urls else name.blob_url(blob.digest)
        target = self._store.blob_path(blob.digest)
        Download(fetcher, blob, url, target, pace, cancelled, show, self._settings.supports("range_fallback")).run()

    def _router_targets(self, router: ModelName, manifest: Manifest) -> list[ModelName]:
        layer = manifest.layer("router")
        if layer is None:
            raise ApiError("REGISTRY_ERROR", "the router's manifest has no router layer")
        try:
            table = parse_router(self._store.read_blob(layer))
            return [relative_name(target, router) for target in dict.fromkeys(table.routes.values())]
        except (MalformedModelError, InvalidModelNameError) as error:
            raise ApiError("REGISTRY_ERROR", f"router: {error}") from None


@dataclass(slots=True)
class _Job:
    """One pull under way, and the queues of those who watch it."""

    cancelled: threading.Event = field(default_factory=threading.Event)
    done: threading.Event = field(default_factory=threading.Event)
    watchers: list[queue.Queue[Line]] = field(default_factory=list)


class PullDesk:
    """The pulls of a daemon: one per name, however many clients ask for it."""

    def __init__(self, puller: Puller) -> None:
        self._puller = puller
        self._jobs: dict[ModelName, _Job] = {}
        self._lock = threading.Lock()

    def watch(self, name: ModelName, is_gone: Callable[[], bool]) -> Iterator[Line]:
        """Start or join the pull of `name` and yield its lines; the last has ``status: success`` or an ``error``.

        When the last watcher leaves (`is_gone`, or the iterator is closed) the pull stops.
        """
        lines: queue.Queue[Line] = queue.Queue(_MOST_LINES_WAITING)
        job = self._join(name, lines)
        try:
            while not is_gone():
                try:
                    line = lines.get(timeout=_LOOK_AGAIN_SECONDS)
                except queue.Empty:
                    continue
                yield line
                if is_last(line):
                    return
        finally:
            self._leave(job, lines)

    def cancel_all(self) -> None:
        """Stop every pull; partial files stay."""
        with self._lock:
            for job in self._jobs.values():
                job.cancelled.set()

    def _join(self, name: ModelName, lines: queue.Queue[Line]) -> _Job:
        with self._lock:
            job = self._jobs.get(name)
            if job is not None and not job.cancelled.is_set():
                job.watchers.append(lines)
                return job
            given_up, job = job, _Job(watchers=[lines])
            self._jobs[name] = job
        threading.Thread(target=self._run, args=(name, job, given_up), daemon=True).start()
        return job

    def _leave(self, job: _Job, lines: queue.Queue[Line]) -> None:
        with self._lock:
            job.watchers.remove(lines)
            if not job.watchers:
                job.cancelled.set()

    def _run(self, name: ModelName, job: _Job, given_up: _Job | None) -> None:
        if given_up is not None:
            given_up.done.wait()  # it may still be in a read, and writes to the same partial file
        last = self._outcome(name, job)
        with self._lock:
            if self._jobs.get(name) is job:  # nobody may join a pull whose last line is out
                del self._jobs[name]
            _publish(job, last)
        job.done.set()

    def _outcome(self, name: ModelName, job: _Job) -> Line:
        def report(line: Line) -> None:
            with self._lock:
                _publish(job, line)

        try:
            self._puller.pull(name, report, job.cancelled)
        except ApiError as error:
            return {"error": error.message, "code": error.code}
        except StandinError as error:
            return {"error": str(error) or "the pull was given up", "code": "INTERNAL"}
        except Exception:  # noqa: BLE001 - a bug must reach those who watch, or they would wait for ever
            _log.exception("internal error in a pull model=%s", name.model)
            return {"error": "internal error", "code": "INTERNAL"}
        return {"status": "success"}


def is_last(line: Line) -> bool:
    """Tell whether a pull says nothing after `line`."""
    return "error" in line or line["status"] == "success"


def _publish(job: _Job, line: Line) -> None:
    """Hand a line to every watcher; slow ones miss lines, never the last."""
    for watcher in job.watchers:
        if watcher.full() and is_last(line):
            watcher.get_nowait()
        if not watcher.full():
            watcher.put_nowait(line)
