"""What a run keeps of the definitions it was planned from."""

from __future__ import annotations

from orchestrator import records
from orchestrator.config.declare import declare
from orchestrator.config.load import load
from orchestrator.results.declared import Declared
from tests.config.tree import Tree


def test_declarations_are_whole_and_come_back(tree: Tree) -> None:
    config = load(tree.root)
    made = declare(config)
    assert set(made.pipelines) == set(config.matrix.pipelines)
    assert set(made.recipes) == set(config.schedules)
    assert set(made.pools) == set(config.matrix.pools)
    assert set(made.workloads) == set(config.workloads)
    for pipeline in made.pipelines.values():
        assert {stage.recipe for stage in pipeline.stages} <= set(made.recipes)
        assert pipeline.text
    for recipe in made.recipes.values():
        assert recipe.files
        assert all(recipe.files.values())
    (expected,) = made.expectations
    assert (expected.owner, expected.since) == ("maintainers", "2026-11-20")
    assert records.decode(Declared, records.encode(made)) == made


def test_the_digest_follows_what_is_declared(tree: Tree) -> None:
    before = declare(load(tree.root)).digest()
    assert declare(load(tree.root)).digest() == before
    tree.edit("matrix.yaml", "owner: maintainers", "owner: somebody else")
    assert declare(load(tree.root)).digest() != before
