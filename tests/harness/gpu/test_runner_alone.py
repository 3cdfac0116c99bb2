"""Bundles executed with Python, NumPy and a driver alone, as whoever is handed one does it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orchestrator import records
from orchestrator.harness.gpu import bundle as bundle_format
from orchestrator.harness.gpu.runner import Report
from tests.harness.gpu import bundles, shims
from tests.harness.gpu.bundles import CELL

CHIPS = ("sm_80", "sm_90", "sm_100")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A bundle of three chips."""
    target = tmp_path / "toy"
    bundles.write(target, *(bundles.built(tmp_path, chip) for chip in CHIPS))
    return target


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter of a virtual environment that has only NumPy."""
    return _venv(tmp_path_factory.mktemp("numpy") / "venv", with_numpy=True)


def _venv(target: Path, *, with_numpy: bool) -> Path:
    argv = [sys.executable, "-m", "venv", "--without-pip", str(target)]
    subprocess.run(argv, check=True)
    packages = next(target.glob("lib/python*/site-packages"))
    real = Path(np.__file__).parent
    for name in ("numpy", "numpy.libs") if with_numpy else ():
        if (real.parent / name).exists():
            (packages / name).symlink_to(real.parent / name)
    return target / "bin" / "python"


@pytest.fixture(params=["folder", "archive"])
def path(folder: Path, request: pytest.FixtureRequest) -> Path:
    """A bundle in both of its forms."""
    return folder if request.param == "folder" else bundles.archived(folder)


def _run(python: Path, *words: object, **environ: str) -> subprocess.CompletedProcess[str]:
    argv = [str(python), *map(str, words)]
    hidden = ("PYTHON", "LH_", "FAKE_", "CUDA_")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(hidden)}
    return subprocess.run(
        argv, capture_output=True, text=True, check=False, cwd="/", env={**clean, **environ}
    )


def test_a_bundle_brings_all_that_it_needs(python: Path, path: Path) -> None:
    before = _files(path.parent)
    done = _run(python, "-I", path, "--chip", "sm_90")
    assert (done.returncode, done.stderr) == (1, "")
    head, message = done.stdout.splitlines()
    assert head == f"fail  {CELL}   execute"
    assert message.startswith("  the compiled host code cannot be loaded: ")
    assert _files(path.parent) == before


def _files(folder: Path) -> list[Path]:
    """All but Python's own copy of `__main__.py`, which it makes before it reads a line."""
    return sorted(p for p in folder.rglob("*") if not p.is_dir() and p.parent.name != "__pycache__")


def test_what_is_in_it_can_be_listed(python: Path, path: Path) -> None:
    done = _run(python, path, "--list")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{CELL}\n  workload   toy\n")
    assert "  chips      sm_80, sm_90, sm_100\n" in done.stdout
    assert "  argument_0   100   f32   by formula, input:0\n" in done.stdout
    assert "  output_0   100   f32   1e-06 rel + 1e-06 abs\n" in done.stdout
    value = json.loads(_run(python, path, "--list", "--json").stdout)
    assert value["cell"] == CELL


def test_a_report_is_one_json_document(python: Path, path: Path) -> None:
    done = _run(python, path, "--json", "--chip", "sm_80")
    report = records.decode(Report, json.loads(done.stdout))
    assert report.outcome.status == "fail"
    assert Path(report.bundle).samefile(path)


@pytest.mark.parametrize("words", [("--repeat", "0"), ("--repeat", "x"), ("--jsno",), ("more",)])
def test_a_wrong_command_line(python: Path, folder: Path, words: tuple[str, ...]) -> None:
    done = _run(python, folder, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert "usage: " in done.stderr


def test_a_damaged_bundle_ends_with_3(python: Path, folder: Path) -> None:
    (folder / "golden.npz").write_bytes(b"")
    for words in ((), ("--list",)):
        done = _run(python, folder, *words)
        assert done.returncode == 3
        assert "golden.npz: cut short" in done.stdout + done.stderr
        assert "Traceback" not in done.stderr


def test_a_python_without_numpy_is_told(folder: Path, tmp_path: Path) -> None:
    done = _run(_venv(tmp_path / "bare", with_numpy=False), "-I", folder)
    assert done.returncode == 4
    assert "this bundle needs NumPy" in done.stderr
    assert "-m pip install numpy" in done.stderr


def test_an_installed_runner_takes_any_bundle(path: Path) -> None:
    root = str(Path(bundle_format.__file__).parents[3])
    words = ("-m", "orchestrator.harness.gpu.runner")
    done = _run(Path(sys.executable), *words, path, "--list", PYTHONPATH=root)
    assert done.returncode == 0
    done = _run(Path(sys.executable), *words, "/nothing", PYTHONPATH=root)
    assert done.returncode == 2
    assert "there is no bundle /nothing" in done.stderr


def test_what_a_bundle_says_cannot_act_on_a_terminal(python: Path, folder: Path) -> None:
    bundles.edit(folder, lambda value: value.update(cell="\x1b]0;owned\x07x", workload="\x9b31m"))
    done = _run(python, folder, "--list")
    assert done.returncode == 0
    assert not {"\x1b", "\x07", "\x9b"} & set(done.stdout)


# --- Under real host code, against a driver that checks how it is called ----------------------


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> shims.Bench:
    """Host code with PTX in it, and a fake driver; skips without an LLVM release."""
    return shims.bench("cuda", ("libcuda.so.1",), tmp_path_factory.mktemp("cuda"))


@pytest.fixture
def real(bench: shims.Bench, tmp_path: Path) -> Path:
    """An archive of a bundle with that host code for two chips."""
    code = bench.shared_object.read_bytes()
    target = tmp_path / "toy"
    bundles.write(target, *(bundles.built(tmp_path, chip, code) for chip in ("sm_80", "sm_90")))
    return bundles.archived(target)


def drive(bench: shims.Bench, python: Path, bundle: Path, *words: str, **environ: str) -> Any:
    """Exit code, report, and what the driver found wrong with the way it was called."""
    log = bundle.with_name("breaches")
    log.touch()
    environ = {
        "LD_LIBRARY_PATH": str(bench.library.parent),
        "FAKE_GPU_LOG": str(log),
        **environ,
    }
    done = _run(python, bundle, "--json", *words, **environ)
    assert done.stdout, done.stderr
    outcome = records.decode(Report, json.loads(done.stdout)).outcome
    return done.returncode, outcome, log.read_text().splitlines()


@pytest.mark.stack
def test_a_program_runs_with_python_numpy_and_a_driver_alone(
    bench: shims.Bench, python: Path, real: Path
) -> None:
    code, outcome, breaches = drive(bench, python, real, "--repeat", "2")
    assert (code, outcome.status, breaches) == (0, "pass", [])
    assert outcome.device["code"] == "sm_90"
    assert outcome.device["device"] == 'Fake "0"'
    assert outcome.kernel_ns == (2 * 4 * 1500, 2 * 4 * 1500)
    assert outcome.errors[0].max_abs <= 1e-6


@pytest.mark.stack
def test_the_driver_refuses_the_code(bench: shims.Bench, python: Path, real: Path) -> None:
    failing = "cuModuleLoadDataEx:218"
    code, outcome, _ = drive(bench, python, real, FAKE_GPU_FAIL=failing)
    assert (code, outcome.status, outcome.phase) == (1, "fail", "execute")
    assert "loading the kernels: cuModuleLoadDataEx: " in outcome.message


@pytest.mark.stack
def test_the_device_is_lost(bench: shims.Bench, python: Path, real: Path) -> None:
    code, outcome, _ = drive(bench, python, real, FAKE_GPU_FAIL="cuStreamSynchronize:46")
    assert (code, outcome.status, outcome.phase) == (4, "miss", "execute")


@pytest.mark.stack
def test_there_is_no_driver(bench: shims.Bench, python: Path, real: Path) -> None:
    shims.skip_beside_a_real(["libcuda.so.1"])
    code, outcome, _ = drive(bench, python, real, LD_LIBRARY_PATH="/nowhere")
    assert (code, outcome.status) == (4, "miss")
    assert "libcuda.so.1 cannot be loaded: install NVIDIA's driver" in outcome.message
