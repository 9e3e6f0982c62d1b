"""What can go wrong while the toolchain is made ready; every message says what to do next."""


class ToolchainError(Exception):
    """The toolchain cannot do what was asked."""


class ToolMissingError(ToolchainError):
    """A program of the machine is missing and could not be installed."""


class BuildFailedError(ToolchainError):
    """The Go compiler refused a program."""


class NotBuiltError(ToolchainError):
    """A program was asked for that has not been built yet."""
