"""One look at a vendor's GPUs: the kernel log, then the vendor's tool or sysfs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from orchestrator.health import kernel_log, smi
from orchestrator.health.evidence import Evidence, Vendor, against, distinct
from orchestrator.health.kernel_source import KMSG, Kmsg, Source, open_other
from orchestrator.health.programs import Programs, Said
from orchestrator.health.smi import Gauge, Reading

ASK_S = 15.0
"""How long a vendor's tool may take. Twice that, and what lies between, must fit in a minute."""
ASK_EVERY_S = 15.0
"""Between two questions to it: each one takes locks in the driver that cells want too."""
DRM = Path("/sys/class/drm")
_PCI_VENDORS = {"nvidia": "0x10de", "amd": "0x1002", "intel": "0x8086"}


@dataclass(frozen=True, kw_only=True)
class Look:
    """What one look found. Times are in seconds of the clock that is monotonic."""

    began: float
    ended: float
    evidence: tuple[Evidence, ...] = ()
    gauges: tuple[Gauge, ...] = ()
    """Empty when nothing was asked, or nothing answered."""
    answered: bool | None = None
    """Whether the GPUs answered and are well; None: nobody can be asked, or it was not time."""


class Looker:
    """Looks at the GPUs of one vendor, again and again; compares with what it found first."""

    def __init__(
        self,
        vendor: Vendor,
        monotonic: Callable[[], float],
        *,
        kmsg: Path = KMSG,
        drm: Path = DRM,
        programs: Programs | None = None,
        ask_s: float = ASK_S,
    ) -> None:
        """What the kernel logs counts from now on."""
        self._vendor: Vendor = vendor
        self._monotonic = monotonic
        self._drm = drm
        self._programs = programs or Programs()
        self._ask_s = ask_s
        self._fields: tuple[str, ...] = smi.NVIDIA_FIELDS
        self._first: Reading | None = None
        self._asked: float | None = None
        self._slow = False
        self._complained = False
        self._source: Source | None = None
        self._no_kmsg = ""
        try:
            self._source = Kmsg(kmsg)
        except OSError as error:
            self._no_kmsg = f"{kmsg}: {error.strerror}"

    def look(self, *, thorough: bool) -> Look:
        """Blocks for as long as programs are allowed to. `thorough`: ask, though just asked."""
        began = self._monotonic()
        evidence = list(self._kernel())
        gauges: tuple[Gauge, ...] = ()
        answered: bool | None = None
        if thorough or self._asked is None or began >= self._asked + ASK_EVERY_S:
            self._asked = began
            reading, answered = self._ask()
            gauges = reading.gauges
            evidence += reading.evidence
            evidence += smi.new_since(self._first, reading) if self._first else ()
            if self._first is None and reading.answered:
                self._first = reading
        return Look(
            began=began,
            ended=self._monotonic(),
            evidence=distinct(evidence),
            gauges=gauges,
            answered=answered,
        )

    def stop(self) -> None:
        """Ends a program that runs; from any thread."""
        self._programs.stop()

    def close(self) -> None:
        """Lets go of what is open; not while a look is under way."""
        if self._source is not None:
            self._source.close()

    def _kernel(self) -> tuple[Evidence, ...]:
        if self._source is None:
            self._source = open_other(self._programs, self._no_kmsg)
        if self._source.problem:
            return self._complain(f"kernel log not readable: {self._source.problem}")
        return kernel_log.read(self._source.records(), self._vendor)

    def _complain(self, text: str) -> tuple[Evidence, ...]:
        """Once: it stays so."""
        if self._complained:
            return ()
        self._complained = True
        return (Evidence(kind="unreadable", blame="nobody", text=text),)

    def _ask(self) -> tuple[Reading, bool | None]:
        if self._vendor == "nvidia":
            return self._ask_nvidia()
        if self._vendor == "amd":
            for argv in (smi.AMD_SMI, smi.ROCM_SMI):
                said = self._programs.ask(argv, self._ask_s)
                if said.end != "missing":
                    return self._judged(argv[0], said, smi.amd)
        return self._ask_sysfs()

    def _ask_nvidia(self) -> tuple[Reading, bool | None]:
        said = self._programs.ask(smi.nvidia_argv(self._fields), self._ask_s)
        while said.code and (unknown := smi.unknown_field(said)) in self._fields[1:]:
            self._fields = tuple(name for name in self._fields if name != unknown)
            said = self._programs.ask(smi.nvidia_argv(self._fields), self._ask_s)
        if said.end == "missing":
            return self._ask_sysfs()
        return self._judged("nvidia-smi", said, lambda said, _: smi.nvidia(said, self._fields))

    def _judged(
        self, program: str, said: Said, read: Callable[[Said, str], Reading]
    ) -> tuple[Reading, bool | None]:
        """The reading of an answer; what is to be thought of it when none came."""
        if said.end == "exit":
            self._slow = False
            reading = read(said, program)
            if against(reading.evidence, "device"):
                return reading, False
            return reading, True if reading.answered else None
        stuck = said.end == "stuck"
        text = f"{program} gave no answer within {self._ask_s:g} s"
        if stuck:
            text = f"{program} sleeps in the driver and cannot be killed"
        # a busy machine can be slow once
        hung = stuck or self._slow
        self._slow = True
        text += ", twice in a row" if hung and not stuck else ""
        piece = Evidence(kind="tool", blame="device" if hung else "nobody", text=text, code="hung")
        return Reading(evidence=(piece,)), False

    def _ask_sysfs(self) -> tuple[Reading, bool | None]:
        """Which GPUs the kernel has. These files are the kernel's own: reading wakes no device."""
        there = []
        for vendor_file in sorted(self._drm.glob("card*/device/vendor")):
            try:
                if vendor_file.read_text().strip() == _PCI_VENDORS[self._vendor]:
                    there.append(Gauge(gpu=vendor_file.parent.resolve().name))
            except OSError:
                continue
        reading = Reading(gauges=tuple(there), answered=bool(there) or self._first is not None)
        return reading, None
