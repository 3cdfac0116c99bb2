"""Machines and the pools that they serve: what they ran, what they missed, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from dashboards import documents as doc
from dashboards.facts import Facts, Registered
from dashboards.machines import Machines
from dashboards.nights import is_verdict
from dashboards.tally import tally
from dashboards.texts import one_line
from orchestrator.results.history.rows import unpack

HERE = "this machine"
"""The name of the agent that results do not name."""
_DRIVER = {"gpu_driver": "driver", "gpu_firmware": "firmware", "kernel": "kernel"}
_UNKNOWN = Registered(level="", contact="")


def shown(name: str) -> str:
    """An agent's name, or what stands for the orchestrator's own machine."""
    return name or HERE


def sick_agents(facts: Facts) -> tuple[doc.AgentBrief, ...]:
    """Those that are sick tonight, the sickest first."""
    if not facts.nights.nights:
        return ()
    found = []
    known = facts.machines
    for agent, name in enumerate(known.names):
        first = known.sick_since(agent)
        if first >= 0:
            found.append(
                doc.AgentBrief(
                    agent=shown(name),
                    pools=known.pools(agent),
                    misses=int(known.misses[agent, -1]),
                    attempts=int(known.attempts[agent, -1]),
                    since=facts.nights.nights[first],
                    why=known.causes(agent, first)[0][0],
                )
            )
    return tuple(sorted(found, key=lambda each: (-each.misses, each.agent)))


def agents_page(facts: Facts) -> doc.AgentsPage:
    """All pools and agents."""
    known = facts.machines
    agents = [
        _agent(facts, index, name)
        for index, name in enumerate(known.names)
        if known.attempts[index].any()
    ]
    return doc.AgentsPage(
        night=facts.night,
        pools=tuple(_pools(facts, agents)),
        agents=tuple(sorted(agents, key=lambda each: (not each.sick, each.agent))),
    )


def _agent(facts: Facts, agent: int, name: str) -> doc.AgentView:
    known, nights = facts.machines, facts.nights.nights
    active = np.flatnonzero(known.attempts[agent])
    first, last = int(active[0]), int(active[-1])
    since = known.sick_since(agent)
    causes = known.causes(agent)
    queued = facts.nights.table.numbers["queued_seconds"][known.of(agent)]
    queued = queued[np.isfinite(queued)]
    entry = facts.registered.get(name, _UNKNOWN)
    return doc.AgentView(
        agent=shown(name),
        pools=known.pools(agent),
        level=entry.level,
        contact=entry.contact,
        first=nights[first],
        last=nights[last],
        nights=len(active),
        uptime=round(len(active) / (len(nights) - first), 4),
        attempts=int(known.attempts[agent].sum()),
        misses=int(known.misses[agent].sum()),
        queue_median=round(float(np.median(queued)), 1) if len(queued) else None,
        queue_p95=round(float(np.percentile(queued, 95)), 1) if len(queued) else None,
        causes=tuple(causes),
        drivers=_drivers(known, agent),
        sick=entry.quarantine
        or (f"since {nights[since]}: {known.causes(agent, since)[0][0]}" if since >= 0 else ""),
        blocks=entry.blocks,
    )


def _drivers(known: Machines, agent: int) -> tuple[tuple[str, str], ...]:
    """From which night on which driver, firmware and kernel; the newest first."""
    column, rows = known.nights.table.texts["surroundings"], known.of(agent)
    size = max(1, len(column.values))
    counts = np.bincount(known.nights.row_night[rows].astype(np.int64) * size + column.codes[rows])
    pairs = np.flatnonzero(counts)
    numbers = counts[pairs]
    nights, codes = (each.tolist() for each in np.divmod(pairs, size))
    texts = {code: _driven(unpack(column.values[code]).get("hardware")) for code in set(codes)}
    said: dict[int, Counter[str]] = {}
    for night, code, number in zip(nights, codes, numbers.tolist(), strict=True):
        # attempts that missed early know nothing of what drives the machine
        if texts[code]:
            said.setdefault(night, Counter())[texts[code]] += number
    history: list[tuple[str, str]] = []
    for night in sorted(said):
        text = said[night].most_common(1)[0][0]
        if not history or history[-1][1] != text:
            history.append((known.nights.nights[night], text))
    return tuple(reversed(history))


def _driven(hardware: object) -> str:
    if not isinstance(hardware, Mapping):
        return ""
    facts = [f"{word} {hardware[key]}" for key, word in _DRIVER.items() if hardware.get(key)]
    return one_line(", ".join(facts))


def _pools(facts: Facts, agents: list[doc.AgentView]) -> list[doc.PoolView]:
    declared = facts.declared.pools if facts.declared else {}
    cells: dict[str, list[int]] = {name: [] for name in declared}
    for index in np.flatnonzero(facts.expected):
        cells.setdefault(facts.nights.cells[index].pool, []).append(int(index))
    judged = is_verdict(facts.nights.status)
    found = []
    for name, mine in cells.items():
        nights = np.flatnonzero(judged[mine].any(axis=0)) if mine else np.zeros(0, np.int64)
        about = declared.get(name)
        found.append(
            doc.PoolView(
                pool=name,
                about=about.about if about else "",
                tier=about.tier if about else "core",
                cells=len(mine),
                counts=tally(facts, mine) if mine else {},
                agents=tuple(a.agent for a in agents if name in a.pools),
                last=facts.nights.nights[int(nights[-1])] if len(nights) else "",
            )
        )
    return found
