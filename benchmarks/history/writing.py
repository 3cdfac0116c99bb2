"""Histories on disk: an archive for each month, one for the newest night, and the manifest."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from benchmarks.history import events
from benchmarks.history.events import Event, Night, Parameters, Planted, SeriesNoise
from benchmarks.history.night import NightRows, Nights
from benchmarks.history.planner import Happening
from benchmarks.history.world import World, build
from orchestrator.results.history.archive import SUFFIX, Archive, write


def generate(folder: Path, parameters: Parameters) -> Planted:
    """Writes a history into a folder that has none.

    Raises:
        ValueError: the last night did not happen, so that there is no newest one to write.
    """
    nights = Nights(build(parameters))
    last = parameters.nights - 1
    if nights.world.calendar.sort(last) == "none":
        raise ValueError(f"night {last} does not happen: ask for one more or one less")
    folder.mkdir(parents=True, exist_ok=True)
    listed: list[Night] = []
    pending: list[NightRows] = []
    for number in range(last):
        made = nights.night(number)
        listed.append(_listed(nights.world, number, made))
        if made is not None:
            if pending and pending[0].record.run[:7] != made.record.run[:7]:
                _write_month(folder, pending)
                pending = []
            pending.append(made)
    if pending:
        _write_month(folder, pending)
    listed.append(_write_night(folder, nights, last))
    planted = _planted(nights, parameters, listed)
    planted.write(folder)
    return planted


def one_more(folder: Path) -> Planted:
    """Adds the next night that happens, as an archive of its own, and writes the manifest again."""
    planted = events.read(folder)
    number = planted.parameters.nights
    nights = Nights(build(planted.parameters))
    listed = list(planted.nights)
    while nights.world.calendar.sort(number) == "none":
        listed.append(_listed(nights.world, number, None))
        number += 1
    parameters = dataclasses.replace(planted.parameters, nights=number + 1)
    listed.append(_write_night(folder, nights, number))
    planted = _planted(nights, parameters, listed)
    planted.write(folder)
    return planted


def _write_night(folder: Path, nights: Nights, number: int) -> Night:
    made = nights.night(number)
    assert made is not None
    _write(folder / f"{made.record.run}{SUFFIX}", [made])
    return _listed(nights.world, number, made)


def _write_month(folder: Path, made: Sequence[NightRows]) -> None:
    _write(folder / f"{made[0].record.run[:7]}{SUFFIX}", made)


def _write(path: Path, made: Sequence[NightRows]) -> None:
    archive = Archive(
        runs=tuple(each.record for each in made),
        declared={each.record.declared: each.declared for each in made},
    )
    write(path, pa.concat_tables([each.table for each in made]), archive)


def _listed(world: World, number: int, made: NightRows | None) -> Night:
    return Night(
        night=world.calendar.date(number),
        run="" if made is None else made.record.run,
        cells=0 if made is None else len(set(made.table["cell"].to_pylist())),
    )


def _planted(nights: Nights, parameters: Parameters, listed: Sequence[Night]) -> Planted:
    world = nights.world
    happened = [each for _, each in nights.planner.upto(parameters.nights - 1)]
    found = [_event(world, each, parameters.nights) for each in happened]
    found += _odd_nights(world, parameters.nights)
    return Planted(
        parameters=parameters,
        nights=tuple(listed),
        events=tuple(sorted(found, key=lambda event: (event.night, event.kind, event.cells))),
        noise=tuple(
            SeriesNoise(cell=cell, sigma=round(float(world.sigma[n]), 5), shape=world.noise[n])
            for n, cell in enumerate(world.ids)
            if world.of_cell(n).executes
        ),
    )


def _event(world: World, each: Happening, nights: int) -> Event:
    """With its dates and cells; an end that has not come is none."""
    calendar = world.calendar
    ended = each.end is not None and each.end < nights
    return dataclasses.replace(
        each.event,
        night=calendar.date(each.start),
        until=calendar.date(each.end) if ended and each.end is not None else "",
        cells=tuple(world.ids[cell] for cell in each.cells),
    )


def _odd_nights(world: World, nights: int) -> Iterator[Event]:
    calendar = world.calendar
    for number in range(nights):
        sort = calendar.sort(number)
        if sort == "none":
            yield Event(kind="no-night", night=calendar.date(number))
        elif sort != "full":
            yield Event(kind="thin-night", night=calendar.date(number), what=sort)
