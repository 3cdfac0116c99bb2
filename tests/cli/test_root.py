"""The root command: help, typos, and the one place where errors end."""

from __future__ import annotations

import errno
import io
import sys
from pathlib import Path
from typing import NoReturn

import pytest
from click.testing import CliRunner

from orchestrator import __version__
from orchestrator.cli import cli, main, root
from orchestrator.cli.app import Services
from orchestrator.cli.report import console
from orchestrator.errors import ExitCode
from orchestrator.host import Host
from tests.cli.conftest import Lab

COMMANDS = [
    "check",
    "list",
    "build",
    "run",
    "show",
    "golden",
    "repro",
    "execute",
    "exec",
    "pack",
    "plan",
    "receive",
    "collect",
    "buildbot",
    "register",
    "unregister",
    "agents",
    "keys",
    "results",
    "dashboard",
    "clean",
    "schema",
    "workflows",
]


@pytest.mark.parametrize(
    "words",
    [[c] for c in COMMANDS]
    + [["golden", "update"], ["golden", "list"], ["buildbot", "master"], ["buildbot", "worker"]]
    + [["results", each] for each in ("add", "compact", "list", "query", "verify")],
)
def test_every_help_has_examples(words: list[str]) -> None:
    done = CliRunner().invoke(cli, [*words, "--help"])
    assert done.exit_code == 0
    assert "Examples:\n" in done.stdout
    assert f"lh-ci {words[0]}" in done.stdout.partition("Examples:")[2]


def test_help_lists_all_commands_and_exit_codes() -> None:
    done = CliRunner().invoke(cli, ["--help"])
    listed = done.stdout.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    assert [line.split()[0] for line in listed] == COMMANDS
    codes = done.stdout.partition("Exit codes:\n")[2].splitlines()
    assert [int(line.split()[0]) for line in codes] == sorted(int(code) for code in ExitCode)


def test_version() -> None:
    done = CliRunner().invoke(cli, ["--version"])
    assert done.stdout == f"lh-ci, version {__version__}\n"


def test_a_mistyped_command_is_answered() -> None:
    done = CliRunner().invoke(cli, ["chekc"])
    assert done.exit_code == 2
    assert "no command `chekc`. Did you mean `check`?" in done.stderr


def test_a_mistyped_option_is_answered() -> None:
    done = CliRunner().invoke(cli, ["run", "--workloda", "mlp"])
    assert done.exit_code == 2
    assert "--workload" in done.stderr


def test_outside_of_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli, ["list"], obj=Services(environ={}))
    assert done.exit_code == 2
    assert done.stderr.startswith("lh-ci: no matrix.yaml in ")


def test_root_can_be_given(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = lab("-C", str(lab.tree.root), "list")
    assert done.exit_code == 0
    assert "6 cells, 3 can run here" in done.stdout


def test_a_wrong_setting_is_a_usage_error(lab: Lab) -> None:
    lab.environ["LH_STAET"] = "x"
    done = lab("run", "torch_cpu")
    assert done.exit_code == 2
    assert done.stderr == "lh-ci: LH_STAET is not a setting. Did you mean LH_STATE?\n"


class TestCrash:
    """What nobody expected."""

    @pytest.fixture
    def services(self) -> Services:
        def detect() -> Host:
            raise ZeroDivisionError("cells by zero \x1b[31m")

        return Services(detect=detect, environ={})

    def test_it_is_one_line_and_a_report(self, lab: Lab, services: Services) -> None:
        done = CliRunner().invoke(cli, ["list", "--tier", "core"], obj=services)
        assert done.exit_code == 70
        (line,) = done.stderr.splitlines()
        assert line.startswith("lh-ci: this is a bug of ours")
        path = Path(line.rpartition(" ")[2])
        assert path.parent == lab.tree.root / ".lh" / "crashes"
        report = path.read_text()
        assert "ZeroDivisionError: cells by zero" in report
        assert "command   lh-ci list --tier core" in report
        assert f"lh-ci {__version__}" in report
        assert "pydantic" in report
        assert "python    3." in report

    def test_the_state_folder_can_be_elsewhere(
        self, lab: Lab, services: Services, tmp_path: Path
    ) -> None:
        services = Services(detect=services.detect, environ={"LH_STATE": str(tmp_path / "state")})
        CliRunner().invoke(cli, ["list"], obj=services)
        assert len(list((tmp_path / "state" / "crashes").iterdir())) == 1

    def test_when_it_cannot_be_written_it_is_shown(
        self, lab: Lab, services: Services, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*args: object, **kwargs: object) -> NoReturn:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr("tempfile.mkstemp", full)
        done = CliRunner().invoke(cli, ["list"], obj=services)
        assert done.exit_code == 70
        assert "ZeroDivisionError: cells by zero" in done.stderr


def test_ctrl_c_anywhere_is_130(lab: Lab) -> None:
    def detect() -> Host:
        raise KeyboardInterrupt

    done = CliRunner().invoke(cli, ["list"], obj=Services(detect=detect, environ={}))
    assert (done.exit_code, done.stderr.strip()) == (130, "stopped")


def test_a_reader_that_leaves_is_no_crash(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[bool] = []
    monkeypatch.setattr(root, "_leave_quietly", lambda: closed.append(True))

    def detect() -> Host:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    done = CliRunner().invoke(cli, ["list"], obj=Services(detect=detect, environ={}))
    assert (done.exit_code, done.stderr) == (130, "")
    assert closed == [True]


def test_a_terminal_that_cannot_show_a_character_is_no_reason_to_crash(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "argv", ["lh-ci", "--version"])
    with pytest.raises(SystemExit, match="0"):
        main()
    console().print("2 pass · 1 fail")
    stream.seek(0)
    assert stream.read().endswith("2 pass ? 1 fail\n")


def test_exit_codes_are_unique() -> None:
    assert len({int(code) for code in ExitCode}) == len(ExitCode)
