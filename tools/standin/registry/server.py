"""The stand-in registry as an object: two hosts on ports of their own, driven by method calls."""

import ssl
import threading
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Self

from tools.standin.registry.catalogue import build_catalogue
from tools.standin.registry.failures import Failure, Switch
from tools.standin.registry.hosts import HostHandler
from tools.standin.registry.listener import Listener
from tools.standin.registry.manifests import HUGGING_FACE, Origins, manifest_digest
from tools.standin.registry.names import TagName
from tools.standin.registry.site import Host, Request, Site

_LOOPBACK = ("127.0.0.1", 0)


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the registry listens and what its manifests say about it."""

    listen: tuple[str, int] = _LOOPBACK
    weights_listen: tuple[str, int] = _LOOPBACK
    base_url: str | None = None
    """How clients reach the registry's host; by default, over loopback at the port bound."""
    weights_base_url: str = HUGGING_FACE
    """How clients reach the weights; by default through their `OLLAYA_HF_ENDPOINT`."""
    tls: ssl.SSLContext | None = None
    """Serve https instead of http, on both hosts."""


class Registry:
    """A running stand-in registry. Serves between `start` and `stop`, or inside a `with` block.

    Tags are written as `[namespace/]model[:tag]`, for example `laya:en`.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        """Bind both ports; by default on loopback, wherever the system has one free."""
        settings = settings or Settings()
        self._stopping = threading.Event()
        self._registry = Listener(settings.listen, settings.tls)
        self._weights = Listener(settings.weights_listen, settings.tls)
        self._scheme = "http" if settings.tls is None else "https"
        self.base_url = settings.base_url or f"{self._scheme}://127.0.0.1:{self._registry.port}"
        """How clients reach the registry's host."""
        self.site = Site(build_catalogue(Origins(self.base_url, settings.weights_base_url)))
        """The state behind both hosts."""

    @property
    def weights_url(self) -> str:
        """The weights' host over loopback: what a client's `OLLAYA_HF_ENDPOINT` names."""
        return f"{self._scheme}://127.0.0.1:{self._weights.port}"

    def start(self) -> None:
        """Begin to answer on both ports."""
        self._registry.serve(partial(HostHandler, self.site, Host.REGISTRY, self._stopping))
        self._weights.serve(partial(HostHandler, self.site, Host.WEIGHTS, self._stopping))

    def stop(self) -> None:
        """Free both ports and end stalled transfers."""
        self._stopping.set()
        self._registry.stop()
        self._weights.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def digest(self, tag: str) -> str:
        """The digest that a tag resolves to now, 64 hex digits.

        Raises:
            UnknownTagError: There is no such tag.
        """
        return manifest_digest(self.manifest(tag))

    def manifest(self, tag: str) -> bytes:
        """The exact bytes that a tag resolves to now.

        Raises:
            UnknownTagError: There is no such tag.
        """
        return self.site.manifest(TagName.parse(tag))

    def move_tag(self, tag: str, target: str) -> None:
        """Let a tag answer with the manifest first published as `target`; moving a tag to itself puts it back.

        Raises:
            UnknownTagError: The catalogue has no such target.
        """
        self.site.move_tag(TagName.parse(tag), TagName.parse(target))

    def delete_tag(self, tag: str) -> None:
        """Let a tag answer 404.

        Raises:
            UnknownTagError: There is no such tag.
        """
        self.site.delete_tag(TagName.parse(tag))

    def fail_next(self, path: str, failure: Failure, times: int | None = 1) -> None:
        """Let the next requests to paths like `path` (a shell pattern) fail; None means every one from now on."""
        self.site.add_switch(Switch(path, failure, times))

    def clear_failures(self) -> None:
        """Let every request succeed again."""
        self.site.set_switches(())

    @property
    def requests(self) -> list[Request]:
        """Every request so far, on both hosts, oldest first."""
        return list(self.site.requests())

    def forget_requests(self) -> None:
        """Start the record of requests anew."""
        self.site.forget_requests()
