"""A stack as a virtual environment: the pinned wheels, installed exactly, once."""

from __future__ import annotations

import collections
import hashlib
import json
import os
import platform
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.config.models import StackPins
from orchestrator.engines import commands, guard, interpreters, pip, wheels
from orchestrator.engines.base import Progress
from orchestrator.engines.interpreters import Interpreter
from orchestrator.engines.locks import exclusive
from orchestrator.errors import InfrastructureError
from orchestrator.settings import PREFIX, Settings

_FORMAT = 1
"""Goes up when the same pins would be installed otherwise."""
_QUIET_S = 900.0
"""Unpacking a large wheel on a slow disk says nothing for minutes."""
_MAX_SILENCES = 5
"""How often an index may not answer in time: pip would ask it again for every package."""
_MARKER = "lh-complete.json"
_REDIRECTS = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER", "PIP_REQUIRE_VIRTUALENV")
_TELLING = re.compile(r"\s*Downloading .* [GM]B\)|Installing collected packages")


@dataclass(frozen=True, kw_only=True)
class Venv:
    """A virtual environment with a stack's pins in it."""

    folder: Path
    python: Interpreter
    """That it was made from."""
    digest: str
    """Of all that was installed, and the Python it is for; the same on every machine."""

    @property
    def executable(self) -> Path:
        """Its Python."""
        return self.folder / "bin" / "python"


@dataclass(frozen=True, kw_only=True)
class VenvBuilder:
    """Makes virtual environments below one folder."""

    root: Path
    """Of the repository."""
    folder: Path
    settings: Settings
    environ: Mapping[str, str]
    """Of this process."""

    def ready(self, stack: str, pins: StackPins) -> Venv | None:
        """The environment if it is there and complete.

        Raises:
            UsageError: `LH_PYTHON` does not serve.
        """
        for python in interpreters.find(stack, pins.python, self.settings, self.environ):
            venv = self._venv(stack, pins, python)
            if is_complete(venv.folder):
                return venv
        return None

    def build(self, stack: str, pins: StackPins, progress: Progress, *, force: bool) -> Venv:
        """Makes it, unless another process just did. `force`: also if it was there before.

        Raises:
            DefinitionError: a pin that no index has.
            InfrastructureError: no Python serves, no index answers, or the disk is full.
            UsageError: `LH_PYTHON` does not serve.
        """
        venv = self._venv(stack, pins, self._python(stack, pins))
        marker = venv.folder / _MARKER
        before = _stamp(marker) if force else 0
        with exclusive(venv.folder.with_suffix(".lock"), f"stack {stack}", progress):
            if is_complete(venv.folder) and _stamp(marker) != before:
                return venv
            guard.remove_tree(venv.folder)
            try:
                self._fill(stack, pins, venv, progress)
                temporary = marker.with_suffix(".new")
                temporary.write_text(json.dumps({"digest": venv.digest}), encoding="utf-8")
                temporary.rename(marker)
            except OSError as error:
                raise InfrastructureError(f"{venv.folder}: {error.strerror}") from error
            finally:
                if not is_complete(venv.folder):
                    guard.remove_tree(venv.folder)
        return venv

    def _venv(self, stack: str, pins: StackPins, python: Interpreter) -> Venv:
        what = {
            "format": _FORMAT,
            "packages": dict(pins.packages),
            "python": python.version,
            "arch": platform.machine(),
        }
        # a virtual environment is bound to the place of its Python
        place = _hash({**what, "base": python.base})
        return Venv(
            folder=self.folder / f"{stack}-{place[:12]}",
            python=python,
            digest=f"sha256:{_hash(what)}",
        )

    def _python(self, stack: str, pins: StackPins) -> Interpreter:
        without: list[Interpreter] = []
        for python in interpreters.find(stack, pins.python, self.settings, self.environ):
            if _can_make_environments(python.path):
                return python
            without.append(python)
        if not without:
            raise interpreters.none_found(stack, pins.python)
        found = without[0]
        raise InfrastructureError(
            f"stack {stack}: Python {found} cannot make virtual environments: its `venv` and "
            f"`ensurepip` modules are missing. Install them (Debian and Ubuntu: "
            f"apt-get install python{found.short}-venv), or name another Python in LH_PYTHON."
        )

    def _fill(self, stack: str, pins: StackPins, venv: Venv, progress: Progress) -> None:
        env = self._pip_environment()
        progress(f"stack {stack}: making a virtual environment with Python {venv.python.version}")
        made = [str(venv.python.path), "-I", "-m", "venv", str(venv.folder)]
        code, output = _run(made, env, lambda _: None)
        if code and pip.NO_SPACE not in output:
            last = (output.strip().splitlines() or ["it said nothing"])[-1]
            raise InfrastructureError(
                f"stack {stack}: Python {venv.python} made no virtual environment: {last:.500}"
            )
        if code:
            raise pip.explain(output, self.root, stack)
        sources = wheels.sources(
            self.root,
            stack,
            pins,
            target=wheels.Target.host(venv.python.short),
            settings=self.settings,
            config=pip.read_config(venv.executable, self.settings, env),
        )
        progress(f"stack {stack}: installing {len(pins.packages)} pinned packages")
        cert = ["--cert", str(self.settings.ca_bundle)] if self.settings.ca_bundle else []
        install = [str(venv.executable), "-I", "-m", "pip", "install", *pip.PIP_OPTIONS, *cert]
        silences: list[str] = []

        def hear(line: str) -> None:
            _tell(stack, line, progress)
            if pip.NO_ANSWER.search(line):
                silences.append(line)
            if len(silences) > _MAX_SILENCES:
                raise pip.explain("\n".join(silences), self.root, stack)

        code, output = _run([*install, *self.settings.pip_args, *sources.pip_args()], env, hear)
        if code:
            raise pip.explain(output, self.root, stack)

    def _pip_environment(self) -> dict[str, str]:
        """Ours, less what would send the packages elsewhere than into the environment."""
        return {
            name: value
            for name, value in self.environ.items()
            if not name.startswith((PREFIX, "PYTHON")) and name not in _REDIRECTS
        }


def _hash(value: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def is_complete(folder: Path) -> bool:
    """Whether an environment was made to its end, and the Python that it is of is still there."""
    return (folder / _MARKER).is_file() and os.access(folder / "bin" / "python", os.X_OK)


def _stamp(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0


def _can_make_environments(python: Path) -> bool:
    command = [str(python), "-I", "-c", "import ensurepip, venv"]
    try:
        return subprocess.run(command, capture_output=True, timeout=30, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _run(
    argv: Sequence[str], env: Mapping[str, str], on_line: Callable[[str], None]
) -> tuple[int, str]:
    """Exit code and the last lines of what it printed."""
    lines: collections.deque[str] = collections.deque(maxlen=400)

    def hear(line: str) -> None:
        lines.append(line)
        on_line(line)

    code = commands.follow(argv, environ=env, on_line=hear, quiet_s=_QUIET_S)
    return code, "\n".join(lines)


def _tell(stack: str, line: str, progress: Progress) -> None:
    if _TELLING.match(line):
        progress(f"stack {stack}: {line.strip():.120}")
