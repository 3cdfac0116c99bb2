"""False alarms and power of `dashboards.stats.judge`, measured: `python -m benchmarks.statistics`.

Prints the tables of docs/statistics.md; `--write` puts them there. The seed is fixed: the same
NumPy gives the same numbers, but for the cost in the last line.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.noise import BEYOND, KINDS, Floats, Noise, normal
from dashboards.stats import Judged, Verdict, judge

DOCUMENT = Path(__file__).parent.parent / "docs" / "statistics.md"
BEGIN, END = "<!-- measured: begin -->\n", "<!-- measured: end -->\n"
NIGHTS = 300
AT = 100
"""The night of a planted change."""
DELAYS = (4, 6, 8, 12, 16)
SEED = 20260101


def alarms(found: Judged) -> tuple[float, float]:
    """Steps called, and nights called a drift, in each 1,000 series-nights that were judged."""
    judged = np.count_nonzero(found.verdict >= Verdict.STEADY)
    steps = np.isin(found.verdict, (Verdict.SLOWER, Verdict.FASTER))
    drifts = found.verdict == Verdict.DRIFT
    return 1000 * np.count_nonzero(steps) / judged, 1000 * np.count_nonzero(drifts) / judged


def delays(found: Judged, night: int) -> Floats:
    """(n_series,): nights from a planted step to its call, itself included; inf if not called."""
    steps = found.steps.take(np.abs(found.steps.night - night) <= 3)
    taken = np.full(len(found.verdict), np.inf)
    np.minimum.at(taken, steps.series, steps.called - night + 1.0)
    return taken


def false_alarms(series: int) -> Iterator[Sequence[str]]:
    """Pure noise."""
    yield "noise", "steps", "nights called a drift", "series with a step in 300 nights"
    for name, noise in (KINDS | BEYOND).items():
        found = judge(noise(np.random.default_rng(SEED), (series, NIGHTS)))
        hit = len(np.unique(found.steps.series)) / series
        yield name, *(f"{each:.2f}" for each in alarms(found)), f"{hit:.1%}"


def drifts(series: int) -> Iterator[Sequence[str]]:
    """Slow drifts, from the first night on or from night `AT`, under normal noise."""
    yield "drift, in noise deviations a night", "steps", "drift said of the last 100 nights"
    for since, when in ((0, "from the start"), (AT, f"from night {AT}")):
        for slope in (0.05, 0.1, 0.2, 0.4, 1.0):
            values = normal(0.02)(np.random.default_rng(SEED), (series, NIGHTS))
            values *= np.exp(0.02 * slope * np.maximum(0, np.arange(NIGHTS) - since))
            found = judge(values)
            said = np.mean(found.verdict[:, -100:] == Verdict.DRIFT)
            yield f"{slope} {when}", f"{alarms(found)[0]:.2f}", f"{said:.1%}"


def power(series: int) -> Iterator[Sequence[str]]:
    """One step, after `AT` nights of quiet."""
    late = [f"within {nights}" for nights in DELAYS]
    yield "noise", "step", *late, "dated to the night", "size, typical error"
    kinds: list[tuple[str, float]] = [
        ("normal, 1 %", 1.03),
        ("normal, 1 %", 1.05),
        ("normal, 2 %", 1.05),
        ("normal, 2 %", 1.07),
        ("normal, 2 %", 1.1),
        ("normal, 2 %", 1 / 1.1),
        ("normal, 2 %", 1.3),
        ("normal, 5 %", 1.2),
        ("Student t, 3 degrees, 2 %", 1.1),
        ("log-normal delays", 1.1),
        ("bimodal, 20 % of nights", 1.2),
        ("AR(1), φ = 0.5", 1.1),
        ("5 % spikes", 1.1),
    ]
    for name, ratio in kinds:
        yield name, f"{ratio - 1:+.0%}", *_power(KINDS[name], ratio, series)


def _power(noise: Noise, ratio: float, series: int) -> Iterator[str]:
    values = noise(np.random.default_rng(SEED), (series, AT + 50))
    values[:, AT:] *= ratio
    found = judge(values)
    taken = delays(found, AT)
    for nights in DELAYS:
        yield f"{np.mean(taken <= nights):.1%}"
    near = found.steps.take(np.abs(found.steps.night - AT) <= 3)
    yield f"{np.mean(near.night == AT):.0%}"
    yield f"{np.median(np.abs(near.ratio / ratio - 1)):.1%}"


def detours(series: int) -> Iterator[Sequence[str]]:
    """A step and its revert, under normal noise of 2 %."""
    yield (
        "nights until the revert",
        "+10 %: called",
        "and its revert",
        "+20 %: called",
        "and its revert",
    )
    for nights in (1, 2, 3, 4, 6, 8, 12):
        row = [str(nights)]
        for ratio in (1.1, 1.2):
            values = normal(0.02)(np.random.default_rng(SEED), (series, AT + nights + 50))
            values[:, AT : AT + nights] *= ratio
            steps = judge(values).steps
            up = steps.series[(steps.night >= AT - 3) & (steps.ratio > 1)]
            down = steps.series[(steps.night > AT) & (steps.ratio < 1)]
            row += [
                f"{len(np.unique(each)) / series:.1%}" for each in (up, np.intersect1d(up, down))
            ]
        yield row


def speed() -> str:
    """One sentence: what 7,000 series of 300 nights cost."""
    values = normal(0.02)(np.random.default_rng(SEED), (7000, NIGHTS))
    values[:3500, 150:] *= 1.1
    before = judge(values[:, :-1])
    started = time.process_time()
    judge(values)
    whole = time.process_time()
    judge(values, judged=NIGHTS - 1, steps=before.steps)
    one = time.process_time() - whole
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return (
        f"7,000 series of {NIGHTS} nights, half of them with a step: {whole - started:.1f} s of "
        f"one processor; one more night: {one:.2f} s; at most {peak:.0f} MiB of memory.\n"
    )


def report(series: int) -> str:
    """All tables, as Markdown."""
    parts = [
        f"{series:,} series of {NIGHTS} nights a row; per 1,000 series-nights:\n",
        _table(false_alarms(series)),
        _table(drifts(series)),
        f"A step after {AT} nights, called within so many nights (its first one included):\n",
        _table(power(series)),
        "A step that is reverted, both called within 50 nights:\n",
        _table(detours(series)),
        speed(),
    ]
    return "\n".join(parts)


def _table(rows: Iterator[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(row)} |\n" for row in rows]
    lines.insert(1, f"|{' --- |' * (lines[0].count('|') - 1)}\n")
    return "".join(lines)


def main() -> None:
    """Measures, and prints or writes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.statistics", description=__doc__)
    parser.add_argument("--series", type=int, default=4000, help="series for each row of a table")
    parser.add_argument("--write", action="store_true", help=f"into docs/{DOCUMENT.name}")
    options = parser.parse_args()
    text = report(options.series)
    if not options.write:
        print(text, end="")
        return
    document = DOCUMENT.read_text(encoding="utf-8")
    head, _, rest = document.partition(BEGIN)
    _, _, tail = rest.partition(END)
    DOCUMENT.write_text(head + BEGIN + text + END + tail, encoding="utf-8")


if __name__ == "__main__":
    main()
