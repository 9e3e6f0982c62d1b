"""What every test shares: the Hypothesis profile, and the real cluster for tests marked `cluster`."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# Wall-clock limits would fail good code on a busy machine; what a test shows never depends on speed.
settings.register_profile("shared", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared")
