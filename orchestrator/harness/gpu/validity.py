"""What no bundle may ask for, however well it is formed."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from orchestrator.harness.elements import FLOATS, storage
from orchestrator.harness.gpu import launches
from orchestrator.harness.gpu.bundle import (
    ARGUMENTS,
    BUFFERS,
    DOCUMENT,
    GOLDEN,
    Bundle,
    BundledArgument,
)
from orchestrator.job import Tolerance, is_plain_path

MAX_FILES = 2000
MAX_BYTES = 2 << 30
"""Of all files together."""
MAX_ARRAY_BYTES = 16 << 30
"""Of all arguments and outputs together: a short formula makes any number of numbers."""
_MAX_RANK = 32
_SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9_.$]{0,199}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def problems(bundle: Bundle) -> Iterator[str]:
    """What is wrong with a bundle's document, in words."""
    yield from _files(bundle)
    yield from _code(bundle)
    yield from _arrays(bundle)
    yield from _program(bundle)
    for i, argument in enumerate(bundle.arguments):
        yield from (f"argument {i}: {problem}" for problem in _formula(argument))
    for element in sorted({result.element for result in bundle.results} & FLOATS):
        if element not in bundle.tolerance:
            yield f"no tolerance for {element}"
        elif not _bounds(bundle.tolerance[element]):
            yield f"the tolerance for {element} is not two numbers of 0 or more"


def _files(bundle: Bundle) -> Iterator[str]:
    if len(bundle.files) > MAX_FILES:
        yield f"{len(bundle.files):,} files; a bundle has at most {MAX_FILES:,}"
    for name, about in bundle.files.items():
        if not is_plain_path(name) or name == DOCUMENT:
            yield f"{name!r:.80} is no name for a file of a bundle"
        if about.size < 0 or not _SHA256.fullmatch(about.sha256):
            yield f"{name}: no size and digest"
    total = sum(about.size for about in bundle.files.values())
    if total > MAX_BYTES:
        yield f"{total:,} bytes of files; a bundle has at most {MAX_BYTES:,}"
    needed = [GOLDEN]
    if any(argument.formula is None for argument in bundle.arguments):
        needed.append(ARGUMENTS)
    if bundle.program and any(buffer.stored for buffer in bundle.program.buffers):
        needed.append(BUFFERS)
    yield from (f"no {name} among its files" for name in needed if name not in bundle.files)


def _code(bundle: Bundle) -> Iterator[str]:
    if not _SYMBOL.fullmatch(bundle.entry):
        yield f"{bundle.entry!r:.80} is no name of a function"
    if not bundle.chips:
        yield "no code for any chip"
    for chip, code in bundle.chips.items():
        if not is_plain_path(chip) or "/" in chip:
            yield f"{chip!r:.80} is no name of a chip"
        for name in (code.library, *code.kernels):
            if name not in bundle.files:
                yield f"{name!r:.80} is not among its files"


def _arrays(bundle: Bundle) -> Iterator[str]:
    if not bundle.results:
        yield "no outputs: there is nothing to compare"
    ports = [(each.element, each.shape) for each in bundle.arguments]
    ports += [(each.element, each.shape) for each in bundle.results]
    for _, shape in ports:
        if len(shape) > _MAX_RANK or any(size < 0 for size in shape):
            yield f"{shape!r:.80} is no shape"
    total = sum(math.prod(shape) * storage(element).itemsize for element, shape in ports)
    if total > MAX_ARRAY_BYTES:
        yield f"{total:,} bytes of arguments and outputs; at most {MAX_ARRAY_BYTES:,} are taken"


def _program(bundle: Bundle) -> Iterator[str]:
    """What is wrong with the launches of a program of kernels alone."""
    if bundle.program is None:
        return
    sizes = [math.prod(each.shape) * storage(each.element).itemsize for each in bundle.arguments]
    yield from launches.problems(bundle.program, bundle.chips, bundle.files, sizes)
    total = sum(buffer.size for buffer in bundle.program.buffers)
    if total > MAX_ARRAY_BYTES:
        yield f"{total:,} bytes of buffers; at most {MAX_ARRAY_BYTES:,} are taken"
    told = [(each.element, each.shape) for each in bundle.results]
    if told != [(view.element, view.shape) for view in bundle.program.outputs]:
        yield "its program has other outputs than it says"


def _formula(argument: BundledArgument) -> Iterator[str]:
    spec = argument.formula
    if spec is None:
        return
    if not all(map(math.isfinite, (spec.divide_by, spec.times, spec.plus))) or not spec.divide_by:
        yield "a formula that gives no numbers"
    through = argument.through
    if through[-1:] != (argument.element,) or not FLOATS.issuperset(through):
        yield f"a formula rounded to {', '.join(through) or 'nothing'}, not to {argument.element}"


def _bounds(tolerance: Tolerance) -> bool:
    """Any comparison with NaN is false: such a tolerance would let everything pass."""
    return all(math.isfinite(x) and x >= 0 for x in (tolerance.rtol, tolerance.atol))
