"""What pages say, as frozen records: a template makes HTML of one, `records.encode` its JSON.

Every page has the JSON of its record beside it (`index.html`, `index.json`). Texts come from
results and are data: templates escape them, scripts set them as text. Addresses (`href`) are
paths from the site's root; templates quote them. Nights are ISO 8601 dates in UTC: the day on
which a run started.

Pages from disk cannot fetch: each `data/<name>.json` has a twin `data/<name>.js` that hands the
same document to the script that asked for it, `lighthouse.data("<name>", …);`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

DOCUMENT_SCHEMA = 1

LETTERS: Mapping[str, str] = {
    "pass": "P",
    "fail": "F",
    "error": "E",
    "miss": "M",
    "skip": "S",
    "xfail": "x",
    "xpass": "X",
    "none": "-",
}
"""Status to its letter, in squares and in columns. `none`: no data that night."""

Kind = Literal[
    "regression", "fixed", "new-failure", "still-failing", "new-pass", "appeared", "disappeared"
]
"""How a cell differs between two nights. Green: `pass`, `xfail`; red: `fail`, `error`, `xpass`;
else it has no verdict.

- `regression`: green, then red.
- `fixed`: red, then green.
- `new-failure`: red in another way (status, phase, normalised message), or red with no verdict
  before.
- `still-failing`: red in the same way.
- `new-pass`: green with no verdict before.
- `appeared`: absent (`none`), then there without a verdict (`skip`, `miss`).
- `disappeared`: a verdict before and none now, or there before and absent now.
"""

NewsKind = Literal[
    "regression",
    "new-failure",
    "xpass",
    "vanished",
    "fixed",
    "flaky",
    "still-failing",
    "slower",
    "faster",
    "new-pass",
]
"""What is worth telling of a night, in order of weight."""

Measure = Literal["execute", "lowering"]
"""What is timed: what kernels took where a GPU says, else the stage `execute`; and all stages
before it, from the program to code."""


@dataclass(frozen=True, kw_only=True)
class RunHead:
    """One run of a night."""

    run: str
    started: str
    """UTC, ISO 8601."""
    ended: str | None
    """None: it was stopped, or is running."""
    seconds: float
    engine: str
    version: str
    selection: tuple[str, ...]
    """Empty: the whole matrix."""


@dataclass(frozen=True, kw_only=True)
class Alarm:
    """What makes the whole night doubtful."""

    kind: Literal["fewer-cells", "missed-night", "stopped", "damaged", "sick-agent"]
    text: str


@dataclass(frozen=True, kw_only=True)
class CellRef:
    """A cell as lists show it."""

    cell: str
    href: str
    status: str
    phase: str
    pool: str
    message: str = ""
    """One line, cut."""
    since: str = ""
    """The night from which on it has been in this state."""
    tier: str = "core"


@dataclass(frozen=True, kw_only=True)
class News:
    """Cells that have the same news: of the same kind, pipeline, phase and message."""

    kind: NewsKind
    text: str
    """What happened, in one sentence."""
    cells: tuple[CellRef, ...]
    """The first few."""
    total: int
    """How many there are."""
    before: str = ""
    """Status on the night before."""


@dataclass(frozen=True, kw_only=True)
class NoData:
    """Cells without a verdict tonight, together by pool, pipeline and reason."""

    pool: str
    pipeline: str
    status: str
    """`skip`, `miss` or `none`."""
    total: int
    since: str
    """The first night of the gap of the oldest of them; empty: there never was data."""
    why: str
    cells: tuple[CellRef, ...]
    """The first few."""


@dataclass(frozen=True, kw_only=True)
class Tally:
    """What a pipeline's cells on one pool came to."""

    pool: str
    counts: Mapping[str, int]
    """Status to number; only those that are there."""
    worst: str
    """The status that a square of all of them has."""
    phase: str = ""
    """The first bad phase, when something is bad."""
    worse: int = 0
    """Cells that went red tonight, or are red in a new way."""


@dataclass(frozen=True, kw_only=True)
class MatrixGroup:
    """A pipeline in tonight's matrix."""

    pipeline: str
    about: str
    tier: str
    href: str
    tallies: tuple[Tally | None, ...]
    """One for each pool of the page, in its order; None: no such cells."""


@dataclass(frozen=True, kw_only=True)
class AgentBrief:
    """A machine that is sick tonight."""

    agent: str
    pools: tuple[str, ...]
    misses: int
    attempts: int
    since: str
    why: str
    """The most frequent cause."""


@dataclass(frozen=True, kw_only=True)
class TonightPage:
    """`index`: the newest night."""

    night: str
    """Empty: there are no results at all."""
    started: str
    """UTC, ISO 8601: of the newest run. The page computes its age from it."""
    expected_hours: float
    """A site older than this is late."""
    previous: str
    """The night before that has results; empty: none."""
    runs: tuple[RunHead, ...]
    counts: Mapping[str, int]
    counts_before: Mapping[str, int]
    alarms: tuple[Alarm, ...]
    pools: tuple[str, ...]
    matrix: tuple[MatrixGroup, ...]
    news: tuple[News, ...]
    """In order of weight."""
    agents: tuple[AgentBrief, ...]
    nodata: tuple[NoData, ...]
    schema: int = DOCUMENT_SCHEMA


@dataclass(frozen=True, kw_only=True)
class NightColumns:
    """`data/night/<night>`: every cell of one night, or of one of its runs where it had several,
    as columns; also what filters work on.
    """

    night: str
    """A date, or the name of a run."""
    cells: str
    """Digest: the ids are in `data/cells/<digest>`, in the order of these columns."""
    statuses: str
    """A letter for each cell."""
    phases: tuple[str, ...]
    """Distinct phases; the first is empty."""
    messages: tuple[str, ...]
    """Distinct messages, one line each, cut; the first is empty."""
    alike: tuple[str, ...]
    """For each of `messages` a digest, equal on all nights for those that are alike, apart from
    numbers and places: `orchestrator.results.alike.likeness` of the whole message."""
    phase: tuple[int, ...]
    """Index into `phases`, for each cell whose letter is not P, in order."""
    message: tuple[int, ...]
    """Index into `messages`, likewise."""
    schema: int = DOCUMENT_SCHEMA


@dataclass(frozen=True, kw_only=True)
class CellList:
    """`data/cells/<digest>`: ids of cells, sorted, and the stack and tier of each."""

    cells: tuple[str, ...]
    stacks: tuple[str, ...]
    stack: tuple[int, ...]
    tiers: tuple[str, ...]
    tier: tuple[int, ...]
    hrefs: Mapping[str, str]
    """Pages of those cells whose names are not fit for addresses, by id."""
    schema: int = DOCUMENT_SCHEMA


@dataclass(frozen=True, kw_only=True)
class NightEntry:
    """One night in `data/nights`, or one of its runs where it had several."""

    night: str
    """A date, or the name of a run."""
    cells: str
    counts: Mapping[str, int]
    runs: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class NightList:
    """`data/nights`: what can be compared. A night that did not happen has no entry."""

    nights: tuple[NightEntry, ...]
    """The oldest first."""
    schema: int = DOCUMENT_SCHEMA


Column = tuple[float | None, ...]
"""One number for each night; None: there is none."""


@dataclass(frozen=True, kw_only=True)
class Series:
    """One cell over the nights of a month; a column has one entry for each night."""

    statuses: str
    """Letters."""
    attempts: Column
    """Empty: never more than one."""
    error: Column
    """In units of the tolerance; None: nothing was compared; large: infinite."""
    lowering: Column
    """Seconds from the program to code: all stages before `execute`."""
    execute: Column
    """Seconds: what kernels took where a GPU says, else the stage `execute`."""
    stages: Mapping[str, Column]
    """Milliseconds by stage."""
    low: Column
    """Of `execute`, or of `lowering` for a cell that executed nothing: the noise band; None where
    there are too few samples."""
    high: Column


@dataclass(frozen=True, kw_only=True)
class History:
    """`data/history/<pipeline>/<workload>/<month>`: what charts are drawn from."""

    month: str
    """`2026-11`."""
    nights: tuple[str, ...]
    series: Mapping[str, Series]
    """By `variant@pool`."""
    schema: int = DOCUMENT_SCHEMA


TransitionKind = Kind | Literal["first", "same"]
"""Against a cell's last verdict before. `first`: there was nothing before; `same`: nothing that
counts."""


@dataclass(frozen=True, kw_only=True)
class Transition:
    """A night on which a cell came into another state."""

    night: str
    run: str
    status: str
    phase: str
    message: str
    kind: TransitionKind
    nights: int | None
    """How many nights that happened the state lasted; None: it is the present one."""


@dataclass(frozen=True, kw_only=True)
class ChangeView:
    """One thing that is not as it was on the last green night."""

    what: str
    before: str
    after: str


@dataclass(frozen=True, kw_only=True)
class ErrorView:
    """How far one output was from its golden, in words and numbers."""

    title: str
    lines: tuple[str, ...]
    histogram: tuple[tuple[str, int], ...] = ()
    """Error in units of the tolerance, in words, and how many elements."""
    picture: tuple[tuple[int, ...], ...] = ()
    """Per cent of elements that are off, in a coarse grid of rows of equal length."""


@dataclass(frozen=True, kw_only=True)
class StageView:
    """A stage of the attempt that is shown."""

    stage: str
    seconds: float
    exit: str


@dataclass(frozen=True, kw_only=True)
class SpeedView:
    """A step in a cell's speed."""

    cell: str
    href: str
    measure: Measure
    night: str
    """Of the step."""
    called: str
    """The night on which there were enough samples to call it."""
    before: float
    """Seconds."""
    after: float
    """Seconds."""
    ratio: float
    kind: Literal["slower", "faster"]


@dataclass(frozen=True, kw_only=True)
class FlakyView:
    """Pass and fail with the same fingerprint."""

    cell: str
    href: str
    flakes: int
    trials: int
    rate: float
    lower_bound: float
    """Of the rate, Wilson's interval."""
    last: str
    """The night of the last flake."""


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """The attempt that a cell's page tells of: the last one that did not pass."""

    run: str
    night: str
    number: int
    agent: str
    expectation: str
    notes: tuple[str, ...]
    last_green: str
    """The last night on which it passed; empty: it never did."""
    first_bad: str
    """The first night after that on which it ran and did not pass."""
    changes: tuple[ChangeView, ...]
    """What was different on the first bad night from what it was on the last green one."""
    errors: tuple[ErrorView, ...]
    evidence: tuple[str, ...]
    stages: tuple[StageView, ...]
    last_words: str
    versions: Mapping[str, str]
    hardware: Mapping[str, str]
    environment: str


@dataclass(frozen=True, kw_only=True)
class CellPage:
    """`cells/<pipeline>/<workload>/<variant>@<pool>`: one cell.

    Says only what changes when the cell's state does, so that a night in which nothing happened
    to it leaves its page as it is; what changes every night is in `history`.
    """

    cell: str
    pipeline: str
    workload: str
    variant: str
    pool: str
    tier: str
    stack: str
    status: str
    phase: str
    message: str
    since: str
    """The first night of the present state."""
    declared: bool
    """False: tonight's matrix has it no more."""
    reproduce: str
    """Empty: it never ran."""
    attempt: Attempt | None
    """None: the cell is green, or never ran."""
    transitions: tuple[Transition, ...]
    """The newest first, a bounded number."""
    speed: tuple[SpeedView, ...]
    """The newest first."""
    flaky: FlakyView | None
    months: tuple[str, ...]
    """For which there is `data/history/<pipeline>/<workload>/<month>`, the oldest first."""
    schema: int = DOCUMENT_SCHEMA


@dataclass(frozen=True, kw_only=True)
class Station:
    """A stage on the map of a pipeline."""

    stage: str
    """`ingress`, `lower:bufferize`, `codegen`, `execute`, `compare`."""
    recipe: str
    """Empty: no recipe."""
    shared: tuple[str, ...]
    """Other pipelines that use the recipe."""
    arrived: int
    """Cells whose verdict tonight lies here or beyond, of those that have such a stage."""
    failed: int
    """Cells that came to grief here."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """One way through a pipeline: the trunk, or where it parts for an egress."""

    name: str
    """`trunk`, or an egress."""
    pools: tuple[str, ...]
    stations: tuple[Station, ...]


@dataclass(frozen=True, kw_only=True)
class RecipeView:
    """A recipe, which documents itself."""

    name: str
    about: str
    tier: str
    params: tuple[tuple[str, str, str, str], ...]
    """Name, type, default, about."""
    contract: Mapping[str, str]
    """`requires`, `forbids`, `absent`, `present`, `must change`: in words; only what there is."""
    used_by: tuple[str, ...]
    """Pipelines."""
    uses: tuple[str, ...]
    """Recipes."""
    files: Mapping[str, str]
    """Path to text."""
    failed: int
    """Cells of this pipeline that failed here tonight."""


@dataclass(frozen=True, kw_only=True)
class GridRow:
    """One workload and variant, on all pools of a page."""

    name: str
    """`mlp.f32`."""
    cells: tuple[CellRef | None, ...]


@dataclass(frozen=True, kw_only=True)
class PipelinePage:
    """`pipelines/<name>`."""

    pipeline: str
    about: str
    tier: str
    stack: str
    versions: Mapping[str, str]
    night: str
    counts: Mapping[str, int]
    lines: tuple[Line, ...]
    recipes: tuple[RecipeView, ...]
    text: str
    """Of the file that composes it."""
    pools: tuple[str, ...]
    rows: tuple[GridRow, ...]
    schema: int = DOCUMENT_SCHEMA


@dataclass(frozen=True, kw_only=True)
class WayView:
    """A workload on one way in and one pool, tonight."""

    cell: CellRef
    variant: str
    error: float | None
    """In units of the tolerance."""
    lowering: float | None
    """Seconds."""
    execute: float | None
    """Seconds."""


@dataclass(frozen=True, kw_only=True)
class WorkloadPage:
    """`workloads/<name>`: the same program across all ways in and all pools."""

    workload: str
    about: str
    night: str
    counts: Mapping[str, int]
    ways: tuple[WayView, ...]
    agreement: str
    """In one sentence."""
    schema: int = DOCUMENT_SCHEMA


@dataclass(frozen=True, kw_only=True)
class AgentView:
    """A machine."""

    agent: str
    pools: tuple[str, ...]
    level: str
    """`probation`, `trusted`; empty: it is not registered."""
    contact: str
    first: str
    """Night."""
    last: str
    """Night."""
    nights: int
    """With at least one attempt."""
    uptime: float
    """Nights with attempts, of the nights that happened since its first."""
    attempts: int
    misses: int
    queue_median: float | None
    """Seconds."""
    queue_p95: float | None
    """Seconds."""
    causes: tuple[tuple[str, int], ...]
    """What its misses said, normalised, and how often."""
    drivers: tuple[tuple[str, str], ...]
    """Night, and what drove its devices from then on: driver, firmware, kernel."""
    sick: str
    """Why, since when; empty: it is well."""
    blocks: tuple[str, ...]
    """What stands between it and promotion."""


@dataclass(frozen=True, kw_only=True)
class PoolView:
    """A class of hardware."""

    pool: str
    about: str
    tier: str
    cells: int
    counts: Mapping[str, int]
    agents: tuple[str, ...]
    last: str
    """The last night with a verdict; empty: never."""


@dataclass(frozen=True, kw_only=True)
class AgentsPage:
    """`agents`: pools and agents."""

    night: str
    pools: tuple[PoolView, ...]
    agents: tuple[AgentView, ...]
    schema: int = DOCUMENT_SCHEMA


ExpectationState = Literal["met", "partly", "green", "expired", "unmatched", "no data"]


@dataclass(frozen=True, kw_only=True)
class ExpectationView:
    """An expected failure."""

    cells: str
    status: str
    phase: str
    match: str
    reason: str
    issue: str
    owner: str
    since: str
    expires: str
    age_days: int
    state: ExpectationState
    """`green`: all its cells pass; `partly`: some do; `unmatched`: no cell has such a name."""
    green_since: str
    """Of `green`: the night."""
    met: tuple[CellRef, ...]
    """The first few that fail as expected."""
    well: tuple[CellRef, ...]
    """The first few that passed."""
    other: tuple[CellRef, ...]
    """The first few that failed in another way."""


@dataclass(frozen=True, kw_only=True)
class ExpectationsPage:
    """`expectations`."""

    night: str
    expectations: tuple[ExpectationView, ...]
    """Those that want attention first."""
    schema: int = DOCUMENT_SCHEMA


@dataclass(frozen=True, kw_only=True)
class CoverageSeries:
    """Cells over the nights; columns as long as `TrendsPage.nights`."""

    name: str
    declared: tuple[int, ...]
    runnable: tuple[int, ...]
    passing: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class SpeedSeries:
    """Speed of one stack on one pool, over the nights."""

    stack: str
    pool: str
    execute: tuple[float | None, ...]
    """Geometric mean over cells of seconds, relative to the cell's median; 1.1: 10 % slower."""
    lowering: tuple[float | None, ...]


@dataclass(frozen=True, kw_only=True)
class TrendsPage:
    """`trends`; `data/trends.js` is its twin."""

    nights: tuple[str, ...]
    """Every day from the first night to the last: one that did not happen has zeros and None."""
    missing: tuple[str, ...]
    coverage: tuple[CoverageSeries, ...]
    """`all`, then pipelines, then pools as `@name`."""
    speed: tuple[SpeedSeries, ...]
    steps: tuple[SpeedView, ...]
    """The newest first, a bounded number."""
    flaky: tuple[FlakyView, ...]
    """By the lower bound, the highest first, a bounded number."""
    schema: int = DOCUMENT_SCHEMA


@dataclass(frozen=True, kw_only=True)
class ComparePage:
    """`compare`: any two nights; everything else is in `data/`."""

    night: str
    previous: str
    schema: int = DOCUMENT_SCHEMA


@dataclass(frozen=True, kw_only=True)
class SiteData:
    """`data/site`: what every page's head says, apart from what the page itself is about."""

    title: str
    night: str
    started: str
    """UTC, ISO 8601: of the newest run. Pages compute their age from it."""
    expected_hours: float
    """A site older than this is late."""
    schema: int = DOCUMENT_SCHEMA


@dataclass(frozen=True, kw_only=True)
class Link:
    """An entry of the navigation."""

    href: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Chrome:
    """What every template has besides its page; nothing that changes from night to night."""

    title: str
    root: str
    """From the page to the site's root: `./`, `../../`."""
    href: str
    """Of the page, from the root."""
    nav: tuple[Link, ...]
    json_href: str
    """Of the page's JSON, from the root."""
    feeds: tuple[Link, ...] = ()
