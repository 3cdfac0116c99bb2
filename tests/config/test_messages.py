"""One slip in one file: exactly one message, with its place, in plain words."""

from __future__ import annotations

import re

import pytest

from tests.config.tree import Tree

MATRIX = "matrix.yaml"
PINS = "images/pins.yaml"
TOLERANCES = "golden/tolerances.yaml"
TILE = "recipes/schedules/tile.yaml"
TORCH = "recipes/pipelines/torch_cpu.yaml"


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        # keys
        (
            MATRIX,
            "recipe: torch_cpu",
            "recipies: torch_cpu",
            "matrix.yaml:16:5  pipelines.torch_cpu.recipies: unknown key. Did you mean `recipe`?",
        ),
        (
            MATRIX,
            "    timeout: 90s",
            "    colour: red",
            (
                "matrix.yaml:18:5  pipelines.torch_cpu.colour: unknown key. "
                "Keys here: tier, about, stack, recipe, pools, timeout, memory, runs"
            ),
        ),
        (
            MATRIX,
            "        without: [odd]",
            "        whitout: [odd]",
            (
                "matrix.yaml:21:9  pipelines.torch_cpu.runs[0].whitout: unknown key. "
                "Did you mean `without`?"
            ),
        ),
        (
            MATRIX,
            "schema: 1",
            "shema: 1",
            "matrix.yaml:1:1  shema: unknown key. Did you mean `schema`?",
        ),
        (
            TILE,
            "  - schedule: tile.mlir",
            "  - schedule: tile.mlir\n    tool: mlir-opt",
            f"{TILE}:15:5  steps[1].tool: unknown key. Keys here: schedule",
        ),
        (
            MATRIX,
            "    stack: pytorch\n",
            "",
            "matrix.yaml:13:5  pipelines.torch_cpu: missing key `stack`",
        ),
        (
            MATRIX,
            "{tier: core, about: PyTorch}",
            "{}",
            "matrix.yaml:10:12  stacks.pytorch: missing keys `tier`, `about`",
        ),
        (
            MATRIX,
            "  arm-cpu:",
            "  ARM:",
            (
                "matrix.yaml:8:3  pools.ARM: a name begins with a lower-case letter and goes on "
                "with lower-case letters, digits, `_` and `-`"
            ),
        ),
        (
            MATRIX,
            "  mlp: {memory: 512MiB}",
            "  mlp-2: {memory: 512MiB}",
            (
                "matrix.yaml:25:3  workloads.mlp-2: a workload's name begins with a "
                "lower-case letter "
                "and goes on with lower-case letters, digits and `_`"
            ),
        ),
        (
            TOLERANCES,
            "  f32: {",
            "  f23: {",
            "golden/tolerances.yaml:4:3  dtypes.f23: unknown key. Keys here: f16, bf16, f32, f64",
        ),
        # types
        (
            MATRIX,
            "about: PyTorch to CPU code",
            "about: 3.10",
            (
                "matrix.yaml:14:12  pipelines.torch_cpu.about: expected text, got the number 3.10. "
                'Put it in quotes: "3.10"'
            ),
        ),
        (
            MATRIX,
            "about: PyTorch to CPU code",
            "about: 2026-01-01",
            (
                "matrix.yaml:14:12  pipelines.torch_cpu.about: expected text, "
                'got the date 2026-01-01. Put it in quotes: "2026-01-01"'
            ),
        ),
        (
            MATRIX,
            "about: PyTorch to CPU code",
            "about: true",
            (
                "matrix.yaml:14:12  pipelines.torch_cpu.about: expected text, got `true`. "
                'Put it in quotes: "true"'
            ),
        ),
        (
            MATRIX,
            "about: PyTorch to CPU code",
            "about: on",
            (
                'matrix.yaml:14:12  pipelines.torch_cpu.about: write `true`, or "on" if text is '
                "meant: YAML versions disagree on `on`"
            ),
        ),
        (
            MATRIX,
            "about: PyTorch to CPU code",
            "about:",
            "matrix.yaml:14:11  pipelines.torch_cpu.about: expected text, got nothing",
        ),
        (
            MATRIX,
            "[intel-cpu, amd-cpu]",
            "intel-cpu",
            (
                "matrix.yaml:17:12  pipelines.torch_cpu.pools: expected a list, "
                "got the text `intel-cpu`. Write [intel-cpu]"
            ),
        ),
        (
            MATRIX,
            "[intel-cpu, amd-cpu]",
            "[]",
            "matrix.yaml:17:12  pipelines.torch_cpu.pools: at least one entry is needed",
        ),
        (
            MATRIX,
            "[intel-cpu, amd-cpu]",
            "[intel-cpu, AMD]",
            (
                "matrix.yaml:17:24  pipelines.torch_cpu.pools[1]: a name begins with a lower-case "
                "letter and goes on with lower-case letters, digits, `_` and `-`; got the "
                "text `AMD`"
            ),
        ),
        (
            MATRIX,
            "  mlp: {memory: 512MiB}",
            "  mlp: [512MiB]",
            "matrix.yaml:25:8  workloads.mlp: expected a mapping of keys to values, got a list",
        ),
        (
            MATRIX,
            "schema: 1",
            "schema: 2",
            "matrix.yaml:1:9  schema: expected `1`, got the number 2",
        ),
        (
            MATRIX,
            "2027-01-31",
            '"2027-01-31"',
            (
                "matrix.yaml:32:14  expectations[0].expires: expected a date such as 2026-11-20, "
                "got the text `2027-01-31`"
            ),
        ),
        (
            PINS,
            '["3.11"]',
            "[3.10]",
            (
                "images/pins.yaml:10:14  stacks.pytorch.python[0]: expected text, "
                'got the number 3.10. Put it in quotes: "3.10"'
            ),
        ),
        (
            TOLERANCES,
            "rtol: 1.3e-6",
            'rtol: "1.3e-6"',
            (
                "golden/tolerances.yaml:4:15  dtypes.f32.rtol: expected a number, "
                "got the text `1.3e-6`"
            ),
        ),
        (
            TILE,
            "must_change: true",
            "must_change: 1",
            f"{TILE}:9:16  contract.must_change: expected `true` or `false`, got the number 1",
        ),
        (
            TILE,
            'params: {rate: "${size}"}',
            "params: {rate: [1]}",
            (
                f"{TILE}:16:20  steps[2].params.rate: expected `true` or `false`, a number "
                "or text, "
                "got a list"
            ),
        ),
        # values
        (
            MATRIX,
            "tier: core\n    about: PyTorch to",
            "tier: croe\n    about: PyTorch to",
            (
                "matrix.yaml:13:11  pipelines.torch_cpu.tier: expected one of `core`, "
                "`peripheral`, "
                "got the text `croe`. Did you mean `core`?"
            ),
        ),
        (
            MATRIX,
            "timeout: 90s",
            "timeout: 90",
            (
                "matrix.yaml:18:14  pipelines.torch_cpu.timeout: expected a duration such "
                "as `90s`, "
                "`5min` or `1h`, got the number 90"
            ),
        ),
        (
            MATRIX,
            "timeout: 90s",
            "timeout: 0s",
            (
                "matrix.yaml:18:14  pipelines.torch_cpu.timeout: expected a duration such "
                "as `90s`, "
                "`5min` or `1h`, got the text `0s`"
            ),
        ),
        (
            MATRIX,
            "memory: 4GiB",
            "memory: 4GB",
            (
                "matrix.yaml:4:11  defaults.memory: expected a size such as `512MiB` or `4GiB`, "
                "got the text `4GB`"
            ),
        ),
        (
            MATRIX,
            "reason: f16 is not there yet",
            'reason: ""',
            "matrix.yaml:30:13  expectations[0].reason: must not be empty",
        ),
        (
            PINS,
            "22.1.8\n",
            "22.1.x\n",
            (
                "images/pins.yaml:5:12  llvm.version: expected a version such as 22.1.8; "
                "got the text `22.1.x`"
            ),
        ),
        (
            TOLERANCES,
            "rtol: 1.3e-6",
            "rtol: -1",
            "golden/tolerances.yaml:4:15  dtypes.f32.rtol: must be at least 0, got the number -1",
        ),
        (
            TILE,
            "about: Tiles and cleans up, for tests.",
            "about: Tiles",
            f"{TILE}:1:8  about: too short: at least 10 characters, got the text `Tiles`",
        ),
        # steps: one message, whichever of the three kinds was meant
        (
            TILE,
            "  - schedule: tile.mlir",
            "  - shedule: tile.mlir",
            (
                f"{TILE}:14:5  steps[1]: a step has one of the keys `pass`, `schedule`, `recipe`; "
                "this one has `shedule`. Did you mean `schedule`?"
            ),
        ),
        (
            TILE,
            "  - schedule: tile.mlir",
            "  - {}",
            (
                f"{TILE}:14:5  steps[1]: a step has one of the keys `pass`, `schedule`, `recipe`; "
                "this one has none"
            ),
        ),
        (
            TILE,
            "  - schedule: tile.mlir",
            "  - canonicalize",
            (
                f"{TILE}:14:5  steps[1]: expected a step such as `pass: canonicalize`, "
                "got the text `canonicalize`"
            ),
        ),
        (
            TILE,
            "  - schedule: tile.mlir",
            "  - schedule: tile.py",
            (
                f"{TILE}:14:15  steps[1].schedule: expected the path of a `.mlir` file beside the "
                "recipe; got the text `tile.py`"
            ),
        ),
        (
            TORCH,
            "  - recipe: to-llvm",
            "  - pass: cse",
            (
                f"{TORCH}:11:5  steps[1].pass: a pipeline is composed of recipes: put the pass "
                "into one"
            ),
        ),
    ],
)
def test_one_slip(tree: Tree, file: str, old: str, new: str, said: str) -> None:
    tree.edit(file, old, new)
    assert tree.problems(goldens=False) == [said]


def test_no_message_speaks_of_the_validator(tree: Tree) -> None:
    nonsense = "[{a: 1}, 2026-01-01, null, 1.5, true, [], text]"
    for file in (MATRIX, PINS, TOLERANCES, TILE, TORCH):
        text = (tree.root / file).read_text(encoding="utf-8")
        for wrong in (nonsense, "{a: {}}", "1", "text", "null"):
            tree.write(file, re.sub(r"(?m)^(\w+):.*\n((  .*|)\n)*", rf"\1: {wrong}\n", text))
            said = "\n".join(tree.problems(goldens=False))
            assert said
            assert not re.search(r"pydantic|https?:|[Ii]nput should|valid dictionary|Tuple", said)
        tree.write(file, text)


def test_a_slip_hides_no_other(tree: Tree) -> None:
    tree.edit(MATRIX, "timeout: 90s", "timeout: soon")
    tree.edit(MATRIX, "    recipe: torch_cpu", "    recipe: torch_cup")
    tree.edit(MATRIX, "  mlp: {memory: 512MiB}", "  mlq: {memory: 512MiB}")
    assert tree.problems(goldens=False) == [
        (
            "matrix.yaml:16:13  pipelines.torch_cpu.recipe: no recipe `torch_cup`. "
            "Did you mean `torch_cpu`? recipes/pipelines has: torch_cpu"
        ),
        (
            "matrix.yaml:18:14  pipelines.torch_cpu.timeout: expected a duration such as `90s`, "
            "`5min` or `1h`, got the text `soon`"
        ),
        (
            "matrix.yaml:25:3  workloads.mlq: no workload `mlq`. Did you mean `mlp`? "
            "Workloads: mlp, odd, sum"
        ),
    ]


def test_a_wrong_part_is_not_called_missing_elsewhere(tree: Tree) -> None:
    tree.edit(MATRIX, "arch: x86_64, cpu_vendor: GenuineIntel", "arch: x86")
    tree.edit("recipes/schedules/clean-up.yaml", "steps:", "stpes:")
    assert tree.problems() == [
        (
            "matrix.yaml:6:47  pools.intel-cpu.arch: expected one of `x86_64`, `aarch64`, "
            "got the text `x86`. Did you mean `x86_64`?"
        ),
        "recipes/schedules/clean-up.yaml:5:1  stpes: unknown key. Did you mean `steps`?",
    ]


@pytest.mark.parametrize(
    ("text", "got"),
    [("[]", "a list"), ("text", "the text `text`"), ("~", "nothing"), ("3", "the number 3")],
)
def test_a_file_that_is_no_mapping(tree: Tree, text: str, got: str) -> None:
    for file in (MATRIX, PINS, TOLERANCES, TILE, TORCH):
        tree.write(file, text)
        said = f"{file}:1:1  expected a mapping of keys to values, got {got}"
        assert said in tree.problems(goldens=False)
