"""How long the dashboard takes, and how large it is, for a year of nights.

    python -m benchmarks.dashboard --work DIR [--series 7000] [--nights 300] [--asv] [--json]

DIR keeps the made-up year; what is measured is made anew each time. Needs the extras `dashboard`
and `benchmark`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import asv_project, weigh
from benchmarks.child import Cost, measured
from benchmarks.history import events, writing
from benchmarks.history.cells import ROOT
from benchmarks.history.events import MANIFEST, Parameters
from benchmarks.weigh import Folder, Paint, Weight

_MATRIX = "#grid"
_MIB, _KIB = 1 << 20, 1 << 10


@dataclass(frozen=True, kw_only=True)
class Site:
    """What the dashboard came to."""

    full: Cost
    nothing_new: Cost
    """The same again."""
    one_more_night: Cost
    folder: Folder
    index: Weight | None
    """None: without a browser."""
    heaviest: Weight | None
    paint: Paint | None


@dataclass(frozen=True, kw_only=True)
class Peer:
    """What airspeed velocity came to."""

    publish: Cost
    folder: Folder
    index_json: int
    """Bytes: loaded before anything is shown."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """All that was measured."""

    parameters: Parameters
    load: float
    """Of the machine when it began, as `uptime` says; its processors are shared."""
    processors: int
    site: Site
    asv: Peer | None


def main(words: Sequence[str] | None = None) -> None:
    """Measures and prints."""
    options = _parser().parse_args(words)
    parameters = Parameters(series=options.series, nights=options.nights, seed=options.seed)
    load, work = os.getloadavg()[0], options.work.absolute()
    year = made_up(work / "year", parameters)
    report = Report(
        parameters=parameters,
        load=round(load, 2),
        processors=os.cpu_count() or 1,
        site=_site(year, work, look=not options.no_browser),
        asv=_asv(year, work) if options.asv else None,
    )
    text = json.dumps(dataclasses.asdict(report), indent=1) if options.json else table(report)
    sys.stdout.write(f"{text}\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dashboard", description=__doc__)
    parser.add_argument("--work", type=Path, required=True, metavar="DIR")
    parser.add_argument("--series", type=int, default=7000)
    parser.add_argument("--nights", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--asv", action="store_true", help="`asv publish` of the same, too: slow")
    parser.add_argument("--no-browser", action="store_true", help="without weights and paint")
    parser.add_argument("--json", action="store_true")
    return parser


def made_up(folder: Path, parameters: Parameters) -> Path:
    """The made-up year of some parameters, made when it is not there."""
    if not (folder / MANIFEST).is_file() or events.read(folder).parameters != parameters:
        shutil.rmtree(folder, ignore_errors=True)
        writing.generate(folder, parameters)
    return folder


def _site(year: Path, work: Path, *, look: bool) -> Site:
    results, out = _fresh(work / "results"), _fresh(work / "site")
    shutil.copytree(year, results, copy_function=os.link)
    argv = [sys.executable, "-m", "orchestrator", "dashboard", "--results", str(results)]
    argv += ["--out", str(out)]
    full = measured(argv, ROOT)
    again = measured(argv, ROOT)
    index = heaviest = paint = None
    if look:
        with weigh.browser(out) as browser:
            index = browser.weight("index.html")
            pages = [browser.weight(page) for page in weigh.heaviest(out)]
            heaviest = max(pages, key=lambda weight: weight.raw)
            paint = browser.paint("index.html", _MATRIX)
    size = weigh.folder(out)
    writing.one_more(results)
    return Site(
        full=full,
        nothing_new=again,
        one_more_night=measured(argv, ROOT),
        folder=size,
        index=index,
        heaviest=heaviest,
        paint=paint,
    )


def _asv(year: Path, work: Path) -> Peer:
    out = _fresh(work / "asv")
    conf = asv_project.write(year, out)
    argv = [sys.executable, "-m", "asv", "publish", "--no-pull", "--config", str(conf)]
    publish = measured(argv, out)
    return Peer(
        publish=publish,
        folder=weigh.folder(out / "html"),
        index_json=(out / "html" / "index.json").stat().st_size,
    )


def _fresh(folder: Path) -> Path:
    """A folder's path, with nothing there."""
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def table(report: Report) -> str:
    """Lines for people: what, how much, and what it may be at most."""
    site, rows = report.site, []
    rows += _cost("full build", site.full, "30 s, 2,048 MiB")
    rows += _cost("nothing new", site.nothing_new, "")
    rows += _cost("one more night", site.one_more_night, "3 s")
    rows.append(("site", f"{site.folder.files:,} files, {site.folder.bytes / _MIB:,.0f} MiB", ""))
    for name, weight, most in (
        ("index page", site.index, "100 KiB compressed"),
        ("heaviest page", site.heaviest, "300 KiB"),
    ):
        if weight is not None:
            text = f"{weight.raw / _KIB:,.0f} KiB, {weight.gzipped / _KIB:,.0f} KiB compressed"
            rows.append((name, f"{text}, {weight.files} files   {weight.page}", most))
    if site.paint is not None:
        paint = site.paint
        text = f"matrix after {paint.matrix:,.0f} ms, anything after {paint.first_contentful:,.0f}"
        rows.append(("first paint", text, "1,000 ms"))
    if report.asv is not None:
        peer = report.asv
        rows += _cost("asv publish", peer.publish, "")
        text = f"{peer.folder.files:,} files, {peer.folder.bytes / _MIB:,.0f} MiB"
        rows.append(("asv's site", f"{text}, index.json {peer.index_json / _KIB:,.0f} KiB", ""))
    made = report.parameters
    head = f"{made.series:,} series x {made.nights} nights, {report.processors} processors"
    lines = [f"{head}, load {report.load}"]
    lines += [f"{name:<16}{text:<64}{most}".rstrip() for name, text, most in rows]
    return "\n".join(lines)


def _cost(name: str, cost: Cost, most: str) -> list[tuple[str, str, str]]:
    text = f"{cost.wall_s:,.1f} s ({cost.cpu_s:,.1f} s of processors)"
    return [(name, f"{text}, {cost.peak_bytes / _MIB:,.0f} MiB", most)]


if __name__ == "__main__":
    main()
