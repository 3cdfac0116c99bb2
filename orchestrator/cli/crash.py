"""Crash reports: what a bug report of this program needs, in a file."""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import os
import platform
import shlex
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

from orchestrator import __version__
from orchestrator.errors import InfrastructureError, LighthouseError
from orchestrator.results.files import write_atomically

_PACKAGES = ("click", "docker", "numpy", "pydantic", "PyYAML", "requests", "rich")


def report(error: BaseException, words: Sequence[str], environ: Mapping[str, str]) -> str:
    """Writes a report on `error` and gives the one line that says where it is."""
    now = dt.datetime.now(dt.UTC)
    text = _text(error, words, now)
    for folder in (_state(environ) / "crashes", Path(tempfile.gettempdir())):
        path = folder / f"lh-ci-crash-{now:%Y-%m-%dT%H-%M-%S-%f}.txt"
        try:
            write_atomically(path, text.encode("utf-8", "replace"))
        except InfrastructureError:
            continue
        return f"lh-ci: this is a bug of ours, not of what you did. Please send us {path}"
    return f"lh-ci: this is a bug of ours, and no report could be written:\n{text}"


def _state(environ: Mapping[str, str]) -> Path:
    """The state folder, found without anything that might be what crashed."""
    from orchestrator.config.load import find_root

    try:
        root = find_root(Path.cwd())
    except (LighthouseError, OSError):
        root = Path.cwd()
    return root / (environ.get("LH_STATE") or ".lh")


def _text(error: BaseException, words: Sequence[str], now: dt.datetime) -> str:
    kernel = os.uname()
    lines = [
        f"lh-ci {__version__}, {now:%Y-%m-%d %H:%M:%S} UTC",
        f"command   {shlex.join(['lh-ci', *words])}",
        f"python    {sys.version.split()[0]} ({platform.python_implementation()})",
        f"platform  {kernel.sysname} {kernel.release} {kernel.machine}",
        *(f"{name:<9} {_version(name)}" for name in _PACKAGES),
        "",
        "".join(traceback.format_exception(error)).rstrip(),
    ]
    return "\n".join(lines) + "\n"


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
