"""Whether what is handed out is signed, and by whom: from the checkout, keys and settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.cli.app import App
from orchestrator.cli.elsewhere import git, head
from orchestrator.errors import UsageError

if TYPE_CHECKING:
    from orchestrator.backends.signing import Office, Signing
    from orchestrator.fleet.agents import Fleet
    from orchestrator.fleet.keys import OwnKey
    from orchestrator.fleet.models import OrchestratorFile

_UNSIGNED = "for trials on machines of your own: --unsigned"
_SIGNED = "jobs for registered agents are signed by the orchestrator"
HOSTING = ("github",)
"""Backends with machines of their own, which are nobody's agents."""


def signing(app: App, backend: str, *, unsigned: bool) -> Signing:
    """What a dispatcher needs to know.

    Raises:
        UsageError: no result could be taken: nobody is registered, or nothing can be signed.
    """
    from orchestrator.backends.signing import REFUSALS, Signing
    from orchestrator.fleet.agents import load_fleet

    fleet = load_fleet(app.root)
    mine = {name for name, agent in fleet.agents.items() if agent.backend == backend}
    hosted = backend in HOSTING
    unsigned = unsigned or backend == "local"  # this machine's own processes
    if not mine and not unsigned and not hosted:
        raise UsageError(
            f"no agent with backend {backend} is registered in agents/, and results of machines "
            f"that are not are refused. Register them: lh-ci register. Or {_UNSIGNED}"
        )
    return Signing(
        agents=fleet.agents,
        backend=backend,
        office=_office(app, fleet, unsigned=unsigned) if mine else None,
        unsigned=unsigned,
        hosted=hosted,
        refusals=app.state / REFUSALS,
    )


def planned_signing(app: App, backend: str) -> Signing | None:
    """To sign a plan with, where there is a key of the orchestrator; None: there is none.

    Raises:
        UsageError: there is one, and nothing that it signs would count.
    """
    from orchestrator.backends.signing import Signing
    from orchestrator.fleet.agents import load_fleet

    fleet = load_fleet(app.root)
    if not fleet.agents or not _keys(app):
        return None
    office = _office(app, fleet, unsigned=False)
    return Signing(agents=fleet.agents, backend=backend, office=office)


def collecting(app: App) -> Signing:
    """To check what came back of a plan."""
    from orchestrator.backends.signing import REFUSALS, Signing
    from orchestrator.fleet.agents import load_fleet

    agents = load_fleet(app.root).agents
    return Signing(agents=agents, backend="", office=None, refusals=app.state / REFUSALS)


def _office(app: App, fleet: Fleet, *, unsigned: bool) -> Office | None:
    """Who signs; None: nobody can, and nobody has to."""
    from orchestrator.backends.signing import Office

    keys = _keys(app)
    if problem := _problem(app, fleet.orchestrator, keys):
        if unsigned:
            return None
        raise UsageError(f"{problem}. Or {_UNSIGNED}")
    assert fleet.orchestrator is not None
    return Office(
        signers=keys,
        repository=_repository(app, fleet.orchestrator),
        commit=head(app)[0],
    )


def _keys(app: App) -> tuple[OwnKey, ...]:
    from orchestrator.fleet import keys
    from orchestrator.fleet.envelope import ORCHESTRATOR

    if app.settings.orchestrator_key is not None:
        return (keys.from_text(app.settings.orchestrator_key.reveal()),)
    return keys.own(app.state, ORCHESTRATOR)


def _problem(app: App, file: OrchestratorFile | None, keys: tuple[OwnKey, ...]) -> str:
    """Why nothing that we sign would count; empty: it does."""
    from orchestrator.fleet.agents import ORCHESTRATOR_FILE, key_state

    make = "Make one: lh-ci keys rotate orchestrator, which says"
    if not keys:
        return f"{_SIGNED}, and it has no key on this machine. {make} where to list it"
    if file is None:
        return f"{_SIGNED}, and there is no {ORCHESTRATOR_FILE}. {make} what to write there"
    states = {key.fingerprint: key_state(file, key.fingerprint, app.today()) for key in keys}
    if "valid" in states.values():
        return ""
    told = ", ".join(f"{fingerprint} ({state})" for fingerprint, state in states.items())
    return f"{_SIGNED}, and {ORCHESTRATOR_FILE} lists no key of this machine: {told}"


def _repository(app: App, file: OrchestratorFile) -> str:
    """What jobs name: the one that agents allow; of several, the one that this is a clone of."""
    from orchestrator.config.suggest import listing

    if len(file.repositories) == 1:
        return file.repositories[0]
    url = git(app, "remote", "get-url", "origin")
    if url in file.repositories:
        return url
    raise UsageError(
        f"this checkout is a clone of {url}, which agents/_orchestrator.yaml does not name: "
        f"{listing(file.repositories)}"
    )
