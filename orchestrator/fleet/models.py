"""`agents/*.yaml` as frozen objects: who offers a machine, with which keys, on which terms."""

from __future__ import annotations

import datetime as dt
import re
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from orchestrator.config.models import Bytes, Model, Name, Seconds, Text
from orchestrator.fleet import public

BackendName = Literal["buildbot", "buildkite", "github", "local"]
Level = Literal["probation", "trusted"]

_HOURS = r"^([01]\d|2[0-3]):[0-5]\d-(([01]\d|2[0-3]):[0-5]\d|24:00)$"
_PUBLIC_KEY = r"^ed25519:[A-Za-z0-9+/]{43}=$"


def _hours(value: object) -> object:
    if not isinstance(value, str) or not re.fullmatch(_HOURS, value):
        raise ValueError("expected hours in UTC such as `22:00-06:00`")
    begin, end = minutes(value)
    if begin == end:
        raise ValueError("begins when it ends. Leave `hours` out for the whole day")
    return value


def _public_key(value: object) -> object:
    public.to_bytes(value if isinstance(value, str) else "")
    return value


def minutes(hours: str) -> tuple[int, int]:
    """Begin and end of a window, in minutes after midnight UTC; it may go over midnight."""
    begin, end = (int(part[:2]) * 60 + int(part[3:]) for part in hours.split("-"))
    return begin, end


Hours = Annotated[
    str,
    BeforeValidator(_hours, json_schema_input_type=Annotated[str, Field(pattern=_HOURS)]),
]
PublicKey = Annotated[
    str,
    BeforeValidator(_public_key, json_schema_input_type=Annotated[str, Field(pattern=_PUBLIC_KEY)]),
]


class RegisteredKey(Model):
    """A public key, and the days (UTC) on which it counts."""

    key: PublicKey
    from_: Annotated[dt.date, Field(alias="from")]
    until: dt.date | None = None
    """The last day; none: until it is taken out."""


class RevokedKey(Model):
    """A public key that counts no more, whenever it signed."""

    key: PublicKey
    since: dt.date
    reason: Text


class Keys(Model):
    """Whose signatures count. While keys are rotated there are two."""

    keys: tuple[RegisteredKey, ...]
    revoked: tuple[RevokedKey, ...] = ()


class Terms(Model):
    """What the owner of a machine lets it be used for."""

    pipelines: Annotated[tuple[Text, ...], Field(min_length=1)] = ("*",)
    """Names or globs over the matrix's pipelines."""
    branches: Annotated[tuple[Text, ...], Field(min_length=1)] = ("main",)
    """Names or globs."""
    hours: tuple[Hours, ...] = ()
    """Windows in UTC in which a job may begin, such as `22:00-06:00`; none: always."""
    jobs: Annotated[int, Field(ge=1, le=256)] = 1
    """How many at the same time."""
    priority: Annotated[int, Field(ge=-100, le=100)] = 0
    """Among the agents of a pool, the higher one is given work first."""
    disk: Bytes
    """What a job may take."""
    time: Seconds
    """What a job may take."""
    forks: Literal["never", "approved"] = "never"
    """Code of forks: never, or commits that a maintainer approved."""


class AgentFile(Keys):
    """`agents/<vendor>-<name>.yaml`: one machine, or several that are alike."""

    schema_: Annotated[Literal[1], Field(alias="schema")]
    vendor: Annotated[str, Field(pattern=r"^[a-z][a-z0-9]*$")]
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")]
    owner: Text
    """Who answers for it: a team, a person."""
    contact: Text
    """Where the owner is told that it is sick: an address, a page."""
    backend: BackendName
    pools: Annotated[tuple[Name, ...], Field(min_length=1)]
    chips: tuple[Text, ...] = ()
    """Of its GPUs, such as `sm_90`: what code is made for in pools that name no chips."""
    level: Level
    """`probation`: its results are shown. `trusted`: they can turn a run red."""
    terms: Terms

    @property
    def id(self) -> str:
        """`<vendor>-<name>`, the file's stem."""
        return f"{self.vendor}-{self.name}"


class OrchestratorFile(Keys):
    """`agents/_orchestrator.yaml`: whose jobs agents run, and of which repositories."""

    schema_: Annotated[Literal[1], Field(alias="schema")]
    repositories: Annotated[tuple[Text, ...], Field(min_length=1)]
    """As a job names them, exactly."""
