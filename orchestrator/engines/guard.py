"""The small process between the orchestrator and a job that runs on this machine.

It starts the job's command, and when the command ends, or the orchestrator says so or is gone
(even by SIGKILL), it ends every process that came from it, in whatever session or group, and
removes the job's scratch folder. Run as a script of its own, with the standard library alone: it
has one thread, so it can fork and change namespaces safely, which the orchestrator cannot.

Its argument is JSON: `argv`, `env`, `cwd`, `remove` (a folder), `max_file_bytes`, and two file
descriptors: `lifeline`, whose end of file means stop, and `status`, where it writes two lines of
JSON: `{"network": …}` or `{"error": …}` when the job has started or could not, and
`{"code": …, "stopped": …}` at the end.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import resource
import select
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 0x1
_OOM_SCORE = "500"
"""When memory runs out, the kernel takes a job before it takes what else runs here."""
_PATIENCE_S = 10.0
"""For processes to die of SIGKILL; one that hangs in the kernel may not."""


def main(argument: str) -> None:
    """Keeps one job from its start to its end."""
    spec = json.loads(argument)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    wakeup = _catch_signals()
    network = "none" if cut_network(libc) else "host"
    try:
        job = _start(spec, libc)
    except OSError as error:
        _say(spec["status"], {"error": str(error)})
        return
    _say(spec["status"], {"network": network})
    code = _wait(job.pid, spec["lifeline"], wakeup)
    end_descendants()
    remove_tree(Path(spec["remove"]))
    _say(spec["status"], {"code": code, "stopped": code is None})


def _say(status: int, message: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):  # nobody may be left to hear it
        os.write(status, json.dumps(message).encode() + b"\n")


def cut_network(libc: ctypes.CDLL) -> bool:
    """Moves this process to a network of its own with only a loopback, where the kernel lets it."""
    uid, gid = os.geteuid(), os.getegid()
    if uid == 0:
        # no user namespace: root would lose its access to other users' files
        if libc.unshare(_CLONE_NEWNET):
            return False
    else:
        if libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET):
            return False
        with contextlib.suppress(OSError):
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
            Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    with contextlib.suppress(OSError):
        _raise_loopback()
    return True


def _raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        request = struct.pack("16sh22x", b"lo", 0)
        answer = fcntl.ioctl(probe, _SIOCGIFFLAGS, request)
        (flags,) = struct.unpack_from("h", answer, 16)
        fcntl.ioctl(probe, _SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", flags | _IFF_UP))


def _start(spec: dict[str, Any], libc: ctypes.CDLL) -> subprocess.Popen[bytes]:
    guard = os.getpid()

    def limit() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != guard:  # it died before that
            os.kill(os.getpid(), signal.SIGKILL)
        _lower(resource.RLIMIT_CORE, 0)
        _lower(resource.RLIMIT_FSIZE, spec["max_file_bytes"])
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE)

    return subprocess.Popen(
        spec["argv"],
        env=spec["env"],
        cwd=spec["cwd"],
        stdin=subprocess.DEVNULL,
        preexec_fn=limit,  # noqa: PLW1509  one thread: safe
    )


def _lower(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (bound, bound))


def _catch_signals() -> int:
    """A file descriptor that gets the number of each signal that arrives."""
    reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    ignore: Callable[..., None] = lambda *_: None  # noqa: E731  a handler, so that the job has the default
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, ignore)
    return reader


def _wait(job: int, lifeline: int, wakeup: int) -> int | None:
    """The job's exit code, negative for a signal; None when it was to be stopped first."""
    while True:
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG)) != (0, 0):
                if found[0] == job:
                    return os.waitstatus_to_exitcode(found[1])
        ready, _, _ = select.select([lifeline, wakeup], [], [])
        if lifeline in ready or signal.SIGTERM in os.read(wakeup, 4096):
            return None


def end_descendants() -> None:
    """Kills and reaps until there is no child left: orphans become this process's children."""
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        for pid in descendants(os.getpid()):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        except ChildProcessError:
            return
        time.sleep(0.005)


def descendants(root: int) -> list[int]:
    """Children, their children, and so on, as `/proc` shows them now."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                # the command's name, in parentheses, may have anything in it
                after = (entry / "stat").read_bytes().rpartition(b")")[2].split()
                children.setdefault(int(after[1]), []).append(int(entry.name))
    found: list[int] = []
    todo = [root]
    while todo:
        todo += (new := children.get(todo.pop(), []))
        found += new
    return found


def end_processes_at(home: Path) -> list[int]:
    """Kills what still runs with that home folder, where no guard is left to do it."""
    mark = f"HOME={home}".encode()
    ended: list[int] = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):  # another user's, or gone by now
            if entry.name.isdecimal() and mark in (entry / "environ").read_bytes().split(b"\0"):
                os.kill(int(entry.name), signal.SIGKILL)
                ended.append(int(entry.name))
    return ended


def remove_tree(folder: Path) -> None:
    """Removes a folder and all below, also what its owner may not write; never raises."""
    shutil.rmtree(folder, ignore_errors=True)
    if os.path.lexists(folder):
        _make_writable(folder)
        for base, folders, _ in os.walk(folder):  # a folder is listed after it was opened up
            for name in folders:
                _make_writable(Path(base, name))
        shutil.rmtree(folder, ignore_errors=True)


def _make_writable(folder: Path) -> None:
    with contextlib.suppress(OSError):
        if not folder.is_symlink():
            folder.chmod(stat.S_IRWXU)


if __name__ == "__main__":
    main(sys.argv[1])
