"""`lh-ci build`: stacks made ready, ahead of a run."""

from __future__ import annotations

import click

from orchestrator.backends.perform import sweep
from orchestrator.backends.signals import stopping
from orchestrator.cli.app import App, pass_app
from orchestrator.cli.params import engine_option, examples
from orchestrator.cli.report import TextReporter, console
from orchestrator.config.suggest import unknown
from orchestrator.errors import UsageError


@click.command(
    "build",
    epilog=examples("lh-ci build pytorch", "lh-ci build pytorch jax --engine venv"),
)
@click.argument("stacks", nargs=-1, metavar="STACK...")
@engine_option
@click.option("--force", is_flag=True, help="Build again what is there already.")
@pass_app
def command(app: App, stacks: tuple[str, ...], engine: str, force: bool) -> int:
    """Build the image (or the virtual environment) of stacks, as `run` does when it is missing."""
    known = app.config.matrix.stacks
    if not stacks:
        raise UsageError(f"which stack? Stacks: {', '.join(known)}")
    for stack in stacks:
        if stack not in known:
            raise UsageError(unknown("stack", stack, known))
    chosen, note = app.engine(engine)
    out = console()
    out.print(f"engine {note or chosen.name}")
    clock = app.services.clock
    with TextReporter(out, app.config.pins, len(stacks)) as reporter, stopping(reporter.note):
        sweep(chosen, reporter.note)
        for stack in dict.fromkeys(stacks):
            began = clock.monotonic()
            reporter.preparing(stack)
            environment = chosen.prepare(stack, reporter.progress, force=force)
            reporter.prepared(environment, clock.monotonic() - began)
    return 0
