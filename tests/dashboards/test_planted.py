"""What is planted in a made-up year is shown, on the night on which it can be known."""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pytest

from benchmarks.history.events import Event, Parameters, Planted
from benchmarks.history.writing import generate
from dashboards import documents as doc
from dashboards.agents import agents_page
from dashboards.cells import cell_pages
from dashboards.expectations import expectations_page
from dashboards.facts import Facts, Options
from dashboards.memory import Memory
from dashboards.nights import STATUSES, Nights, is_verdict, nights_of
from dashboards.tonight import items, tonight
from dashboards.trends import trends_page
from orchestrator.results.history.source import find
from orchestrator.results.history.table import load

SERIES, NIGHTS, SEED = 120, 90, 5
"""Large enough for every kind of event, small enough for a unit test."""


def until(nights: Nights, night: int) -> Nights:
    """What was known on a night."""
    keep = slice(0, night + 1)
    later = nights.row_night > night
    return dataclasses.replace(
        nights,
        nights=nights.nights[keep],
        runs=nights.runs[keep],
        row=nights.row[:, keep],
        attempts=nights.attempts[:, keep],
        status=nights.status[:, keep],
        lowering=nights.lowering[:, keep],
        execute=nights.execute[:, keep],
        row_cell=np.where(later, -1, nights.row_cell).astype(np.int32),
    )


@dataclass
class Year:
    planted: Planted
    nights: Nights
    memory: Path

    @cached_property
    def index(self) -> dict[str, int]:
        return {cell.id: number for number, cell in enumerate(self.nights.cells)}

    @cached_property
    def facts(self) -> list[Facts]:
        """As known on each night."""
        found = []
        for night in range(len(self.nights.nights)):
            memory = Memory(self.memory, "test")
            found.append(Facts(until(self.nights, night), Options(), (), memory))
        return found

    @cached_property
    def news(self) -> list[dict[str, set[doc.NewsKind]]]:
        """Cell to what is new of it, for each night."""
        found: list[dict[str, set[doc.NewsKind]]] = []
        for facts in self.facts:
            told: dict[str, set[doc.NewsKind]] = {}
            for kind, cell in items(facts):
                told.setdefault(self.nights.cells[cell].id, set()).add(kind)
            found.append(told)
        return found

    @cached_property
    def pages(self) -> dict[str, doc.CellPage]:
        return {page.cell: page for page in cell_pages(self.facts[-1])}

    def night(self, name: str) -> int:
        """The first night that happened, from a date on; the number of nights: none did."""
        return sum(each < name for each in self.nights.nights)

    def judged(self, cell: str, event: Event) -> int | None:
        """The first night of an event on which a cell was judged."""
        first, last = self.night(event.night), self._end(event)
        column = is_verdict(self.nights.status[self.index[cell], first:last])
        return first + int(np.argmax(column)) if column.any() else None

    def _end(self, event: Event) -> int:
        return self.night(event.until) if event.until else len(self.nights.nights)

    def status(self, cell: str, night: int) -> str:
        return STATUSES[int(self.nights.status[self.index[cell], night])]

    def of(self, kind: str) -> list[Event]:
        found = [event for event in self.planted.events if event.kind == kind]
        shown = [event for event in found if self.night(event.night) < len(self.nights.nights)]
        assert shown, f"nothing of kind {kind} in this year"
        return shown


@pytest.fixture(scope="module")
def year(tmp_path_factory: pytest.TempPathFactory) -> Year:
    folder = tmp_path_factory.mktemp("year")
    planted = generate(folder / "results", Parameters(series=SERIES, nights=NIGHTS, seed=SEED))
    found = find(folder / "results", folder / "cache", lambda _: None)
    assert found.problems == ()
    return Year(
        planted=planted,
        nights=nights_of(load(found.sources)),
        memory=folder / "memory",
    )


RED: tuple[doc.NewsKind, ...] = ("regression", "new-failure")


def test_every_regression_is_news_on_the_night_on_which_it_is_first_seen(year: Year) -> None:
    seen = 0
    for event in year.of("regression"):
        for cell in event.cells:
            night = year.judged(cell, event)
            if night is None or year.status(cell, night) not in ("fail", "error"):
                continue  # expected to fail, or nobody could see it
            before = int(year.facts[night].verdict_before[year.index[cell]])
            if before >= 0 and year.status(cell, before) in ("fail", "error", "xpass"):
                continue  # it was red for another reason
            assert year.news[night].get(cell, set()) & set(RED), (event, cell)
            page = doc_at(year, cell, night)
            assert page.status == year.status(cell, night)
            assert page.phase == event.phase
            assert page.transitions[0].night == year.nights.nights[night]
            seen += 1
    assert seen > 10


def doc_at(year: Year, cell: str, night: int) -> doc.CellPage:
    pages = cell_pages(year.facts[night])
    return next(page for page in pages if page.cell == cell)


def test_a_regression_names_what_changed(year: Year) -> None:
    named = Counter[bool]()
    for event in year.of("regression"):
        cell = event.cells[0]
        night = year.judged(cell, event)
        if night is None or "regression" not in year.news[night].get(cell, set()):
            continue
        attempt = doc_at(year, cell, night).attempt
        assert attempt is not None
        named[any(is_named(change, event) for change in attempt.changes)] += 1
    assert named[True] > 5
    assert not named[False], named


def is_named(change: doc.ChangeView, event: Event) -> bool:
    """`mlir-opt 22.1.0 -> 22.1.1` names `LLVM 22.1.0 -> 22.1.1`."""
    values = f"{change.before} -> {change.after}"
    return change.what in event.what or event.what in change.what or values in event.what


def test_every_fix_is_news(year: Year) -> None:
    seen = 0
    for event in year.of("fix"):
        for cell in event.cells:
            night = year.judged(cell, event)
            if night is None or year.status(cell, night) != "pass":
                continue
            before = int(year.facts[night].verdict_before[year.index[cell]])
            if before >= 0 and year.status(cell, before) in ("fail", "error"):
                assert "fixed" in year.news[night][cell], (event, cell)
                seen += 1
    assert seen > 5


def test_every_flaky_cell_is_ranked_once_it_failed_and_passed(year: Year) -> None:
    trends = trends_page(year.facts[-1])
    ranked = {view.cell: view for view in trends.flaky}
    for event in year.of("flaky"):
        for cell in event.cells:
            statuses = flakes(year, cell, event)
            assert (cell in ranked) == statuses, (event, cell)
    assert [view.lower_bound for view in trends.flaky] == sorted(
        (view.lower_bound for view in trends.flaky), reverse=True
    )


def flakes(year: Year, cell: str, event: Event) -> bool:
    """Whether it passed and failed with one fingerprint, by the rows themselves."""
    table, index = year.nights.table, year.index[cell]
    rows = np.flatnonzero(year.nights.row_cell == index)
    outcomes: dict[str, set[str]] = {}
    for row in rows:
        status = table.texts["status"].at(int(row))
        if status in ("pass", "xpass", "fail", "error", "xfail"):
            kind = "pass" if status in ("pass", "xpass") else "fail"
            outcomes.setdefault(table.texts["fingerprint"].at(int(row)), set()).add(kind)
    return any(len(each) > 1 for each in outcomes.values())


def test_only_flaky_cells_are_called_flaky(year: Year) -> None:
    # an expected failure that gets well for no reason that anybody recorded is flaky, too
    events = [*year.of("flaky"), *year.of("xpass")]
    planted = {cell for event in events for cell in event.cells}
    called = {view.cell for view in trends_page(year.facts[-1]).flaky}
    assert called
    assert called <= planted


def test_cells_that_vanish_are_news_and_then_without_data(year: Year) -> None:
    seen = 0
    for event in [*year.of("vanished"), *year.of("removed")]:
        night = year.night(event.night)
        if night == 0:
            continue
        for cell in event.cells:
            index = year.index[cell]
            was, now = year.nights.status[index, night - 1 : night + 1]
            if STATUSES[was] == "none" or STATUSES[now] != "none":
                continue
            assert "vanished" in year.news[night][cell], (event, cell)
            page = doc_at(year, cell, night)
            assert page.status == "none"
            assert page.declared == (event.kind == "vanished")
            seen += 1
    assert seen > 3


def test_cells_that_vanished_but_are_declared_have_a_reason_and_a_date(year: Year) -> None:
    for event in year.of("vanished"):
        night = year.night(event.night)
        told = tonight(year.facts[night]).nodata
        gone = [c for c in event.cells if year.status(c, night) == "none"]
        for cell in gone:
            where = year.nights.cells[year.index[cell]]
            lines = [n for n in told if n.pool == where.pool and n.pipeline == where.pipeline]
            assert any(line.status == "none" and line.why for line in lines), cell


def test_a_pool_that_goes_dark_says_since_when_and_why(year: Year) -> None:
    for event in year.of("pool-dark"):
        night = year.night(event.night)
        page = tonight(year.facts[night])
        lines = [line for line in page.nodata if line.pool == event.pool]
        assert lines, event
        assert all(line.why and line.since in ("", year.nights.nights[night]) for line in lines)
        (pool,) = [p for p in agents_page(year.facts[-1]).pools if p.pool == event.pool]
        if not event.until:
            assert pool.last < event.night


def test_every_sick_machine_is_sick_on_its_nights_and_not_afterwards(year: Year) -> None:
    for event in year.of("sick-agent"):
        first, last = year.night(event.night), year.night(event.until or "9999")
        told = [{brief.agent for brief in tonight(f).agents} for f in year.facts]
        tried = {n: attempts(year, event.agent, n) for n in range(first, last)}
        ran = {night: number for night, number in tried.items() if number >= 3}
        missed = [
            n for n in ran if misses(year, event.agent, n) / attempts(year, event.agent, n) > 0.5
        ]
        assert missed, event
        assert all(event.agent in told[night] for night in missed), event
        healed = next(
            (n for n in range(last, len(told)) if attempts(year, event.agent, n) >= 3), None
        )
        if healed is not None and not misses(year, event.agent, healed):
            assert event.agent not in told[healed]
    view = {agent.agent: agent for agent in agents_page(year.facts[-1]).agents}
    for event in year.of("sick-agent"):
        causes = " ".join(cause for cause, _ in view[event.agent].causes)
        assert any(cause in causes for cause in event.causes), event


def attempts(year: Year, agent: str, night: int) -> int:
    return int(_of(year, agent, night).sum())


def misses(year: Year, agent: str, night: int) -> int:
    table = year.nights.table
    missed = table.texts["status"].codes == table.texts["status"].code("miss")
    return int((_of(year, agent, night) & missed).sum())


def _of(year: Year, agent: str, night: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    table = year.nights.table
    mine = table.texts["agent"].codes == table.texts["agent"].code(agent)
    found = mine & (year.nights.row_night == night) & (table.numbers["attempt"] > 0)
    return np.asarray(found, dtype=np.bool_)


def test_no_machine_is_called_sick_that_is_not(year: Year) -> None:
    planted = {event.agent for event in year.of("sick-agent")}
    called = {brief.agent for facts in year.facts for brief in tonight(facts).agents}
    assert called <= planted


def test_changed_drivers_are_in_the_history_of_their_machine(year: Year) -> None:
    agents = {view.agent: view for view in agents_page(year.facts[-1]).agents}
    for event in year.of("driver"):
        after = event.what.rpartition(" -> ")[2]
        nights = {night for night, text in agents[event.agent].drivers if after in text}
        assert nights, event
        assert min(nights) >= event.night


def test_nights_that_did_not_happen_are_missing(year: Year) -> None:
    page = trends_page(year.facts[-1])
    planted = {event.night for event in year.of("no-night")}
    assert set(page.missing) == {n for n in planted if n < year.nights.nights[-1]}
    for name in planted:
        night = year.night(name)
        if night < len(year.nights.nights):
            alarms = [a for a in tonight(year.facts[night]).alarms if a.kind == "missed-night"]
            assert any(name in alarm.text for alarm in alarms), name


def test_a_thin_night_is_an_alarm(year: Year) -> None:
    for event in year.of("thin-night"):
        night = year.night(event.night)
        kinds = {alarm.kind for alarm in tonight(year.facts[night]).alarms}
        assert "fewer-cells" in kinds, event


def test_an_expected_failure_that_became_green_is_loud(year: Year) -> None:
    for event in year.of("xpass"):
        for cell in event.cells:
            night = year.judged(cell, event)
            if night is None or year.status(cell, night) != "xpass":
                continue
            assert "xpass" in year.news[night][cell], event
            views = expectations_page(year.facts[night]).expectations
            mine = [view for view in views if cell in {ref.cell for ref in view.well}]
            assert {view.state for view in mine} <= {"green", "partly"}
            assert mine


def test_an_expectation_that_expired_is_told(year: Year) -> None:
    for event in year.of("expired"):
        night = year.night(event.night)
        views = expectations_page(year.facts[night]).expectations
        states = {view.state for view in views if view.cells in event.cells}
        assert states <= {"expired", "green", "unmatched"}, event


def test_an_attempt_that_was_retried_is_counted(year: Year) -> None:
    for event in year.of("retried"):
        night = year.night(event.night)
        for cell in event.cells:
            assert year.nights.attempts[year.index[cell], night] >= 2, event


def test_large_steps_are_called_and_dated(year: Year) -> None:
    """Statistics have tests of their own: here, that what they find is shown."""
    steps = {(step.cell, step.measure): step for step in trends_page(year.facts[-1]).steps}
    found = 0
    for event in year.of("step"):
        for cell in event.cells:
            step = steps.get((cell, event.metric or "execute"))
            if step is not None and (step.ratio > 1) == (event.factor > 1):
                assert step.called >= event.night
                assert step in year.pages[cell].speed
                called = year.night(step.called)
                assert step.kind in year.news[called][cell]
                found += 1
    assert found


def test_news_has_every_cell_once_under_its_kind(year: Year) -> None:
    for facts, told in zip(year.facts, year.news, strict=True):
        page = tonight(facts)
        assert sum(news.total for news in page.news) == sum(len(kinds) for kinds in told.values())
        order = [news.kind for news in page.news]
        assert order == sorted(order, key=list(dict.fromkeys(order)).index)
