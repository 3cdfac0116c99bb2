"""What every command works with: the workspace, its definitions, this machine, an engine."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

import click

from orchestrator.backends.clock import Clock
from orchestrator.backends.watch import Limits

if TYPE_CHECKING:
    from orchestrator.backends.perform import Machine
    from orchestrator.backends.recovery import Monitors
    from orchestrator.cli.images import Images
    from orchestrator.config.objects import Config
    from orchestrator.engines.base import Engine
    from orchestrator.fleet.identity import Identity
    from orchestrator.host import Host
    from orchestrator.results.store import Runs
    from orchestrator.settings import Settings

EngineName = Literal["auto", "docker", "venv"]


def _load(root: Path, *, goldens: bool = True, today: dt.date | None = None) -> Config:
    from orchestrator.config.load import load

    return load(root, goldens=goldens, today=today)


def _detect() -> Host:
    import dataclasses

    from orchestrator.gpus import detect_gpus
    from orchestrator.host import detect

    return dataclasses.replace(detect(), gpus=detect_gpus())


def _choose(name: EngineName, root: Path, settings: Settings) -> tuple[Engine, str]:
    from orchestrator.engines.choose import choose

    return choose(name, root, settings)


def _open_images(environ: Mapping[str, str]) -> AbstractContextManager[Images]:
    from orchestrator.cli.images import open_images

    return open_images(environ)


@dataclass(frozen=True, kw_only=True)
class Services:
    """What a test replaces: everything that reaches out of the process."""

    load: Callable[..., Config] = _load
    detect: Callable[[], Host] = _detect
    choose: Callable[[EngineName, Path, Settings], tuple[Engine, str]] = _choose
    open_images: Callable[[Mapping[str, str]], AbstractContextManager[Images]] = _open_images
    clock: Clock = field(default_factory=Clock)
    limits: Limits = field(default_factory=Limits)
    monitors: Monitors | None = None
    """Opens what watches GPUs; None: what watches this machine's."""
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)


class App:
    """Made once for a command line; reads nothing before it is asked to."""

    def __init__(self, services: Services, root: Path | None) -> None:
        """`root` as given with `-C`; None: as set, else looked for upwards from here."""
        self.services = services
        self._root = root

    @cached_property
    def root(self) -> Path:
        """The folder with `matrix.yaml`, absolute. Raises UsageError."""
        from orchestrator.config.load import find_root

        return find_root((self._root or self.settings.root or Path.cwd()).absolute())

    @cached_property
    def settings(self) -> Settings:
        """Raises UsageError for an unknown or wrong `LH_` variable."""
        from orchestrator.settings import Settings

        return Settings.from_environment(self.services.environ)

    @cached_property
    def state(self) -> Path:
        """Where runs and environments are kept, absolute."""
        return self.root / self.settings.state

    @cached_property
    def identity(self) -> Identity | None:
        """The agent that this machine is; None: nobody's.

        Raises:
            UsageError: nobody of that name is registered, or no orchestrator is.
            DefinitionError: their files are wrong.
        """
        if self.settings.agent is None:
            return None
        from orchestrator.fleet.identity import identity

        return identity(self.root, self.state, self.settings.agent)

    @cached_property
    def runs(self) -> Runs:
        """All runs of this workspace."""
        from orchestrator.results.store import Runs

        return Runs(self.state)

    @cached_property
    def config(self) -> Config:
        """All definitions. Raises DefinitionError."""
        return self.services.load(self.root)

    @cached_property
    def host(self) -> Host:
        """The machine at hand."""
        return self.services.detect()

    def engine(self, name: str) -> tuple[Engine, str]:
        """An engine and one line about the choice. Raises InfrastructureError."""
        return self.services.choose(cast(EngineName, name), self.root, self.settings)

    def machine(self, engine: Engine, note: str) -> Machine:
        """What jobs are run with here."""
        from orchestrator.backends.perform import Machine

        return Machine(
            engine=engine,
            note=note,
            gpus=self.host.gpus,
            monitors=self.services.monitors,
            locks=self.locks,
            limits=self.services.limits,
            clock=self.services.clock,
        )

    @property
    def locks(self) -> Path:
        """Where this machine's GPUs are locked."""
        from orchestrator.backends.gpu_lock import usual_folder

        return self.settings.locks or usual_folder()

    def today(self) -> dt.date:
        """The date in UTC: expectations expire for everybody at the same time."""
        return self.services.clock.now().astimezone(dt.UTC).date()

    def shown(self, path: Path) -> str:
        """A path as people would type it: relative to the current folder where it is below."""
        try:
            return str(path.relative_to(Path.cwd()))
        except ValueError:
            return str(path)


pass_app = click.make_pass_decorator(App)
"""Gives a command the `App`."""
