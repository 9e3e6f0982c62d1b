"""Model names: grammar, canonical form, registry and place in the store (spec sections 2.1 to 2.3)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from reconciler.engine.errors import InvalidModelName

DEFAULT_HOST: Final = "ollaya.dev"
DEFAULT_NAMESPACE: Final = "library"
DEFAULT_TAG: Final = "latest"

_SCHEMES: Final = ("http", "https")
_PART: Final = re.compile(r"[a-z0-9_][a-z0-9_.-]{0,79}")
_HOST: Final = re.compile(r"[a-z0-9-]+(?:\.[a-z0-9-]+)*(?::(?P<port>[0-9]{1,5}))?")
_HIGHEST_PORT: Final = 65535
_LONGEST_QUOTE: Final = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryAddress:
    """The registry that serves a model's manifest."""

    base_url: str
    """Scheme, host and path, without a trailing slash."""
    host: str
    """`host` or `host:port`, as compared with the allow-list."""
    insecure: bool
    """Whether the registry is spoken to without TLS."""

    @property
    def directory(self) -> str:
        """The runtime's directory for this registry, below `manifests/`: the address with `:` turned into `_`."""
        return self.base_url.partition("://")[2].replace(":", "_")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelName:
    """A parsed model name, lower case throughout.

    Every part is free of shell metacharacters and path traversal, and none but the host can start with a dash.
    """

    scheme: str | None = None
    host: str | None = None
    namespace: str = DEFAULT_NAMESPACE
    model: str
    tag: str = DEFAULT_TAG

    @classmethod
    def parse(cls, text: str) -> ModelName:
        """Read `[scheme://][host[:port]/][namespace/]model[:tag]`.

        Raises:
            InvalidModelName: The text breaks the grammar of spec section 2.1.
        """
        scheme, rest = _split_scheme(_folded(text))
        segments = rest.split("/")
        host = segments.pop(0) if len(segments) > 1 and (scheme or _looks_like_host(segments[0])) else None
        if scheme and host is None:
            raise _refusal(text, "a scheme needs a host before the model")
        if host is not None and not is_host(host):
            raise _refusal(text, "the registry host is malformed")
        if len(segments) > 2:
            raise _refusal(text, "it has more parts than host, namespace and model")
        namespace = segments[0] if len(segments) == 2 else DEFAULT_NAMESPACE
        model, colon, tag = segments[-1].rpartition(":")
        if not colon:
            model, tag = segments[-1], DEFAULT_TAG
        for role, part in (("namespace", namespace), ("model", model), ("tag", tag)):
            if not _PART.fullmatch(part):
                raise _refusal(text, f"the {role} is not 1 to 80 of a-z, 0-9, '_', '.', '-' with a plain first one")
        return cls(scheme=scheme, host=host, namespace=namespace, model=model, tag=tag)

    def canonical(self, default_host: str = DEFAULT_HOST) -> str:
        """The one spelling by which names are compared; parsing it gives the same canonical form again.

        The host is dropped when it is `default_host`. It stays when the namespace would be taken for a host
        without it, and its scheme stays where it says something: plain HTTP, or a host that only a scheme marks.
        """
        if self.host is None or (self._names_host(default_host) and not _looks_like_host(self.namespace)):
            return self._short
        scheme = self.scheme if self.scheme == "http" or not _looks_like_host(self.host) else None
        return f"{_prefix(scheme)}{self.host}/{self.namespace}/{self.model}:{self.tag}"

    @property
    def reference(self) -> str:
        """The name as the runtime understands it.

        The runtime takes a host only together with a namespace, and a scheme only in lower case (Ollaya's own
        grammar), so a name with a host is always written in full.
        """
        if self.host is None:
            return self._short
        scheme = "http" if self.scheme == "http" else None
        return f"{_prefix(scheme)}{self.host}/{self.namespace}/{self.model}:{self.tag}"

    def registry(self, default_base_url: str) -> RegistryAddress:
        """The registry of this name; a host in the name overrides `default_base_url` (spec section 2.2)."""
        base_url = default_base_url if self.host is None else f"{self.scheme or 'https'}://{self.host}"
        base_url = base_url.rstrip("/")
        scheme, _, location = base_url.partition("://")
        return RegistryAddress(base_url=base_url, host=location.partition("/")[0], insecure=scheme == "http")

    def manifest_path(self, default_base_url: str) -> str:
        """Where the runtime keeps this name's manifest, relative to its store (spec section 2.3)."""
        directory = self.registry(default_base_url).directory
        return f"manifests/{directory}/{self.namespace}/{self.model}/{self.tag}"

    @property
    def _short(self) -> str:
        namespace = "" if self.namespace == DEFAULT_NAMESPACE else f"{self.namespace}/"
        return f"{namespace}{self.model}:{self.tag}"

    def _names_host(self, default_host: str) -> bool:
        default_port = ":80" if self.scheme == "http" else ":443"
        return self.host is not None and self.host.removesuffix(default_port) == default_host


def is_host(text: str) -> bool:
    """Whether the text is a lower-case registry host with an optional port, as names and allow-lists hold it."""
    match = _HOST.fullmatch(text)
    return match is not None and int(match["port"] or 0) <= _HIGHEST_PORT


def _folded(text: str) -> str:
    """Trim and lower-case; letters beyond ASCII are refused first, since some of them fold into it."""
    if not text.isascii():
        raise _refusal(text, "only ASCII characters are allowed")
    return text.strip().lower()


def _split_scheme(text: str) -> tuple[str | None, str]:
    for scheme in _SCHEMES:
        if text.startswith(_prefix(scheme)):
            return scheme, text.removeprefix(_prefix(scheme))
    return None, text


def _prefix(scheme: str | None) -> str:
    return f"{scheme}://" if scheme else ""


def _looks_like_host(segment: str) -> bool:
    return "." in segment or ":" in segment or segment == "localhost"


def _refusal(text: str, why: str) -> InvalidModelName:
    quoted = text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}…"
    return InvalidModelName(f"model name {quoted!r} is invalid: {why}")
