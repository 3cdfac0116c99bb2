"""`lh-ci buildbot`: the folders of a Buildbot master and of its workers."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orchestrator.cli.app import App, pass_app
from orchestrator.cli.params import examples
from orchestrator.config.suggest import unknown
from orchestrator.errors import UsageError
from orchestrator.text import plural

if TYPE_CHECKING:
    from orchestrator.cli.seat import Access, Seated


@click.group(
    "buildbot",
    epilog=examples(
        "lh-ci buildbot master DIR --worker 'epyc-1=amd-cpu,cross-amd'",
        "lh-ci buildbot worker DIR --name epyc-1 --master HOST:9989 --password-file FILE",
    ),
)
def command() -> None:
    """Set up a Buildbot master that hands jobs to workers, and its workers."""


@command.command(
    "master",
    epilog=examples(
        "lh-ci buildbot master DIR --worker 'epyc-1=amd-cpu,cross-amd' --worker 'box-2=intel-cpu'",
        "lh-ci buildbot master DIR --worker 'h100=nvidia-gpu;chips=sm_90;priority=5'",
        "buildbot start DIR",
    ),
)
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), metavar="DIR")
@click.option(
    "--worker",
    "workers",
    multiple=True,
    metavar="NAME=POOL,…",
    help="One more machine, or other terms for a registered one: the pools that it serves, with "
    ";jobs=N, ;priority=N, ;chips=CHIP,… Any number of times. None: as they were before.",
)
@click.option("--http", default="127.0.0.1:8010", show_default=True, help="Buildbot's web server.")
@click.option("--depot", default="127.0.0.1:8011", show_default=True, help="Where parcels go.")
@click.option("--port", default="9989", show_default=True, help="Where workers connect.")
@click.option("--url", help="Of the web server, as others reach it. Default: as it listens.")
@click.option("--depot-url", help="Of the depot, as others reach it. Default: as it listens.")
@pass_app
def master(app: App, /, folder: Path, workers: tuple[str, ...], **given: Any) -> int:
    """Write a master's folder: builders for each pool, workers, locks, passwords, a database.

    Workers are the agents that are registered with backend `buildbot`, and those that are named.
    Run it again when the matrix or the workers change, then `buildbot reconfig DIR`. Passwords
    that are there stay; each worker's is in DIR/secrets.
    """
    import dataclasses

    from orchestrator.backends.buildbot import fleet as fleets
    from orchestrator.backends.buildbot.folders import create_master, write_master
    from orchestrator.fleet.agents import load_fleet

    _require("buildbot", "buildbot", "buildbot.www")
    terms = fleets.registered(load_fleet(app.root).agents)
    if not workers and (folder / fleets.FLEET_FILE).exists():
        kept = [w for w in fleets.read_fleet(folder).workers if not w.registered]
    else:
        kept = [fleets.parse_worker(worker) for worker in workers]
    named = {worker.name for worker in kept}
    terms = [*(worker for worker in terms if worker.name not in named), *kept]
    http, depot = _endpoint("--http", given["http"]), _endpoint("--depot", given["depot"])
    fleet = dataclasses.replace(
        fleets.make_fleet(app.config.matrix.pools, terms),
        http=http,
        depot=depot,
        port=_endpoint("--port", given["port"]),
        url=_slashed(given["url"] or f"http://{given['http']}"),
        depot_url=_slashed(given["depot_url"] or f"http://{given['depot']}"),
    )
    folder = folder.resolve()
    write_master(folder, fleet)
    create_master(folder)
    served = [name for name in fleet.pools if fleet.serving(name)]
    click.echo(f"{plural(len(fleet.workers), 'worker')} in {plural(len(served), 'pool')}")
    click.echo(f"passwords {folder / fleets.SECRETS}/NAME{fleets.SUFFIX}")
    if fleet.workers:
        click.echo(f"start     buildbot start {folder}")
    else:
        click.echo(
            "next      register an agent, or name a --worker: without any, it does not start"
        )
    return 0


@command.command(
    "worker",
    epilog=examples(
        "lh-ci buildbot worker --name amd-lab-1 --master ci.example.org:9989 --password-file FILE",
        "lh-ci buildbot worker DIR --name epyc-1 --master ci.example.org:9989 --password-file FILE",
        "buildbot-worker start DIR",
    ),
)
@click.argument(
    "folder", type=click.Path(file_okay=False, path_type=Path), metavar="[DIR]", required=False
)
@click.option("--name", required=True, help="As the master knows it.")
@click.option("--master", "place", default="", metavar="HOST:PORT", help="Where it listens.")
@click.option(
    "--connection",
    default="",
    metavar="ENDPOINT",
    help="Instead: a Twisted endpoint, such as tls:HOST:PORT.",
)
@click.option(
    "--password-file",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="With what the master made for this name; only its owner may be able to read it.",
)
@click.option("--admin", default="", help="Whom to ask about this machine.")
@pass_app
def worker(app: App, /, folder: Path | None, name: str, password_file: Path, **given: Any) -> int:
    """Write a worker's folder. It opens connections to the master, and none comes in.

    DIR is known of an agent that `lh-ci register` wrote one for.
    """
    from orchestrator.backends.buildbot import fleet as fleets
    from orchestrator.backends.buildbot import folders
    from orchestrator.cli import seat as seats

    _require("agent", "buildbot_worker")
    if given["place"] and given["connection"]:
        raise UsageError("give --master HOST:PORT or --connection ENDPOINT, not both")
    if given["place"]:
        folders.parse_master(given["place"])
    access = seats.Access(
        folder=folder,
        master=given["place"],
        connection=given["connection"],
        password=fleets.read_secret(password_file),
    )
    seated = seats.read(app.state, name)
    if seated is not None:
        place = _agents_worker(app, seated, access)
    elif folder is None:
        raise UsageError(
            f"where to? {name} was not registered here: give DIR, or begin with lh-ci register"
        )
    else:
        place = _plain_worker(app, name, access, given["admin"])
    click.echo(f"start     {app.shown(folders.programs() / 'buildbot-worker')} start {place}")
    return 0


def _agents_worker(app: App, seated: Seated, access: Access) -> Path:
    """What `register` would write, with what is known now."""
    from orchestrator.cli import seat as seats
    from orchestrator.fleet.agents import load_fleet

    _check_place(access, known=bool(seated.master or seated.connection))
    agents = load_fleet(app.root).agents
    if seated.agent not in agents:
        raise UsageError(unknown("agent", seated.agent, agents))
    config = app.services.load(app.root, goldens=False)
    done = seats.take(app, agents[seated.agent], access, config=config, contained=seated.contained)
    return Path((done or seated).folder)


def _plain_worker(app: App, name: str, access: Access, admin: str) -> Path:
    """A worker that its master names."""
    from orchestrator.backends.buildbot import folders

    _check_place(access, known=False)
    assert access.folder is not None
    folder = access.folder.absolute()
    host, port = folders.parse_master(access.master) if access.master else ("", 0)
    folders.write_worker(
        folder,
        folders.WorkerPlan(
            name=name,
            host=host,
            port=port,
            connection=access.connection,
            password=access.password,
            root=app.root,
            admin=admin,
        ),
    )
    return folder


def _check_place(access: Access, *, known: bool) -> None:
    if not (known or access.master or access.connection):
        raise UsageError("where is the master? Give --master HOST:PORT, or --connection ENDPOINT")


def _require(extra: str, *modules: str) -> None:
    """Raises UsageError where Buildbot's programs are not installed."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise UsageError(
                f"{module.replace('_', '-')} is not installed here: pip install "
                f"'lighthouse-ci[{extra}]'"
            )


def _endpoint(option: str, text: str) -> str:
    """A Twisted endpoint of `[HOST:]PORT`."""
    from orchestrator.backends.buildbot.folders import parse_place

    host, port = parse_place(option, text)
    return f"tcp:{port}" + (f":interface={host}" if host else "")


def _slashed(url: str) -> str:
    return url if url.endswith("/") else f"{url}/"
