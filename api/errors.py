"""What can be wrong with a value of the declared API.

Whole objects are refused by pydantic's `ValidationError`, which carries the path and the text of each error below.
"""


class ApiError(ValueError):
    """Base of every error of this package."""


class InvalidQuantityError(ApiError):
    """A text is no Kubernetes quantity."""


class InvalidDurationError(ApiError):
    """A text is no duration in Go's syntax."""


class UnsupportedSchemaError(ApiError):
    """A model cannot be expressed as a structural schema; the message names the path and what is in the way."""
