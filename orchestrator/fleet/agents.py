"""The registered agents: every problem of every file at once, checked against the matrix."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from orchestrator.config.files import Definition, read_definition, read_folder, whole
from orchestrator.config.load import MATRIX
from orchestrator.config.models import Matrix
from orchestrator.config.suggest import unknown
from orchestrator.errors import DefinitionError, Problem, UsageError
from orchestrator.fleet import public
from orchestrator.fleet.models import AgentFile, Keys, OrchestratorFile

FOLDER = "agents"
ORCHESTRATOR_FILE = f"{FOLDER}/_orchestrator.yaml"

KeyState = Literal["valid", "early", "expired", "revoked", "unknown"]


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """Who is registered."""

    agents: Mapping[str, AgentFile]
    """By id, `<vendor>-<name>`."""
    orchestrator: OrchestratorFile | None
    """None: there is no such file, so agents run no jobs."""


def load_fleet(root: Path) -> Fleet:
    """All files of `agents/`; a repository without that folder has none.

    Raises:
        DefinitionError: carries all problems of all files; those of the matrix itself are not
            among them.
    """
    problems: list[Problem] = []
    matrix = read_definition(root, MATRIX, Matrix, [])
    files = read_folder(root, FOLDER, AgentFile, problems)
    orchestrator = None
    if (root / ORCHESTRATOR_FILE).is_file():
        orchestrator = read_definition(root, ORCHESTRATOR_FILE, OrchestratorFile, problems)
    for definition in files.values():
        problems += _check(definition, matrix)
    problems += _shared_keys([*([orchestrator] if orchestrator else []), *files.values()])
    if problems:
        raise DefinitionError(list(dict.fromkeys(problems)))
    return Fleet(
        agents={name: whole(definition) for name, definition in files.items()},
        orchestrator=whole(orchestrator) if orchestrator else None,
    )


def load_own(root: Path, agent: str) -> tuple[AgentFile, OrchestratorFile]:
    """What a machine has to know of itself and of who gives it jobs; the matrix is not read.

    Raises:
        UsageError: nobody of that name is registered, or no orchestrator is.
        DefinitionError: carries all problems of both files.
    """
    known = sorted(p.stem for p in (root / FOLDER).glob("*.yaml") if not p.stem.startswith("_"))
    if agent not in known:
        raise UsageError(f"LH_AGENT: {unknown('agent', agent, known)}")
    if not (root / ORCHESTRATOR_FILE).is_file():
        raise UsageError(
            f"LH_AGENT={agent}: {root} has no {ORCHESTRATOR_FILE}, so nobody's jobs may be run"
        )
    problems: list[Problem] = []
    own = read_definition(root, f"{FOLDER}/{agent}.yaml", AgentFile, problems)
    orchestrator = read_definition(root, ORCHESTRATOR_FILE, OrchestratorFile, problems)
    if problems:
        raise DefinitionError(list(dict.fromkeys(problems)))
    return whole(own), whole(orchestrator)


def key_state(keys: Keys, fingerprint: str, day: dt.date) -> KeyState:
    """Whether the key of a fingerprint counts on a day; a revoked one never does."""
    if any(public.fingerprint(revoked.key) == fingerprint for revoked in keys.revoked):
        return "revoked"
    mine = [each for each in keys.keys if public.fingerprint(each.key) == fingerprint]
    if not mine:
        return "unknown"
    if all(day < each.from_ for each in mine):
        return "early"
    if any(each.from_ <= day and (each.until is None or day <= each.until) for each in mine):
        return "valid"
    return "expired"


def public_key(keys: Keys, fingerprint: str) -> str:
    """The text of the key of a fingerprint, whatever its state; empty when there is none."""
    return next((key for _, key in _every_key(keys) if public.fingerprint(key) == fingerprint), "")


# --- what one file must agree with ------------------------------------------------------------


def _check(definition: Definition[AgentFile], matrix: Definition[Matrix]) -> Iterator[Problem]:
    agent, source = definition.value, definition.source
    if agent is None:
        return
    if agent.id != definition.name:
        text = f"this is agent `{agent.id}`: name the file {FOLDER}/{agent.id}.yaml"
        yield source.problem(("name",), text)
    pools = matrix.declared("pools")
    for i, pool in enumerate(agent.pools):
        if pool not in pools:
            yield source.problem(("pools", i), unknown("pool", pool, pools))
        elif pool in agent.pools[:i]:
            yield source.problem(("pools", i), f"`{pool}` is here twice")
    yield from _check_pipelines(definition, agent, matrix)
    yield from _check_keys(definition, agent)


def _check_pipelines(
    definition: Definition[AgentFile], agent: AgentFile, matrix: Definition[Matrix]
) -> Iterator[Problem]:
    known, taken = matrix.declared("pipelines"), set()
    for i, glob in enumerate(agent.terms.pipelines):
        found = {name for name in known if fnmatchcase(name, glob)}
        taken |= found
        if not found:
            path = ("terms", "pipelines", i)
            yield definition.source.problem(path, unknown("pipeline", glob, known))
    if matrix.value is None or not matrix.complete or not taken:
        return
    served = {pool for name in taken for pool in matrix.value.pipelines[name].pools}
    if served and not served & set(agent.pools) and set(agent.pools) <= set(matrix.value.pools):
        text = "none of these pipelines runs on a pool of this agent"
        yield definition.source.problem(("terms", "pipelines"), text)


def _check_keys(definition: Definition[AgentFile], keys: Keys) -> Iterator[Problem]:
    revoked = {each.key for each in keys.revoked}
    for i, each in enumerate(keys.keys):
        if each.until is not None and each.until < each.from_:
            text = f"the key ends on {each.until}, before it begins on {each.from_}"
            yield definition.source.problem(("keys", i, "until"), text)
        if each.key in revoked:
            text = "this key is revoked below: take it out here"
            yield definition.source.problem(("keys", i, "key"), text)


def _shared_keys(
    files: list[Definition[AgentFile] | Definition[OrchestratorFile]],
) -> Iterator[Problem]:
    """A key names one signer: else a result could be anybody's."""
    first: dict[str, str] = {}
    for definition in files:
        keys: Keys | None = definition.value
        for path, key in _every_key(keys) if keys else ():
            owner = first.setdefault(key, definition.source.file)
            if owner != definition.source.file:
                text = f"this key is in {owner} too: each agent has keys of its own"
                yield definition.source.problem(path, text)


def _every_key(keys: Keys) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Where each key stands, and its text."""
    yield from ((("keys", i, "key"), each.key) for i, each in enumerate(keys.keys))
    yield from ((("revoked", i, "key"), each.key) for i, each in enumerate(keys.revoked))
