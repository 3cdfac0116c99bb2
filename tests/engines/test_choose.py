"""Which engine is taken, and what is said about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.engines.base import Availability
from orchestrator.engines.choose import choose
from orchestrator.errors import InfrastructureError, UsageError
from orchestrator.settings import Settings

SILENT = "no container engine answered at unix:///var/run/docker.sock"


def answering(monkeypatch: pytest.MonkeyPatch, *, docker: bool, venv: bool = True) -> None:
    class Docker:
        name = "docker"

        def __init__(self, root: Path, settings: Settings) -> None: ...

        def probe(self) -> Availability:
            return Availability(
                usable=docker, reason="Docker 28.3" if docker else f"{SILENT}. Start it."
            )

    answer = Availability(usable=venv, reason="Python 3.11" if venv else "it needs Linux")
    monkeypatch.setattr("orchestrator.engines.choose.DockerEngine", Docker)
    monkeypatch.setattr("orchestrator.engines.choose.VenvEngine.probe", lambda _: answer)


@pytest.mark.parametrize(
    ("name", "docker", "engine", "note"),
    [
        ("auto", True, "docker", "docker (Docker 28.3)"),
        ("auto", False, "venv", f"venv ({SILENT}; not isolated)"),
        ("docker", True, "docker", "docker (Docker 28.3)"),
        ("venv", True, "venv", "venv (not isolated)"),
    ],
)
def test_the_choice_and_its_note(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, docker: bool, engine: str, note: str
) -> None:
    answering(monkeypatch, docker=docker)
    chosen, said = choose(name, tmp_path, Settings())
    assert (chosen.name, said) == (engine, note)


def test_docker_asked_for_and_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    answering(monkeypatch, docker=False)
    with pytest.raises(InfrastructureError) as caught:
        choose("docker", tmp_path, Settings())
    assert str(caught.value) == (
        f"engine docker: {SILENT}. Start it. Or run without a container: --engine venv."
    )


def test_no_engine_at_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    answering(monkeypatch, docker=False, venv=False)
    with pytest.raises(InfrastructureError) as caught:
        choose("auto", tmp_path, Settings())
    assert str(caught.value) == f"engine venv: it needs Linux, and {SILENT}."


def test_an_engine_that_nobody_knows(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no engine `dokcer`\. Did you mean `docker`\?"):
        choose("dokcer", tmp_path, Settings())
