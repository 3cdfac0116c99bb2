"""What people declared when a run was planned: kept beside its results, so that these explain
themselves without the repository.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from orchestrator import records
from orchestrator.config.models import ParamValue
from orchestrator.job import Contract

DECLARED_SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class DeclaredParam:
    """A typed parameter of a recipe."""

    type: str
    default: ParamValue | None = None
    """None: whoever uses the recipe must set it."""
    about: str = ""


@dataclass(frozen=True, kw_only=True)
class DeclaredRecipe:
    """A focused recipe."""

    about: str
    tier: str
    params: Mapping[str, DeclaredParam] = field(default_factory=dict)
    contract: Contract = field(default_factory=Contract)
    uses: tuple[str, ...] = ()
    """Recipes that it is made of, besides its own steps."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Path in the repository to text: the recipe, then its schedules, then its check."""


@dataclass(frozen=True, kw_only=True)
class DeclaredStage:
    """A station of a pipeline."""

    stage: str
    """As results name it, without `lower:`."""
    recipe: str


@dataclass(frozen=True, kw_only=True)
class DeclaredEgress:
    """Where a pipeline parts for one driver."""

    kernels: tuple[DeclaredStage, ...]
    host: tuple[DeclaredStage, ...]


@dataclass(frozen=True, kw_only=True)
class DeclaredPipeline:
    """An end-to-end path."""

    about: str
    tier: str
    stack: str
    ingress: str
    """The frontend's module."""
    stages: tuple[DeclaredStage, ...]
    egress: Mapping[str, DeclaredEgress] = field(default_factory=dict)
    """By driver; none: code for the CPU."""
    pools: tuple[str, ...] = ()
    text: str = ""
    """Of the file that composes it."""


@dataclass(frozen=True, kw_only=True)
class DeclaredPool:
    """A class of hardware."""

    about: str
    tier: str
    egress: str = ""
    """The egress of a pipeline that makes code for its GPUs; empty: CPUs."""
    executes: bool = True
    """False: code is made and checked, on any machine."""


@dataclass(frozen=True, kw_only=True)
class DeclaredStack:
    """A container image."""

    about: str
    tier: str
    versions: Mapping[str, str] = field(default_factory=dict)
    """`LLVM` and the frontend's packages."""


@dataclass(frozen=True, kw_only=True)
class DeclaredExpectation:
    """A strict expected failure."""

    cells: str
    """Glob over cell ids."""
    status: str
    phase: str
    match: str
    reason: str
    issue: str
    owner: str
    since: str
    """ISO 8601 date."""
    expires: str
    """ISO 8601 date."""


@dataclass(frozen=True, kw_only=True)
class Declared:
    """`declared.json` of a run."""

    pipelines: Mapping[str, DeclaredPipeline]
    recipes: Mapping[str, DeclaredRecipe]
    pools: Mapping[str, DeclaredPool]
    stacks: Mapping[str, DeclaredStack]
    workloads: Mapping[str, str] = field(default_factory=dict)
    """Name to the first line of what it says of itself."""
    expectations: tuple[DeclaredExpectation, ...] = ()
    schema: int = DECLARED_SCHEMA

    def digest(self) -> str:
        """64 hexadecimal digits over all of it."""
        return hashlib.sha256(records.dumps(self).encode()).hexdigest()
