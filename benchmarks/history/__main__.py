"""The command: `python -m benchmarks.history OUT`."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.history import writing
from benchmarks.history.events import Parameters


def main(words: Sequence[str] | None = None) -> None:
    """Writes a history, or one more night of one."""
    options = _parser().parse_args(words)
    if options.one_more_night:
        planted = writing.one_more(options.out)
    else:
        parameters = Parameters(
            series=options.series,
            nights=options.nights,
            seed=options.seed,
            density=options.density,
            hostile=options.hostile,
            start=options.start,
        )
        planted = writing.generate(options.out, parameters)
    counts = Counter(event.kind for event in planted.events)
    told = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
    sys.stdout.write(f"{options.out}: {len(planted.nights)} nights; planted: {told}\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.history", description=__doc__)
    parser.add_argument("out", type=Path, metavar="OUT", help="a folder for the archives")
    parser.add_argument("--series", type=int, default=7000, help="cells (default: %(default)s)")
    parser.add_argument("--nights", type=int, default=300, help="days (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--density", type=float, default=1.0, help="0: only the first event of each kind"
    )
    parser.add_argument("--start", default="2026-01-25", help="the first night, an ISO date")
    parser.add_argument(
        "--hostile", action="store_true", help="names, texts and numbers that attack a reader"
    )
    parser.add_argument(
        "--one-more-night", action="store_true", help="add the next night to OUT; no other options"
    )
    return parser


if __name__ == "__main__":
    main()
