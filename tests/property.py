"""How property tests are run: as many examples as it says, however slow the machine is."""

from __future__ import annotations

from hypothesis import HealthCheck, settings


def examples(count: int) -> settings:
    """So many examples, without a deadline on any of them."""
    return settings(max_examples=count, deadline=None, suppress_health_check=[HealthCheck.too_slow])
