"""Whatever a tool returns can be recorded."""

import dataclasses
import enum
import json
import time
import tracemalloc
from collections import OrderedDict, UserDict, deque
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.actors.agent.result import MAX_BYTES, normalise


class Plain(enum.Enum):
    A = "a"


class Text(enum.StrEnum):
    A = "a"


class Number(enum.IntEnum):
    ONE = 1


class Point(msgspec.Struct):
    x: int
    y: Any = None


@dataclasses.dataclass
class Pair:
    left: Any
    right: Any


class Hostile:
    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


class Liar:
    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise RuntimeError("no")


class BadList(list[Any]):
    def __iter__(self) -> Any:
        raise RuntimeError("no")


class EndlessList(list[Any]):
    def __iter__(self) -> Any:
        while True:
            yield 1


class LoudInt(int):
    def __repr__(self) -> str:
        return "not JSON"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": 1}, {"a": 1}),
        (None, {"result": None}),
        ("x", {"result": "x"}),
        (True, {"result": True}),
        (Decimal("1.50"), {"result": "1.50"}),
        (datetime(2024, 5, 1, tzinfo=UTC), {"result": "2024-05-01T00:00:00+00:00"}),
        (date(2024, 5, 1), {"result": "2024-05-01"}),
        (UUID(int=1), {"result": "00000000-0000-0000-0000-000000000001"}),
        (b"a\xff\x00", {"result": "a\\xff\x00"}),
        (Path("/a"), {"result": "/a"}),
        (Plain.A, {"result": "a"}),
        (Text.A, {"result": "a"}),
        (Number.ONE, {"result": 1}),
        (LoudInt(5), {"result": 5}),
        (float("nan"), {"result": "nan"}),
        ([float("inf"), -float("inf"), 1.5], {"result": ["inf", "-inf", 1.5]}),
        ((1, (2,)), {"result": [1, [2]]}),
        ({10, 9}, {"result": [9, 10]}),
        ({"b", 1}, {"result": ["b", 1]}),
        (deque([1]), {"result": [1]}),
        ({1: "a", "1": "b", None: "c", Plain.A: "d"}, {"1": "a", "1'": "b", "None": "c", "a": "d"}),
        (OrderedDict(a=1), {"a": 1}),
        (UserDict(a=1), {"a": 1}),
        (MappingProxyType({"a": 1}), {"a": 1}),
        (Point(1, Point(2)), {"x": 1, "y": {"x": 2, "y": None}}),
        (Pair(1, [Pair(2, 3)]), {"left": 1, "right": [{"left": 2, "right": 3}]}),
        ([Point(1)], {"result": [{"x": 1, "y": None}]}),
        ("\x00\ud800", {"result": "\x00\ud800"}),
        ({"\x00\ud800": 1}, {"\x00\ud800": 1}),
        (10**5000, {"result": hex(10**5000)}),
        (Hostile(), {"result": "<unprintable Hostile>"}),
        ({"a": Hostile(), "b": 1}, {"a": "<unprintable Hostile>", "b": 1}),
        (Liar(), None),
        (BadList([1]), {"result": "[1]"}),
        (Point, None),
        (ValueError("x"), {"result": "x"}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_value_has_a_plain_form(value: object, expected: dict[str, Any] | None) -> None:
    result = normalise(value)
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    if expected is not None:
        assert result == expected
        assert str(result) == str(expected)  # 1 is not True


def test_cycles_are_marked_and_shared_parts_are_not() -> None:
    cycle: dict[str, Any] = {"name": "x"}
    cycle["self"] = [cycle]
    assert normalise(cycle) == {"name": "x", "self": ["<cycle>"]}
    shared = [1]
    assert normalise([shared, shared]) == {"result": [[1], [1]]}
    looped = Pair(1, None)
    looped.right = looped
    assert normalise(looped) == {"left": 1, "right": "<cycle>"}


def test_pydantic_models_become_objects() -> None:
    pydantic = pytest.importorskip("pydantic")
    found = pydantic.create_model("Found", amount=(Decimal, ...))
    assert normalise(found(amount="1.50")) == {"amount": "1.50"}
    assert normalise([found]) == {"result": [str(found)]}


def test_depth_is_bounded() -> None:
    nested: Any = "leaf"
    for _ in range(21):
        nested = [nested]
    assert json.dumps(normalise(nested)).count("[") == 21
    for _ in range(5_000):
        nested = [nested]
    assert json.dumps(normalise(nested)).count("[") < 30


@pytest.mark.parametrize(
    "kind", [lambda part: [part, part], lambda part: Pair(part, part), lambda part: {1: part, 2: part}]
)
def test_a_small_value_with_exponentially_many_parts_takes_bounded_time(kind: Any) -> None:
    value: Any = 1
    for _ in range(60):
        value = kind(value)
    assert set(normalise(value, max_bytes=10_000)) == {"summary", "truncated_bytes"}


def test_what_is_too_large_is_summarised() -> None:
    assert normalise("x" * (MAX_BYTES - 13)) == {"result": "x" * (MAX_BYTES - 13)}
    result = normalise("x" * (MAX_BYTES - 12))
    assert result["summary"] == '{"result":"' + "x" * 1_989
    assert result["truncated_bytes"] == MAX_BYTES + 1 - 2_000
    assert set(normalise(list(range(1_000)), max_bytes=1_000)) == {"summary", "truncated_bytes"}
    assert set(normalise(EndlessList(), max_bytes=1_000)) == {"summary", "truncated_bytes"}
    assert normalise("\ud800" * 3_000, max_bytes=1_000)["summary"].endswith("\ud800")


def test_an_interrupt_passes() -> None:
    class Interrupting:
        def __str__(self) -> str:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        normalise(Interrupting())


_scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=()))
    | st.binary()
    | st.decimals()
    | st.datetimes()
    | st.timedeltas()
    | st.uuids()
    | st.complex_numbers()
    | st.sampled_from([Plain.A, Number.ONE, Point, object, int])
    | st.builds(Hostile)
    | st.builds(Liar)
    | st.builds(lambda: BadList([Hostile()]))
)
_keys = st.none() | st.integers() | st.text() | st.floats() | st.binary() | st.tuples(st.integers())
_values = st.recursive(
    _scalars,
    lambda part: (
        st.lists(part, max_size=3)
        | st.tuples(part, part)
        | st.dictionaries(_keys, part, max_size=3)
        | st.builds(Point, st.integers(), part)
        | st.builds(Pair, part, part)
    ),
    max_leaves=15,
) | st.frozensets(st.text() | st.integers() | st.floats() | st.tuples(st.integers()))


@settings(max_examples=100, deadline=None)
@given(_values, st.sampled_from([50, 10_000]))
def test_normalising_is_total_bounded_and_repeatable(value: object, max_bytes: int) -> None:
    result = normalise(value, max_bytes=max_bytes)
    text = json.dumps(result, allow_nan=False)
    assert json.loads(text) == result
    assert len(text) <= 12 * max(max_bytes, 2_100)  # escapes included
    assert all(type(key) is str for key in result)
    if "truncated_bytes" not in result:
        assert normalise(result, max_bytes=max_bytes) == result


class Alike:
    """Every one of it has the same text."""

    def __str__(self) -> str:
        return "x"


def test_da046_many_keys_of_one_text_stay_many_and_take_no_time() -> None:
    began = time.process_time()
    found = normalise({Alike(): number for number in range(20_000)})
    assert sorted(found.values()) == list(range(20_000))
    assert time.process_time() - began < 60  # it took hours
    assert normalise({1: "a", "1": "b", "1'": "c"}) == {"1": "a", "1'": "b", "1''": "c"}


def test_g10_one_long_text_in_many_places_is_not_written_out_for_each_of_them() -> None:
    text = "x" * 1_000_000
    tracemalloc.start()
    try:
        for value in ([text] * 1_000, {f"{number}{text}": 1 for number in range(20)}, [{"a": text}] * 1_000):
            assert set(normalise(value)) == {"summary", "truncated_bytes"}
        assert tracemalloc.get_traced_memory()[1] < 100_000_000
    finally:
        tracemalloc.stop()


def test_da046_fifty_megabytes_of_bytes_do_not_stop_the_event_loop() -> None:
    began = time.process_time()
    assert set(normalise(b"\xff" * 50_000_000)) == {"summary", "truncated_bytes"}
    assert time.process_time() - began < 25  # it took a minute, and the node was held for stuck


def test_da046_an_attrs_object_is_an_object_as_a_dataclass_is() -> None:
    made: Any = pytest.importorskip("attrs").make_class("Order", ["id", "lines"], slots=True)
    assert normalise(made("A", {1})) == {"id": "A", "lines": [1]}


class Leaves:
    def __str__(self) -> str:
        raise SystemExit(3)


def test_da046_a_result_that_calls_exit_when_it_is_read_is_kept_all_the_same() -> None:
    assert normalise([Leaves(), 1])["result"][1] == 1
    assert normalise({Leaves(): 1})
