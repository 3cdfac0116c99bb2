"""Whose HIP runtime executes: the ROCm that is named, else the usual one."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.engines import rocm
from orchestrator.errors import UsageError
from orchestrator.settings import Settings


def installed(folder: Path) -> Path:
    (folder / "lib").mkdir(parents=True)
    (folder / "lib" / "libamdhip64.so.6").touch()
    return folder


def test_the_one_that_is_named_comes_before_the_usual_one(tmp_path: Path) -> None:
    named, usual = installed(tmp_path / "rocm-7.0.1"), installed(tmp_path / "rocm-6.4.0")
    link = tmp_path / "rocm"
    link.symlink_to(usual)
    settings = Settings.from_environment({"LH_ROCM": str(named)})
    assert rocm.find(settings, link) == named
    assert rocm.find(Settings(), link) == usual  # what a container is shown is no link


def test_a_folder_without_a_hip_runtime_is_none(tmp_path: Path) -> None:
    (tmp_path / "rocm" / "lib").mkdir(parents=True)
    assert rocm.find(Settings(), tmp_path / "rocm") is None
    assert rocm.find(Settings(), tmp_path / "nowhere") is None
    with pytest.raises(UsageError, match=r"LH_ROCM: .*/rocm has no lib/libamdhip64\.so\. Name"):
        Settings.from_environment({"LH_ROCM": str(tmp_path / "rocm")})


def test_its_parts_come_before_those_of_another_one(tmp_path: Path) -> None:
    assert rocm.environment(tmp_path, "/sysroot/lib") == {
        "LH_ROCM": str(tmp_path),
        "LD_LIBRARY_PATH": f"{tmp_path}/lib:/sysroot/lib",
    }
