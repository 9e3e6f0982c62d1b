"""What can be wrong with a desired stack. Every error is the caller's: a stack that renders, renders always."""


class ComponentsError(ValueError):
    """Base of every error of this package."""


class InvalidNameError(ComponentsError):
    """A name or revision cannot name Kubernetes objects or a stack; the message shows it and the rule it breaks."""


class InvalidStackError(ComponentsError):
    """A desired stack contradicts itself; the message names the revision and what is wrong with it."""


class InvalidManifestError(ComponentsError):
    """The bytes of a model's manifest cannot be kept in a ConfigMap."""
