"""What a run looks like: on a terminal, in a CI log, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.status import Status as Waiting
from rich.text import Text

from orchestrator.cli import commands
from orchestrator.config.models import Pins
from orchestrator.engines.base import Environment
from orchestrator.host import Host
from orchestrator.job import Status
from orchestrator.plan import PlannedCell
from orchestrator.results.schema import Result
from orchestrator.text import counts, indented, one_line, plain, plural, seconds

SHOWN: tuple[Status, ...] = ("fail", "xpass", "error", "miss")
"""Each gets a block at the end."""
STYLES = {
    "pass": "green",
    "xfail": "green",
    "fail": "bold red",
    "xpass": "bold red",
    "error": "bold magenta",
    "miss": "bold yellow",
    "skip": "dim",
}
"""How each status looks on a terminal."""
_MESSAGE_LINES = 12
_ALIKE = 3
"""So many cells with the same trouble are shown each; more are shown as one."""
_HEADLINERS = ("torch", "torch-mlir", "jax", "onnx", "triton", "iree-base-compiler")
_BAR_WIDTH = 60
"""Of the bar with its numbers and times, apart from counts and stage."""
_VECTORS = ("amx_tile", "avx512f", "avx2", "avx", "sve2", "sve", "asimd")


def console(*, stderr: bool = False) -> Console:
    """A console that takes all text literally and never wraps it."""
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=True)


def versions_line(pins: Pins, environment: Environment) -> str:
    """`torch 2.13.0 · torch-mlir 20261001 · LLVM 22.1.8`: what a stack is made of."""
    stack = pins.stacks.get(environment.stack)
    packages = stack.packages if stack else {}
    shown = [f"{n} {packages[n].partition('+')[0]}" for n in _HEADLINERS if n in packages]
    # an engine may have found another release than the pinned one, or none
    llvm = environment.facts.get("llvm", pins.llvm.version)
    return " · ".join([*shown, f"LLVM {llvm}" if llvm else "no LLVM release"])


def gpu_line(host: Host, cells: Iterable[PlannedCell]) -> str:
    """One line about this machine's GPUs; empty where no cell is for any."""
    if not any(planned.cell.targets for planned in cells):
        return ""
    here = [
        " ".join(filter(None, (gpu.name, gpu.chip, f"driver {gpu.driver_version}", gpu.clocks)))
        for gpu in host.gpus
        if not gpu.problem
    ]
    if here:
        return f"gpu   {'; '.join(here)}"
    return (
        "gpu   none here that can be used: code for all vendors is assembled and checked, and "
        "executed on GPUs in software"
    )


def cpu_line(host: Host) -> str:
    """`Intel Xeon, 2 cores, avx512f`."""
    flags = host.cpu_flags.split()
    vectors = next((v for v in _VECTORS if v in flags), "")
    return ", ".join(filter(None, [host.cpu_model, plural(host.cpus, "core"), vectors]))


class TextReporter:
    """Head lines, a bar on a terminal or a line per cell elsewhere, then what went wrong."""

    def __init__(
        self,
        out: Console,
        pins: Pins,
        total: int,
        *,
        done: int = 0,
    ) -> None:
        """`total` cells are to be run, `done` of which were run before."""
        self._out = out
        self._pins = pins
        self._total = total
        self._statuses: dict[str, Status] = {}
        self._done = done
        self._stages: dict[str, str] = {}
        self._heads: list[str] = []
        self._waiting: Waiting | None = None
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def head(self, line: str) -> None:
        """A line for when the stacks are ready and cells are about to run."""
        self._heads.append(line)

    def preparing(self, stack: str) -> None:
        """See `Reporter`."""
        if self._out.is_terminal:
            self._waiting = self._out.status(f"stack {stack}: making it ready")
            self._waiting.start()

    def progress(self, line: str) -> None:
        """See `Reporter`."""
        if self._waiting is not None:
            self._waiting.update(Text(one_line(line, self._out.width - 4)))
        else:
            self._out.print(f"      {one_line(line, 160)}")

    def prepared(self, environment: Environment, seconds: float) -> None:
        """See `Reporter`."""
        self._stop_waiting()
        self._out.print(environment_line(environment, self._pins, seconds))

    def began(self, cell: str, stage: str) -> None:
        """See `Reporter`."""
        self._print_heads()
        self._stages[cell] = stage
        self._refresh()

    def finished(self, result: Result, *, final: bool) -> None:
        """See `Reporter`."""
        if not final:
            self.note(
                f"{result.cell}: miss in attempt {result.attempt}, trying again: "
                f"{one_line(result.message)}"
            )
            return
        self.ended(result.cell, result.status, result.phase, result.seconds)

    def ended(self, cell: str, status: Status, phase: str, took: float) -> None:
        """A cell came to its end."""
        self._stop_waiting()
        self._print_heads()
        self._stages.pop(cell, None)
        self._statuses[cell] = status
        if not self._out.is_terminal:
            number = self._done + len(self._statuses)
            place = f"   {phase}" if phase else ""
            self._out.print(
                f"{status:<6}{cell}   {seconds(took)}   [{number}/{self._total}]{place}"
            )
        elif status in SHOWN:
            self._out.print(f"{status:<6}{cell}   {phase}", style=STYLES[status])
        self._refresh()

    def note(self, line: str) -> None:
        """See `Reporter`."""
        self._out.print(f"note  {one_line(line, 300)}", style="yellow")

    def __enter__(self) -> TextReporter:
        """Cells are about to run."""
        return self

    def __exit__(self, *exc: object) -> None:
        """No cell runs any more."""
        self._stop_waiting()
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _print_heads(self) -> None:
        while self._heads:
            self._out.print(plain(self._heads.pop(0)))

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.stop()
            self._waiting = None

    def _refresh(self) -> None:
        if not self._out.is_terminal:
            return
        if self._bar is None:
            self._bar = _new_bar(self._out)
            self._task = self._bar.add_task("", total=self._total, counts="", now="")
            self._bar.start()
        assert self._task is not None
        counted = counts(self._statuses.values()) if self._statuses else ""
        self._bar.update(
            self._task,
            completed=self._done + len(self._statuses),
            counts=counted,
            now=self._now(self._out.width - _BAR_WIDTH - len(counted)),
        )

    def _now(self, room: int) -> str:
        """The stage that began last, if there is room for it: a line that wraps would jump."""
        if not self._stages:
            return ""
        cell, stage = next(reversed(self._stages.items()))
        # the pool is on screen already
        text = f"{cell.rpartition('@')[0] or cell} {stage}".rstrip()
        return text if len(text) <= room else ""


def _new_bar(out: Console) -> Progress:
    return Progress(
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("ETA"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[counts]}", markup=False),
        TextColumn("{task.fields[now]}", style="dim", markup=False),
        console=out,
    )


class SilentReporter:
    """For `--json`: only what is odd is said, on standard error."""

    def __init__(self, say: Callable[[str], None]) -> None:
        """`say` prints a line."""
        self._say = say

    def preparing(self, stack: str) -> None:
        """See `Reporter`."""

    def progress(self, line: str) -> None:
        """See `Reporter`."""

    def prepared(self, environment: Environment, seconds: float) -> None:
        """See `Reporter`."""

    def began(self, cell: str, stage: str) -> None:
        """See `Reporter`."""

    def finished(self, result: Result, *, final: bool) -> None:
        """See `Reporter`."""

    def note(self, line: str) -> None:
        """See `Reporter`."""
        self._say(f"note  {one_line(line, 300)}")

    def __enter__(self) -> SilentReporter:
        """Nothing to prepare."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Nothing to end."""


def environment_line(environment: Environment, pins: Pins, took: float) -> str:
    """`stack pytorch   torch 2.13.0 · LLVM 22.1.8   image lh/pytorch:3f9c2a1 (cached)`."""
    kind = "image" if environment.engine == "docker" else "environment"
    how = "cached" if environment.cached else f"built in {seconds(took)}"
    return plain(
        f"stack {environment.stack:<14}{versions_line(pins, environment)}   "
        f"{kind} {_short(environment.reference)} ({how})"
    )


def _short(reference: str) -> str:
    """A folder below the current one without what both share."""
    path = Path(reference)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else reference


def blocks(results: Iterable[Result], run: str = "last") -> list[tuple[str, str]]:
    """What went wrong, as lines with their styles; equal troubles of many cells as one."""
    groups: dict[tuple[str, str, str, str], list[Result]] = {}
    for result in results:
        if result.status in SHOWN:
            key = (result.status, result.tier, result.phase, result.message)
            groups.setdefault(key, []).append(result)
    ordered = sorted(groups.values(), key=lambda group: SHOWN.index(group[0].status))
    lines = []
    for group in ordered:
        shown = group if len(group) <= _ALIKE else group[:1]
        for result in shown:
            lines += _block(result, group[len(shown) :] if result is shown[-1] else [], run)
    return lines


def _block(result: Result, alike: Sequence[Result], run: str) -> list[tuple[str, str]]:
    indent = " " * 8
    aside = "   (peripheral: shown, does not count)" if result.tier != "core" else ""
    title = f"  {result.status:<6}{result.cell}   {result.phase}{aside}".rstrip()
    details = indented(result.message, indent, _MESSAGE_LINES)
    if result.expectation:
        details += indented(f"expected: {result.expectation}", indent)
    for note in result.notes:
        details += indented(f"note: {note}", indent)
    details += [
        f"{indent}seen    {one_line(piece.text, 300)}"
        for piece in result.evidence[:_ALIKE]
        if piece.text not in result.message
    ]
    if alike:
        names = ", ".join(r.cell for r in alike[:_ALIKE])
        rest = ", …" if len(alike) > _ALIKE else ""
        details.append(f"{indent}and {plural(len(alike), 'more cell')} alike: {names}{rest}")
    details += [
        f"{indent}rerun   {result.reproduce}",
        f"{indent}look    {commands.look(result.cell, run)}",
        "",
    ]
    return [(plain(title), STYLES[result.status]), *((line, "") for line in details)]


def summary(results: Mapping[str, Result], skipped: int, folder: str) -> str:
    """The last line: `30 pass · 1 xfail · 1 fail      results .lh/runs/…`."""
    statuses = [*(r.status for r in results.values()), *["skip"] * skipped]
    return f"{counts(statuses)}      results {folder}"
