"""Stands for `lh-ci` on a machine: writes down what it was asked, and ends when it is told to.

Run as a program: `stub.py CONTROL WORDS...`. What `exec` was asked is in `CONTROL/<job>.<n>.json`;
it ends when somebody opens the pipe beside that file. What `pack` was asked
is in `CONTROL/<job>.packed`; it makes an archive. Anything else is done by `lh-ci` itself.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[3]
RESULT = "result.txt"
INTERRUPTED = 130


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of every file below a folder."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def carry_out(control: Path, words: list[str]) -> None:
    """What `lh-ci exec` stands for."""
    job = json.loads(Path("job/job.json").read_bytes())["id"]
    out = Path("out")
    out.mkdir(exist_ok=True)
    (out / RESULT).write_text(job)
    place = control / f"{job}.{os.getpid()}"
    pipe = place.with_suffix(f"{place.suffix}.pipe")
    os.mkfifo(pipe)
    record = {"argv": ["lh-ci", *words], "job": digests(Path("job")), "pid": os.getpid()}
    part = place.with_suffix(f"{place.suffix}.part")
    part.write_text(json.dumps(record))
    part.rename(place.with_suffix(f"{place.suffix}.json"))
    with pipe.open():
        pass


def pack(control: Path, words: list[str]) -> None:
    """What `lh-ci pack` stands for."""
    job = json.loads(Path("job/job.json").read_bytes())["id"]
    with (control / f"{job}.packed").open("a") as file:
        file.write(json.dumps(["lh-ci", *words]) + "\n")
    with tarfile.open(words[2], "w:gz") as tar:
        tar.add(words[1], ".")


def _stopped(number: int, frame: object) -> None:
    sys.exit(INTERRUPTED)


def main() -> None:
    """One command."""
    control, words = Path(sys.argv[1]), sys.argv[2:]
    if words[0] == "exec":
        signal.signal(signal.SIGTERM, _stopped)
        carry_out(control, words)
        return
    if words[0] == "pack":
        pack(control, words)
        return
    sys.path.insert(0, str(ROOT))
    from orchestrator.cli import cli

    cli.main(words)


if __name__ == "__main__":
    main()
