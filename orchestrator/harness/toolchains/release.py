"""The LLVM release as tools: mlir-opt, mlir-translate, clang, ld.lld."""

from __future__ import annotations

import ctypes
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.harness.blame import (
    Blamed,
    CompilerFault,
    DefinitionFault,
    MachineFault,
    killed_from_outside,
)
from orchestrator.harness.toolchains.base import (
    Kernel,
    definition_errors,
    first_errors,
    written,
)
from orchestrator.job import Step

_TOOLS = ("mlir-opt", "mlir-translate", "clang", "ld.lld")
_LOADER = "error while loading shared libraries"
_KILLED = "unable to execute command: Killed"
"""What clang says of a linker that the kernel took."""
_RUNTIME = Path(__file__).parent.parent / "runtime" / "float16.c"


@dataclass(frozen=True, kw_only=True)
class SharedObject:
    """A shared object loaded into this process."""

    library: ctypes.CDLL
    symbol: str

    def invoke(self, descriptors: Sequence[int]) -> None:
        """Calls the C wrapper of the entry function with addresses of memref descriptors."""
        function = getattr(self.library, self.symbol)
        function.restype = None
        function(*(ctypes.c_void_p(address) for address in descriptors))


@dataclass(frozen=True)
class ReleaseToolchain:
    """Tools below one prefix, e.g. `/usr/lib/llvm-22`."""

    prefix: Path
    frontend_opt: Path | None
    """The frontend's own optimizer (`torch-mlir-opt`), for its dialects."""
    name: str = "release"

    def versions(self) -> Mapping[str, str]:
        """Version of every tool, as it says itself."""
        return {tool: self._version(self.prefix / "bin" / tool) for tool in _TOOLS}

    def apply(self, step: Step, ir: str) -> str:
        """A module after one step, in generic form."""
        with written(step) as pipeline:
            argv = [str(self._optimizer(step)), "--mlir-print-op-generic"]
            return _run([*argv, f"--pass-pipeline={pipeline}"], ir, source=step.source)

    def compile(self, ir: str, entry: str, scratch: Path) -> Kernel:
        """Translates to LLVM IR, compiles at -O3 for this CPU, links and loads.

        Neither a C compiler nor its libraries are needed: what the code calls (libm, malloc) is
        found in the process that loads it.
        """
        llvm_ir = self.translate(ir, scratch / "module.ll")
        target = self.link((llvm_ir, _RUNTIME), scratch / "module.so", ("-march=native",))
        ctypes.CDLL("libm.so.6", mode=ctypes.RTLD_GLOBAL)
        return SharedObject(library=_load(target), symbol=f"_mlir_ciface_{entry}")

    def translate(self, ir: str, target: Path) -> Path:
        """Writes a module of the LLVM dialect as LLVM IR; returns `target`."""
        target.write_text(_run([str(self._tool("mlir-translate")), "--mlir-to-llvmir"], ir))
        return target

    def link(self, sources: Sequence[Path], target: Path, flags: Sequence[str] = ()) -> Path:
        """Compiles LLVM IR and C into one shared object; returns `target`."""
        argv = [str(self._tool("clang")), "-O3", "-fPIC", "-shared", "-nostdlib", *flags]
        argv += ["-Wno-override-module", f"--ld-path={self._tool('ld.lld')}"]
        _run([*argv, *map(str, sources), "-o", str(target)])
        return target

    def _tool(self, name: str) -> Path:
        return self.prefix / "bin" / name

    def _optimizer(self, step: Step) -> Path:
        if step.tool == "mlir-opt":
            return self._tool("mlir-opt")
        if self.frontend_opt is None:
            raise DefinitionFault(
                f"{step.source}: `tool: frontend-opt`, but this stack has no torch-mlir-opt"
            )
        return self.frontend_opt

    @staticmethod
    def _version(tool: Path) -> str:
        if shutil.which(tool) is None:
            raise MachineFault(f"{tool} is missing or not executable: the image is broken")
        match = re.search(r"\d+\.\d+\.\d+\w*", _run([str(tool), "--version"]))
        return match[0] if match else "unknown"


def _run(argv: Sequence[str], text: str | None = None, *, source: str = "") -> str:
    """Standard output of a tool, or the fault that its end speaks of."""
    try:
        done = subprocess.run(
            argv,
            input=text,
            capture_output=True,
            encoding="utf-8",
            errors="backslashreplace",  # a dying tool may print anything
            check=False,
        )
    except OSError as error:
        raise MachineFault(f"{argv[0]} could not be run: {error}") from error
    if done.returncode == 0:
        return done.stdout
    raise _fault(Path(argv[0]).name, done.returncode, done.stderr, source)


def _fault(tool: str, code: int, stderr: str, source: str) -> Blamed:
    print(stderr, file=sys.stderr)  # the cell's last words
    errors = first_errors(stderr)
    place = f"{source}: " if source else ""
    if "No space left on device" in stderr:
        return MachineFault(f"{tool}: no space left on the device")
    if _LOADER in stderr:
        line = next(line for line in stderr.splitlines() if _LOADER in line)
        return MachineFault(f"{tool} could not be run: {line.partition(_LOADER)[2].strip(' :')}")
    if (outside := killed_from_outside(-code)) or _KILLED in stderr:
        why = outside or killed_from_outside(signal.SIGKILL)
        return MachineFault(f"{tool} was {why}")
    if code < 0:
        name = signal.Signals(-code).name
        return CompilerFault(f"{tool} died of {name}{': ' if errors else ''}{errors}")
    if definition := definition_errors(stderr):
        return DefinitionFault(f"{place}{definition}")
    return CompilerFault(errors or f"{tool} ended with exit code {code} and no error message")


def _load(path: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise CompilerFault(f"the compiled code cannot be loaded: {error}") from error
