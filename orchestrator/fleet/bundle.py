"""What an agent sends back: an output folder of `lh-ci exec` in one file, signed.

A bundle is an archive (`orchestrator.fleet.archive`) whose first file, `manifest.json`, is the
signed manifest; then come the manifest's files, in this sequence, with the sizes it says:

    manifest.json                      `Manifest`, in the envelope of `orchestrator.fleet.signed`
    artifacts/<cell>/<path>            as cells left them, any bytes
    exec.json                          the summary of the execution
    log.txt                            what was printed meanwhile
    results/<cell>.<attempt>.json      `orchestrator.results.schema.Result`
    run.json                           `orchestrator.results.schema.RunInfo`; may be absent

A job that an agent would not run comes back as an archive of one file, `declined.json`: `Declined`,
in an envelope, too.

Here are its names and rules; `orchestrator.fleet.packing` writes one, `orchestrator.fleet.intake`
takes one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from orchestrator.job import is_plain_path

MANIFEST = "manifest.json"
MANIFEST_TYPE = "application/vnd.lighthouse-ci.results+json;version=1"
DECLINED = "declined.json"
DECLINED_TYPE = "application/vnd.lighthouse-ci.declined+json;version=1"
SUFFIX = ".results.tar.gz"
EXEC, INFO, LOG = "exec.json", "run.json", "log.txt"

_RESULT = re.compile(r"results/(?P<cell>[A-Za-z0-9_.@+-]+)\.(?P<attempt>[1-9][0-9]{0,2})\.json")
_ARTIFACT = re.compile(r"artifacts/(?P<cell>[^/]+)/.+")
_MAX_NAME = 250
_LONGEST_PART = 100
"""Characters of a file's own name, and 155 of the folders above it: what ustar has room for."""


@dataclass(frozen=True, kw_only=True)
class PackedFile:
    """A file of a bundle."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a bundle holds, and which warrant it answers."""

    job: str
    digest: str
    agent: str
    pool: str
    nonce: str
    packed: str
    """UTC, ISO 8601."""
    files: tuple[PackedFile, ...]
    left_out: int
    """Artifacts for which there was no room."""
    schema: int = 1


@dataclass(frozen=True, kw_only=True)
class Declined:
    """A job that an agent would not run."""

    job: str
    agent: str
    kind: str
    """`refusal.Kind`."""
    why: str
    at: str
    """UTC, ISO 8601."""
    schema: int = 1


def result_of(name: str) -> tuple[str, int] | None:
    """Cell and attempt of a result's file; None when it is none."""
    match = _RESULT.fullmatch(name)
    return (match["cell"], int(match["attempt"])) if match else None


def cell_of(name: str) -> str | None:
    """The cell that an artifact belongs to; None when it is none."""
    match = _ARTIFACT.fullmatch(name)
    return match["cell"] if match else None


class Names:
    """The names of a bundle, no two of which are one file or folder on any machine."""

    def __init__(self) -> None:
        """There are none yet."""
        self._files: set[str] = set()
        self._folders: dict[str, str] = {}

    def add(self, name: str) -> bool:
        """Takes a name; False: it collides with one that was taken, and is not taken."""
        folders = [str(folder) for folder in PurePosixPath(name).parents][:-1]
        file = name.casefold()
        if file in self._files or file in self._folders:
            return False
        for folder in folders:
            folded = folder.casefold()
            if folded in self._files or self._folders.get(folded, folder) != folder:
                return False
        self._files.add(file)
        self._folders.update((folder.casefold(), folder) for folder in folders)
        return True


def is_safe(name: str) -> bool:
    """Whether a bundle may have a file of that name: relative, plain, fit for ustar."""
    folders, _, own = name.rpartition("/")
    fits = len(own) <= _LONGEST_PART and len(folders) <= _MAX_NAME - _LONGEST_PART
    return fits and all(is_plain_path(part) for part in name.split("/"))
