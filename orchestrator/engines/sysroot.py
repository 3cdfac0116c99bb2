"""A stack's system packages for the `venv` engine: unpacked, without root, beside its state.

A machine without them runs nothing that needs them; the reason is told and recorded, not raised.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from orchestrator.engines import guard
from orchestrator.engines.base import Progress
from orchestrator.engines.debs import Apt
from orchestrator.engines.locks import exclusive, if_free
from orchestrator.errors import InfrastructureError
from orchestrator.settings import Settings

_FETCH = ".fetch-"
_VULKAN = "vulkan.json"
_OPENCL = "opencl-vendors"


@dataclass(frozen=True, kw_only=True)
class Sysroot:
    """Unpacked packages, or why there are none."""

    folder: Path | None
    note: str
    """In a few words; empty where the stack has no system packages."""


def find(
    stack: str,
    packages: Mapping[str, str],
    state: Path,
    settings: Settings,
    environ: Mapping[str, str],
    progress: Progress,
) -> Sysroot:
    """The packages of a stack below `state`, fetched unless they are there."""
    if not packages:
        return Sysroot(folder=None, note="")
    digest = hashlib.sha256(json.dumps(dict(packages), sort_keys=True).encode()).hexdigest()
    target = state / f"{stack}-{digest[:12]}"
    if target.is_dir():
        return Sysroot(folder=target, note=str(target))
    try:
        state.mkdir(parents=True, exist_ok=True)
        with exclusive(target.with_suffix(".lock"), f"stack {stack}", progress):
            if not target.is_dir():
                _fetch(stack, packages, target, settings, environ, progress)
    except (InfrastructureError, OSError) as error:
        reason = f"the system packages of stack {stack} could not be fetched: {error}"
        progress(reason)
        return Sysroot(folder=None, note=reason)
    return Sysroot(folder=target, note=str(target))


def sweep(state: Path) -> list[str]:
    """Removes what fetches that were killed left; returns what was removed."""
    left = sorted(state.glob(f"{_FETCH}*"))
    with contextlib.ExitStack() as stack:
        # a fetch holds its stack's lock: what lies about while none is held is nobody's
        locks = [stack.enter_context(if_free(lock)) for lock in sorted(state.glob("*.lock"))]
        if not all(locks):
            return []
        for folder in left:
            guard.remove_tree(folder)
    return [str(folder) for folder in left]


def _fetch(
    stack: str,
    packages: Mapping[str, str],
    target: Path,
    settings: Settings,
    environ: Mapping[str, str],
    progress: Progress,
) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=_FETCH) as folder:
        apt = Apt(Path(folder, "apt"), settings, environ)
        needed = apt.closure(packages, progress)
        size = sum(package.size for package in needed) / 1e6
        progress(f"stack {stack}: fetching {len(needed)} system packages ({size:.0f} MB)")
        root = Path(folder, "root")
        apt.fetch(needed, root)
        _relocate(root, target)
        guard.remove_tree(target)
        root.rename(target)


def _relocate(root: Path, target: Path) -> None:
    """Registers the drivers in `root` as they will be found at `target`."""
    for manifest in sorted(root.glob("usr/share/vulkan/icd.d/lvp_icd.*.json")):
        document = json.loads(manifest.read_text(encoding="utf-8"))
        library = str(document["ICD"]["library_path"]).lstrip("/")
        if "/" not in library:
            library = str(next(root.glob(f"usr/lib/*/{library}")).relative_to(root))
        document["ICD"]["library_path"] = str(target / library)
        (root / _VULKAN).write_text(json.dumps(document), encoding="utf-8")
    vendors = root / _OPENCL
    vendors.mkdir()
    for manifest in sorted(root.glob("etc/OpenCL/vendors/*.icd")):
        library = manifest.read_text(encoding="utf-8").strip()
        # Intel's has a path, into a folder of its own
        where = library.lstrip("/") if "/" in library else f"usr/lib/*/{library}"
        for found in sorted(root.glob(where))[:1]:
            there = target / found.relative_to(root)
            (vendors / manifest.name).write_text(f"{there}\n", encoding="utf-8")


def environment(folder: Path, path: str) -> dict[str, str]:
    """What a process needs to find the packages; `path` is its PATH so far."""
    libraries = [*folder.glob("usr/lib/*-linux-gnu*"), *folder.glob("lib/*-linux-gnu*")]
    found = {
        "LH_SYSROOT": str(folder),
        "LD_LIBRARY_PATH": os.pathsep.join(map(str, sorted(libraries))),
        "PATH": f"{path}:{folder / 'usr/bin'}",
    }
    with contextlib.suppress(OSError):
        if (folder / _VULKAN).is_file():
            found |= dict.fromkeys(("VK_DRIVER_FILES", "VK_ICD_FILENAMES"), str(folder / _VULKAN))
        if any((folder / _OPENCL).iterdir()):
            found["OCL_ICD_VENDORS"] = f"{folder / _OPENCL}/"
    return found
