"""Looking at GPUs: the kernel log, the vendor's tool, sysfs, against what was there first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from orchestrator.health.evidence import Vendor
from orchestrator.health.look import ASK_EVERY_S, ASK_S, Look, Looker
from orchestrator.health.programs import Said
from orchestrator.health.smi import Gauge
from tests.fakes import FakeTime
from tests.health.stubs import StubPrograms, said

WELL = "00000000:65:00.0, 0, 0, [N/A], No, None\n"
ECC = "00000000:65:00.0, 0, 2, [N/A], No, None\n"


class Machine:
    """A machine with GPUs that are watched."""

    def __init__(self, folder: Path) -> None:
        self.kmsg = folder / "kmsg"
        self.kmsg.write_text("")
        self.drm = folder / "drm"
        self.drm.mkdir()
        self.time = FakeTime()
        self.programs = StubPrograms({"nvidia-smi": said(WELL)})
        self.lookers: list[Looker] = []

    def looker(self, vendor: Vendor = "nvidia") -> Looker:
        self.lookers.append(
            Looker(
                vendor,
                lambda: self.time.seconds,
                kmsg=self.kmsg,
                drm=self.drm,
                programs=self.programs,
            )
        )
        return self.lookers[-1]

    def log(self, line: str) -> None:
        with self.kmsg.open("a") as file:
            file.write(f"3,1,1,-;{line}\n")

    def card(self, number: int, vendor: str) -> Path:
        device = self.drm / f"devices/0000:0{number}:00.0"
        device.mkdir(parents=True)
        (device / "vendor").write_text(f"{vendor}\n")
        card = self.drm / f"card{number}"
        card.mkdir()
        (card / "device").symlink_to(device)
        return card


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path)
    yield machine
    for looker in machine.lookers:
        looker.close()


def test_all_is_well(machine: Machine) -> None:
    look = machine.looker().look(thorough=True)
    gauge = Gauge(gpu="00000000:65:00.0", busy=0, uncorrected=0, pending=False)
    assert look == Look(began=1000.0, ended=1000.0, gauges=(gauge,), answered=True)


def test_the_kernel_log_counts_from_the_beginning_of_a_job_on(machine: Machine) -> None:
    machine.log("NVRM: Xid (PCI:0000:65:00): 79, GPU has fallen off the bus.")
    looker = machine.looker()
    machine.log("NVRM: Xid (PCI:0000:65:00): 31, pid=1, name=python3, MMU Fault")
    assert [piece.code for piece in looker.look(thorough=True).evidence] == ["31"]
    assert looker.look(thorough=True).evidence == ()


def test_a_tool_is_not_asked_more_often_than_it_is_good_for_it(machine: Machine) -> None:
    looker = machine.looker()
    assert looker.look(thorough=False).answered is True
    machine.time.advance(ASK_EVERY_S - 1)
    assert looker.look(thorough=False).answered is None
    assert len(machine.programs.asked) == 1
    assert looker.look(thorough=True).answered is True
    machine.time.advance(ASK_EVERY_S)
    assert looker.look(thorough=False).answered is True
    assert len(machine.programs.asked) == 3


def test_counters_are_held_against_what_they_were_first(machine: Machine) -> None:
    machine.programs.answers["nvidia-smi"] = said(ECC)
    looker = machine.looker()
    assert looker.look(thorough=True).evidence == ()
    machine.programs.answers["nvidia-smi"] = said(ECC.replace(" 2,", " 3,"))
    (piece,) = looker.look(thorough=True).evidence
    assert piece.text == "GPU 00000000:65:00.0: uncorrected ECC errors: 2 before, 3"


def test_a_tool_that_hangs_is_evidence_when_it_does_so_again(machine: Machine) -> None:
    looker = machine.looker()
    machine.programs.answers["nvidia-smi"] = Said(end="slow")
    first, second = (looker.look(thorough=True) for _ in range(2))
    assert [(p.kind, p.blame, p.text) for p in (*first.evidence, *second.evidence)] == [
        ("tool", "nobody", "nvidia-smi gave no answer within 15 s"),
        ("tool", "device", "nvidia-smi gave no answer within 15 s, twice in a row"),
    ]
    assert (first.answered, second.answered) == (False, False)
    machine.programs.answers["nvidia-smi"] = said(WELL)
    assert looker.look(thorough=True).answered is True
    machine.programs.answers["nvidia-smi"] = Said(end="slow")
    assert looker.look(thorough=True).evidence[0].blame == "nobody"


def test_a_hung_tool_is_noticed_within_a_minute() -> None:
    """Just after a question, twice unanswered, with a second for each process to be killed."""
    assert ASK_EVERY_S + 2 * (ASK_S + 2.0) + 5.0 < 60.0


def test_a_tool_that_cannot_be_killed_is_evidence_at_once(machine: Machine) -> None:
    machine.programs.answers["nvidia-smi"] = Said(end="stuck")
    (piece,) = machine.looker().look(thorough=True).evidence
    assert (piece.blame, piece.text) == (
        "device",
        "nvidia-smi sleeps in the driver and cannot be killed",
    )


def test_a_driver_that_knows_fewer_fields(machine: Machine) -> None:
    def old(argv: Sequence[str]) -> Said:
        for field in ("remapped_rows.pending", "gpu_recovery_action"):
            if field in argv[1]:
                return said(f'Field "{field}" is not a valid field to query.\n', 2)
        return said("00000000:65:00.0, 7, 0, No\n")

    machine.programs.answers["nvidia-smi"] = old
    looker = machine.looker()
    assert looker.look(thorough=True).gauges[0].busy == 7
    assert len(machine.programs.asked) == 3
    looker.look(thorough=True)
    assert len(machine.programs.asked) == 4


def test_a_log_that_cannot_be_read_is_told_once(machine: Machine) -> None:
    machine.kmsg.unlink()
    looker = machine.looker()
    (piece,) = looker.look(thorough=True).evidence
    assert (piece.kind, piece.blame) == ("unreadable", "nobody")
    assert piece.text == (
        f"kernel log not readable: {machine.kmsg}: No such file or directory; "
        "journalctl: not installed; dmesg: not installed"
    )
    assert looker.look(thorough=True).evidence == ()


def test_amds_newer_tool_is_asked_before_its_older_one(machine: Machine) -> None:
    machine.programs.answers["rocm-smi"] = said('{"card0": {"GPU use (%)": "1"}}')
    assert machine.looker("amd").look(thorough=True).gauges == (Gauge(gpu="card0", busy=1),)
    machine.programs.answers["amd-smi"] = said('[{"gpu": 0, "usage": {"gfx_activity": 2}}]')
    assert machine.looker("amd").look(thorough=True).gauges == (Gauge(gpu="0", busy=2),)


@pytest.mark.parametrize(
    ("vendor", "number"), [("intel", "0x8086"), ("amd", "0x1002"), ("nvidia", "0x10de")]
)
def test_without_a_tool_the_kernel_says_which_gpus_are_there(
    machine: Machine, vendor: Vendor, number: str
) -> None:
    machine.programs.answers.clear()
    machine.card(1, "0x1a03")
    card = machine.card(2, number)
    looker = machine.looker(vendor)
    look = looker.look(thorough=True)
    assert (look.gauges, look.answered) == ((Gauge(gpu="0000:02:00.0"),), None)
    assert looker.look(thorough=True).evidence == ()
    (card / "device/vendor").unlink()
    (piece,) = looker.look(thorough=True).evidence
    assert (piece.kind, piece.blame, piece.gpu) == ("lost", "device", "0000:02:00.0")


@pytest.mark.parametrize(
    ("answer", "answered"),
    [
        (said("No devices were found\n", 6), False),
        (said("Failed to initialize NVML: Insufficient Permissions\n", 4), None),
        (said(WELL), True),
    ],
)
def test_who_may_not_ask_knows_nothing(
    machine: Machine, answer: Said, answered: bool | None
) -> None:
    machine.programs.answers["nvidia-smi"] = answer
    assert machine.looker().look(thorough=True).answered is answered


def test_a_stopped_looker_starts_nothing(machine: Machine) -> None:
    stopped: list[Callable[[], None]] = []
    machine.programs.stop = lambda: stopped.append(print)  # type: ignore[method-assign]
    machine.looker().stop()
    assert len(stopped) == 1
