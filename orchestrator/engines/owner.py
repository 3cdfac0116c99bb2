"""Who left this behind: the orchestrator that a scratch folder or a container belongs to."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import dataclass
from pathlib import Path

from orchestrator import records


@dataclass(frozen=True, kw_only=True)
class Owner:
    """One process, told apart from a later one with the same number."""

    host: str
    boot: str
    """Id of the boot of that host."""
    namespace: str
    """Of process numbers."""
    pid: int
    start: int
    """When the process started, in ticks since the boot."""

    @staticmethod
    def current() -> Owner:
        """The process that asks."""
        return Owner(
            host=socket.gethostname(),
            boot=_boot(),
            namespace=_namespace(),
            pid=os.getpid(),
            start=_start_of(os.getpid()) or 0,
        )

    @staticmethod
    def parse(text: str) -> Owner | None:
        """From the text that `dumps` gave; None when it is no such text."""
        try:
            return records.decode(Owner, json.loads(text))
        except ValueError:
            return None

    def dumps(self) -> str:
        """One line of JSON."""
        return records.dumps(self)

    def gone(self) -> bool:
        """Whether it certainly ended; False when it runs, or cannot be seen from here."""
        if self.host != socket.gethostname():
            return False
        if self.boot != _boot():
            return True
        return self.namespace == _namespace() and _start_of(self.pid) != self.start


def _boot() -> str:
    return _read(Path("/proc/sys/kernel/random/boot_id")).strip()


def _namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _start_of(pid: int) -> int | None:
    """None: there is no such process, or only what is left of one."""
    fields = _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return int(fields[19]) if len(fields) > 19 and fields[0] not in {"Z", "X"} else None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
