"""The release's tools: how each way in which one can end is blamed."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.harness.blame import Blamed, CompilerFault, DefinitionFault, MachineFault
from orchestrator.harness.toolchains.release import ReleaseToolchain
from orchestrator.job import Step

STEP = Step(tool="mlir-opt", passes="cse", source="recipes/pipelines/p.yaml:12")


def fake(prefix: Path, body: str, name: str = "mlir-opt") -> ReleaseToolchain:
    """A release whose tool `name` is a shell script."""
    path = prefix / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return ReleaseToolchain(prefix, None)


def says(text: str, end: str = "exit 1") -> str:
    """A script that writes to standard error, and ends."""
    return f"cat >&2 <<'END'\n{text}\nEND\n{end}"


def fault(toolchain: ReleaseToolchain, step: Step = STEP) -> Blamed:
    """What ends a cell whose step is applied."""
    with pytest.raises(Blamed) as caught:
        toolchain.apply(step, "module {}")
    return caught.value


def test_a_tool_gets_the_module_and_the_pipeline_and_answers(tmp_path: Path) -> None:
    toolchain = fake(tmp_path, 'echo "$@"; cat')
    assert toolchain.apply(STEP, "größer\n") == (
        "--mlir-print-op-generic --pass-pipeline=builtin.module(cse)\ngrößer\n"
    )


def test_a_schedule_is_there_while_the_tool_runs_and_gone_after(tmp_path: Path) -> None:
    body = 'path=${2#*paths=}; path=${path%%\\}*}; printf "%s " "$path"; cat "$path"'
    step = Step(tool="mlir-opt", passes="", library="// a schedule")
    path, _, text = fake(tmp_path, body).apply(step, "").partition(" ")
    assert text == "// a schedule"
    assert not Path(path).exists()


FAULTS: dict[str, tuple[str, type[Blamed], str]] = {
    "pass": (
        says("<stdin>:2:8: error: 'linalg.copy' op failed\n  ^\n<stdin>:2:8: note: see"),
        CompilerFault,
        "error: 'linalg.copy' op failed",
    ),
    "code": ("exit 3", CompilerFault, "mlir-opt ended with exit code 3 and no error message"),
    "signal": ("kill -SEGV $$", CompilerFault, "mlir-opt died of SIGSEGV"),
    "taken by the kernel": (
        "kill -KILL $$",
        MachineFault,
        "mlir-opt was killed from outside (SIGKILL), most likely because memory ran out",
    ),
    "stopped by somebody": (
        "kill -TERM $$",
        MachineFault,
        "mlir-opt was killed from outside (SIGTERM)",
    ),
    "a linker taken by the kernel": (
        says("clang: error: unable to execute command: Killed", "exit 254"),
        MachineFault,
        "mlir-opt was killed from outside (SIGKILL), most likely because memory ran out",
    ),
    "abort": (
        says("mlir-opt: F.cpp:1: Assertion `x' failed.\nStack dump:", "kill -ABRT $$"),
        CompilerFault,
        "mlir-opt died of SIGABRT: mlir-opt: F.cpp:1: Assertion `x' failed.",
    ),
    "crash in a schedule": (
        says("/t/lh-schedule.mlir:4:3: error: op failed", "kill -SEGV $$"),
        CompilerFault,
        "mlir-opt died of SIGSEGV: schedule:4:3: error: op failed",
    ),
    "no memory": (
        says("LLVM ERROR: out of memory", "kill -ABRT $$"),
        CompilerFault,
        "mlir-opt died of SIGABRT: LLVM ERROR: out of memory",
    ),
    "pass name": (
        says(
            "<unknown>:0: error: MLIR Textual PassPipeline Parser:1:1: error: 'ces' does not "
            "refer to a registered pass or pass pipeline\nces\n^\n"
        ),
        DefinitionFault,
        f"{STEP.source}: error: 'ces' does not refer to a registered pass or pass pipeline",
    ),
    "pass option": (
        says(
            "<unknown>:0: error: <Pass-Options-Parser>: no such option bogus\n\n"
            "failed to add `cse` with options `bogus=1`\n"
        ),
        DefinitionFault,
        (
            f"{STEP.source}: error: <Pass-Options-Parser>: no such option bogus\n"
            "failed to add `cse` with options `bogus=1`"
        ),
    ),
    "option value": (
        says(
            "mlir-opt: for the --top-down option: '3' is invalid value for boolean argument!\n"
            "<unknown>:0: error: \nfailed to add `canonicalize` with options `top-down=3`\n"
        ),
        DefinitionFault,
        (
            f"{STEP.source}: mlir-opt: for the --top-down option: '3' is invalid value for boolean "
            "argument!\nfailed to add `canonicalize` with options `top-down=3`"
        ),
    ),
    "nesting": (
        says(
            "<unknown>:0: error: Can't add pass 'P' restricted to 'builtin.module' on a "
            "PassManager intended to run on 'func.func', did you intend to nest?\n"
            "failed to add `p` with options ``\n"
        ),
        DefinitionFault,
        (
            f"{STEP.source}: error: Can't add pass 'P' restricted to 'builtin.module' on a "
            "PassManager intended to run on 'func.func', did you intend to nest?\n"
            "failed to add `p` with options ``"
        ),
    ),
    "anchor": (
        says(
            "<unknown>:0: error: unable to schedule pass 'P' on a PassManager intended to run on "
            "'builtin.module'!"
        ),
        DefinitionFault,
        (
            f"{STEP.source}: error: unable to schedule pass 'P' on a PassManager intended to run "
            "on 'builtin.module'!"
        ),
    ),
    "schedule": (
        says("/t/lh-schedule.mlir:1:21: error: custom op 'transform.bogus' is unknown\nx\n^"),
        DefinitionFault,
        f"{STEP.source}: schedule:1:21: error: custom op 'transform.bogus' is unknown",
    ),
    "schedule without an entry": (
        says(
            "<stdin>:0:0: error: could not find a nested named sequence with name: __transform_main"
        ),
        DefinitionFault,
        f"{STEP.source}: error: could not find a nested named sequence with name: __transform_main",
    ),
    "payload of a schedule": (
        says("<stdin>:2:8: error: cannot vectorize\n/t/lh-schedule.mlir:4:3: note: applied here"),
        CompilerFault,
        "error: cannot vectorize",
    ),
    "full disk": (
        says("LLVM ERROR: IO failure on output stream: No space left on device"),
        MachineFault,
        "mlir-opt: no space left on the device",
    ),
    "library": (
        says(
            "/x/mlir-opt: error while loading shared libraries: libLLVM.so.22: cannot open shared "
            "object file: No such file or directory",
            "exit 127",
        ),
        MachineFault,
        (
            "mlir-opt could not be run: libLLVM.so.22: cannot open shared object file: No such "
            "file or directory"
        ),
    ),
    "no text": (
        "printf 'error: \\377\\n' >&2; exit 1",
        CompilerFault,
        "error: \\xff",
    ),
}


@pytest.mark.parametrize(("body", "kind", "message"), FAULTS.values(), ids=FAULTS.keys())
def test_an_end_is_blamed_on_its_layer(
    tmp_path: Path, body: str, kind: type[Blamed], message: str
) -> None:
    found = fault(fake(tmp_path, body))
    assert type(found) is kind
    assert found.message == message


def test_last_words_are_all_of_standard_error(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fault(fake(tmp_path, says("a remark\n<stdin>:1:1: error: bad")))
    assert capfd.readouterr().err == "a remark\n<stdin>:1:1: error: bad\n\n"


def test_a_tool_that_reads_nothing_is_no_broken_pipe(tmp_path: Path) -> None:
    toolchain = fake(tmp_path, "exit 0")
    assert toolchain.apply(STEP, "x" * (1 << 20)) == ""


@pytest.mark.parametrize("there", [False, True], ids=["missing", "not executable"])
def test_a_tool_that_cannot_be_run_is_the_machines_fault(tmp_path: Path, there: bool) -> None:
    toolchain = fake(tmp_path, "exit 0")
    tool = tmp_path / "bin" / "mlir-opt"
    tool.chmod(0o644)
    if not there:
        tool.unlink()
    found = fault(toolchain)
    assert isinstance(found, MachineFault)
    assert found.message.startswith(f"{tool} could not be run: ")
    with pytest.raises(MachineFault, match="mlir-opt is missing or not executable"):
        toolchain.versions()


def test_the_frontends_optimizer_is_its_own(tmp_path: Path) -> None:
    release = fake(tmp_path, "exit 1")
    fake(tmp_path, "echo mine", "torch-mlir-opt")
    step = Step(tool="frontend-opt", passes="p", source="recipes/pipelines/p.yaml:3")
    toolchain = ReleaseToolchain(release.prefix, tmp_path / "bin" / "torch-mlir-opt")
    assert toolchain.apply(step, "") == "mine\n"
    found = fault(ReleaseToolchain(release.prefix, None), step)
    assert isinstance(found, DefinitionFault)
    assert found.message.startswith("recipes/pipelines/p.yaml:3: `tool: frontend-opt`, but")


def test_versions_are_what_the_tools_say(tmp_path: Path) -> None:
    answers = {
        "mlir-opt": "LLVM (http://llvm.org/):\n  LLVM version 22.1.8",
        "mlir-translate": "LLVM version 24.0.0git",
        "clang": "Debian clang version 22.1.8 (1~deb12u1)",
        "ld.lld": "LLD, of no number",
    }
    for tool, answer in answers.items():
        toolchain = fake(tmp_path, f"echo '{answer}'", tool)
    assert toolchain.versions() == {
        "mlir-opt": "22.1.8",
        "mlir-translate": "24.0.0git",
        "clang": "22.1.8",
        "ld.lld": "unknown",
    }


COPY = "shift $(($# - 1)); printf %s > $1"


def compiled(prefix: Path, scratch: Path, **bodies: str) -> Blamed:
    """What ends a cell whose module is compiled with fake tools."""
    good = {"mlir-translate": "cat", "clang": COPY.replace("%s", "ELF")}
    for tool, body in {**good, **{k.replace("_", "-"): v for k, v in bodies.items()}}.items():
        toolchain = fake(prefix, body, tool)
    with pytest.raises(Blamed) as caught:
        toolchain.compile("; llvm", "main", scratch)
    return caught.value


def test_each_tool_of_the_way_to_code_is_named(tmp_path: Path) -> None:
    found = compiled(tmp_path, tmp_path, mlir_translate="kill -SEGV $$")
    assert (type(found), found.message) == (CompilerFault, "mlir-translate died of SIGSEGV")
    found = compiled(tmp_path, tmp_path, clang="exit 70")
    assert found.message == "clang ended with exit code 70 and no error message"


def test_code_that_cannot_be_loaded_is_the_compilers_fault(tmp_path: Path) -> None:
    found = compiled(tmp_path, tmp_path)
    assert isinstance(found, CompilerFault)
    assert found.message.startswith("the compiled code cannot be loaded: ")
    assert (tmp_path / "module.ll").read_text() == "; llvm"
