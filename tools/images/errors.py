"""What can go wrong while images are built; every message says what to do next."""


class ImageBuildError(Exception):
    """An image cannot be built."""


class CommandFailedError(ImageBuildError):
    """A program that does part of the work failed; the message ends with its last lines."""


class ProgramMissingError(ImageBuildError):
    """A program of the machine is missing."""


class LayoutError(ImageBuildError):
    """The cache of built images is damaged."""
