"""Where pinned packages come from: folders of wheels first, then indexes that answer.

A package with an index of its own (PyTorch's CPU build) must come from that index or from a
folder, never from the default index, whose build for the same version pulls in CUDA. Whether a
place has it is found out here, in seconds; pip itself would retry a silent index for minutes.
"""

from __future__ import annotations

import functools
import os
import platform
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from packaging import tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from orchestrator.config.models import StackPins
from orchestrator.engines.index_pages import IndexSearch, redacted
from orchestrator.engines.pins import pin_problem
from orchestrator.engines.pip import PipConfig
from orchestrator.errors import InfrastructureError
from orchestrator.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Target:
    """The Python that wheels are for."""

    python: str
    """`3.11`."""
    arch: str
    """As `uname -m` says: `x86_64`, `aarch64`."""
    glibc: tuple[int, int]

    @staticmethod
    def host(python: str) -> Target:
        """That Python on this machine."""
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "glibc 2.17").partition(" ")
        major, minor = (version.split(".") if name == "glibc" else ["2", "17"])[:2]
        return Target(python=python, arch=platform.machine(), glibc=(int(major), int(minor)))

    def tags(self) -> frozenset[tags.Tag]:
        """Every tag of a wheel that this Python can install."""
        version = tuple(int(part) for part in self.python.split("."))
        names = [f"manylinux_2_{minor}" for minor in range(self.glibc[1], 4, -1)]
        names += ["manylinux2014", "manylinux2010", "manylinux1", "linux"]
        platforms = [f"{name}_{self.arch}" for name in names]
        interpreter = f"cp{''.join(map(str, version))}"
        return frozenset(tags.cpython_tags(version, platforms=platforms)) | frozenset(
            tags.compatible_tags(version, interpreter, platforms)
        )

    def __str__(self) -> str:
        return f"Python {self.python} on {self.arch}"


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Where each pinned package comes from."""

    wheels: Mapping[str, Path] = field(default_factory=dict)
    """Package to the wheel file on this machine that has it."""
    others: Mapping[str, str] = field(default_factory=dict)
    """Package to version, for pip to get from an index."""
    extra_indexes: tuple[str, ...] = ()
    """Indexes that answered, for packages which the default index does not have."""

    def pip_args(self, folder: str | None = None) -> list[str]:
        """Arguments for `pip install` that get exactly these packages and nothing else.

        `folder`: where the wheel files are when pip runs, if they are copied (or mounted)
        somewhere else first.
        """
        args = ["--no-deps", "--only-binary=:all:"]
        for index in self.extra_indexes:
            args += ["--extra-index-url", index]
        args += [
            f"{folder}/{wheel.name}" if folder else str(wheel) for wheel in self.wheels.values()
        ]
        return args + [f"{name}=={version}" for name, version in self.others.items()]


def sources(
    root: Path,
    stack: str,
    pins: StackPins,
    *,
    target: Target,
    settings: Settings,
    config: PipConfig,
) -> Sources:
    """Finds every pinned package: in a folder of wheels, or in an index that answers.

    Args:
        root: of the repository, to point at a pin that is wrong.
        stack: its name.
        pins: its pins.
        target: the Python that will use the wheels.
        settings: of this machine.
        config: pip's own, see `pip.read_config`.

    Raises:
        InfrastructureError: a package with an index of its own is in no folder, and its index
            does not answer; names everything that was looked at.
        DefinitionError: its index answers and does not have that version for `target`.
    """
    folders = [*settings.wheels, *filter(None, map(_as_folder, config.find_links))]
    usable = target.tags()
    wheels: dict[str, Path] = {}
    others: dict[str, str] = {}
    answered: dict[str, None] = {}
    for name, version in pins.packages.items():
        if wheel := find_wheel(folders, name, version, usable):
            wheels[name] = wheel
            continue
        others[name] = version
        if (own := pins.indexes.get(name)) is None:
            continue
        fits = functools.partial(is_wheel_of, name=name, version=version, usable=usable)
        search = IndexSearch(name, fits, settings.ca_bundle)
        index = search.first_with_it([*(i for i in config.indexes if i != own), own])
        if index is None and not search.silent:
            path = ("stacks", stack, "packages", name)
            told = f"{redacted(own)} has no wheel of {version} for {target}. Pin one that it has."
            raise pin_problem(root, path, told)
        if index is None:
            raise _nobody_answered(f"stack {stack}: {name} {version} for {target}", folders, search)
        answered[index] = None
    return Sources(wheels=wheels, others=others, extra_indexes=tuple(answered))


def find_wheel(
    folders: Iterable[Path], name: str, version: str, usable: frozenset[tags.Tag]
) -> Path | None:
    """The first wheel in `folders` with exactly that name and version that is usable."""
    for folder in folders:
        try:
            files = sorted(path for path in folder.iterdir() if path.suffix == ".whl")
        except OSError:
            continue
        for path in files:
            if is_wheel_of(path.name, name, version, usable):
                return path
    return None


def _as_folder(link: str) -> Path | None:
    if link.startswith("file://"):
        link = urllib.parse.unquote(urllib.parse.urlsplit(link).path)
    elif "://" in link:
        return None
    path = Path(link).expanduser()
    try:
        return path.absolute() if path.is_dir() else None
    except OSError:  # in a folder of somebody else's
        return None


def is_wheel_of(filename: str, name: str, version: str, usable: frozenset[tags.Tag]) -> bool:
    """Whether a file of that name is a wheel with exactly that version, and usable."""
    if canonicalize_name(filename.partition("-")[0]) != canonicalize_name(name):
        return False  # cheap, and most files
    try:
        _, found, _, wheel_tags = parse_wheel_filename(filename)
        return found == Version(version) and not wheel_tags.isdisjoint(usable)
    except (InvalidWheelFilename, InvalidVersion):
        return False


def _nobody_answered(
    wanted: str, folders: Sequence[Path], search: IndexSearch
) -> InfrastructureError:
    return InfrastructureError(
        f"{wanted} was found nowhere. Folders of wheels: {', '.join(map(str, folders)) or 'none'}. "
        f"No answer: {'; '.join(search.silent)}. Name a folder that has the wheel in LH_WHEELS "
        "(or in pip's find-links), or an index that has it in LH_PIP_ARGS=--extra-index-url=…"
    )
