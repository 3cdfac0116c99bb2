"""Two compilers behind one interface, because their versions drift apart.

`release`: the LLVM release of the image, as command-line tools. `bindings`: MLIR's Python
bindings in the frontend's wheel, of another LLVM commit, in process. IR goes between them as
text in generic form, which both read; bytecode and custom syntax do not survive the drift.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from orchestrator.harness.blame import CompilerFault
from orchestrator.harness.elements import Array
from orchestrator.job import Step

SCHEDULE = "lh-schedule.mlir"
"""Name of the file in which a transform-dialect library is handed to an optimizer."""

# `<stdin>:1:2: error:` by the tools, `loc("-":1:2): error:` and `error: "-":1:2:` by the bindings
_SCHEDULE_PLACE = re.compile(
    rf'^(error: |)(?:loc\()?"?[^\s"]*{re.escape(SCHEDULE)}"?:(\d+:\d+)\)?: '
)
_PLACE = re.compile(
    r'^(error: |)(?:<unknown>:0|(?:loc\()?"?(?:<stdin>|-|[^\s"]+\.(?:mlir|ll))"?:\d+:\d+\)?): '
)

_BAD_PIPELINE = (
    "MLIR Textual PassPipeline Parser",
    "failed to add `",
    "unable to schedule pass",
    "could not find a nested named sequence",
)
"""What an optimizer says of text that is no pipeline for a module, whatever the module."""

_GENERIC_OPERATION = re.compile(r'"([A-Za-z_][\w$]*\.[\w$.]+)"\(')


class Kernel(Protocol):
    """Compiled code, ready to be called in this process."""

    def invoke(self, descriptors: Sequence[int]) -> None:
        """Calls the C wrapper of the entry function with addresses of memref descriptors."""


class Toolchain(Protocol):
    """Runs passes and makes machine code.

    Every method raises `CompilerFault` when the compiler refuses or dies, `DefinitionFault` when
    what it was told is not a pipeline at all, `MachineFault` when a tool cannot be run.
    """

    @property
    def name(self) -> str:
        """`release` or `bindings`."""

    def versions(self) -> Mapping[str, str]:
        """Tool to version; raises `MachineFault` when one is missing."""

    def apply(self, step: Step, ir: str) -> str:
        """A module after one step, in generic form."""

    def compile(self, ir: str, entry: str, scratch: Path) -> Kernel:
        """Machine code of a module in the LLVM dialect; `scratch` is a folder for its files."""


def operations(ir: str) -> Counter[str]:
    """How often each operation stands in a module in generic form."""
    return Counter(_GENERIC_OPERATION.findall(ir))


@contextlib.contextmanager
def written(step: Step) -> Iterator[str]:
    """The textual pass pipeline of a step, whose schedule lies in a file meanwhile."""
    with tempfile.TemporaryDirectory() as folder:
        library = None
        if step.library is not None:
            library = Path(folder, SCHEDULE)
            library.write_text(step.library)
        yield pass_pipeline(step, library)


def pass_pipeline(step: Step, library: Path | None) -> str:
    """The textual pass pipeline of a step."""
    passes = [step.passes] if step.passes else []
    if library is not None:
        passes += [
            f"transform-preload-library{{transform-library-paths={library}}}",
            "transform-interpreter",
        ]
    return f"builtin.module({','.join(passes)})"


def first_errors(text: str, limit: int = 3) -> str:
    """The first diagnostics of a compiler's output, without the places in its temporary input.

    A place in a schedule is kept, as `schedule:LINE:COLUMN`: people wrote that text.
    """
    lines = (
        _PLACE.sub(r"\1", _SCHEDULE_PLACE.sub(r"\1schedule:\2: ", line.strip()))
        for line in text.splitlines()
        if "error:" in line or "LLVM ERROR" in line or "Assertion" in line
    )
    told = dict.fromkeys(line for line in lines if line != "error:")
    return "\n".join(list(told)[:limit])


def definition_errors(text: str) -> str:
    """What an optimizer says of a pipeline or schedule that is wrong whatever the module.

    Empty when it complains about the module.
    """
    errors = first_errors(text)
    if not any(sign in text for sign in _BAD_PIPELINE):
        return errors if errors.startswith("schedule:") else ""
    found = errors.splitlines()
    for line in text.splitlines():  # the parser does not always call it an error
        if " option: " in line or line.startswith("failed to add `"):
            found.append(line.strip())
    return "\n".join(
        re.sub(r"MLIR Textual PassPipeline Parser:\d+:\d+: error: ", "", line) for line in found
    )


def call(kernel: Kernel, arguments: Sequence[Array]) -> None:
    """Calls compiled code with arrays as memrefs, inputs first, then outputs.

    The memref descriptor is MLIR's C interface: allocated and aligned pointer, offset, sizes and
    strides in elements (https://mlir.llvm.org/docs/TargetLLVMIR/#c-compatible-wrapper-emission).
    """
    descriptors = [_descriptor(a) for a in arguments]
    kernel.invoke([ctypes.addressof(d) for d in descriptors])


def refuse_overwritten(given: Sequence[Array], originals: Sequence[Array]) -> None:
    """Arguments must come back from compiled code as they went in.

    Raises:
        CompilerFault: one did not.
    """
    for position, (array, original) in enumerate(zip(given, originals, strict=True)):
        if array.tobytes() != original.tobytes():
            raise CompilerFault(f"the compiled code overwrote its argument {position}")


def _descriptor(array: Array) -> ctypes.Structure:
    rank = array.ndim

    class Descriptor(ctypes.Structure):
        _fields_ = (
            ("allocated", ctypes.c_void_p),
            ("aligned", ctypes.c_void_p),
            ("offset", ctypes.c_int64),
            ("sizes", ctypes.c_int64 * rank),
            ("strides", ctypes.c_int64 * rank),
        )

    strides = [s // array.itemsize for s in array.strides]
    return Descriptor(
        array.ctypes.data,
        array.ctypes.data,
        0,
        (ctypes.c_int64 * rank)(*array.shape),
        (ctypes.c_int64 * rank)(*strides),
    )
