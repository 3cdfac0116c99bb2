"""Bundles and what came of them, as text. What they say is made harmless here."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence

from orchestrator.compare.numeric import details
from orchestrator.harness.gpu.bundle import Bundle, BundledArgument
from orchestrator.harness.gpu.fitting import ordered
from orchestrator.job import Outcome
from orchestrator.text import duration, indented, kernel_rows, plain, size, table

_INDENT = "  "
_BUILT_IN = ("__main__.py", "orchestrator/")
"""What is in every bundle: the program that executes it."""


def of_bundle(bundle: Bundle) -> list[str]:
    """What is in a bundle, in lines."""
    lines = [f"{bundle.cell}"]
    rows = [
        ("workload", bundle.workload + _constants(bundle)),
        ("variant", bundle.variant),
        ("entry", bundle.entry),
        ("driver", f"{bundle.driver}, host code for {bundle.machine}"),
        ("chips", ", ".join(ordered(bundle.chips))),
        ("golden", bundle.golden),
        ("inputs", bundle.inputs_sha256),
        ("made by", ", ".join(f"{name} {v}" for name, v in sorted(bundle.versions.items()))),
    ]
    parts: list[tuple[str, Sequence[Sequence[str]]]] = [
        ("", rows),
        (
            "kernels",
            kernel_rows(f for chip in ordered(bundle.chips) for f in bundle.chips[chip].facts),
        ),
        ("arguments", [_argument(i, each) for i, each in enumerate(bundle.arguments)]),
        ("outputs", list(_results(bundle))),
        ("files", list(_files(bundle))),
    ]
    for title, body in parts:
        lines += [title] if title and body else []
        lines += table(body, indent=_INDENT)
    return [plain(line) for line in lines]


def of_outcome(cell: str, outcome: Outcome) -> list[str]:
    """What came of executing a bundle, in lines."""
    lines = [
        f"{outcome.status:<6}{cell or 'a bundle that cannot be read'}   {outcome.phase}".rstrip()
    ]
    lines += indented(outcome.message, _INDENT)
    rows = [(name, text) for name, text in device_rows(outcome.device) if text]
    if outcome.kernel_ns:
        rows.append(("kernels", kernel_time(outcome.kernel_ns)))
    lines += table(rows, indent=_INDENT)
    lines += [f"{_INDENT}{line}" for error in outcome.errors for line in details(error)]
    return [plain(line) for line in lines]


def device_rows(device: Mapping[str, str | int]) -> Iterator[tuple[str, str]]:
    """What executed a program: the device, its driver, the code that it was given."""
    if not device:
        return
    chip = f" ({device['chip']})" if device.get("chip") else ""
    yield "device", f"{device.get('device', 'unnamed')}{chip}"
    yield "driver", f"{device.get('driver', '')} {device.get('driver_version', '')}".strip()
    yield "library", str(device.get("library", ""))
    yield "code", str(device.get("code", ""))


def kernel_time(kernel_ns: Sequence[int]) -> str:
    """`12.3 us`, or the least and the median of several calls."""
    if not any(kernel_ns):
        return "the driver does not tell how long they took"
    if len(kernel_ns) == 1:
        return duration(kernel_ns[0])
    least, median = duration(min(kernel_ns)), duration(statistics.median(kernel_ns))
    return f"{least} at least, {median} in the median of {len(kernel_ns):,} calls"


def _constants(bundle: Bundle) -> str:
    told = ", ".join(f"{name}={value}" for name, value in sorted(bundle.constants.items()))
    return f" ({told})" if told else ""


def _shape(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "scalar"


def _argument(position: int, argument: BundledArgument) -> tuple[str, ...]:
    spec = argument.formula
    source = "stored" if spec is None else f"by formula, {spec.stream}"
    return (f"argument_{position}", _shape(argument.shape), argument.element, source)


def _results(bundle: Bundle) -> Iterator[tuple[str, ...]]:
    for position, result in enumerate(bundle.results):
        bound = bundle.tolerance.get(result.element)
        allowed = f"{bound.rtol:g} rel + {bound.atol:g} abs" if bound else "must be equal"
        yield (f"output_{position}", _shape(result.shape), result.element, allowed)


def _files(bundle: Bundle) -> Iterator[tuple[str, ...]]:
    own = 0
    for name, about in sorted(bundle.files.items()):
        if name.startswith(_BUILT_IN):
            own += about.size
        else:
            yield (name, size(about.size))
    yield ("the runner", size(own))
