"""The root command, and the one place where errors are caught."""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from orchestrator import __version__
from orchestrator.cli.app import App, Services
from orchestrator.cli.params import examples, section
from orchestrator.config.suggest import unknown
from orchestrator.errors import DefinitionError, ExitCode, LighthouseError

_COMMANDS = {
    "check": "orchestrator.cli.check",
    "list": "orchestrator.cli.listing",
    "build": "orchestrator.cli.build",
    "run": "orchestrator.cli.run",
    "show": "orchestrator.cli.show",
    "golden": "orchestrator.cli.golden",
    "repro": "orchestrator.cli.repro",
    "execute": "orchestrator.cli.execute",
    "exec": "orchestrator.cli.exec_job",
    "pack": "orchestrator.cli.pack",
    "plan": "orchestrator.cli.plan",
    "receive": "orchestrator.cli.receive",
    "collect": "orchestrator.cli.collect",
    "buildbot": "orchestrator.cli.buildbot",
    "register": "orchestrator.cli.register",
    "unregister": "orchestrator.cli.unregister",
    "agents": "orchestrator.cli.agents",
    "keys": "orchestrator.cli.keys",
    "results": "orchestrator.cli.results",
    "dashboard": "orchestrator.cli.dashboard",
    "clean": "orchestrator.cli.clean",
    "schema": "orchestrator.cli.schema",
    "workflows": "orchestrator.cli.workflows",
}
"""Command to the module whose `command` it is; imported when needed, so that all start fast."""


class Root(click.Group):
    """Loads commands lazily, answers typos, and ends every failure in one way."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """In the order in which a newcomer meets them."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """None when there is none of that name."""
        if cmd_name not in _COMMANDS:
            return None
        command = importlib.import_module(_COMMANDS[cmd_name]).command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Raises click's UsageError with a suggestion."""
        name = args[0]
        if name not in _COMMANDS and not name.startswith("-"):
            ctx.fail(unknown("command", name, _COMMANDS))
        return super().resolve_command(ctx, args)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: ARG002  click's own handling stays off
        **extra: Any,
    ) -> Any:
        """Runs a command line and ends the process with its exit code."""
        words = list(sys.argv[1:] if args is None else args)

        def call() -> object:
            return click.Group.main(
                self, words, prog_name or "lh-ci", complete_var, standalone_mode=False, **extra
            )

        sys.exit(_guarded(call, words, extra.get("obj")))


def _guarded(call: Callable[[], object], words: list[str], services: object) -> int:
    """Calls, and turns whatever is raised into one message and an exit code."""
    try:
        code = call()
    except click.ClickException as error:
        error.show()
        return int(ExitCode.USAGE)
    except LighthouseError as error:
        _say(_message(error))
        return int(error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        _say("stopped")
        return int(ExitCode.INTERRUPTED)
    except SystemExit:
        # what click and rich do when the reader of our output has left, as `head` does
        _leave_quietly()
        return int(ExitCode.INTERRUPTED)
    except Exception as error:  # noqa: BLE001  the one place that catches everything
        from orchestrator.cli.crash import report

        environ = services.environ if isinstance(services, Services) else os.environ
        _say(report(error, words, environ))
        return int(ExitCode.INTERNAL)
    return int(code) if isinstance(code, int) else int(ExitCode.OK)


def _leave_quietly() -> None:
    """Nobody reads standard output any more: the interpreter must not flush it at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _message(error: LighthouseError) -> str:
    from orchestrator.text import plain, plural

    text = plain(str(error))
    if isinstance(error, DefinitionError) and error.problems[0].file:
        return f"{text}\n{plural(len(error.problems), 'problem')}"
    return f"lh-ci: {text}"


def _say(text: str) -> None:
    click.echo(text, err=True)


@click.group(
    cls=Root,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=examples(
        "lh-ci check                is everything that people edit in order?",
        "lh-ci list pytorch_cpu     which cells are there, which can run here?",
        "lh-ci run pytorch_cpu      run them",
        "lh-ci show last            look at the last run again",
    )
    + "\n\n"
    + section(
        "Exit codes",
        "0    everything that counts is green",
        "1    a core cell failed: the compiler under test is to blame",
        "2    the command line asks for something that does not exist",
        "3    our definitions are wrong: matrix, recipes, workloads, goldens",
        "4    infrastructure: no verdict was reached",
        "70   a bug of this program; a crash report says more",
        "130  stopped by Ctrl-C; what finished is kept",
    ),
)
@click.option(
    "-C",
    "--root",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="The repository to work in. Default: the nearest folder upwards with a matrix.yaml.",
)
@click.version_option(__version__, prog_name="lh-ci")
@click.pass_context
def cli(ctx: click.Context, root: Path | None) -> None:
    """Runs end-to-end MLIR pipelines in containers and compares what they compute with goldens."""
    services = ctx.obj if isinstance(ctx.obj, Services) else Services()
    ctx.obj = App(services, root)


def main() -> None:
    """The console script."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # a terminal that cannot show a character gets `?` instead of a crash
            stream.reconfigure(errors="replace")
    cli.main()
