"""What `lh-ci register` puts on a machine beside its key, and how it goes again."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from orchestrator.cli import next_steps, unregister
from orchestrator.cli import seat as seats
from orchestrator.fleet import keys, units
from orchestrator.fleet.agents import load_fleet
from orchestrator.fleet.register import Served
from tests.cli.conftest import Lab
from tests.cli.test_fleet import REGISTER, Usage, state
from tests.fleet.samples import FILE, ORCHESTRATOR

ID = "intel-lab-1"
QUICK = (*REGISTER, "--no-health-job")
MASTER = ("--master", "ci.example.org:9989")


@pytest.fixture(autouse=True)
def _disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: Usage(0, 0, 80 << 30))


@pytest.fixture
def word(tmp_path: Path) -> Path:
    """A file with a password."""
    path = tmp_path / "word"
    path.write_text("not to be seen\n")
    path.chmod(0o600)
    return path


def on(backend: str, *more: str) -> tuple[str, ...]:
    return (*(backend if each == "buildbot" else each for each in QUICK), *more)


def folder(lab: Lab) -> Path:
    return state(lab) / "agents" / ID


def tree(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


class TestBuildbot:
    """A worker."""

    def test_in_one_go(self, lab: Lab, word: Path) -> None:
        done = lab(*QUICK, *MASTER, "--password-file", str(word))
        assert done.exit_code == 0, done.stderr
        assert set(tree(folder(lab))) == {
            *("buildbot.tac", "info/admin", "info/host", "password"),
            *("settings.env", "lighthouse-worker.service"),
        }
        tac = (folder(lab) / "buildbot.tac").read_text()
        compile(tac, "buildbot.tac", "exec")
        environ = {"LH_AGENT": ID, "LH_ROOT": str(lab.tree.root), "LH_STATE": str(state(lab))}
        assert f"os.environ.update({environ!r})" in tac
        assert "Worker('ci.example.org', 9989, 'intel-lab-1'" in tac
        for name in ("password", "settings.env"):
            assert stat.S_IMODE((folder(lab) / name).stat().st_mode) == 0o600
        for name, text in tree(folder(lab)).items():
            assert (b"not to be seen" in text) is (name == "password")
        assert "not to be seen" not in done.stdout
        assert "buildbot worker" not in done.stdout
        assert f"buildbot-worker start .lh/agents/{ID}" in done.stdout

    def test_the_password_comes_later(self, lab: Lab, word: Path) -> None:
        said = lab(*QUICK, *MASTER).stdout
        assert f"lh-ci buildbot worker --name {ID} --password-file FILE" in said
        assert "no password yet" in _started(folder(lab))
        done = lab("buildbot", "worker", "--name", ID, "--password-file", str(word))
        assert done.exit_code == 0, done.stderr
        assert f"buildbot-worker start {folder(lab)}" in done.stdout
        later = tree(folder(lab))
        assert later["password"] == b"not to be seen\n"
        lab("unregister", ID, "--keep-keys")
        assert lab(*QUICK, *MASTER, "--password-file", str(word)).exit_code == 0
        assert tree(folder(lab)) == later

    def test_the_master_comes_later_too(self, lab: Lab, word: Path) -> None:
        said = lab(*QUICK).stdout
        assert f"buildbot worker --name {ID} --master HOST:PORT --password-file FILE" in said
        assert set(tree(folder(lab))) == {"lighthouse-worker.service", "settings.env"}
        password = ("--password-file", str(word))
        done = lab("buildbot", "worker", "--name", ID, *password)
        assert done.exit_code == 2
        assert "where is the master?" in done.stderr
        assert lab(*QUICK, *password).exit_code == 0
        assert (folder(lab) / "password").read_text() == "not to be seen\n"
        tls = ("--connection", "tls:ci.example.org:9989")
        assert lab(*QUICK, *tls, *password).exit_code == 0
        assert "'tls:ci.example.org:9989'" in (folder(lab) / "buildbot.tac").read_text()

    def test_again_changes_nothing(self, lab: Lab, word: Path) -> None:
        lab(*QUICK, *MASTER, "--password-file", str(word))
        before = tree(lab.tree.root)
        assert lab(*QUICK).exit_code == 0
        assert tree(lab.tree.root) == before

    def test_an_interrupted_one_is_gone_on_with(
        self, lab: Lab, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def stop(*args: Any, **kwargs: Any) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr("orchestrator.cli.seat.write_secret", stop)
            assert lab(*QUICK, *MASTER).exit_code != 0
        (key,) = keys.fingerprints(state(lab), ID)
        assert lab(*QUICK, *MASTER).exit_code == 0
        assert keys.fingerprints(state(lab), ID) == (key,)
        assert (folder(lab) / "buildbot.tac").exists()

    def test_units_follow_the_terms_that_the_owner_wrote(self, lab: Lab) -> None:
        lab(*QUICK)
        lab.tree.edit(FILE, "disk: 40GiB", "disk: 7GiB")
        assert lab(*QUICK).exit_code == 0
        assert f"LimitFSIZE={7 << 30}" in (folder(lab) / units.WORKER_UNIT).read_text()

    def test_settings_of_the_machine_are_the_services_too(self, lab: Lab) -> None:
        lab.environ["LH_PIP_ARGS"] = "--proxy http://me:hunter2@proxy.example"
        assert lab(*QUICK).exit_code == 0
        assert "hunter2" in (folder(lab) / units.SETTINGS_FILE).read_text()
        assert "hunter2" not in (folder(lab) / units.WORKER_UNIT).read_text()

    def test_a_folder_that_its_owner_chose(self, lab: Lab, tmp_path: Path) -> None:
        done = lab(*QUICK, *MASTER, "--folder", str(tmp_path / "big disk"))
        assert done.exit_code == 0, done.stderr
        assert (tmp_path / "big disk" / "buildbot.tac").exists()
        assert not folder(lab).exists()
        assert lab(*QUICK).exit_code == 0
        assert not folder(lab).exists()
        done = lab(*QUICK, "--folder", str(tmp_path / "other"))
        assert done.exit_code == 2
        assert f"begin with lh-ci unregister {ID}" in done.stderr

    def test_rotation_and_the_list_do_not_mind_it(self, lab: Lab, word: Path) -> None:
        lab(*QUICK, *MASTER, "--password-file", str(word))
        before = tree(folder(lab))
        entry = [x for x in lab("keys", "rotate", ID).stdout.splitlines() if x.startswith("  ")]
        lab.tree.edit(FILE, "keys:\n", "keys:\n{}\n".format("\n".join(entry)))
        assert lab(*QUICK).exit_code == 0
        assert tree(folder(lab)) == before
        assert {row["state"] for row in lab.json("keys", "show")} == {"valid"}
        (listed,) = lab.json("agents")
        assert (listed["id"], len(listed["keys"])) == (ID, 2)
        done = lab("keys", "retire", ID, listed["keys"][0])
        assert done.exit_code == 0, done.stderr
        assert lab(*QUICK).exit_code == 0

    def test_a_checkout_without_an_orchestrator_runs_nothing(self, lab: Lab) -> None:
        said = "git pull, once there is agents/_orchestrator.yaml"
        assert said in lab(*QUICK).stdout
        lab.tree.write("agents/_orchestrator.yaml", ORCHESTRATOR)
        assert said not in lab(*QUICK).stdout

    def test_for_machines(self, lab: Lab) -> None:
        document = lab.json(*QUICK)
        assert document["folder"] == str(folder(lab))
        assert document["files"] == ["lighthouse-worker.service", "settings.env"]
        assert any("buildbot worker --name" in step for step in document["next"])
        gone = lab.json("unregister", ID, "--yes")
        assert gone["removed"] == [f".lh/agents/{ID}", FILE]
        assert gone["removed_keys"] == [each for each in gone["removed_keys"] if len(each) > 8]
        assert gone["kept_keys"] == []

    def test_a_damaged_record_says_what_to_do(self, lab: Lab) -> None:
        lab(*QUICK)
        (state(lab) / "agents" / f"{ID}.json").write_text("{}")
        done = lab(*QUICK)
        assert done.exit_code == 4
        assert "Remove it, and run lh-ci register again" in done.stderr


def _started(at: Path) -> str:
    """What a worker says that cannot start: its file is carried out as far as it goes."""
    modules = (
        *("buildbot_worker", "buildbot_worker.bot", "twisted", "twisted.application"),
        *("twisted.python", "twisted.python.log", "twisted.python.logfile"),
    )
    fakes = {name: mock.MagicMock() for name in modules}
    with mock.patch.dict(sys.modules, fakes), pytest.raises(SystemExit) as ended:
        exec((at / "buildbot.tac").read_text(), {"__file__": str(at / "buildbot.tac")})
    return str(ended.value)


class TestServices:
    """Buildkite's agents, GitHub's runner, and no service at all."""

    def test_buildkite(self, lab: Lab, word: Path) -> None:
        said = lab(*on("buildkite")).stdout
        assert "write BUILDKITE_AGENT_TOKEN=… into .lh/agents/intel-lab-1/token.env" in said
        assert lab(*on("buildkite", "--password-file", str(word))).exit_code == 0
        token = folder(lab) / units.TOKEN_FILE
        assert token.read_text() == "BUILDKITE_AGENT_TOKEN=not to be seen\n"
        assert stat.S_IMODE(token.stat().st_mode) == 0o600
        assert set(tree(folder(lab))) == {
            *("buildkite-agent-intel-cpu.cfg", "lighthouse-agent-intel-cpu.service"),
            *("settings.env", "token.env"),
        }
        assert lab(*on("buildkite")).exit_code == 0
        assert token.exists()

    def test_github(self, lab: Lab) -> None:
        assert lab(*on("github", "--master", "owner/name")).exit_code == 0
        text = (folder(lab) / units.CONFIGURE).read_text()
        labels = ",".join(units.github_labels(ID, ["intel-cpu"]))
        assert f"--labels {labels} " in text
        assert "--url https://github.com/owner/name " in text
        lab.environ["LH_GITHUB_REPOSITORY"] = "other/name"
        assert lab(*on("github")).exit_code == 0
        assert "github.com/other/name" in (folder(lab) / units.CONFIGURE).read_text()

    def test_local(self, lab: Lab) -> None:
        done = lab(*on("local"))
        assert done.exit_code == 0, done.stderr
        assert "with backend local, `lh-ci run --as-agent` does its jobs" in done.stdout
        assert not (state(lab) / "agents").exists()

    def test_it_moves_by_one_line(
        self, lab: Lab, word: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(next_steps, "SYSTEM_UNITS", tmp_path)
        (tmp_path / units.WORKER_UNIT).touch()
        chosen = tmp_path / "chosen"
        secret = ("--password-file", str(word))
        assert lab(*QUICK, *MASTER, *secret, "--folder", str(chosen)).exit_code == 0
        lab.tree.edit(FILE, "backend: buildbot", "backend: github")
        done = lab(*on("github"))
        assert done.exit_code == 0, done.stderr
        assert set(tree(chosen)) == {"configure.sh", "lighthouse-runner.service", "settings.env"}
        assert "OWNER/REPOSITORY" in (chosen / units.CONFIGURE).read_text()
        assert f"sudo systemctl disable --now {units.WORKER_UNIT}" in done.stdout
        lab.tree.edit(FILE, "backend: github", "backend: local")
        assert lab(*on("local")).exit_code == 0
        assert not chosen.exists()
        assert seats.names(state(lab)) == ()

    def test_pools_that_are_taken_out_take_their_files_along(self, lab: Lab) -> None:
        lab.tree.edit(
            "matrix.yaml", "pools: [intel-cpu, amd-cpu]", "pools: [intel-cpu, amd-cpu, x-cpu]"
        )
        lab.tree.edit("matrix.yaml", "  arm-cpu:", "  x-cpu: {tier: core, about: x}\n  arm-cpu:")
        assert lab(*on("buildkite", "--pool", "x-cpu")).exit_code == 0
        assert "buildkite-agent-x-cpu.cfg" in tree(folder(lab))
        lab.tree.edit(FILE, "pools: [intel-cpu, x-cpu]", "pools: [intel-cpu]")
        assert lab(*on("buildkite")).exit_code == 0
        assert "buildkite-agent-x-cpu.cfg" not in tree(folder(lab))
        assert "buildkite-agent-intel-cpu.cfg" in tree(folder(lab))


class TestBadInput:
    """One clear error, before anything is run or written."""

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (on("buildbot", "--master", "ci"), "--master ci: expected HOST:PORT"),
            (on("buildbot", "--master", "9989"), "--master 9989: expected HOST:PORT"),
            (on("buildbot", *MASTER, "--connection", "x"), "--connection ENDPOINT, not both"),
            (on("buildbot", "--password-file", "/nowhere"), "/nowhere: No such file"),
            (on("buildkite", *MASTER), "backend buildkite has no use for --master"),
            (on("github", "--master", "ci:80"), "expected two names such as `owner/name`"),
            (on("github", "--password-file", "x"), "has no use for --password-file"),
            (on("local", "--folder", "x"), "backend local has no use for --folder"),
            (on("buildbot", "--name", "a" * 50), "is longer than 50 letters"),
            (("register", "--backend", "local"), "give --pool NAME too"),
            (on("buildbot", "--folder", "/srv/100%"), "services cannot have a path with quotes"),
            (("buildbot", "worker", "--name", "x", "--password-file", "/nowhere"), "/nowhere"),
        ],
    )
    def test_it_is_told(self, lab: Lab, words: tuple[str, ...], said: str) -> None:
        done = lab(*words)
        assert done.exit_code == 2
        assert said in done.stderr
        assert not folder(lab).exists()
        assert lab.engine.jobs == []

    def test_a_worker_of_no_known_folder(self, lab: Lab, word: Path) -> None:
        words = ("--name", "one", *MASTER, "--password-file", str(word))
        done = lab("buildbot", "worker", *words)
        assert done.exit_code == 2
        assert "one was not registered here: give DIR" in done.stderr

    def test_buildkite_hands_nothing_to_machines_without_containers(self, lab: Lab) -> None:
        lab.engine.name = "venv"
        done = lab(*on("buildkite", "--uncontained"))
        assert done.exit_code == 2
        assert "--uncontained ones get none" in done.stderr

    def test_no_permission_on_device_nodes(self, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(seats, "user", lambda: "me")
        why = "/dev/kfd: permission denied (this user is not in the groups render and video)"
        served = Served(pool="intel-cpu", pipelines=("torch_cpu",), reason=why)
        monkeypatch.setattr("orchestrator.cli.surveying.survey", lambda config, host: (served,))
        done = lab(*QUICK)
        assert done.exit_code == 2
        assert why in done.stderr
        assert "As root: usermod -aG render,video me; then log in again" in done.stderr


class TestUnregister:
    """It takes its offer back."""

    @pytest.fixture(autouse=True)
    def _somebody(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setattr(unregister, "_can_ask", lambda: True)
        monkeypatch.setattr(next_steps, "SYSTEM_UNITS", tmp_path)

    def test_it_asks_for_the_key_alone(self, lab: Lab) -> None:
        for answer, left in (("n\n", 1), ("y\n", 0)):
            lab(*QUICK, *MASTER)
            done = lab("unregister", ID, stdin=answer)
            assert done.exit_code == 0, done.stderr
            assert load_fleet(lab.tree.root).agents == {}
            assert not folder(lab).exists()
            assert seats.names(state(lab)) == ()
            assert len(keys.own(state(lab), ID)) == left
        assert f"send the removal of {FILE} as a pull request" in done.stdout
        assert "tell the master's operator" in done.stdout

    def test_with_nobody_to_ask(self, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(unregister, "_can_ask", lambda: False)
        lab(*QUICK)
        done = lab("unregister", ID)
        assert done.exit_code == 2
        assert "nothing was removed" in done.stderr
        assert (lab.tree.root / FILE).exists()
        assert lab("unregister", ID, "--keep-keys").exit_code == 0
        assert len(keys.own(state(lab), ID)) == 1
        assert lab("unregister", ID, "--yes").exit_code == 0
        assert keys.owners(state(lab)) == ()
        assert lab("unregister", ID, "--yes").exit_code == 2

    def test_a_folder_of_its_owners_keeps_what_is_not_ours(self, lab: Lab, tmp_path: Path) -> None:
        chosen = tmp_path / "chosen"
        lab(*QUICK, *MASTER, "--folder", str(chosen))
        (chosen / "mine.txt").touch()
        gone = lab.json("unregister", ID, "--yes")
        assert gone["kept"] == [str(chosen)]
        assert [path.name for path in chosen.iterdir()] == ["mine.txt"]

    def test_a_service_that_is_installed(self, lab: Lab, tmp_path: Path) -> None:
        (tmp_path / units.WORKER_UNIT).touch()
        lab(*QUICK)
        said = lab("unregister", ID, "--yes").stdout
        assert (
            f"disable --now {units.WORKER_UNIT} && sudo rm {tmp_path}/{units.WORKER_UNIT}" in said
        )

    @pytest.mark.process
    def test_not_while_it_works(self, lab: Lab) -> None:
        lab(*QUICK, *MASTER)
        with subprocess.Popen(["sleep", "60"], cwd=folder(lab)) as process:
            done = lab("unregister", ID, "--yes")
            process.kill()
        assert done.exit_code == 2
        assert f"process {process.pid} works in {folder(lab)}" in done.stderr
        assert f"buildbot-worker stop {folder(lab)}" in done.stderr
        assert (folder(lab) / "buildbot.tac").exists()
        assert os.path.exists(lab.tree.root / FILE)  # noqa: PTH110
        assert lab("unregister", ID, "--yes").exit_code == 0

    def test_not_while_github_knows_the_runner(self, lab: Lab) -> None:
        lab(*on("github"))
        (folder(lab) / units.RUNNER).mkdir()
        (folder(lab) / units.RUNNER / ".runner").touch()
        done = lab("unregister", ID, "--yes")
        assert done.exit_code == 2
        assert "./config.sh remove" in done.stderr

    def test_a_name_that_is_none(self, lab: Lab) -> None:
        lab(*QUICK)
        done = lab("unregister", "intel-lab1")
        assert done.exit_code == 2
        assert f"no agent `intel-lab1`. Did you mean `{ID}`?" in done.stderr
        assert lab("unregister", "_orchestrator").exit_code == 2
