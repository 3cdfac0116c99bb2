"""Debian packages fetched and unpacked without root and without installing them.

apt downloads and checks them, with state of its own below a folder of ours; nothing of the
system's is changed.
"""

from __future__ import annotations

import collections
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.engines import commands
from orchestrator.engines.apt import setting_sources
from orchestrator.engines.base import Progress
from orchestrator.engines.pip import NO_SPACE
from orchestrator.errors import InfrastructureError
from orchestrator.settings import Settings

_UPDATE_S = 90.0
_QUIET_S = 180.0
"""Between two lines of apt's: a large package on a slow line."""
_QUICK_S = 60.0
_LIBRARY = re.compile(r"(?!libc6$|libgcc-s1$|libstdc\+\+6$)lib.*")
"""Shared libraries, less those that every system has and that no other build may shadow."""


@dataclass(frozen=True, kw_only=True)
class Package:
    """A binary package, as apt knows it."""

    name: str
    version: str
    source: str
    """The source package that it was built from."""
    size: int
    """Bytes to download."""
    needs: tuple[str, ...]
    """Names of what it depends on; of alternatives the first."""

    def __str__(self) -> str:
        return f"{self.name}={self.version}"


class Apt:
    """apt, asked and used with state below `folder`."""

    def __init__(self, folder: Path, settings: Settings, environ: Mapping[str, str]) -> None:
        """Nothing is written yet."""
        self._folder = folder
        self._env = {
            **{k: v for k, v in environ.items() if k in {"PATH", "http_proxy", "https_proxy"}},
            "LC_ALL": "C.UTF-8",
            "DEBIAN_FRONTEND": "noninteractive",
        }
        options = {
            "Dir::Cache": str(folder / "cache"),
            "Debug::NoLocking": "1",
            "APT::Sandbox::User": "",
            "Acquire::Retries": "0",
            "Acquire::http::Timeout": "10",
            "Acquire::https::Timeout": "10",
        }
        if settings.ca_bundle:
            options["Acquire::https::CaInfo"] = str(settings.ca_bundle)
        self._options = [word for item in options.items() for word in ("-o", "=".join(item))]
        self._sources = settings.apt_sources

    def closure(self, wanted: Mapping[str, str], progress: Progress) -> tuple[Package, ...]:
        """The wanted packages (name to version), and what they need that is not installed here.

        Raises:
            InfrastructureError: apt is missing or does not know them.
        """
        missing = [tool for tool in ("apt-get", "apt-cache", "dpkg-deb") if not self._has(tool)]
        if missing:
            raise InfrastructureError(f"this machine has no {missing[0]} to fetch it with")
        names = [f"{name}={version}" for name, version in wanted.items()]
        found = {} if self._sources else self._show(names)
        complaint = ""
        if len(found) < len(names):
            complaint = self._update(progress)
            found = self._show(names)
        if unknown := sorted(set(wanted) - set(found)):
            name = unknown[0]
            why = f": {complaint}" if complaint else " (see LH_APT_SOURCES)"
            raise InfrastructureError(f"apt knows no {name} {wanted[name]}{why}")
        return tuple(self._with_needs(found).values())

    def fetch(self, packages: Sequence[Package], into: Path) -> None:
        """Downloads, checks and unpacks packages.

        Raises:
            InfrastructureError: a download or the disk failed.
        """
        debs = self._folder / "debs"
        debs.mkdir(parents=True, exist_ok=True)
        # it downloads into the folder that it runs in
        download = ["apt-get", *self._options, "download", *map(str, packages)]
        self._run(["env", f"--chdir={debs}", *download])
        into.mkdir(parents=True, exist_ok=True)
        for deb in sorted(debs.glob("*.deb")):
            self._run(["dpkg-deb", "--extract", str(deb), str(into)])
            deb.unlink()

    def _with_needs(self, found: dict[str, Package]) -> dict[str, Package]:
        ours = {package.source for package in found.values()}
        installed = self._installed()
        new = list(found.values())
        while new:
            names = {name for package in new for name in package.needs} - set(found)
            shown = self._show(sorted(n for n in names if not n.endswith("-dev")))
            new = [
                package
                for package in shown.values()
                if package.source in ours
                or (package.name not in installed and _LIBRARY.fullmatch(package.name))
            ]
            found |= {package.name: package for package in new}
        return found

    def _show(self, names: Iterable[str]) -> dict[str, Package]:
        """What apt knows of them; unknown names are left out."""
        if not (asked := list(names)):
            return {}
        command = ["apt-cache", *self._options, "show", "--no-all-versions", *asked]
        return {package.name: package for package in parse_packages(self._ask(command))}

    def _installed(self) -> frozenset[str]:
        form = "${db:Status-Status} ${Package}\n"
        lines = self._ask(["dpkg-query", "--show", f"--showformat={form}"]).splitlines()
        return frozenset(line.split()[1] for line in lines if line.startswith("installed "))

    def _update(self, progress: Progress) -> str:
        """Gets lists of our own; returns apt's first complaint.

        Sources that fail do not matter if others have what is wanted.
        """
        progress("asking apt's sources what they have")
        lists = self._folder / "lists"
        (lists / "partial").mkdir(parents=True, exist_ok=True)
        self._options += ["-o", f"Dir::State::lists={lists}", *self._own_sources()]
        complaints: list[str] = []

        def hear(line: str) -> None:
            if line.startswith(("W: ", "E: ")):
                complaints.append(line[3:])

        command = ["apt-get", *self._options, "update"]
        try:
            commands.follow(command, environ=self._env, on_line=hear, total_s=_UPDATE_S)
        except commands.ProgramTimeoutError as error:
            complaints.append(str(error))
        return f"{complaints[0]:.200}" if complaints else ""

    def _own_sources(self) -> list[str]:
        """Options for the file of sources, or the mirror, that `LH_APT_SOURCES` names."""
        if not self._sources:
            return []
        parts = self._folder / "sources"
        parts.mkdir(parents=True, exist_ok=True)
        lines = [source.line() for source in setting_sources(self._sources, _codename())]
        (parts / "lh.list").write_text("\n".join([*lines, ""]), encoding="utf-8")
        return ["-o", "Dir::Etc::sourcelist=/dev/null", "-o", f"Dir::Etc::sourceparts={parts}"]

    def _has(self, tool: str) -> bool:
        return shutil.which(tool, path=self._env.get("PATH", os.defpath)) is not None

    def _ask(self, command: Sequence[str]) -> str:
        try:
            return subprocess.run(
                command,
                env=self._env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_QUICK_S,
                check=False,
            ).stdout.decode("utf-8", "replace")
        except (OSError, subprocess.TimeoutExpired) as error:
            raise InfrastructureError(f"{command[0]} does not answer: {error}") from error

    def _run(self, command: Sequence[str]) -> None:
        lines: collections.deque[str] = collections.deque(maxlen=200)
        code = commands.follow(
            command,
            environ=self._env,
            on_line=lines.append,
            quiet_s=_QUIET_S,
        )
        if code:
            said = [line for line in lines if line.strip()] or [f"{command[0]}: exit code {code}"]
            told = [line for line in said if re.search(NO_SPACE, line)]
            told += [line for line in said if line.startswith(("E: ", "tar: ", "dpkg-deb: error"))]
            raise InfrastructureError(f"{(told or said[-1:])[0].removeprefix('E: '):.300}")


def parse_packages(text: str) -> list[Package]:
    """From the paragraphs that `apt-cache show` prints; the first of each name."""
    packages: dict[str, Package] = {}
    for paragraph in text.split("\n\n"):
        fields: dict[str, str] = dict(re.findall(r"(?m)^([A-Za-z-]+): (.*)$", paragraph))
        if "Package" not in fields or "Version" not in fields:
            continue
        needs = f"{fields.get('Pre-Depends', '')},{fields.get('Depends', '')}"
        names = [re.split(r"[\s:(|]", need.strip())[0] for need in needs.split(",")]
        package = Package(
            name=fields["Package"],
            version=fields["Version"],
            source=fields.get("Source", fields["Package"]).split()[0],
            size=int(fields.get("Size", "0")),
            needs=tuple(name for name in names if name),
        )
        packages.setdefault(package.name, package)
    return list(packages.values())


def _codename() -> str:
    """Of this system's release: `bookworm`."""
    try:
        return platform.freedesktop_os_release().get("VERSION_CODENAME", "stable")
    except OSError:
        return "stable"
