"""What history says about a number or a verdict: steps in performance, flaky cells."""

from __future__ import annotations

from dashboards.stats.flaky import Flaky, Outcome, flaky
from dashboards.stats.history import Judged, Steps, Verdict
from dashboards.stats.steps import judge
from dashboards.stats.wilson import wilson_lower

__all__ = ["Flaky", "Judged", "Outcome", "Steps", "Verdict", "flaky", "judge", "wilson_lower"]
