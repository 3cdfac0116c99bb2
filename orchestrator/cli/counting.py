"""What was seen of the registered machines, in this workspace's record and journal."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from orchestrator.cli.app import App
from orchestrator.errors import UsageError
from orchestrator.fleet.levels import WINDOW_DAYS, Reliability
from orchestrator.fleet.quarantine import JOURNAL, Seen
from orchestrator.results.lines import Lines
from orchestrator.results.store import utc


def journal(app: App) -> Lines[Seen]:
    """The journal of what agents did."""
    return Lines(app.state / JOURNAL, Seen)


def counted(app: App, results: Path | None) -> Mapping[str, Reliability] | None:
    """By agent; None: there is no record here to count.

    Args:
        app: the workspace.
        results: runs, or archives of runs; None: this workspace's, if it has any.

    Raises:
        UsageError: `results` is no folder, or the libraries that read it are not installed.
        InfrastructureError: results or the journal are damaged.
    """
    folder = results or app.runs.folder
    if results is None and not folder.is_dir():
        return None
    if find_spec("pyarrow") is None:  # as on agents' machines
        if results is None:
            return None
        raise UsageError(
            "what reads results is not installed (pyarrow). "
            "Do: pip install 'lighthouse-ci[dashboard]'"
        )
    from orchestrator.fleet.reliability import count
    from orchestrator.results.history.source import find
    from orchestrator.results.history.table import load

    table = load(find(folder, app.state / "history", lambda _: None).sources)
    now = app.services.clock.now()
    return count(table, journal(app).read(), now, _refused(app, now))


def _refused(app: App, now: dt.datetime) -> Counter[str]:
    """Bundles of each agent that were refused lately; an agent is named by its signature alone."""
    from orchestrator.backends.signing import REFUSALS, RefusedBundle

    first = utc(now - dt.timedelta(days=WINDOW_DAYS))
    lines = Lines(app.state / REFUSALS, RefusedBundle).read()
    return Counter(line.agent for line in lines if line.agent and line.at >= first)
