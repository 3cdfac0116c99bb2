"""Time, so that tests can make it pass."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from dataclasses import dataclass


def _utc_now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


@dataclass(frozen=True, kw_only=True)
class Clock:
    """What durations, deadlines and records go by."""

    monotonic: Callable[[], float] = time.monotonic
    """Seconds, for durations and deadlines."""
    now: Callable[[], dt.datetime] = _utc_now
    """Wall time, for records."""
    sleep: Callable[[float], None] = time.sleep
    """Lets so many seconds pass."""
