"""`lh-ci exec` and `lh-ci buildbot`, as agents and those who set them up call them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from orchestrator.backends import ordering
from orchestrator.backends.buildbot.fleet import read_fleet, write_secret
from orchestrator.results.store import Run
from tests.backends.farm import jobs, terms
from tests.cli.conftest import MLP, MLP_F16, SUM, Lab
from tests.fakes import Play, fail


@pytest.fixture
def job(lab: Lab) -> Path:
    """The document of a job that was planned in this repository."""
    (planned,) = jobs(lab.tree, "night")
    folder = lab.tree.root.parent / "job"
    folder.mkdir()
    ordering.write(folder, planned, terms(lab.tree, "night", lab.engine.time))
    return folder / "job.json"


def test_a_job_is_carried_out(lab: Lab, job: Path, tmp_path: Path) -> None:
    lab.engine.script = Play({SUM: [fail("wrong numbers\nand more")]})
    done = lab("exec", str(job), "--out", str(tmp_path / "out"))
    assert done.exit_code == 1
    assert f"{SUM}: wrong numbers" in done.stdout
    assert set(Run(tmp_path / "out", "night").latest()) == {MLP, MLP_F16, SUM}
    assert (tmp_path / "out" / "log.txt").read_text() == done.stdout
    assert json.loads((tmp_path / "out" / "exec.json").read_text())["exit"] == 1


def test_a_second_call_says_so_and_does_nothing(lab: Lab, job: Path, tmp_path: Path) -> None:
    first = lab("exec", str(job), "--out", str(tmp_path / "out"))
    again = lab("exec", str(job), "--out", str(tmp_path / "out"))
    assert again.exit_code == first.exit_code
    assert "was finished before" in again.stdout
    assert len(lab.engine.jobs) == 1


def test_it_is_stopped_and_goes_on(lab: Lab, job: Path, tmp_path: Path) -> None:
    lab.engine.script = lambda _: [KeyboardInterrupt()]
    done = lab("exec", str(job), "--out", str(tmp_path / "out"))
    assert done.exit_code == 130
    assert "The same command goes on" in done.stderr
    lab.engine.script = Play()
    assert lab("exec", str(job), "--out", str(tmp_path / "out")).exit_code == 1  # f16 is xpass


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["nowhere/job.json"], 4, "A job folder has job.json and order.json"),
        (["job"], 2, "a job is named by its document: JOBFOLDER/job.json"),
    ],
)
def test_no_job_is_told(
    lab: Lab, tmp_path: Path, words: list[str], code: int, message: str
) -> None:
    done = lab("exec", *words, "--out", str(tmp_path / "out"))
    assert done.exit_code == code
    assert message in done.stderr


WATCHED = """
import signal, sys, threading
from orchestrator.cli.exec_job import _until_nobody_listens

stopped = threading.Event()
signal.signal(signal.SIGTERM, lambda number, frame: stopped.set())
with _until_nobody_listens():
    print("up", flush=True)
    while not stopped.wait(0.05):
        pass
with open(sys.argv[1], "w") as file:
    file.write("stopped")
"""


@pytest.mark.process
def test_it_stops_when_nobody_reads_its_output_any_more(tmp_path: Path) -> None:
    read, write = os.pipe()
    root = str(Path(__file__).parents[2])
    with subprocess.Popen(
        [sys.executable, "-c", WATCHED, str(tmp_path / "told")],
        stdout=write,
        env={**os.environ, "PYTHONPATH": root},
    ) as process:
        os.close(write)
        with os.fdopen(read) as output:
            assert output.readline() == "up\n"
        watchdog = threading.Timer(30, process.kill)
        watchdog.start()
        process.wait()
        watchdog.cancel()
    assert (tmp_path / "told").read_text() == "stopped"


# --- buildbot ---------------------------------------------------------------------------------


@pytest.fixture
def master(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A master's folder; Buildbot itself is not asked to make its database."""
    monkeypatch.setattr("orchestrator.backends.buildbot.folders.create_master", lambda folder: None)
    monkeypatch.setattr("orchestrator.cli.buildbot._require", lambda *modules: None)
    return tmp_path / "master"


def test_a_master_is_set_up_and_changed(lab: Lab, master: Path) -> None:
    words = ["--worker", "one=intel-cpu", "--worker", "two=intel-cpu,amd-cpu;jobs=2"]
    done = lab("buildbot", "master", str(master), *words, "--port", "19989")
    assert done.exit_code == 0, done.stderr
    assert "2 workers in 2 pools" in done.stdout
    fleet = read_fleet(master)
    assert (fleet.port, fleet.http) == ("tcp:19989", "tcp:8010:interface=127.0.0.1")
    assert set(fleet.pools) == {"intel-cpu", "amd-cpu", "arm-cpu"}
    lab("buildbot", "master", str(master), "--http", "0.0.0.0:80", "--url", "https://ci.example")
    again = read_fleet(master)
    assert again.workers == fleet.workers
    assert (again.http, again.url) == ("tcp:80:interface=0.0.0.0", "https://ci.example/")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--worker", "one=intel-cup"], "no pool `intel-cup`. Did you mean `intel-cpu`?"),
        (["--worker", "one"], "`one` is no worker"),
        (["--http", "nowhere"], "--http nowhere: expected HOST:PORT or PORT"),
        (["--port", "99999"], "--port 99999: expected HOST:PORT or PORT"),
    ],
)
def test_a_master_that_cannot_be(lab: Lab, master: Path, words: list[str], message: str) -> None:
    done = lab("buildbot", "master", str(master), *words)
    assert done.exit_code == 2
    assert message in done.stderr
    assert not master.exists()


def test_a_master_without_workers_says_that_it_would_not_start(lab: Lab, master: Path) -> None:
    done = lab("buildbot", "master", str(master))
    assert done.exit_code == 0, done.stderr
    assert "register an agent, or name a --worker" in done.stdout
    assert "buildbot start" not in done.stdout


def test_a_worker_is_set_up(lab: Lab, master: Path, tmp_path: Path) -> None:
    write_secret(tmp_path / "word", "secret")
    words = ["--name", "one", "--password-file", str(tmp_path / "word")]
    done = lab("buildbot", "worker", str(tmp_path / "w"), *words, "--master", "ci.example:9989")
    assert done.exit_code == 0, done.stderr
    tac = (tmp_path / "w" / "buildbot.tac").read_text()
    assert f'os.environ["LH_ROOT"] = {str(lab.tree.root)!r}' in tac
    both = ["--master", "ci.example:9989", "--connection", "tls:ci.example:9989"]
    for wrong in ([], both, ["--master", "9989"]):
        assert lab("buildbot", "worker", str(tmp_path / "x"), *words, *wrong).exit_code == 2


def test_without_buildbot_it_is_told(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    done = lab("buildbot", "master", str(tmp_path / "m"))
    assert done.exit_code == 2
    assert "pip install 'lighthouse-ci[buildbot]'" in done.stderr


@pytest.mark.parametrize(
    ("words", "environ", "message"),
    [
        (["--master", "http://x/"], {}, "--master needs a --backend elsewhere"),
        (["--backend", "buildbot"], {}, "--master URL, or LH_BUILDBOT_MASTER"),
        (["--backend", "buildbot", "--master", "ci:80"], {}, "expected an address such as http://"),
        (
            ["--backend", "buildbot"],
            {"LH_BUILDBOT_MASTER": "http://127.0.0.1:1/"},
            "LH_BUILDBOT_PASSWORD names the file",
        ),
    ],
)
def test_a_run_elsewhere_says_what_it_lacks(
    lab: Lab, words: list[str], environ: dict[str, str], message: str
) -> None:
    lab.environ.update(environ)
    done = lab("run", "torch_cpu", *words)
    assert done.exit_code == 2
    assert message in done.stderr
    assert lab.asked_for == []
