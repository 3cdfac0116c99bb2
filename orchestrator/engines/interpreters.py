"""Finding a Python that the pinned wheels exist for."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator import records
from orchestrator.errors import InfrastructureError, UsageError
from orchestrator.settings import Settings

_ASK = """\
import json, platform, sys, sysconfig
print(json.dumps({
    "version": platform.python_version(), "implementation": sys.implementation.name,
    "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    "base": sys.base_prefix,
}))
"""
_ASK_S = 20.0


@dataclass(frozen=True, kw_only=True)
class Interpreter:
    """A Python on this machine."""

    path: Path
    version: str
    """`3.11.7`."""
    implementation: str
    """`cpython`, …"""
    free_threaded: bool
    base: str
    """Prefix of the installation, also for the Python of a virtual environment."""

    @property
    def short(self) -> str:
        """`3.11`."""
        return ".".join(self.version.split(".")[:2])

    def serves(self, declared: Sequence[str]) -> bool:
        """Whether wheels for one of the declared versions can be installed in it."""
        usual = self.implementation == "cpython" and not self.free_threaded
        return usual and self.short in declared

    def __str__(self) -> str:
        kind = "" if self.implementation == "cpython" else f" ({self.implementation})"
        kind = " (free-threaded)" if self.free_threaded else kind
        return f"{self.version}{kind} at {self.path}"


def running() -> Interpreter:
    """The Python that runs this."""
    return Interpreter(
        path=Path(sys.executable),
        version=".".join(map(str, sys.version_info[:3])),
        implementation=sys.implementation.name,
        free_threaded=bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
        base=sys.base_prefix,
    )


def ask(path: Path) -> Interpreter | None:
    """What a program says of itself; None when it is no Python that answers (a dead shim)."""
    try:
        answer = subprocess.run(
            [str(path), "-I", "-S", "-c", _ASK],
            capture_output=True,
            timeout=_ASK_S,
            check=True,
        ).stdout
        return records.decode(Interpreter, {"path": path, **json.loads(answer)})
    except (OSError, subprocess.SubprocessError, ValueError, TypeError):
        return None


def find(
    stack: str, declared: Sequence[str], settings: Settings, environ: Mapping[str, str]
) -> Iterator[Interpreter]:
    """Pythons for a stack, best first: `LH_PYTHON` alone, else the running one, else from `PATH`.

    Raises:
        UsageError: `LH_PYTHON` is none that its wheels exist for.
    """
    if settings.python is not None:
        chosen = ask(settings.python)
        if chosen is None or not chosen.serves(declared):
            raise UsageError(f"{_exist(stack, declared)}; LH_PYTHON is {chosen or settings.python}")
        yield chosen
        return
    found = running()
    if found.serves(declared):
        yield found
    for path in _on_path(declared, environ):
        other = ask(path)
        if other is not None and other.serves(declared) and other.base != found.base:
            yield other


def none_found(stack: str, declared: Sequence[str]) -> InfrastructureError:
    """The error when `find` gave nothing."""
    return InfrastructureError(
        f"{_exist(stack, declared)}; found {running()}, and none of those on PATH. Install one of "
        "them, or name it in LH_PYTHON."
    )


def _exist(stack: str, declared: Sequence[str]) -> str:
    return f"stack {stack}: its pinned wheels exist for Python {', '.join(declared)}"


def _on_path(declared: Sequence[str], environ: Mapping[str, str]) -> Iterator[Path]:
    folders = [part for part in environ.get("PATH", os.defpath).split(os.pathsep) if part]
    for version in declared:
        for folder in dict.fromkeys(folders):
            if path := shutil.which(f"python{version}", path=folder):
                yield Path(path)
