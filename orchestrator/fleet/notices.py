"""What the owner of a sick machine is told, once, in plain words; and that it is well again. Pure.

Sending is a seam: notices are lines of a journal, which pages show, and which whatever sends mail
or chat messages reads.
"""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.fleet.misses import Kind
from orchestrator.fleet.models import AgentFile
from orchestrator.fleet.quarantine import MOST_S, Seen, Standing, delay_s
from orchestrator.text import one_line, plural, seconds

JOURNAL = "fleet/notices.jsonl"
"""Of the state folder; see `results.lines`."""

_WRONG = (
    "A cell that has been green with the same image elsewhere did not pass here: look at memory, "
    "at the GPU and its driver, and at what was changed on the machine."
)

_RETURN = (
    "When it is repaired there is nothing to tell us: health jobs go on by themselves, at least "
    f"every {seconds(MOST_S)}. To try one now, repeat on the machine the `lh-ci register` that "
    "offered it: that runs one, and changes nothing that is registered."
)


@dataclass(frozen=True, kw_only=True)
class Notice:
    """A message to an owner."""

    agent: str
    at: str
    """UTC, ISO 8601."""
    to: str
    """The contact of the agent's file."""
    subject: str
    text: str


def notice(agent: AgentFile, before: Standing, now: Standing, seen: Seen) -> Notice | None:
    """What to tell the owner when an agent's standing changes; None: nothing.

    Told is the first health job that fails, or the third strike if they pass; that nothing helped
    until the delay is at its longest; and the end of what was told of. A single job that was lost
    is no news.
    """
    if seen.event == "healthy":
        if not before.quarantined or not _told(before):
            return None
        text = f"A health job passed, so {agent.id} is given jobs again. Nothing is left to do."
        return _make(agent, seen, f"{agent.id} is well again", text)
    if now.strikes <= before.strikes:
        return None
    if _told(now) and not _told(before):
        return _make(agent, seen, f"{agent.id} is in quarantine", _sick(agent, now, seen))
    if delay_s(now.strikes) >= MOST_S > delay_s(before.strikes):
        subject = f"{agent.id} is still in quarantine, and needs somebody"
        return _make(agent, seen, subject, _sick(agent, now, seen))
    return None


def _told(standing: Standing) -> bool:
    """Whether a quarantine is worth a message."""
    return standing.quarantined and (standing.sick or standing.strikes >= 3)


def _sick(agent: AgentFile, now: Standing, seen: Seen) -> str:
    look = Kind(now.kind).look if now.kind in set(Kind) else _WRONG
    wait = delay_s(now.strikes)
    return "\n".join(
        [
            f"{agent.id} gets no normal job until a health job passes on it.",
            "",
            f"what happened   {one_line(now.why, 200)}",
            f"job             {seen.job or 'none'}",
            f"in a row        {plural(now.strikes, 'failure')}",
            f"next            a health job, {f'in {seconds(wait)}' if wait else 'at once'}",
            "",
            look,
            "",
            _RETURN,
        ]
    )


def _make(agent: AgentFile, seen: Seen, subject: str, text: str) -> Notice:
    return Notice(agent=agent.id, at=seen.at, to=agent.contact, subject=subject, text=text)
