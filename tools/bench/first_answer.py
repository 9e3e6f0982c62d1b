"""Ask a model's Service until it answers, and print when it did, in monotonic seconds. Runs on the cluster's node."""

from __future__ import annotations

import http.client
import sys
import time
import urllib.parse

from tools.standin.client import ask

_PAUSE_SECONDS = 0.02
_SECONDS = 120.0


def main() -> int:
    """Ask the address given as the only argument; the exit code is 1 when no answer came within two minutes."""
    address = urllib.parse.urlsplit(f"http://{sys.argv[1]}:11435/v1/systemone")
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline:
        try:
            ask(address, timeout=1)
        except (OSError, ValueError, LookupError, TypeError, http.client.HTTPException):
            time.sleep(_PAUSE_SECONDS)
            continue
        print(time.monotonic())
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
