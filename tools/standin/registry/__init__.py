"""A stand-in for Ollaya's model registry and the host of the weights (spec sections 3 and 10.3).

It serves static files as the real hosts do, and fails on request in every way that a client must survive. Standard
library only, because it runs in an image that has nothing but Python. Tests use `Registry` in their own process;
`python3 -m tools.standin.registry` runs the same as a program with a control API (`control`).
"""

from tools.standin.registry.failures import Corrupt, Cut, Failure, IgnoreRange, Redirect, Shorten, Stall, Status
from tools.standin.registry.server import Registry, Settings
from tools.standin.registry.site import Host, Request, UnknownTagError

__all__ = [
    "Corrupt",
    "Cut",
    "Failure",
    "Host",
    "IgnoreRange",
    "Redirect",
    "Registry",
    "Request",
    "Settings",
    "Shorten",
    "Stall",
    "Status",
    "UnknownTagError",
]
