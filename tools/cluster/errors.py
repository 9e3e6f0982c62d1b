"""What can go wrong with the local cluster; every message says what happened, where, and what to do."""


class ClusterError(Exception):
    """The local cluster cannot do what was asked."""


class InvalidNameError(ClusterError):
    """A cluster's name is not usable as the name of a directory and of a node."""


class PrerequisiteError(ClusterError):
    """The machine lacks something: root, a system package, a built program, a free port."""


class ComponentFailedError(ClusterError):
    """A process of the cluster ended; the message ends with the last lines of its log."""


class NotReadyError(ClusterError):
    """Something did not become ready in time although every process lives."""


class NotRunningError(ClusterError):
    """The cluster is not up."""


class ImageError(ClusterError):
    """An image archive is unusable, or containerd refused it."""
