"""Whatever stands in a file, a person gets an answer and never a traceback."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.config.tree import FILES, Tree, make_tree

YAML_FILES = sorted(file for file in FILES if file.endswith(".yaml"))

_WORDS = st.sampled_from(
    ["", "core", "peripheral", "mlp", "tile", "to-llvm", "pytorch", "intel-cpu", "torch_cpu"]
) | st.sampled_from(
    ["f32", "pass", "recipe", "${size}", "${", "*", "[", "0", "90s", "../x.mlir", "2026-01-01", "Ü"]
)
_JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-1, 1) | _WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_WORDS, inner, max_size=3),
    max_leaves=5,
)


def places(data: Any) -> list[tuple[Any, Any]]:
    """Every collection in the data with each of its keys or indexes."""
    keys = list(data) if isinstance(data, dict) else range(len(data))
    here = [(data, key) for key in keys]
    inner = [data[key] for key in keys if isinstance(data[key], (dict, list)) and data[key]]
    return here + [place for value in inner for place in places(value)]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """One repository for all examples; each puts back what it changed."""
    return make_tree(tmp_path_factory.mktemp("tree"))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_file_with_nonsense_in_it(shared: Tree, data: st.DataObject) -> None:
    file = data.draw(st.sampled_from(YAML_FILES))
    document = copy.deepcopy(yaml.safe_load(FILES[file]))
    for _ in range(data.draw(st.integers(1, 3))):
        collection, key = data.draw(st.sampled_from(places(document)))
        change = data.draw(st.sampled_from(["replace", "remove", "rename"]))
        junk = data.draw(_JUNK)
        if change == "replace" or isinstance(collection, list):
            collection[key] = junk
        else:
            value = collection.pop(key)
            if change == "rename":
                collection[data.draw(_WORDS)] = value
        if not places(document):
            break
    text = json.dumps(document, indent=1, default=str)
    try:
        shared.write(file, text)
        for line in shared.problems():
            assert line.strip()
    finally:
        shared.write(file, FILES[file])
