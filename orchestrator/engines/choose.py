"""Which engine: Docker where it answers, else a virtual environment, said so."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from orchestrator.config.suggest import unknown
from orchestrator.engines.base import Engine
from orchestrator.engines.docker import DockerEngine
from orchestrator.engines.venv import VenvEngine
from orchestrator.errors import InfrastructureError, UsageError
from orchestrator.settings import Settings

EngineName = Literal["auto", "docker", "venv"]
ENGINES: tuple[EngineName, ...] = ("auto", "docker", "venv")
OR_WITHOUT = "Or run without a container: --engine venv."
"""Ends what is said when containers were asked for."""


def choose(name: str, root: Path, settings: Settings) -> tuple[Engine, str]:
    """The engine of that name, and one line about it for people.

    `auto`: Docker where it answers, else `venv`, and the line says why.

    Raises:
        UsageError: there is no such engine.
        InfrastructureError: it cannot be used here; says what to do.
    """
    if name not in ENGINES:
        raise UsageError(unknown("engine", name, ENGINES))
    silent = ""
    if name != "venv":
        docker = DockerEngine(root, settings)
        answer = docker.probe()
        if answer.usable:
            return docker, f"docker ({answer.reason})"
        if name == "docker":
            raise InfrastructureError(f"engine docker: {answer.reason.rstrip('.')}. {OR_WITHOUT}")
        silent = answer.reason.partition(". ")[0].rstrip(".")  # less what to do about it
    venv = VenvEngine(root, settings)
    answer = venv.probe()
    if not answer.usable:
        also = f", and {silent}" if silent else ""
        raise InfrastructureError(f"engine venv: {answer.reason}{also}.")
    return venv, f"venv ({silent}; not isolated)" if silent else "venv (not isolated)"
