"""The developer's entry: one session for each pipeline, and a header that nox can start from."""

from __future__ import annotations

import re
import runpy
import sys
import tomllib
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]


class FakeNox(types.ModuleType):
    """As much of nox as a noxfile needs when it is read."""

    def __init__(self) -> None:
        """Without sessions."""
        super().__init__("nox")
        self.options = types.SimpleNamespace()
        self.sessions: dict[str, Callable[[Any], None]] = {}
        self.Session = object

    def session(self, function: Any = None, *, name: str = "") -> Any:
        """The decorator, with and without arguments."""
        if function is None:
            return lambda decorated: self.session(decorated, name=name)
        self.sessions[name or function.__name__] = function
        return function


class FakeSession:
    """Writes down what would be run."""

    def __init__(self, folder: Path, *posargs: str) -> None:
        """`folder` is the session's environment."""
        self.posargs = posargs
        self.virtualenv = types.SimpleNamespace(location=str(folder))
        self.installed: list[tuple[str, ...]] = []
        self.ran: list[tuple[str, ...]] = []

    def install(self, *words: str) -> None:
        """Noted."""
        self.installed.append(words)

    def run(self, *words: str, **options: object) -> None:
        """Noted."""
        self.ran.append(words)


@pytest.fixture
def nox(monkeypatch: pytest.MonkeyPatch) -> FakeNox:
    """The noxfile, read."""
    fake = FakeNox()
    monkeypatch.setitem(sys.modules, "nox", fake)
    runpy.run_path(str(ROOT / "noxfile.py"))
    return fake


def test_every_pipeline_is_a_session_with_its_description(nox: FakeNox) -> None:
    pipelines = yaml.safe_load((ROOT / "matrix.yaml").read_text())["pipelines"]
    found = {name: function.__doc__ for name, function in nox.sessions.items()}
    assert {name: each["about"] for name, each in pipelines.items()}.items() <= found.items()
    assert set(found) - set(pipelines) == {
        *("lh-ci", "dashboard", "tests", "lint", "schema", "workflows"),
    }
    assert nox.options.reuse_venv == "yes"


def test_what_follows_the_dashes_goes_to_the_command(nox: FakeNox, tmp_path: Path) -> None:
    session = FakeSession(tmp_path, "--cell", "a*")
    nox.sessions["pytorch_cpu"](session)
    assert session.ran == [("lh-ci", "run", "pytorch_cpu", "--cell", "a*")]


def test_an_environment_is_installed_once(nox: FakeNox, tmp_path: Path) -> None:
    first, second = FakeSession(tmp_path), FakeSession(tmp_path)
    nox.sessions["tests"](first)
    nox.sessions["tests"](second)
    assert first.installed == [("--editable", f"{ROOT}[browser,buildbot,dashboard,store,test]")]
    assert second.installed == []
    assert second.ran == [("pytest",)]


def test_the_dashboard_installs_its_libraries(nox: FakeNox, tmp_path: Path) -> None:
    session = FakeSession(tmp_path, "--serve")
    nox.sessions["dashboard"](session)
    assert session.installed == [("--editable", f"{ROOT}[dashboard]")]
    assert session.ran == [("lh-ci", "dashboard", "--serve")]


def test_lint_checks_format_style_and_types(nox: FakeNox, tmp_path: Path) -> None:
    session = FakeSession(tmp_path)
    nox.sessions["lint"](session)
    assert session.ran[:3] == [("ruff", "check"), ("ruff", "format", "--check"), ("mypy",)]
    assert [words[0] for words in session.ran[3:]] == [
        "lh-ci",
        *["check-jsonschema"] * 3,
        "zizmor",
    ]
    checked = [word for words in session.ran for word in words if word.endswith(".yml")]
    assert {".github/workflows/ci.yml", ".github/actions/exec/action.yml"} < set(checked)


def test_its_header_names_what_it_imports() -> None:
    text = (ROOT / "noxfile.py").read_text()
    match = re.match(r"# /// script\n((?:# .*\n)+)# ///\n", text)
    assert match is not None
    header = tomllib.loads(re.sub(r"(?m)^# ?", "", match[1]))
    names = {re.split(r"[<>=]", each)[0].lower() for each in header["dependencies"]}
    assert names == {"nox", "pyyaml"}
