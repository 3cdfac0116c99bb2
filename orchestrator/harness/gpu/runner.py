"""Executes a bundle on the GPU of this machine: Python, NumPy and the driver are enough.

`python3 BUNDLE` in a bundle that brings this file along, `python -m orchestrator.harness.gpu.runner
BUNDLE` elsewhere.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import errno
import os
import platform
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from orchestrator import records
from orchestrator.compare.numeric import explain
from orchestrator.errors import DefinitionError, ExitCode, InfrastructureError, UsageError
from orchestrator.harness.blame import Blamed
from orchestrator.harness.gpu import runtime as runtimes
from orchestrator.harness.gpu import summary
from orchestrator.harness.gpu.execute import loaded, run
from orchestrator.harness.gpu.fitting import CUBIN, RULES, fitting, ordered
from orchestrator.harness.gpu.opened import Opened, opened
from orchestrator.harness.judge import judge
from orchestrator.harness.streams import take_stdout
from orchestrator.harness.triton.device import launch_plan
from orchestrator.job import Done, Event, Hello, Outcome, StageBegan

Tell = Callable[[Event], None]

EXIT_CODES = {
    "pass": ExitCode.OK,
    "fail": ExitCode.CELL_FAILED,
    "error": ExitCode.DEFINITIONS,
    "miss": ExitCode.INFRASTRUCTURE,
}
"""By an outcome's status: an `error` is the bundle's, a `miss` this machine's."""
_MAX_REPEAT = 1_000_000
_EPILOG = """\
exit codes:
  0  the outputs match the goldens
  1  they do not, or the program crashed: the compiler that made it is to blame
  2  the command line asks for something that does not exist
  3  the bundle is damaged, or wrong
  4  no verdict: no driver, no device, no code for it

LH_GPU_DEVICE chooses one of several devices by its number.
"""


@dataclass(frozen=True, kw_only=True)
class Report:
    """What came of a bundle: what `--json` prints."""

    bundle: str
    """Its path."""
    cell: str
    """Empty: it could not be read."""
    outcome: Outcome
    """`device` has one more key, `code`: the chip whose code was executed."""
    schema: int = 1


@dataclass
class _Course:
    """Where an execution is, for whoever watches it from outside."""

    tell: Tell
    cell: str = ""
    stage: str = ""
    device: dict[str, str | int] = field(default_factory=dict)

    def enter(self, stage: str) -> None:
        self.stage = stage
        self.tell(StageBegan(cell=self.cell, stage=stage))

    def bound(self, device: dict[str, str | int]) -> None:
        self.device = device
        versions = {"numpy": np.__version__}
        python = platform.python_version()
        self.tell(
            Hello(python=python, versions=versions, toolchain="", hardware=device, seconds=0.0)
        )


def attempt(path: Path, *, chip: str = "", repeat: int = 1, tell: Tell | None = None) -> Report:
    """Executes a bundle once and compares; `repeat` calls are timed.

    Args:
        path: of a folder or an archive.
        chip: whose code to take; empty: what fits the device.
        repeat: how often to call the program.
        tell: is told of stages, the device (`Hello.hardware`) and the end as they come.

    Raises:
        UsageError: there is nothing at `path`.
    """
    course = _Course(tell or (lambda _: None))
    try:
        outcome = _attempt(path, chip, repeat, course)
    except Blamed as fault:
        outcome = _ended(course, Outcome(status=fault.status, message=fault.message))
    except DefinitionError as error:
        outcome = _ended(course, Outcome(status="error", message=str(error)))
    except InfrastructureError as error:
        outcome = _ended(course, Outcome(status="miss", message=str(error)))
    except MemoryError:
        outcome = _ended(course, Outcome(status="miss", message="this machine is out of memory"))
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        outcome = _ended(course, Outcome(status="miss", message=f"{error.strerror}: {path}"))
    course.tell(Done(cell=course.cell, outcome=outcome))
    return Report(bundle=str(path), cell=course.cell, outcome=outcome)


def _ended(course: _Course, outcome: Outcome) -> Outcome:
    return dataclasses.replace(outcome, phase=course.stage, device=course.device)


def _attempt(path: Path, chip: str, repeat: int, course: _Course) -> Outcome:
    course.enter("ingress")
    with opened(path) as found, tempfile.TemporaryDirectory(prefix="lh-bundle-") as scratch:
        bundle = found.bundle
        course.cell = bundle.cell
        arguments, golden = found.arguments(), found.golden()
        results = [(result.element, result.shape) for result in bundle.results]
        course.enter("execute")
        chosen, library = _library(found, chip, Path(scratch))
        with loaded(library) as runtime:
            course.bound({**runtime.describe(), "code": chosen})
            if bundle.program is None:
                executed = run(runtime, bundle.entry, arguments, results, repeat=repeat)
            else:
                plan = found.plan(bundle.program, chosen, arguments)
                executed = launch_plan(plan, runtime, repeat=repeat)
        course.enter("compare")
        elements = [element for element, _ in results]
        errors = judge(elements, executed.outputs, golden, bundle.tolerance)
        wrong = [text for error in errors if (text := explain(error))]
        return Outcome(
            status="fail" if wrong else "pass",
            phase="compare" if wrong else "",
            message="\n".join(wrong),
            errors=errors,
            kernels=bundle.chips[chosen].facts,
            device=course.device,
            golden=bundle.golden,
            kernel_ns=executed.kernel_ns,
            inputs_sha256=bundle.inputs_sha256,
        )


def _library(found: Opened, wanted: str, scratch: Path) -> tuple[str, Path]:
    """The chip whose code to take, and that code as a file.

    Raises:
        DefinitionError: there is none for the chip that was asked for.
        InfrastructureError: there is none for this machine.
    """
    bundle, chips = found.bundle, ordered(found.bundle.chips)
    every = ", ".join(chips)
    if bundle.machine != platform.machine():
        raise InfrastructureError(
            f"its host code is for {bundle.machine}, and this machine is {platform.machine()}"
        )
    if wanted:
        if wanted not in chips:
            near = difflib.get_close_matches(wanted, chips, n=1)
            hint = f"Did you mean `{near[0]}`? " if near else ""
            raise DefinitionError(
                f"{found.path} has no code for chip `{wanted}`. {hint}It has: {every}"
            )
        return wanted, found.library(wanted, scratch)
    probe = found.library(chips[0], scratch)
    if len(chips) == 1 and bundle.driver in ("opencl", "vulkan"):
        return chips[0], probe
    device = runtimes.device(probe)
    cubins = bundle.program is not None
    chosen = fitting(bundle.driver, chips, str(device.get("chip", "")), cubins=cubins)
    if chosen is None:
        rule = CUBIN if cubins and bundle.driver == "cuda" else RULES[bundle.driver]
        raise InfrastructureError(
            f"no code for this device: it is {device.get('chip') or 'of an unknown chip'} "
            f"({device.get('device', 'unnamed')}), the bundle has {every}, and "
            f"{rule}. Add its chip to the cell's pool and make the bundle again"
        )
    return chosen, probe if chosen == chips[0] else found.library(chosen, scratch)


def main(argv: Sequence[str] | None = None, bundle: Path | None = None) -> int:
    """The command line; `bundle`: the one that brings this file along, so that none is named."""
    options = _parser(bundle).parse_args(argv)
    path: Path = bundle or options.bundle
    try:
        if options.list:
            return _list(path, options.json)
        return _execute(path, options)
    except UsageError as error:
        print(f"{sys.argv[0] or 'runner'}: {error}", file=sys.stderr)
        return int(error.exit_code)
    except DefinitionError as error:
        print(error, file=sys.stderr)
        return int(error.exit_code)


def _list(path: Path, as_json: bool) -> int:
    with opened(path) as found:
        if as_json:
            print(records.dumps(found.bundle, indent=1))
        else:
            print("\n".join(summary.of_bundle(found.bundle)))
    return int(ExitCode.OK)


def _execute(path: Path, options: argparse.Namespace) -> int:
    # while native code runs, Python's own handler of Ctrl-C would wait for it
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with os.fdopen(take_stdout(), "w", buffering=1, errors="replace") as out:

        def tell(event: Event) -> None:
            if options.events:
                out.write(records.dumps(event) + "\n")

        report = attempt(path, chip=options.chip, repeat=options.repeat, tell=tell)
        if options.json:
            out.write(records.dumps(report, indent=1) + "\n")
        elif not options.events:
            out.write("\n".join(summary.of_outcome(report.cell, report.outcome)) + "\n")
    return int(EXIT_CODES[report.outcome.status])


def _parser(bundle: Path | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"python3 {bundle}" if bundle else "python3 -m orchestrator.harness.gpu.runner",
        description="Executes a program on this machine's GPU and compares what it computes.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if bundle is None:
        parser.add_argument(
            "bundle", type=Path, nargs="?", default=Path(), help="default: the current folder"
        )
    parser.add_argument("--list", action="store_true", help="show what is in the bundle")
    parser.add_argument("--chip", default="", help="take the code of this chip")
    parser.add_argument(
        "--repeat", type=_count, default=1, metavar="N", help="call it N times, for its times"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON document on standard output")
    form.add_argument("--events", action="store_true", help=argparse.SUPPRESS)
    return parser


def _count(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= _MAX_REPEAT:
        raise argparse.ArgumentTypeError(f"`{text}` is no number from 1 to {_MAX_REPEAT:,}")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
