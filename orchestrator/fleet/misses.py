"""What kept an attempt from a verdict: the kinds of `miss`, and what to look at. Pure.

Kinds are told by what our own code, Docker, the kernel and package tools say; see the list below.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence

from orchestrator.health.evidence import Evidence, against
from orchestrator.health.judge import SEEN, either


class Kind(enum.StrEnum):
    """Why there is no verdict."""

    LOST = "lost"
    PULL = "pull"
    DISK = "disk"
    MEMORY = "memory"
    CLOCK = "clock"
    DAEMON = "daemon"
    DEVICE = "device"
    HANG = "hang"
    STALL = "stall"
    RESULT = "result"
    UNCLAIMED = "unclaimed"
    JOB = "job"
    OTHER = "other"

    @property
    def own(self) -> bool:
        """Whether it speaks against the machine; else it has to prove itself, without a strike."""
        return self not in (Kind.PULL, Kind.HANG, Kind.UNCLAIMED, Kind.JOB)

    @property
    def look(self) -> str:
        """What the machine's owner should look at."""
        return _LOOK[self]


_LOOK = {
    Kind.LOST: "The machine or its connection went away in the middle of a job: look for reboots, "
    "suspends and network faults at that time (journalctl --list-boots).",
    Kind.PULL: "Packages or images could not be fetched: look at the network, mirrors and proxy.",
    Kind.DISK: "The disk is full: `docker system df` and `lh-ci clean` show what can go.",
    Kind.MEMORY: "Something outside the cell's own limit ended it, most likely the kernel when "
    "memory ran out: look for 'Out of memory' in dmesg, and for what else runs on the machine.",
    Kind.CLOCK: "The clock jumped or is wrong: look at timedatectl and time synchronisation.",
    Kind.DAEMON: "The container engine stopped answering: look at `systemctl status docker` and at "
    "its log.",
    Kind.DEVICE: "The GPU or its driver is at fault: look at dmesg and nvidia-smi or amd-smi; a "
    "reset or a reboot often helps.",
    Kind.HANG: "A kernel that never ends and a GPU that hangs look the same: control runs tell.",
    Kind.STALL: "The harness fell silent: the machine was overloaded, swapped or stood still. Look "
    "at its load and memory at that time.",
    Kind.RESULT: "What came back was no result: look at the agent's log, disk and version.",
    Kind.UNCLAIMED: "No machine took the job: look at which agents are connected.",
    Kind.JOB: "The same job fails on many machines: nothing is to be done on this one.",
    Kind.OTHER: "Look at the log of the job, which says what happened.",
}
_SAID: dict[Kind, tuple[str, ...]] = {
    # the last: an image that a control run asks for
    Kind.JOB: (r"would not run it \(", r"refused \(quarantined\)", "is gone from this machine"),
    Kind.UNCLAIMED: (r"no machine of pool \S+ took the job", "before a machine took it"),
    Kind.CLOCK: (
        *(r"clock (?:jumped|is off|skew)", "not yet valid", "not valid yet", "in the future"),
    ),
    Kind.DISK: (
        *("no space left", "disk is full", "disk quota exceeded", "enough free space"),
        "Make room",
    ),
    Kind.DEVICE: (
        *(SEEN, "the device did not come back", "GPU is lost", "no NVIDIA runtime"),
        "could not select device driver",
    ),
    Kind.MEMORY: (
        *("killed: out of memory", r"killed from outside \(SIGKILL\)", "ran out of memory"),
        *("is out of memory", "too little memory", "Cannot allocate memory"),
    ),
    Kind.PULL: (
        *("could not reach where packages come from", "pull access denied", "toomanyrequests"),
        *("manifest unknown", "error pulling", "failed to pull", "certificate is not trusted"),
        *("failure in name resolution", "Could not resolve", "pip failed"),
    ),
    Kind.DAEMON: (
        *("engine stopped answering", r"no engine(?: answers)? at", "Docker daemon"),
        *("container was removed from outside", "is no longer there", "could not even start"),
        *(r"could not be (?:run|started)", "is broken"),
        *("guards the job died", "guard process died", "it could not run"),
        r"killed from outside \(SIGTERM\)",
    ),
    Kind.LOST: (
        *("was lost", "went away", r"connection (?:was )?(?:lost|closed|reset)"),
        r"(?:worker|agent) (?:lost|stopped|disconnected)",
    ),
    Kind.RESULT: (
        *("parcel refused", "is no parcel", "brought back no results", "not finished"),
        *("results of another order", "without a result", r"refused \("),
        *("is not the file that was planned", "of the job cannot be read"),
        r"the job ended(?: under this cell| while [^:]+ ran)?: exit \d",
    ),
    Kind.STALL: ("harness stopped answering", "harness did not answer within"),
}
_PATTERNS = {kind: re.compile("|".join(said), re.IGNORECASE) for kind, said in _SAID.items()}
_BEFORE_HANGS = (Kind.UNCLAIMED, Kind.CLOCK, Kind.DISK)


def kind_of(phase: str, message: str, evidence: Sequence[Evidence] = ()) -> Kind:
    """The kind of a `miss`, by its phase, its message and what was seen of the GPU."""
    if against(evidence, "device"):
        return Kind.DEVICE
    found = next((kind for kind, said in _PATTERNS.items() if said.search(message)), Kind.OTHER)
    if found not in _BEFORE_HANGS and either(phase, message, evidence):
        return Kind.HANG
    return found
