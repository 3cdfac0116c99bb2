# /// script
# dependencies = ["nox>=2025.2.9", "PyYAML>=6"]
# ///
"""The developer's entry: `nox -l` lists it, `nox -s pytorch_cpu` is the main job.

There is one session for each pipeline of `matrix.yaml`; what follows `--` goes to `lh-ci run`.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any

import nox
import yaml

ROOT = Path(__file__).parent
PYTHON = (3, 11)
STOP_S = 60.0
"""After Ctrl-C: as long as it takes to end containers and to write what is known."""

SERVICES = {
    "github-workflows": ".github/workflows/*.yml",
    "github-actions": ".github/actions/*/action.yml",
    "buildkite": ".buildkite/*.yml",
}
"""Files that services read, by the schema that each publishes."""

nox.needs_version = ">=2025.2.9"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["lint", "tests"]


def _pipelines() -> dict[str, str]:
    """Name to description; what is wrong with the matrix is for `lh-ci check` to tell."""
    try:
        matrix = yaml.safe_load((ROOT / "matrix.yaml").read_text(encoding="utf-8"))
        pipelines: dict[str, Any] = matrix["pipelines"]
        return {str(name): str(each["about"]) for name, each in pipelines.items()}
    except (OSError, yaml.YAMLError, TypeError, KeyError, AttributeError) as error:
        sys.stderr.write(f"matrix.yaml gives no sessions ({type(error).__name__}): lh-ci check\n")
        return {}


def _install(session: nox.Session, extra: str = "") -> None:
    """Installs this repository, unless the session's environment has it as it is now."""
    if sys.version_info[:2] < PYTHON:
        session.error(
            f"Python {'.'.join(map(str, PYTHON))} or later is needed: nox runs on {sys.version}"
        )
    spec = f"{ROOT}{extra}"
    wanted = hashlib.sha256((ROOT / "pyproject.toml").read_bytes() + spec.encode()).hexdigest()
    stamp = Path(session.virtualenv.location) / "lh-installed"
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != wanted:
        session.install("--editable", spec)
        stamp.write_text(wanted, encoding="utf-8")


def _lh_ci(session: nox.Session, *words: str) -> None:
    session.run("lh-ci", *words, interrupt_timeout=STOP_S, terminate_timeout=STOP_S)


def _add_pipeline(name: str, about: str) -> None:
    """Adds a session that runs one pipeline; it fails when `lh-ci` does."""

    def run(session: nox.Session) -> None:
        _install(session)
        _lh_ci(session, "run", name, *session.posargs)

    run.__doc__ = about
    nox.session(name=name)(run)


for _name, _about in _pipelines().items():
    _add_pipeline(_name, _about)


@nox.session(name="lh-ci")
def lh_ci(session: nox.Session) -> None:
    """The command itself: nox -s lh-ci -- show last."""
    _install(session)
    _lh_ci(session, *session.posargs)


@nox.session
def dashboard(session: nox.Session) -> None:
    """The site of this workspace's runs, in site/: nox -s dashboard -- --serve."""
    _install(session, "[dashboard]")
    _lh_ci(session, "dashboard", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """The tests; those that need a container engine, or a Chromium, run where there is one."""
    _install(session, "[browser,buildbot,dashboard,store,test]")
    session.run("pytest", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Formatting, lint and types, tests included; and the files that services read."""
    _install(session, "[browser,dashboard,lint]")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("mypy")
    _lh_ci(session, "workflows", "--check")
    for kind, pattern in SERVICES.items():
        paths = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(pattern))
        session.run("check-jsonschema", "--builtin-schema", f"vendor.{kind}", *paths)
    session.run("zizmor", "--offline", "--no-progress", "--persona=auditor", ".github")


@nox.session
def workflows(session: nox.Session) -> None:
    """Write the files that GitHub and Buildkite read again, from the matrix."""
    _install(session)
    _lh_ci(session, "workflows", "--write")


@nox.session
def schema(session: nox.Session) -> None:
    """Write the JSON Schemas for editors again, from the models."""
    _install(session)
    _lh_ci(session, "schema", "--write")
