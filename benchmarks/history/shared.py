"""Texts that many attempts share, made when they change: surroundings, contents, declarations."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from benchmarks.history import draws, fleet, pins
from benchmarks.history.numbers import depends_on, kernels, outputs
from benchmarks.history.state import State
from benchmarks.history.world import Floats, Ints, World
from orchestrator import records
from orchestrator.job import OutputError
from orchestrator.results.declared import Declared, DeclaredExpectation, DeclaredRecipe
from orchestrator.results.history.rows import worst_error

ENGINE = "docker"
_HARNESS = f"#{draws.sha('harness')[:12]}"
_TOLERANCE = f"#{draws.sha('tolerance')[:12]}"


class Contents:
    """What each cell is made of, as rows have it; and the words of it for fingerprints."""

    def __init__(self, world: World) -> None:
        """Makes nothing yet."""
        n = len(world.ids)
        self._world = world
        self._keys: list[object] = [None] * n
        self.texts = np.full(n, "", dtype=object)
        self.words = np.zeros((n, 2), dtype=np.uint64)

    def update(self, state: State) -> None:
        """Brings all cells to a state."""
        for number, route in enumerate(self._world.routes):
            revisions = tuple((part, r, state.recipes.get(r, 0)) for part, r in route.recipes)
            for cell in self._world.route_cells[number]:
                workload = self._world.keys[cell].workload
                key = (revisions, state.workloads.get(workload, 0))
                if self._keys[cell] != key:
                    self._keys[cell] = key
                    text = self._text(int(cell), *key)
                    self.texts[cell] = text
                    self.words[cell] = draws.words([text])[0]

    def _text(self, cell: int, revisions: tuple[tuple[str, str, int], ...], edited: int) -> str:
        key = self._world.keys[cell]
        pipeline = self._world.matrix.declared.pipelines[key.pipeline]
        parts = {
            "execute": str(self._world.of_cell(cell).executes),
            "golden": f"#{draws.sha('golden', key.workload, key.variant)[:12]}",
            "harness": _HARNESS,
            "ingress": pipeline.ingress,
            "ingress options": f"#{draws.sha('options', pipeline.ingress)[:12]}",
            "memory": "4294967296",
            "timeout": "120.0" if self._world.of_cell(cell).driver else "60.0",
            "tolerance": _TOLERANCE,
            **{part: f"#{draws.sha(name, edit)[:12]}" for part, name, edit in revisions},
        }
        sha = draws.sha("workload", key.workload, edited)
        return records.dumps({"constants": {}, "parts": parts, "workload_sha256": sha})


class Numbers:
    """What each cell computes and how far off that is."""

    def __init__(self, world: World) -> None:
        """Makes nothing yet."""
        n = len(world.ids)
        self._world = world
        self._epochs: list[str | None] = [None] * n
        self._package = [depends_on(cell) for cell in world.ids]
        self._stacks = [world.stack(cell) for cell in range(n)]
        self.texts = np.full(n, "[]", dtype=object)
        """JSON of the errors of a cell that passes."""
        self.errors: list[tuple[OutputError, ...]] = [()] * n
        self.worst: Floats = np.full(n, np.nan)
        self.kernels = [kernels(world, cell) for cell in range(n)]
        self.kernel_texts = np.array([records.dumps(each) for each in self.kernels], dtype=object)

    def update(self, state: State) -> None:
        """Brings all cells to a state."""
        for cell, package in enumerate(self._package):
            versions = state.versions[self._stacks[cell]]
            epoch = versions.get(package, "")
            if self._epochs[cell] != epoch:
                self._epochs[cell] = epoch
                errors = outputs(self._world, cell, versions)
                self.errors[cell] = errors
                self.texts[cell] = records.dumps(errors)
                self.worst[cell] = worst_error(errors)


class Surroundings:
    """What jobs ran in: one for each stack on each machine."""

    def __init__(self, world: World) -> None:
        """Numbers stacks and machines."""
        self._world = world
        self._stacks = sorted(world.matrix.declared.stacks)
        self.stack: Ints = np.array(
            [self._stacks.index(world.stack(cell)) for cell in range(len(world.ids))]
        )
        self.machines = [agent for machines in world.agents for agent in machines]
        sizes = [len(machines) for machines in world.agents]
        self.first: Ints = np.cumsum([0, *sizes[:-1]])
        """Of each pool: the number of its first machine."""
        self.sizes: Ints = np.array(sizes)

    def code(self, cells: Ints, machines: Ints) -> Ints:
        """A number for each of the surroundings; `machines` are numbers of machines."""
        return self.stack[cells] * len(self.machines) + machines

    def texts(self, state: State, codes: Ints) -> tuple[list[str], draws.Words]:
        """As rows have them, and the words of what fingerprints are made from."""
        found = [self._text(state, *divmod(int(c), len(self.machines))) for c in codes]
        return [text for text, _ in found], draws.words(key for _, key in found)

    def _text(self, state: State, stack: int, machine: int) -> tuple[str, str]:
        agent, name = self.machines[machine], self._stacks[stack]
        hardware = state.hardware[agent.key]
        fields: dict[str, object] = {
            "engine": ENGINE,
            "environment": environment(name, state.versions[name]),
            "toolchain": "release",
            "versions": pins.told(state.versions[name]),
            "hardware": hardware,
            "device": fleet.device(self._world.matrix.gpus[agent.pool], hardware),
        }
        lasting = {k: v for k, v in hardware.items() if k != "memory_bytes"}
        return records.dumps(fields), records.dumps({**fields, "hardware": lasting, "device": ""})


def environment(stack: str, versions: Mapping[str, str]) -> str:
    """The digest of an image."""
    return f"sha256:{draws.sha(stack, str(sorted(versions.items())))}"


class Declarations:
    """What was declared, night by night; the same object while nothing changed."""

    def __init__(self, world: World) -> None:
        """Takes the matrix as it is in the end."""
        self._base = world.matrix.declared
        self._key: object = None
        self._last: tuple[str, Declared] = ("", self._base)

    def at(self, state: State) -> tuple[str, Declared]:
        """The digest, and what it is of."""
        key = (
            {name: dict(versions) for name, versions in state.versions.items()},
            dict(state.recipes),
            frozenset(state.gone),
            tuple(state.expectations),
        )
        if key != self._key:
            declared = self._made(state)
            self._key, self._last = key, (declared.digest(), declared)
        return self._last

    def _made(self, state: State) -> Declared:
        base = self._base
        return dataclasses.replace(
            base,
            recipes={
                name: _edited(recipe, state.recipes.get(name, 0))
                for name, recipe in base.recipes.items()
            },
            stacks={
                name: dataclasses.replace(stack, versions=dict(state.versions[name]))
                for name, stack in base.stacks.items()
            },
            workloads={
                name: about for name, about in base.workloads.items() if name not in state.gone
            },
            expectations=tuple(
                DeclaredExpectation(**{k: str(v) for k, v in each.model_dump().items()})
                for each in state.expectations
            ),
        )


def _edited(recipe: DeclaredRecipe, times: int) -> DeclaredRecipe:
    """With its first file changed so often."""
    if not times or not recipe.files:
        return recipe
    (file, text), *others = recipe.files.items()
    return dataclasses.replace(
        recipe, files={file: f"{text}# edited {times} times\n", **dict(others)}
    )
