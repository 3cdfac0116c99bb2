"""Every error that a user can meet, each kind with its own exit code.

Raise the most specific class; only `orchestrator.cli.main` catches. A message says what is
wrong, where, and what to do next. `ExitCode` is the whole vocabulary of exit statuses.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass


class ExitCode(enum.IntEnum):
    """What a process of ours ends with."""

    OK = 0
    CELL_FAILED = 1
    USAGE = 2
    DEFINITIONS = 3
    INFRASTRUCTURE = 4
    INTERNAL = 70
    INTERRUPTED = 130


@dataclass(frozen=True, order=True)
class Problem:
    """One thing wrong with what people edit: `file:line:column  where: message`."""

    file: str
    line: int
    column: int
    message: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return f"{place}  {self.message}"


class LighthouseError(Exception):
    """Base of all errors that are told to the user without a traceback."""

    exit_code: ExitCode = ExitCode.INTERNAL


class UsageError(LighthouseError):
    """The command line asks for something that does not exist or contradicts itself."""

    exit_code = ExitCode.USAGE


class DefinitionError(LighthouseError):
    """What people edit is wrong (matrix, recipes, goldens, …); carries all problems."""

    exit_code = ExitCode.DEFINITIONS

    def __init__(self, problems: Sequence[Problem] | str) -> None:
        """Takes every problem found, or a single sentence that has no place in a file."""
        self.problems: tuple[Problem, ...] = (
            (Problem("", 0, 0, problems),) if isinstance(problems, str) else tuple(sorted(problems))
        )
        super().__init__("\n".join(str(p).strip() for p in self.problems))


class InfrastructureError(LighthouseError):
    """A machine, an engine, a network or a disk let us down: no verdict about any compiler."""

    exit_code = ExitCode.INFRASTRUCTURE


class Interrupted(LighthouseError):  # noqa: N818  a user's Ctrl-C is no error
    """The user stopped the run; what finished is kept."""

    exit_code = ExitCode.INTERRUPTED
