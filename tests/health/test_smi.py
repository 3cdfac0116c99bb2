"""Vendors' tools, in answers as machines have given them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from orchestrator.health.smi import (
    NVIDIA_FIELDS,
    Gauge,
    Reading,
    amd,
    new_since,
    nvidia,
    unknown_field,
)
from tests.health.stubs import said

WELL = "00000000:65:00.0, 37, 0, [N/A], No, None\n"


def of(text: str, code: int = 0) -> Reading:
    return nvidia(said(text, code), NVIDIA_FIELDS)


def test_a_gpu_that_is_well() -> None:
    assert of(WELL + "00000000:CA:00.0, 100, 3, No, No, None\n") == Reading(
        gauges=(
            Gauge(gpu="00000000:65:00.0", busy=37, uncorrected=0, pending=False),
            Gauge(gpu="00000000:CA:00.0", busy=100, uncorrected=3, pending=False),
        ),
        answered=True,
    )


def test_a_gpu_that_tells_little() -> None:
    reading = of("00000000:01:00.0, [N/A], [N/A], [N/A], [N/A], [N/A]\n")
    assert reading == Reading(gauges=(Gauge(gpu="00000000:01:00.0", pending=False),), answered=True)


@pytest.mark.parametrize(
    ("text", "code", "kind", "words"),
    [
        (
            (
                "Failed to initialize NVML: Driver/library version mismatch\n"
                "NVML library version: 570.124\n"
            ),
            18,
            "driver",
            "Driver/library version mismatch",
        ),
        (
            (
                "Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost.  Reboot "
                "the system to recover this GPU\n"
            ),
            15,
            "lost",
            "0000:02:00.0: GPU is lost.",
        ),
        (
            "Unable to determine the device handle for GPU0000:07:00.0: Unknown Error\n",
            255,
            "lost",
            "GPU0000:07:00.0: Unknown Error",
        ),
        ("No devices were found\n", 6, "lost", "No devices were found"),
        (
            (
                "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
                "Make sure that the latest NVIDIA driver is installed and running.\n"
            ),
            9,
            "driver",
            "couldn't communicate",
        ),
        ("Failed to initialize NVML: Unknown Error\n", 255, "driver", "Unknown Error"),
        ("", 15, "driver", "fallen off the bus"),
        (WELL, 16, "driver", "requires a reset"),
    ],
)
def test_refusals_that_speak_against_the_device(
    text: str, code: int, kind: str, words: str
) -> None:
    (piece,) = of(text, code).evidence
    assert (piece.kind, piece.blame) == (kind, "device")
    assert words in piece.text
    assert piece.text.startswith("nvidia-smi: ")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Failed to initialize NVML: Insufficient Permissions\n", 4),
        ("Segmentation fault", 139),
        ("", 0),
    ],
)
def test_refusals_that_say_nothing_of_the_device(text: str, code: int) -> None:
    reading = of(text, code)
    (piece,) = reading.evidence
    assert (piece.kind, piece.blame) == ("unreadable", "nobody")
    assert not reading.answered


def test_an_old_complaint_of_the_board_is_not_repeated() -> None:
    assert of(WELL + "WARNING: infoROM is corrupted at gpu 0000:65:00.0\n", 14).evidence == ()


@pytest.mark.parametrize(
    "row",
    [
        "00000000:65:00.0, [GPU is lost], [GPU is lost], [GPU is lost], [N/A], [N/A]\n",
        "00000000:65:00.0, 0, [GPU requires reset], [N/A], No, None\n",
        "00000000:65:00.0, 0, 0, [N/A], No, Reset\n",
        "00000000:65:00.0, 0, 0, [N/A], No, Drain and Reset\n",
    ],
)
def test_a_gpu_that_says_that_it_cannot_go_on(row: str) -> None:
    evidence = of(row).evidence
    assert {(piece.kind, piece.blame, piece.gpu) for piece in evidence} == {
        ("lost", "device", "00000000:65:00.0")
    }


@pytest.mark.parametrize(
    ("row", "kind", "words"),
    [
        ("00000000:65:00.0, 0, 5, [N/A], No, None\n", "ecc", "errors: 0 before, 5"),
        ("00000000:65:00.0, 0, 0, Yes, No, None\n", "retired", "waits for a reset"),
        ("00000000:65:00.0, 0, 0, [N/A], Yes, None\n", "retired", "waits for a reset"),
        ("00000000:65:00.0, ERR!, 0, [N/A], No, None\n", "tool", "error for utilization.gpu"),
        ("00000000:65:00.0, [Unknown Error], 0, [N/A], No, None\n", "tool", "utilization.gpu"),
        ("00000000:66:00.0, 0, 0, [N/A], No, None\n", "lost", "is gone"),
    ],
)
def test_what_got_worse_since_the_job_began(row: str, kind: str, words: str) -> None:
    (piece,) = new_since(of(WELL), of(row))
    assert (piece.kind, piece.blame, piece.gpu) == (kind, "device", "00000000:65:00.0")
    assert words in piece.text


@pytest.mark.parametrize(
    "row",
    [
        "00000000:65:00.0, 0, 5, Yes, Yes, None\n",
        "00000000:65:00.0, ERR!, 5, Yes, Yes, None\n",
    ],
)
def test_what_was_bad_before_is_not_held_against_a_job(row: str) -> None:
    assert new_since(of(row), of(row)) == ()
    assert new_since(of("No devices were found", 6), of(row)) == ()


def test_a_field_that_an_old_driver_does_not_know() -> None:
    text = 'Field "gpu_recovery_action" is not a valid field to query.\n\n'
    assert unknown_field(said(text, 2)) == "gpu_recovery_action"
    assert unknown_field(said(WELL)) == ""
    short = nvidia(said("00000000:65:00.0, 37, 0, [N/A], No\n"), NVIDIA_FIELDS[:-1])
    assert short.gauges == of(WELL).gauges


AMD_GPU: dict[str, Any] = {
    "gpu": 0,
    "usage": {
        "gfx_activity": {"value": 42, "unit": "%"},
        "umc_activity": {"value": 1, "unit": "%"},
    },
    "ecc": {"total_correctable_count": 3, "total_uncorrectable_count": 1},
}


@pytest.mark.parametrize("document", [[AMD_GPU], {"gpu_data": [AMD_GPU]}])
def test_amd_smi(document: object) -> None:
    text = "WARNING: something\n" + json.dumps(document, indent=4)
    assert amd(said(text), "amd-smi") == Reading(
        gauges=(Gauge(gpu="0", busy=42, uncorrected=1),), answered=True
    )


def test_amd_smi_of_a_gpu_that_tells_little() -> None:
    gpu = {"gpu": 1, "usage": "N/A", "ecc": {"total_uncorrectable_count": "N/A"}}
    text = json.dumps([{**gpu, "usage": {"gfx_activity": "N/A"}}])
    assert amd(said(text), "amd-smi").gauges == (Gauge(gpu="1"),)
    assert amd(said(json.dumps([gpu])), "amd-smi").answered is False


def test_rocm_smi() -> None:
    text = json.dumps(
        {"card0": {"GPU use (%)": "99"}, "card1": {"GPU use (%)": "N/A"}, "system": {}}
    )
    assert amd(said(text), "rocm-smi") == Reading(
        gauges=(Gauge(gpu="card0", busy=99), Gauge(gpu="card1")), answered=True
    )


@pytest.mark.parametrize(
    ("text", "blame"),
    [
        ("ERROR:root:Driver not initialized (amdgpu not found in modules)", "device"),
        ("ERROR:root:Unable to get devices, driver not initialized (amdgpu not found)", "device"),
        ("WARNING: No AMD GPUs specified", "device"),
        ("WARNING: No JSON data to report", "nobody"),
        ("[1, 2", "nobody"),
        ("[1, 2]", "nobody"),
        ("{}", "nobody"),
    ],
)
def test_refusals_of_amds_tools(text: str, blame: str) -> None:
    reading = amd(said(text, 1), "rocm-smi")
    (piece,) = reading.evidence
    assert (piece.blame, reading.answered) == (blame, False)
    assert piece.text.startswith("rocm-smi")
