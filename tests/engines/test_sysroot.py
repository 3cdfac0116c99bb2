"""System packages without root: what is fetched, and how drivers in them are found."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from orchestrator.engines import sysroot
from orchestrator.engines.debs import Package
from orchestrator.errors import InfrastructureError
from orchestrator.settings import Settings

PACKAGES = {"mesa-vulkan-drivers": "22.3.6", "pocl-opencl-icd": "3.1"}
LIBRARIES = "usr/lib/x86_64-linux-gnu"


class FakeApt:
    """Unpacks a Vulkan and an OpenCL driver."""

    fetched = 0
    refuses = ""

    def __init__(self, *_: object) -> None: ...

    def closure(self, wanted: Mapping[str, str], progress: object) -> tuple[Package, ...]:
        if self.refuses:
            raise InfrastructureError(self.refuses)
        assert dict(wanted) == PACKAGES
        return ()

    def fetch(self, packages: Sequence[Package], into: Path) -> None:
        type(self).fetched += 1
        driver = into / "usr/share/vulkan/icd.d/lvp_icd.x86_64.json"
        driver.parent.mkdir(parents=True)
        manifest = {"ICD": {"library_path": f"/{LIBRARIES}/libvulkan_lvp.so"}}
        driver.write_text(json.dumps(manifest))
        vendors = into / "etc/OpenCL/vendors"
        vendors.mkdir(parents=True)
        (vendors / "pocl.icd").write_text("libpocl.so.2\n")
        (vendors / "intel.icd").write_text(f"/{LIBRARIES}/intel-opencl/libigdrcl.so")
        (into / LIBRARIES / "intel-opencl").mkdir(parents=True)
        (into / LIBRARIES / "intel-opencl" / "libigdrcl.so").touch()
        (into / LIBRARIES / "libpocl.so.2").touch()


@pytest.fixture
def apt(monkeypatch: pytest.MonkeyPatch) -> type[FakeApt]:
    monkeypatch.setattr(sysroot, "Apt", FakeApt)
    monkeypatch.setattr(FakeApt, "fetched", 0)
    monkeypatch.setattr(FakeApt, "refuses", "")
    return FakeApt


def found(state: Path, packages: Mapping[str, str] | None = None) -> sysroot.Sysroot:
    wanted = PACKAGES if packages is None else packages
    return sysroot.find("gpu", wanted, state, Settings(), {}, lambda _: None)


def test_a_stack_without_system_packages_needs_none(tmp_path: Path, apt: type[FakeApt]) -> None:
    assert found(tmp_path, {}) == sysroot.Sysroot(folder=None, note="")
    assert apt.fetched == 0


def test_packages_are_fetched_once(tmp_path: Path, apt: type[FakeApt]) -> None:
    first = found(tmp_path / "state")
    assert first.folder is not None
    assert first.folder.is_dir()
    assert found(tmp_path / "state") == first
    assert apt.fetched == 1
    assert [p.name for p in (tmp_path / "state").iterdir() if p.name.startswith(".")] == []


def test_why_there_are_none_is_told_and_not_raised(tmp_path: Path, apt: type[FakeApt]) -> None:
    apt.refuses = "this machine has no apt-get"
    made = found(tmp_path / "state")
    assert made.folder is None
    assert "this machine has no apt-get" in made.note


def test_drivers_are_found_where_they_were_unpacked(tmp_path: Path, apt: type[FakeApt]) -> None:
    folder = found(tmp_path / "state").folder
    assert folder is not None
    environment = sysroot.environment(folder, "/usr/bin")
    manifest: dict[str, Any] = json.loads(Path(environment["VK_DRIVER_FILES"]).read_text())
    assert manifest["ICD"]["library_path"] == str(folder / LIBRARIES / "libvulkan_lvp.so")
    vendors = Path(environment["OCL_ICD_VENDORS"])
    assert {v.name: v.read_text() for v in vendors.iterdir()} == {
        "intel.icd": f"{folder / LIBRARIES}/intel-opencl/libigdrcl.so\n",
        "pocl.icd": f"{folder / LIBRARIES}/libpocl.so.2\n",
    }
    assert environment["LD_LIBRARY_PATH"] == str(folder / LIBRARIES)
    assert environment["PATH"] == f"/usr/bin:{folder / 'usr/bin'}"
    assert environment["LH_SYSROOT"] == str(folder)


def test_what_a_killed_fetch_left_is_swept(tmp_path: Path, apt: type[FakeApt]) -> None:
    made = found(tmp_path)
    (tmp_path / ".fetch-killed" / "root").mkdir(parents=True)
    assert sysroot.sweep(tmp_path) == [str(tmp_path / ".fetch-killed")]
    assert made.folder is not None
    assert made.folder.is_dir()
    assert sysroot.sweep(tmp_path) == []
