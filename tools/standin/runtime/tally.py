"""How often each request was answered with which status: what the control listener shows (see `control`)."""

from __future__ import annotations

import threading
from collections import Counter


class RequestTally:
    """Counts of ``METHOD path status``; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = Counter[str]()

    def count(self, method: str, path: str, status: int) -> None:
        """Count one answered request."""
        with self._lock:
            self._counts[f"{method} {path} {status}"] += 1

    def as_json(self) -> dict[str, int]:
        """Return the counts so far."""
        with self._lock:
            return dict(self._counts)
