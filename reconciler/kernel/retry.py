"""How long to wait before the next try: pure arithmetic, with the random number passed in.

Every wait in the kernel comes from here, so that each has a cap and a jitter and none can hot-loop.
"""

from dataclasses import dataclass

# Beyond this many doublings every cap in use is long reached; it keeps the power finite after days of failures.
_MAX_DOUBLINGS = 32


def jittered(seconds: float, jitter: float, fraction: float) -> float:
    """Spread a duration evenly over ±`jitter` of itself; `fraction` is a random number in [0, 1)."""
    return seconds * (1 + jitter * (2 * fraction - 1))


def exponential(base: float, failures: int, cap: float) -> float:
    """Seconds after the n-th failure in a row (n ≥ 1): base, doubled each time, never more than the cap."""
    return min(cap, base * 2.0 ** min(failures - 1, _MAX_DOUBLINGS))


@dataclass(frozen=True, slots=True)
class BackoffPolicy:
    """Exponential back-off with jitter, in seconds."""

    base: float
    cap: float
    jitter: float

    def delay(self, failures: int, fraction: float) -> float:
        """Seconds to wait after the n-th failure in a row."""
        return jittered(exponential(self.base, failures, self.cap), self.jitter, fraction)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Bounds for repeating one request.

    Attributes:
        attempts: Requests sent at most.
        base: Seconds after the first failure; doubled after each.
        cap: Longest wait. A server that asks for more is not waited for: the caller's own back-off is the better place.
        deadline: Seconds for all attempts together.
    """

    attempts: int = 4
    base: float = 0.25
    cap: float = 10.0
    deadline: float = 30.0

    def delay(self, attempt: int, retry_after: float | None, fraction: float) -> float | None:
        """Seconds before the next attempt, None to give up."""
        if attempt >= self.attempts or (retry_after or 0) > self.cap:
            return None
        wait = jittered(exponential(self.base, attempt, self.cap), 0.5, fraction)
        return max(wait, retry_after or 0)


DEFAULT_RETRIES = RetryPolicy()


def retry_after_seconds(header: str | None) -> float | None:
    """Parse Retry-After; the API server sends whole seconds, anything else is ignored."""
    if header is None or not (header.isascii() and header.isdigit()):
        return None
    return float(min(int(header[:9]), 86_400))
