"""The registry's state between requests: tags that move, switches that are used up, requests that are remembered."""

import functools
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from tools.standin.registry.catalogue import Catalogue
from tools.standin.registry.failures import Failure, IgnoreRange, Switch, take
from tools.standin.registry.manifests import manifest_digest
from tools.standin.registry.names import TagName
from tools.standin.registry.ranges import Span
from tools.standin.registry.replies import Reply, disturbed, ranged, registry_reply, weights_reply


class Host(StrEnum):
    """Which of the two hosts a request came to."""

    REGISTRY = "registry"
    WEIGHTS = "weights"


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it came in, with the status that it was answered with."""

    host: Host
    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    """In the order and spelling in which they were sent."""
    status: int

    def header(self, name: str) -> str | None:
        """The first value of a header, whatever its case."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


class UnknownTagError(LookupError):
    """The catalogue has no manifest of that name."""


class Site:
    """Safe to use from several threads: everything that changes is behind one lock."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._lock = threading.Lock()
        self._manifests = dict(catalogue.manifests)
        # One of them has megabytes, and the digests are asked for again and again.
        self._digest = functools.cache(manifest_digest)
        self._switches: tuple[Switch, ...] = ()
        self._requests: list[Request] = []

    def answer(self, host: Host, method: str, path: str, headers: tuple[tuple[str, str], ...]) -> tuple[Reply, Span]:
        """Answer a request and remember it.

        Returns:
            The reply, and the part of its content to send.
        """
        with self._lock:
            failure, self._switches = take(self._switches, path)
            reply, span = self._reply(host, path, _range_of(headers, failure), failure)
            self._requests.append(Request(host, method, path, headers, reply.status))
        return reply, span

    def _reply(self, host: Host, path: str, wanted: str | None, failure: Failure | None) -> tuple[Reply, Span]:
        plain = (
            registry_reply(path, self._manifests, self._catalogue.blobs)
            if host is Host.REGISTRY
            else weights_reply(path, self._catalogue.files)
        )
        return ranged(disturbed(plain, failure), wanted)

    def move_tag(self, name: TagName, target: TagName) -> None:
        """Let a tag answer with the manifest that the catalogue has for another; it need not exist yet.

        The target is looked up as first published, so that moving a tag to itself puts it back.

        Raises:
            UnknownTagError: The catalogue has no such target.
        """
        if target not in self._catalogue.manifests:
            raise UnknownTagError(f"the catalogue has no {target}")
        with self._lock:
            self._manifests[name] = self._catalogue.manifests[target]

    def delete_tag(self, name: TagName) -> None:
        """Let a tag answer 404; its blobs stay.

        Raises:
            UnknownTagError: There is no such tag.
        """
        with self._lock:
            if self._manifests.pop(name, None) is None:
                raise UnknownTagError(f"there is no tag {name}")

    def digests(self) -> Mapping[TagName, str]:
        """What each tag points at now: SHA-256 of the manifest's bytes, 64 hex digits."""
        with self._lock:
            return {name: self._digest(data) for name, data in self._manifests.items()}

    def manifest(self, name: TagName) -> bytes:
        """The manifest that a tag answers with now.

        Raises:
            UnknownTagError: There is no such tag.
        """
        with self._lock:
            if name not in self._manifests:
                raise UnknownTagError(f"there is no tag {name}")
            return self._manifests[name]

    def set_switches(self, switches: Iterable[Switch]) -> None:
        """Replace every failure switch."""
        with self._lock:
            self._switches = tuple(switches)

    def add_switch(self, switch: Switch) -> None:
        """Add a failure switch; earlier ones are used up first."""
        with self._lock:
            self._switches = (*self._switches, switch)

    def requests(self) -> tuple[Request, ...]:
        """Every request since the start or the last call of `forget_requests`, oldest first."""
        with self._lock:
            return tuple(self._requests)

    def forget_requests(self) -> None:
        """Start the record of requests anew."""
        with self._lock:
            self._requests.clear()


def _range_of(headers: tuple[tuple[str, str], ...], failure: Failure | None) -> str | None:
    if isinstance(failure, IgnoreRange):
        return None
    return next((value for key, value in headers if key.lower() == "range"), None)
