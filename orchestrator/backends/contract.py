"""What every backend runs, word for word; whoever hands out jobs takes it from here."""

from __future__ import annotations

from collections.abc import Mapping

ARGV = ("lh-ci", "exec", "job/job.json", "--out", "out")
"""Carries out a job; run beside the folders of both."""
PACKED = "out.tar.gz"
PACK = ("lh-ci", "pack", "out", PACKED)
"""Makes one file of what it left, signed where the machine is an agent; run in the same place."""
PRIORITIES: Mapping[str, int] = {"core": 10, "peripheral": 0}
"""Of jobs, by tier: those with a higher one are begun first."""
