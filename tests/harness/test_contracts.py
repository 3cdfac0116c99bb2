"""What recipes promise, and how neighbouring steps are joined."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestrator.harness import cell as cells
from orchestrator.harness import lowering
from orchestrator.harness.context import Context
from orchestrator.job import Contract, Outcome, Step
from tests.harness import fakes
from tests.harness.incell import Surroundings, ir


def opt(passes: str, **fields: Any) -> Step:
    """A step of mlir-opt."""
    return Step(tool="mlir-opt", passes=passes, **fields)


def frontend(passes: str) -> Step:
    """A step of the frontend's own optimizer."""
    return Step(tool="frontend-opt", passes=passes)


SCHEDULED = opt("", library="// schedule")


@pytest.mark.parametrize(
    ("steps", "wanted"),
    [
        ([], []),
        ([opt("a")], [opt("a")]),
        ([opt("a"), opt("b"), opt("c")], [opt("a,b,c")]),
        ([opt("a"), frontend("b"), opt("c")], [opt("a"), frontend("b"), opt("c")]),
        ([frontend("a"), frontend("b")], [frontend("a,b")]),
        ([opt("a"), SCHEDULED, opt("b"), opt("c")], [opt("a"), SCHEDULED, opt("b,c")]),
        ([SCHEDULED, SCHEDULED], [SCHEDULED, SCHEDULED]),
        ([opt(""), opt("a"), opt(""), opt("b")], [opt("a,b")]),
        ([opt("a", source="f:1"), opt("b", source="f:2")], [opt("a,b", source="f:1-2")]),
        ([opt(p, source=f"f:{p}") for p in "123"], [opt("1,2,3", source="f:1-3")]),
        ([opt("a", source="f:1"), opt("b", source="g:2")], [opt("a,b", source="f:1, g:2")]),
        ([opt("a", source="f:1"), opt("b", source="f:1")], [opt("a,b", source="f:1")]),
        ([opt("a"), opt("b", source="f:2")], [opt("a,b", source="f:2")]),
    ],
)
def test_neighbours_of_plain_passes_are_one_step(steps: list[Step], wanted: list[Step]) -> None:
    assert lowering.merged(steps) == wanted


def outcome(
    context: Surroundings, folder: Path, before: str, after: str, **contract: Any
) -> Outcome:
    """How a cell ends whose one recipe turns `before` into `after` under a contract."""
    recipe = fakes.recipe("focus", "p", contract=Contract(**contract))
    passes = {"p": lambda _: after}
    return context.run(fakes.cell(folder, recipes=(recipe,)), passes=passes, ir=before)


LINALG = ir("func.func", "linalg.fill", "linalg.matmul", "func.return")
LOOPS = ir("func.func", "scf.for", "func.return")
KEPT: dict[str, dict[str, Any]] = {
    "nothing promised": {},
    "dialect required": {"requires": ("linalg",)},
    "operation required": {"requires": ("linalg.matmul",)},
    "one of two is enough": {"requires": ("tosa", "linalg")},
    "not there": {"forbids": ("tosa", "linalg.generic")},
    "gone": {"absent": ("linalg",)},
    "a dialect's name is no prefix": {"forbids": ("lin", "func.ret"), "absent": ("sc",)},
    "changed": {"must_change": True},
    "both there": {"present": ("scf.for", "func")},
}


@pytest.mark.parametrize("contract", KEPT.values(), ids=KEPT.keys())
def test_a_kept_contract_says_nothing(
    context: Surroundings, tmp_path: Path, contract: dict[str, Any]
) -> None:
    found = outcome(context, tmp_path, LINALG, LOOPS, **contract)
    assert (found.status, found.message) == ("pass", "")


BROKEN: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "lacking": (
        LINALG,
        LOOPS,
        {"requires": ("tosa", "scf.forall")},
        "found no tosa or scf.forall, which this recipe works on",
    ),
    "unwelcome": (
        LINALG + LINALG,
        LOOPS,
        {"forbids": ("linalg",)},
        "found linalg.fill (2), linalg.matmul (2), which this recipe does not take",
    ),
    "unwelcome before lacking": (
        LINALG,
        LOOPS,
        {"forbids": ("linalg.fill",), "requires": ("tosa",)},
        "found linalg.fill (1), which this recipe does not take",
    ),
    "left": (
        LINALG,
        LOOPS + LINALG,
        {"absent": ("linalg.matmul", "memref")},
        "focus left linalg.matmul (1) behind (its contract: gone)",
    ),
    "many left": (
        LINALG,
        ir(*[f"arith.op{i}" for i in range(6)]),
        {"absent": ("arith",)},
        (
            "focus left arith.op0 (1), arith.op1 (1), arith.op2 (1), arith.op3 (1) and 2 more "
            "behind (its contract: gone)"
        ),
    ),
    "one of two is not there": (
        LINALG,
        LOOPS,
        {"present": ("func", "gpu.launch", "gpu.func")},
        "focus left no gpu.launch (its contract: there)",
    ),
    "unchanged": (
        LINALG,
        LINALG,
        {"must_change": True},
        "focus changed nothing (it says it must change the IR)",
    ),
}


@pytest.mark.parametrize(
    ("before", "after", "contract", "message"), BROKEN.values(), ids=BROKEN.keys()
)
def test_a_broken_contract_is_the_compilers_fault_at_that_recipe(
    context: Surroundings,
    tmp_path: Path,
    before: str,
    after: str,
    contract: dict[str, Any],
    message: str,
) -> None:
    found = outcome(context, tmp_path, before, after, **contract)
    assert (found.status, found.phase, found.message) == ("fail", "lower:focus", message)


def test_what_only_another_printer_changes_is_no_change(
    context: Surroundings, tmp_path: Path
) -> None:
    # the exported text is printed anew before the first recipe is compared with it
    class Reprinting(fakes.FakeToolchain):
        def apply(self, step: Step, ir: str) -> str:
            return super().apply(step, ir.strip() + "\n")

    recipe = fakes.recipe("focus", "same", contract=Contract(must_change=True))
    made = Context(
        folder=tmp_path,
        scratch=context.scratch,
        marks=context.marks,
        ingress=fakes.NumpyIngress(),
        toolchain=Reprinting(passes={"same": lambda ir: ir}),
    )
    found = cells.run(fakes.cell(tmp_path, recipes=(recipe,)), made)
    assert found.message.startswith("focus changed nothing")
