"""Everything that can go wrong between the reconciler and Ollaya, as one closed tree of exceptions.

Names follow the reasons users see in conditions (spec section 9.1). No message carries a key, a token or the
credentials of an address.
"""

# ruff: noqa: N818 - the names are the reasons that users know from conditions.


class EngineError(Exception):
    """Base of every error that this package raises."""


class InvalidModelName(EngineError):
    """The text is not a model name (spec section 2.1); only a changed `spec.model` helps."""


class InvalidEndpoint(EngineError):
    """A registry or weight-host address given to the reconciler is unusable (spec section 11.1)."""


class RegistryNotAllowed(EngineError):
    """The model's registry is not one the reconciler may talk to (spec section 2.2)."""


class ResolveError(EngineError):
    """A tag could not be turned into a digest (spec section 2.3)."""


class TagNotFound(ResolveError):
    """The registry answered 404: it has no such tag."""


class ResolveFailed(ResolveError):
    """Any other obstacle: unreachable, refused, too large or not a manifest. Worth another try later."""


class InvalidRuntimeVersion(EngineError):
    """The text is not a runtime version of the form `major.minor.patch`."""


class RuntimeVersionUnsupported(EngineError):
    """The runtime version is older than the oldest supported one (spec section 4.7)."""


class SecretRejected(EngineError):
    """A referenced Secret may not or cannot be used (spec sections 8.3 and 8.4)."""


class ProxyUnusable(EngineError):
    """A proxy variable of the environment means nothing to the HTTP client; its value may hold credentials."""

    def __init__(self) -> None:
        super().__init__(
            "HTTP_PROXY, HTTPS_PROXY or ALL_PROXY names a proxy that cannot be used:"
            " give it as http://host:port or https://host:port, or unset it"
        )


class TrustUnusable(EngineError):
    """The environment names certificate authorities that cannot be read."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the certificate authorities that SSL_CERT_FILE or SSL_CERT_DIR names cannot be used: {reason};"
            " name a file of PEM certificates or a directory of them, or unset it"
        )


class SecretNotAllowed(SecretRejected):
    """The Secret lacks the capability label that opens it to the reconciler."""


class SecretKeyInvalid(SecretRejected):
    """The Secret, its key or a usable value is missing."""


class RuntimeCallError(EngineError):
    """A call to a serving Pod taught nothing about its model (spec section 6.2)."""


class RuntimeUnreachable(RuntimeCallError):
    """No complete answer: refused, reset or too slow."""


class RuntimeUnauthorized(RuntimeCallError):
    """The Pod does not accept the key (401 or 403), as it happens during a key rotation."""


class RuntimeRejected(RuntimeCallError):
    """The Pod answered with another status than success.

    Args:
        message: What happened.
        status: The HTTP status.
        code: The runtime's own name of the error, empty when it gave none.
        retry_after_seconds: When to ask again, None when it did not say.
    """

    def __init__(self, message: str, *, status: int, code: str = "", retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.retry_after_seconds = retry_after_seconds


class MalformedAnswer(RuntimeCallError):
    """The Pod answered with success, but not with what the runtime's contract says."""
