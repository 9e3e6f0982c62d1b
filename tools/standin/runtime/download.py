"""One blob from a URL into the store: streams, ranges, resume, retries, and the hash (spec section 5.1, step 4)."""

from __future__ import annotations

import hashlib
import http.client
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

from .errors import ApiError, StandinError
from .fetch import Fetcher, FetchError
from .manifests import Descriptor

ONE_STREAM_BYTES: Final = 32 * 1024 * 1024
PART_BYTES: Final = 64 * 1024 * 1024
MOST_PARTS: Final = 16
PARTS_AT_ONCE: Final = 8
SAVE_SECONDS: Final = 0.25
_PIECE_BYTES: Final = 256 * 1024

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Pace:
    """How patient a download is: waits between tries, and how long no data may come; `scale` shrinks all for tests."""

    waits: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
    stall: float = 30.0
    read: float = 60.0
    scale: float = 1.0


class PullCancelledError(StandinError):
    """Nobody waits for the pull any more."""


class _RangeIgnoredError(StandinError):
    """The server answered a range with the whole file."""


@dataclass(slots=True)
class Part:
    """One range of a blob: `completed` of `size` bytes from `offset` are on disk."""

    offset: int
    size: int
    completed: int = 0


def plan_parts(size: int) -> list[Part]:
    """Return the ranges of a blob: clamp(ceil(size / 64 MiB), 1, 16) of them, nearly equal."""
    count = min(MOST_PARTS, max(1, -(-size // PART_BYTES)))
    share = -(-size // count)
    return [Part(start, min(share, size - start)) for start in range(0, size, share)]


def resumed_parts(text: str, size: int) -> list[Part] | None:
    """Return a saved plan, None unless it is whole and still sums up to `size`."""
    try:
        parts = [Part(int(item["offset"]), int(item["size"]), int(item["completed"])) for item in json.loads(text)]
    except (ValueError, TypeError, KeyError):
        return None
    position = 0
    for part in parts:
        if part.offset != position or not 0 <= part.completed <= part.size:
            return None
        position += part.size
    return parts if position == size else None


@dataclass(slots=True)
class Download:
    """Brings one blob to `target`; `falls_back` is whether an ignored range becomes one stream."""

    fetcher: Fetcher
    blob: Descriptor
    url: str
    target: Path
    pace: Pace
    cancelled: threading.Event
    progress: Progress
    falls_back: bool
    _moved: int = 0
    _counting: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> None:
        """Leave the verified blob at its place; ApiError (registry or digest) or PullCancelledError."""
        if self.blob.size <= ONE_STREAM_BYTES:
            self._retrying(self._stream, self.pace.read)
        else:
            self._in_parts()
        if _sha256(self._partial) != self.blob.digest:
            self._discard()
            raise ApiError("DIGEST_MISMATCH", f"blob {self.blob.digest} does not match its digest")
        self._partial.replace(self.target)
        self._plan_file.unlink(missing_ok=True)

    @property
    def _partial(self) -> Path:
        return self.target.with_name(f"{self.target.name}-partial")

    @property
    def _plan_file(self) -> Path:
        return self.target.with_name(f"{self.target.name}-partial.json")

    def _discard(self) -> None:
        self._partial.unlink(missing_ok=True)
        self._plan_file.unlink(missing_ok=True)

    def _retrying(self, attempt: Callable[[float], None], read_seconds: float) -> None:
        """Try until done; at most six times more, only for what may pass (local I/O errors count, spec 4.4)."""
        for wait in (*self.pace.waits, None):
            try:
                attempt(read_seconds * self.pace.scale)
            except (FetchError, OSError, http.client.HTTPException) as error:
                if wait is None or (isinstance(error, FetchError) and not error.is_retryable):
                    raise ApiError("REGISTRY_ERROR", f"downloading {self.blob.digest}: {error}") from None
                if self.cancelled.wait(wait * self.pace.scale):
                    raise PullCancelledError from None
            else:
                return

    def _stream(self, read_seconds: float) -> None:
        self._restart_count()
        with self._partial.open("wb") as file, self.fetcher.open(self.url, read_seconds) as response:
            promised = response.length
            if promised is not None and promised != self.blob.size:
                raise _wrong_length(promised, self.blob.size)
            received = self._copy(response, file, self.blob.size, self._advance)
            if promised is None and (received < self.blob.size or response.read(1)):
                raise _wrong_length(received, self.blob.size)
        if received < self.blob.size:
            raise FetchError("the body ended early")

    def _in_parts(self) -> None:
        parts = self._open_plan()
        self._advance(sum(part.completed for part in parts))
        try:
            self._all_parts(parts)
        except _RangeIgnoredError:
            self._discard()
            if not self.falls_back:
                raise ApiError("DIGEST_MISMATCH", f"blob {self.blob.digest} is corrupt: ranges are ignored") from None
            self._retrying(self._stream, self.pace.read)

    def _open_plan(self) -> list[Part]:
        saved = None
        if self._partial.is_file() and self._partial.stat().st_size == self.blob.size and self._plan_file.is_file():
            saved = resumed_parts(self._plan_file.read_text("utf-8"), self.blob.size)
        if saved is not None:
            return saved
        parts = plan_parts(self.blob.size)
        self._retrying(lambda _: self._preallocate(), self.pace.read)
        return parts

    def _preallocate(self) -> None:
        with self._partial.open("wb") as file:
            file.truncate(self.blob.size)

    def _all_parts(self, parts: list[Part]) -> None:
        waiting = [part for part in parts if part.completed < part.size]
        failures: list[Exception] = []
        workers = [
            threading.Thread(target=self._work, args=(waiting, failures), daemon=True)
            for _ in range(min(PARTS_AT_ONCE, len(waiting)))
        ]
        for worker in workers:
            worker.start()
        while any(worker.is_alive() for worker in workers):
            for worker in workers:
                worker.join(SAVE_SECONDS / len(workers))
            self._save(parts)
        if failures:
            raise failures[0]

    def _work(self, waiting: list[Part], failures: list[Exception]) -> None:
        while not failures:
            try:
                part = waiting.pop(0)
            except IndexError:
                return
            try:
                self._retrying(lambda seconds, part=part: self._range(part, seconds), self.pace.stall)  # type: ignore[misc] # mypy cannot infer a bound default
            except StandinError as error:
                failures.append(error)

    def _range(self, part: Part, read_seconds: float) -> None:
        start, end = part.offset + part.completed, part.offset + part.size - 1
        headers = {"Range": f"bytes={start}-{end}"}
        with self.fetcher.open(self.url, read_seconds, headers) as response, self._partial.open("r+b") as file:
            if response.status != 206:
                raise _RangeIgnoredError
            if response.length is not None and response.length != end - start + 1:
                raise _wrong_length(response.length, end - start + 1)
            file.seek(start)

            def advance(count: int) -> None:
                part.completed += count
                self._advance(count)

            self._copy(response, file, end - start + 1, advance)
        if part.completed < part.size:
            raise FetchError("the body ended early")

    def _copy(self, response: http.client.HTTPResponse, file: BinaryIO, wanted: int, advance: Progress) -> int:
        received = 0
        while received < wanted:
            if self.cancelled.is_set():
                raise PullCancelledError
            piece = response.read1(min(_PIECE_BYTES, wanted - received))
            if not piece:
                break
            file.write(piece)
            received += len(piece)
            advance(len(piece))
        return received

    def _save(self, parts: list[Part]) -> None:
        plan: list[dict[str, Any]] = [
            {"offset": part.offset, "size": part.size, "completed": part.completed} for part in parts
        ]
        temporary = self._plan_file.with_suffix(".tmp")
        try:
            temporary.write_text(json.dumps(plan), "utf-8")
            temporary.replace(self._plan_file)
        except OSError:
            return  # the plan only spares bytes after a restart; the download itself reports a full disk

    def _restart_count(self) -> None:
        with self._counting:
            self._moved = 0

    def _advance(self, count: int) -> None:
        with self._counting:
            self._moved += count
            moved = self._moved
        self.progress(moved)


def _wrong_length(got: int, wanted: int) -> ApiError:
    return ApiError("REGISTRY_ERROR", f"a body has {got} bytes where the manifest promises {wanted}")


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1024 * 1024):
            digest.update(piece)
            time.sleep(0)  # let request threads in between pieces
    return f"sha256:{digest.hexdigest()}"
