"""What can be wrong with the use of this package. What is wrong with a manifest is a `Finding`, never an error."""


class PolicyError(ValueError):
    """Base of every error of this package."""


class PolicyConfigurationError(PolicyError):
    """The configuration cannot be used; the message has one line for each key that is wrong.

    Attributes:
        problems: Those lines. A key may hold line breaks of its own, so the message does not give them back.
    """

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems
