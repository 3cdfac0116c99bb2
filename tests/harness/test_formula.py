"""The formula that inputs and parameters come from: goldens depend on its every bit."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from orchestrator.harness.formula import digest, for_input, for_parameter, signed_uniform
from tests.property import examples

SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, max_side=8)
STREAMS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
FULL = 2**64 - 1


def parameter(name: str, initial: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The numbers of a parameter of that name."""
    return for_parameter(name, initial).numbers(initial.shape)


def splitmix64(seed: int, count: int) -> list[int]:
    """The generator as published, one number after the other, in Python's integers."""
    state, numbers = seed, []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) & FULL
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & FULL
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & FULL
        numbers.append(z ^ (z >> 31))
    return numbers


def test_the_reference_is_splitmix64() -> None:
    # the sequence that other implementations give for this seed
    assert splitmix64(1234567, 5) == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


@examples(50)
@given(STREAMS, SHAPES)
def test_values_follow_the_published_generator(stream: str, shape: tuple[int, ...]) -> None:
    seed = int.from_bytes(hashlib.sha256(stream.encode()).digest()[:8], "little")
    wanted = [(n >> 40) / 2**23 - 1 for n in splitmix64(seed, math.prod(shape))]
    found = signed_uniform(stream, shape)
    assert found.shape == shape
    assert found.ravel().tolist() == wanted


@examples(50)
@given(STREAMS, SHAPES)
def test_values_are_signed_and_exact_in_float32(stream: str, shape: tuple[int, ...]) -> None:
    values = signed_uniform(stream, shape)
    assert values.dtype == np.float64
    assert ((values >= -1) & (values < 1)).all()
    assert (values * 2**23 == np.rint(values * 2**23)).all()
    assert (values.astype(np.float32).astype(np.float64) == values).all()


@examples(50)
@given(STREAMS, SHAPES, st.integers(0, 50))
def test_an_element_depends_on_its_position_alone(
    stream: str, shape: tuple[int, ...], more: int
) -> None:
    values = signed_uniform(stream, shape).ravel()
    longer = signed_uniform(stream, (values.size + more,))
    assert (longer[: values.size] == values).all()


def test_values_spread_over_both_signs() -> None:
    values = signed_uniform("input:0", (100_000,))
    counts, _ = np.histogram(values, bins=10, range=(-1, 1))
    assert abs(values.mean()) < 0.01
    assert counts.min() > 9_600
    assert np.unique(values).size > 99_000


def test_streams_differ() -> None:
    one, two = (signed_uniform(name, (1_000,)) for name in ("input:0", "input:1"))
    assert abs(np.corrcoef(one, two)[0, 1]) < 0.1


def test_the_formula_never_changes() -> None:
    # every golden was recorded from these numbers: a new formula makes all of them worthless
    values = signed_uniform("input:0", (3, 1_000))
    found = hashlib.sha256(values.astype("<f8").tobytes()).hexdigest()
    assert found == "f02d071cb704984b8de5834a973c13447ecf0d56c80373a3a418c0a444fbc623"
    assert (values.ravel()[:4] * 2**23).tolist() == [1059372.0, -1282951.0, 6670302.0, 3344723.0]


@pytest.mark.parametrize(
    ("shape", "fan_in"),
    [((8, 4), 4), ((4, 8), 8), ((6, 3, 5, 5), 75), ((1, 1), 1), ((4, 1), 1)],
)
def test_a_matrix_is_scaled_by_its_fan_in(shape: tuple[int, ...], fan_in: int) -> None:
    noise = signed_uniform("parameter:layer.weight", shape)
    found = parameter("layer.weight", np.ones(shape))
    np.testing.assert_allclose(found, noise / math.sqrt(fan_in), rtol=1e-15)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0,)])
def test_an_empty_parameter_stays_empty(shape: tuple[int, ...]) -> None:
    assert parameter("empty", np.zeros(shape)).shape == shape


@pytest.mark.parametrize("constant", [0.0, 1.0, -2.5])
@pytest.mark.parametrize("shape", [(16,), ()])
def test_a_constant_vector_varies_around_its_constant(
    constant: float, shape: tuple[int, ...]
) -> None:
    found = parameter("norm.weight", np.full(shape, constant))
    noise = signed_uniform("parameter:norm.weight", shape)
    np.testing.assert_allclose(found, constant + 0.1 * noise, rtol=1e-15)


@pytest.mark.parametrize(("only", "kept"), [(0.0, 0.0), (1.0, 1.0), (0.37, 0.0)])
def test_the_only_element_of_a_vector_is_drawn_anew_unless_plain(only: float, kept: float) -> None:
    found = parameter("head.bias", np.array([only]))
    np.testing.assert_array_equal(found, kept + 0.1 * signed_uniform("parameter:head.bias", (1,)))


def test_a_vector_that_was_drawn_is_drawn_anew() -> None:
    drawn = np.linspace(-3, 3, 16)
    found = parameter("layer.bias", drawn)
    np.testing.assert_array_equal(found, 0.1 * signed_uniform("parameter:layer.bias", (16,)))


def test_a_parameter_does_not_depend_on_what_was_drawn_before() -> None:
    one, two = (np.random.default_rng(seed).normal(size=(4, 4)) for seed in (1, 2))
    np.testing.assert_array_equal(parameter("w", one), parameter("w", two))


@pytest.mark.parametrize("shape", [(), (3, 5), (2, 0)])
def test_an_input_is_its_stream(shape: tuple[int, ...]) -> None:
    found = for_input(7).numbers(shape)
    assert found.shape == shape
    assert found.tobytes() == signed_uniform("input:7", shape).tobytes()


ARRAY: npt.NDArray[np.float32] = np.arange(6, dtype=np.float32).reshape(2, 3)
CHANGED: dict[str, list[npt.NDArray[np.generic]]] = {
    "shape": [ARRAY.reshape(3, 2)],
    "type": [ARRAY.view(np.int32)],
    "value": [ARRAY + np.float32(1)],
    "sign of zero": [np.where(ARRAY == 0, np.float32(-0.0), ARRAY)],
    "nothing": [],
    "one more": [ARRAY, ARRAY],
    "split": [ARRAY[:1], ARRAY[1:]],
}


@pytest.mark.parametrize("arrays", CHANGED.values(), ids=CHANGED.keys())
def test_digest_tells_apart(arrays: list[npt.NDArray[np.generic]]) -> None:
    assert digest(arrays) != digest([ARRAY])


def test_digest_looks_at_values_and_not_at_memory() -> None:
    assert digest([np.asfortranarray(ARRAY)]) == digest([ARRAY])
    assert digest([np.repeat(ARRAY, 2, axis=1)[:, ::2]]) == digest([ARRAY])
