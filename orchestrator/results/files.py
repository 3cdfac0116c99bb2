"""Files that are either there and whole, or not there."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from orchestrator.errors import InfrastructureError


def write_atomically(path: Path, data: bytes) -> None:
    """Writes `data` to `path` through a temporary file beside it; readers see old or new.

    Raises:
        InfrastructureError: the disk is full, or cannot be written; what was there stays.
    """
    temporary: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp gives 0600; results are for everyone who may read the folder
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except OSError as error:
        if temporary is not None:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()
        raise unwritable(path, error) from error


def unwritable(path: Path, error: OSError) -> InfrastructureError:
    """What to tell people when a file cannot be written."""
    return InfrastructureError(
        f"cannot write {path}: {error.strerror or error}. "
        "Make room (`lh-ci clean` shows what can go) or set LH_STATE to another disk; "
        "what was written before is kept."
    )


def tree_bytes(path: Path) -> int:
    """Bytes that a file or a folder holds, links not followed; 0 when it is gone."""
    try:
        if path.is_symlink() or not path.is_dir():
            return path.lstat().st_size
        return sum(tree_bytes(child) for child in path.iterdir())
    except OSError:
        return 0
