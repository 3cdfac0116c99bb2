"""What Triton says when it refuses a kernel."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable
from typing import Any

from orchestrator.harness.toolchains.base import first_errors


def said_again(step: Callable[[], Any]) -> str:
    """The errors that a step which failed writes to standard error when it is done again.

    Passes print their diagnostics there, and Python learns of no more than that one failed. They
    are not caught the first time: should the process die, they are its last words. Now places in
    the workload are told too.
    """
    with tempfile.TemporaryFile() as file:
        saved = os.dup(2)
        os.dup2(file.fileno(), 2)
        os.environ["TRITON_DISABLE_LINE_INFO"] = "0"
        try:
            step()
        except Exception as error:  # noqa: BLE001  it has been told
            del error
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            os.environ["TRITON_DISABLE_LINE_INFO"] = "1"
        file.seek(0)
        said = file.read().decode(errors="replace")
    return re.sub(r"\S*/(?=\w+\.py:\d+)", "", first_errors(said))


def telling(error: BaseException) -> str:
    """What Triton's own exceptions say, in a line or a few; empty for others.

    Of errors in a kernel's source the innermost is told, and the line it points to.
    """
    from triton.compiler.errors import CompilationError
    from triton.errors import TritonError

    place = ""
    while isinstance(error, CompilationError):
        lines = (error.src or "").splitlines()
        number = getattr(error.node, "lineno", 0)
        place = f"`{lines[number - 1].strip()}`: " if 0 < number <= len(lines) else place
        if error.__cause__ is None:
            return f"{place}{error.error_message or type(error).__name__}"
        error = error.__cause__
    if isinstance(error, TritonError):  # an assembler's words
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        wanted = [line for line in lines if re.search(r"\b(error|fatal)\s+:", line)]
        return "\n".join(line[:400] for line in (wanted or lines)[:3])
    vague = isinstance(error, RuntimeError) and not place
    return "" if vague else f"{place}{type(error).__name__}: {error}"
