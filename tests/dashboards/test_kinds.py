"""How cells differ between nights."""

from __future__ import annotations

import itertools

import pytest

from dashboards.kinds import kind
from dashboards.nights import NONE, PASS, STATUSES, parse, slug

GREEN, RED, OTHER = ("pass", "xfail"), ("fail", "error", "xpass"), ("skip", "miss", "none")


def told(before: str, after: str, *, alike: bool = False) -> str | None:
    return kind(STATUSES.index(before), STATUSES.index(after), alike)


def test_every_pair_has_one_of_the_seven_kinds_or_is_no_news() -> None:
    for before, after in itertools.product(STATUSES, STATUSES):
        got = told(before, after)
        if before in GREEN and after in RED:
            assert got == "regression"
        elif before in RED and after in GREEN:
            assert got == "fixed"
        elif after in RED:
            assert got == "new-failure"
        elif before in OTHER and after in GREEN:
            assert got == "new-pass"
        elif (before in GREEN + RED and after in OTHER) or (before != "none" and after == "none"):
            assert got == "disappeared"
        elif before == "none" and after in ("skip", "miss"):
            assert got == "appeared"
        else:
            assert got is None


@pytest.mark.parametrize("before", RED)
@pytest.mark.parametrize("after", RED)
def test_red_in_the_same_way_is_still_failing(before: str, after: str) -> None:
    assert told(before, after, alike=True) == "still-failing"
    assert told(before, after, alike=False) == "new-failure"


def test_an_id_has_coordinates() -> None:
    cell = parse("pytorch_cpu.mlp.f32@intel-cpu")
    assert cell is not None
    assert (cell.pipeline, cell.workload, cell.variant, cell.pool) == (
        *("pytorch_cpu", "mlp", "f32"),
        "intel-cpu",
    )
    assert cell.href == "cells/pytorch_cpu/mlp/f32@intel-cpu.html"


@pytest.mark.parametrize("text", ["", "a", "a.b@c", "a.b.c", "a.b.c@", ".b.c@d", "a..c@d"])
def test_what_is_no_id_is_none(text: str) -> None:
    assert parse(text) is None


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".x", "a.", "a b", "é", "<b>", "x" * 101])
def test_names_that_are_unfit_for_files_are_replaced(name: str) -> None:
    made = slug(name)
    assert made.startswith("~")
    assert made == slug(name)
    assert slug(made) != made or made == slug(name)


def test_plain_names_stay() -> None:
    assert slug("f32@intel-cpu") == "f32@intel-cpu"
    assert STATUSES[NONE] == "none"
    assert STATUSES[PASS] == "pass"
