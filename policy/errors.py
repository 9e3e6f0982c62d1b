"""What can be wrong with the use of this package. What is wrong with a manifest is a `Finding`, never an error."""


class PolicyError(ValueError):
    """Base of every error of this package."""


class PolicyConfigurationError(PolicyError):
    """The configuration cannot be used; the message has one line for each key that is wrong."""
