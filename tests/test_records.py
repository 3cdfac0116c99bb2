"""Records survive the way to JSON and back, and nothing else gets in."""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.job import Constant, Job, OutputError, StageTime, Tolerance, Workload
from orchestrator.job import Outcome as Answer
from orchestrator.records import RecordError, decode, dumps, encode
from tests.property import examples

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.just(10**400)
    | st.floats()
    | st.text(st.characters(), max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


def of(kind: Any, finite: bool = False) -> st.SearchStrategy[Any]:
    """Any value of a type that a record may have; no NaN, because that equals nothing."""
    arguments, origin = get_args(kind), get_origin(kind)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return st.builds(kind, **{f.name: of(hints[f.name]) for f in dataclasses.fields(kind)})
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (Union, types.UnionType):
        return st.one_of(*(of(option, finite=True) for option in arguments))
    if origin is tuple:
        return st.lists(of(arguments[0]), max_size=3).map(tuple)
    if origin is not None and issubclass(origin, Mapping):
        return st.dictionaries(TEXT, of(arguments[1]), max_size=3)
    simple: dict[Any, st.SearchStrategy[Any]] = {
        bool: st.booleans(),
        int: st.integers(),
        float: st.floats(allow_nan=False, allow_infinity=not finite),
        str: TEXT,
        type(None): st.none(),
    }
    return simple[kind]


def strict_json(text: str) -> Any:
    """What a reader gets that knows JSON and nothing of Python's additions to it."""

    def refuse(token: str) -> None:
        pytest.fail(f"{token} is no JSON")

    return json.loads(text.encode(), parse_constant=refuse)


@pytest.mark.parametrize("kind", [Job, Answer], ids=["job", "outcome"])
def test_round_trip_through_strict_json(kind: Any) -> None:
    @examples(60)
    @given(of(kind))
    def check(record: Any) -> None:
        assert decode(kind, strict_json(dumps(record))) == record

    check()


def off(**fields: Any) -> OutputError:
    """An output with some error."""
    defaults: dict[str, Any] = {
        "index": 0,
        "shape": (2, 3),
        "dtype": "f32",
        "elements": 6,
        "mismatches": 1,
        "max_abs": 1.0,
        "max_rel": 1.0,
        "worst": (0, 1),
        "worst_got": 1.0,
        "worst_golden": 0.0,
        "rtol": 0.0,
        "atol": 0.0,
        "reason": "a test",
    }
    return OutputError(**{**defaults, **fields})


def test_numbers_that_json_lacks_survive() -> None:
    error = off(worst_got=math.nan, worst_golden=-math.inf, max_rel=math.inf, max_abs=-0.0)
    back = decode(OutputError, strict_json(dumps(error)))
    assert math.isnan(back.worst_got)
    assert (back.worst_golden, back.max_rel) == (-math.inf, math.inf)
    assert math.copysign(1.0, back.max_abs) == -1.0


def test_a_number_that_is_not_finite_is_no_text_elsewhere() -> None:
    answer = Answer(status="fail", message="NaN", last_words="Infinity")
    assert decode(Answer, strict_json(dumps(answer))) == answer


def test_the_same_record_gives_the_same_bytes() -> None:
    one = Workload(name="w", file="w.py", sha256="0", constants={"a": 1, "b": 2})
    two = Workload(name="w", file="w.py", sha256="0", constants={"b": 2, "a": 1})
    assert dumps(one) == dumps(two)


def test_text_is_readable_in_json_and_newlines_end_no_line() -> None:
    text = dumps(Answer(status="fail", message="größer\nals"))
    assert "größer\\nals" in text
    assert "\n" not in text


def test_a_lone_surrogate_cannot_keep_a_record_from_being_written() -> None:
    answer = Answer(status="error", message="bad \ud800 name")
    assert decode(Answer, json.loads(dumps(answer).encode())).message == "bad ? name"


def test_constants_keep_their_types() -> None:
    constants: dict[str, Constant] = {"a": 1, "b": 1.0, "c": True, "d": "1"}
    workload = Workload(name="w", file="w.py", sha256="0", constants=constants)
    back = decode(Workload, strict_json(dumps(workload))).constants
    assert {k: type(v) for k, v in back.items()} == {"a": int, "b": float, "c": bool, "d": str}


def test_an_integer_will_do_for_a_float() -> None:
    back = decode(Tolerance, {"rtol": 1, "atol": 0, "reason": ""})
    assert isinstance(back.rtol, float)


def test_what_is_left_out_gets_its_default() -> None:
    assert decode(Answer, {"status": "pass"}) == Answer(status="pass")


STAGE: dict[str, Any] = {"stage": "compare", "seconds": 0.5, "exit": "ok"}
WRONG: list[tuple[Any, str]] = [
    ([], r"Outcome: expected an object, got \[\]"),
    ({}, "Outcome: missing key 'status'"),
    ({"status": "passed"}, r"Outcome.status: expected one of \('pass', .*\), got 'passed'"),
    ({"status": ["pass"]}, "Outcome.status: expected one of"),
    ({"status": "pass", "stauts": 1}, "Outcome: unknown key 'stauts'"),
    ({"status": "pass", "message": None}, "Outcome.message: expected str, got None"),
    ({"status": "pass", "message": "\ud800"}, r"Outcome.message: text that has no UTF-8 form"),
    ({"status": "pass", "dropped_bytes": True}, "Outcome.dropped_bytes: expected int, got True"),
    ({"status": "pass", "dropped_bytes": 1.0}, "Outcome.dropped_bytes: expected int, got 1.0"),
    ({"status": "pass", "stages": {}}, "Outcome.stages: expected a list, got {}"),
    ({"status": "pass", "stages": [STAGE, 7]}, r"Outcome.stages\[1\]: expected an object, got 7"),
    (
        {"status": "pass", "stages": [{**STAGE, "seconds": "1"}]},
        r"Outcome.stages\[0\].seconds: expected float, got '1'",
    ),
    (
        {"status": "pass", "stages": [{**STAGE, "seconds": True}]},
        r"Outcome.stages\[0\].seconds: expected float, got True",
    ),
    (
        {"status": "pass", "stages": [{**STAGE, "seconds": 10**400}]},
        r"Outcome.stages\[0\].seconds: a number too large for a float",
    ),
]


@pytest.mark.parametrize(("value", "message"), WRONG, ids=[m for _, m in WRONG])
def test_a_wrong_document_is_refused_with_its_place(value: object, message: str) -> None:
    with pytest.raises(RecordError, match=message):
        decode(Answer, value)


def test_a_value_that_fits_no_option_is_refused() -> None:
    value = {"name": "w", "file": "w.py", "sha256": "0", "constants": {"a": [1]}}
    with pytest.raises(RecordError, match=r"Workload.constants.a: \[1\] fits none of"):
        decode(Workload, value)


def test_what_has_no_json_form_is_refused() -> None:
    with pytest.raises(RecordError, match="int64 has no JSON form"):
        encode(StageTime(stage="s", seconds=np.int64(1), exit="ok"))  # type: ignore[arg-type]


@examples(300)
@given(st.data())
def test_whatever_comes_in_is_refused_or_can_be_written_again(data: st.DataObject) -> None:
    document = encode(Answer(status="fail", errors=(off(),), stages=(StageTime(**STAGE),)))
    assert isinstance(document, dict)
    place: Any = data.draw(
        st.sampled_from([document, document["errors"][0], document["stages"][0]])  # type: ignore[index]
    )
    place[data.draw(st.sampled_from(sorted(place)))] = data.draw(JSON)
    try:
        record = decode(Answer, document)
    except RecordError:
        return
    assert decode(Answer, strict_json(dumps(record))).status == record.status


def test_keys_of_a_mapping_are_text_that_can_be_written() -> None:
    value = {"name": "w", "file": "w.py", "sha256": "0", "constants": {"\udc80": 1}}
    with pytest.raises(RecordError, match=r"Workload\.constants key: text that has no UTF-8 form"):
        decode(Workload, value)
