"""Files that are either there and whole, or not there."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from orchestrator.errors import InfrastructureError

_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)
TEMPORARY = ".tmp"
"""How names of files end that are being written; they begin with a dot."""


def write_atomically(path: Path, data: bytes) -> None:
    """Writes `data` to `path` through a temporary file beside it; readers see old or new.

    Raises:
        InfrastructureError: the disk is full, or cannot be written; what was there stays.
    """
    with _written_beside(path, data) as temporary:
        temporary.replace(path)


def create_atomically(path: Path, data: bytes) -> bool:
    """Writes `data` to `path` if nothing is there, and says whether; of several, one wins.

    A file that is there afterwards is whole, also after a power cut.

    Raises:
        InfrastructureError: the disk is full, cannot be written, or has no hard links.
    """
    with _written_beside(path, data) as temporary:
        try:
            # unlike a rename, a link fails where there is a file: also between machines, on NFS
            path.hardlink_to(temporary)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            raise InfrastructureError(
                f"cannot create {path}: its file system has no hard links. Choose another folder."
            ) from error
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    return True


@contextlib.contextmanager
def _written_beside(path: Path, data: bytes) -> Iterator[Path]:
    """A whole temporary file in the folder of `path`; gone afterwards."""
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=TEMPORARY)
        temporary = Path(name)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp gives 0600; results are for everyone who may read the folder
        temporary.chmod(0o644)
        yield temporary
    except OSError as error:
        raise unwritable(path, error) from error
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                temporary.unlink()


def remove_temporary(folder: Path) -> None:
    """Removes what was being written anywhere below a folder when its writer was killed.

    Only for who alone writes there.
    """
    for path in list(folder.rglob(f".*{TEMPORARY}")):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                path.unlink()


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
