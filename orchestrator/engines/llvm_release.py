"""The pinned LLVM release for the `venv` engine: as installed, else unpacked beside its state.

Cells need no release to run: where none is to be had, they lower with the MLIR bindings of the
frontend's wheel. So nothing here raises for a machine's sake; the reason is told and recorded.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from orchestrator.config.models import LlvmPin
from orchestrator.engines import guard
from orchestrator.engines.base import Progress
from orchestrator.engines.debs import Apt
from orchestrator.engines.locks import exclusive, if_free
from orchestrator.errors import InfrastructureError, UsageError
from orchestrator.settings import NO_LLVM, Settings

TOOLS = ("mlir-opt", "mlir-translate", "clang", "ld.lld")
"""What the harness calls."""
_PACKAGES = re.compile(r"(mlir|clang|lld)-\d")
"""The pinned packages that have them; the others are for people who look into images."""
_SYSTEM = Path("/usr/lib")
_RETRY_S = 3600.0
"""A failed fetch is not tried again before that, unless asked for."""

_FETCH = ".fetch-"

_WRAPPER = """\
#!/bin/sh
# Unpacked, not installed: the loader must be told where this release's libraries are.
here=${{0%/*}}/..
export LD_LIBRARY_PATH="{libraries}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"
exec "$here/{tool}" "$@"
"""


@dataclass(frozen=True, kw_only=True)
class Release:
    """An LLVM release for the harness, or why there is none."""

    prefix: Path | None
    """Has `bin/mlir-opt` and the others of `TOOLS`."""
    version: str
    """Empty when there is none."""
    note: str
    """In a few words: where it is from, or why there is none."""


@dataclass(frozen=True, kw_only=True)
class ReleaseFinder:
    """Finds the pinned release, or fetches it below `folder`."""

    folder: Path
    settings: Settings
    environ: Mapping[str, str]
    system: Path = _SYSTEM
    """Where the distribution puts `llvm-<major>`."""

    def find(self, pin: LlvmPin, progress: Progress, *, force: bool = False) -> Release:
        """The release; quick when it was found or fetched before.

        Raises:
            UsageError: `LH_LLVM_PREFIX` names a folder that is no complete release.
        """
        if self.settings.llvm_prefix == NO_LLVM:
            return Release(prefix=None, version="", note="turned off by LH_LLVM_PREFIX=none")
        if self.settings.llvm_prefix is not None:
            return self._chosen(Path(self.settings.llvm_prefix))
        installed = self.system / f"llvm-{pin.version.partition('.')[0]}"
        for prefix in (installed, self.folder / pin.version):
            if self._version(prefix) == pin.version:
                return Release(prefix=prefix, version=pin.version, note=str(prefix))
        if not force and (reason := self._failed_lately(pin)):
            return Release(prefix=None, version="", note=reason)
        return self._fetch(pin, progress)

    def sweep(self) -> list[str]:
        """Removes what fetches that were killed left; returns what was removed."""
        removed: list[str] = []
        for left in sorted(self.folder.glob(f"{_FETCH}*")):
            version = left.name.removeprefix(_FETCH).partition("-")[0]
            with if_free(self.folder / f"{version}.lock") as free:
                if free:
                    guard.remove_tree(left)
                    removed.append(str(left))
        return removed

    def _chosen(self, prefix: Path) -> Release:
        version = self._version(prefix)
        if version is None:
            raise UsageError(
                f"LH_LLVM_PREFIX: {prefix} is no complete LLVM release: these must be in its bin "
                f"folder, work, and have one version: {', '.join(TOOLS)}."
            )
        return Release(prefix=prefix, version=version, note=f"{prefix} (LH_LLVM_PREFIX)")

    def _fetch(self, pin: LlvmPin, progress: Progress) -> Release:
        target = self.folder / pin.version
        try:
            with exclusive(self.folder / f"{pin.version}.lock", f"LLVM {pin.version}", progress):
                if self._version(target) != pin.version:  # another process may have done it
                    self._unpack(pin, target, progress)
        except (InfrastructureError, OSError) as error:
            reason = f"LLVM {pin.version} could not be fetched: {error}"
            progress(reason)
            with contextlib.suppress(OSError):
                self._failure(pin).write_text(reason, encoding="utf-8")
            return Release(prefix=None, version="", note=reason)
        self._version(target)  # asked while people wait anyway, and remembered
        return Release(prefix=target, version=pin.version, note=str(target))

    def _unpack(self, pin: LlvmPin, target: Path, progress: Progress) -> None:
        prefix = f"{_FETCH}{pin.version}-"
        for left in self.folder.glob(f"{prefix}*"):  # by one that was killed: the lock is ours
            guard.remove_tree(left)
        with tempfile.TemporaryDirectory(dir=self.folder, prefix=prefix) as folder:
            apt = Apt(Path(folder, "apt"), self.settings, self.environ)
            wanted = {n: v for n, v in pin.packages.items() if _PACKAGES.match(n)}
            packages = apt.closure(wanted, progress)
            size = sum(package.size for package in packages) / 1e6
            progress(f"LLVM {pin.version}: fetching {len(packages)} packages ({size:.0f} MB)")
            release = Path(folder, "release")
            apt.fetch(packages, release / "root")
            wrap(release, pin.version.partition(".")[0])
            if (version := ask_version(release)) != pin.version:
                found = f"is {version}" if version else "does not run here"
                raise InfrastructureError(f"what apt gave {found}")
            guard.remove_tree(target)
            release.rename(target)
        progress(f"LLVM {pin.version}: unpacked in {target}")

    def _version(self, prefix: Path) -> str | None:
        """The version that all tools have; asked once for every state of their files."""
        stamp = _stamp(prefix)
        if stamp is None:
            return None
        memory = self.folder / "versions.json"
        known = _read(memory)
        if known.get(str(prefix), [None])[0] != stamp:
            known[str(prefix)] = [stamp, ask_version(prefix)]
            with contextlib.suppress(OSError):
                memory.parent.mkdir(parents=True, exist_ok=True)
                temporary = memory.with_suffix(f".{os.getpid()}")
                temporary.write_text(json.dumps(known), encoding="utf-8")
                temporary.replace(memory)
        version = known[str(prefix)][1]
        return version if isinstance(version, str) else None

    def _failure(self, pin: LlvmPin) -> Path:
        return self.folder / f"{pin.version}.failed"

    def _failed_lately(self, pin: LlvmPin) -> str:
        with contextlib.suppress(OSError):
            age = time.time() - self._failure(pin).stat().st_mtime
            if age < _RETRY_S:
                reason = self._failure(pin).read_text(encoding="utf-8")
                return f"{reason} (tried {age / 60:.0f} min ago)"
        return ""


def ask_version(prefix: Path) -> str | None:
    """The version that all tools of a release say; None when one says none, or they differ."""
    versions = {_version_of(prefix / "bin" / tool) for tool in TOOLS}
    return versions.pop() if len(versions) == 1 else None


def wrap(release: Path, major: str) -> None:
    """Makes `bin/` and `lib` of a release whose packages were unpacked in its `root/`."""
    llvm = Path("root/usr/lib") / f"llvm-{major}"
    folders: Iterable[Path] = (
        release / llvm / "lib",
        *sorted(release.glob("root/usr/lib/*-linux-gnu*")),
        *sorted(release.glob("root/lib/*-linux-gnu*")),
    )
    libraries = ":".join(f"$here/{folder.relative_to(release)}" for folder in folders)
    (release / "bin").mkdir()
    for tool in sorted((release / llvm / "bin").iterdir()):
        wrapper = release / "bin" / tool.name
        wrapper.write_text(_WRAPPER.format(libraries=libraries, tool=llvm / "bin" / tool.name))
        wrapper.chmod(0o755)
    (release / "lib").symlink_to(llvm / "lib")


def _version_of(tool: Path) -> str | None:
    try:
        said = subprocess.run(
            [str(tool), "--version"], capture_output=True, timeout=60, check=True
        ).stdout.decode("utf-8", "replace")
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r"\b\d+\.\d+\.\d+", said)
    return found[0] if found else None


def _stamp(prefix: Path) -> list[int] | None:
    """When its tools were changed; None when one is missing."""
    try:
        return [(prefix / "bin" / tool).stat().st_mtime_ns for tool in TOOLS]
    except OSError:
        return None


def _read(memory: Path) -> dict[str, list[object]]:
    try:
        known = json.loads(memory.read_text(encoding="utf-8"))
        return {k: v for k, v in known.items() if isinstance(v, list) and len(v) == 2}
    except (OSError, ValueError, AttributeError):
        return {}
