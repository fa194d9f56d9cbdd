"""What a model sends is refused with a sentence, or becomes typed values and one canonical text."""

from decimal import Decimal
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.actors.agent.arguments import InvalidArguments
from callboard.actors.agent.tool import Tool, tool


class Item(msgspec.Struct):
    sku: str
    tags: list[str] = []


@tool
def issue_refund(order_id: str, amount: int, idempotency_key: str) -> None: ...


def refused(declared: Tool, arguments: object) -> str:
    with pytest.raises(InvalidArguments) as caught:
        declared.validate(arguments)
    assert caught.value.problem == str(caught.value)
    return caught.value.problem


def test_w19_values_are_typed_and_the_plain_form_is_canonical() -> None:
    arguments = issue_refund.validate({"order_id": "A", "amount": "5"})
    assert arguments.values == {"order_id": "A", "amount": 5}
    assert arguments.canonical == '{"amount":5,"order_id":"A"}'
    assert issue_refund.validate({"amount": 5.0, "order_id": "A"}).canonical == arguments.canonical


def test_g5_sets_have_one_canonical_order() -> None:
    @tool
    def tag(names: set[str]) -> None: ...

    names = [str(number) for number in range(100)]
    assert tag.validate({"names": names}).plain["names"] == sorted(names)


@pytest.mark.parametrize("arguments", [None, [], "{}", 5, True])
def test_w16_arguments_that_are_no_object_are_refused(arguments: object) -> None:
    assert refused(issue_refund, arguments).startswith("the arguments must be an object, got ")


def test_the_problem_names_argument_expected_and_got() -> None:
    @tool
    def order(item: Item, size: Literal["s", "m"] = "s") -> None: ...

    @tool
    def by_number(names: dict[int, str]) -> None: ...

    assert refused(issue_refund, {"order_id": 5, "amount": "x"}) == (
        "argument 'order_id': expected str, got int; argument 'amount': expected int, got str"
    )
    assert refused(issue_refund, {"order_id": "A"}) == "argument 'amount' is missing, expected int"
    assert refused(issue_refund, {"order_id": "A", "amount": 1, "idempotency_key": "mine"}) == (
        "unknown argument 'idempotency_key' (expected: order_id, amount)"
    )
    assert refused(order, {"item": {"sku": "a", "tags": ["a", 1]}}) == "argument 'item.tags[1]': expected str, got int"
    assert refused(order, {"item": {}}) == "argument 'item': object missing required field sku"
    assert refused(by_number, {"names": {"x": "y"}}) == "argument 'names': expected int, got str"
    assert "'size'" in refused(order, {"item": {"sku": "a"}, "size": "xl"})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), Decimal("NaN"), "nan", "-Infinity"])
@pytest.mark.parametrize("hint", [float, Decimal, list[float], dict[str, Decimal], Any, dict[str, Any]])
def test_w21_what_is_not_finite_never_gets_through(value: object, hint: Any) -> None:
    def f(x: Any) -> None: ...

    f.__annotations__["x"] = hint
    declared = tool(f)
    for raw in (value, [1.0, value], {"deep": value}, {"deep": [value]}):
        try:
            arguments = declared.validate({"x": raw})
        except InvalidArguments as error:
            assert "'x" in error.problem  # noqa: PT017 - being accepted as text is right as well
        else:
            assert isinstance(value, str)
            assert arguments.plain == {"x": raw}


def test_arguments_are_bounded_in_size_and_depth() -> None:
    @tool
    def f(x: Any) -> None: ...

    assert len(f.validate({"x": "a" * 1_000_000}).canonical) == 1_000_008
    assert "at most 1048576" in refused(f, {"x": "a" * 1_048_576})
    assert "at most 1048576" in refused(f, {"x": "\x00" * 200_000})  # as escapes, six bytes each
    nested: Any = []
    for _ in range(65):
        nested = [nested]
    assert refused(f, {"x": nested}) == "argument 'x': is nested deeper than 64 levels"
    assert len(f.validate({"x": nested[0]}).plain) == 1
    for _ in range(100_000):
        nested = [nested]
    assert refused(f, {"x": nested}) == "argument 'x' is nested too deep"
    cycle: list[Any] = []
    cycle.append(cycle)
    assert "nested" in refused(f, {"x": cycle})
    assert "cannot be written as JSON" in refused(f, {"x": 10**5000})
    assert len(refused(f, {f"k{i}": 1 for i in range(10_000)})) < 3_000


def test_hostile_text_is_kept_or_refused_but_never_a_crash() -> None:
    @tool
    def f(x: str, y: Literal["a"] = "a") -> None: ...

    assert f.validate({"x": "\x00\ud800"}).values["x"] == "\x00\ud800"
    assert f.validate({"x": "\x00\ud800"}).canonical.isascii()
    assert "'y'" in refused(f, {"x": "", "y": "\ud800"})
    assert "unknown argument" in refused(f, {"x": "", "\ud800": 1, 5: 1})


def test_a_constructor_that_raises_is_the_models_problem() -> None:
    class Odd(msgspec.Struct):
        x: int

        def __post_init__(self) -> None:
            raise LookupError("no odd today")

    def f(odd: Any) -> None: ...

    f.__annotations__["odd"] = Odd
    assert refused(tool(f), {"odd": {"x": 1}}) == "argument 'odd' cannot be read as Odd: no odd today"


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=())),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=3), part, max_size=3),
    max_leaves=5,
)


@tool
def loose(a: Any = 1, b: float = 0.5, c: set[str] | None = None, d: Item | None = None, e: Decimal = Decimal(1)) -> Any:
    return locals()


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.sampled_from("abcdef"), _json, max_size=4) | _json)
def test_validation_is_total_and_validating_again_changes_nothing(raw: object) -> None:
    try:
        arguments = loose.validate(raw)
    except InvalidArguments:
        return
    assert loose.validate(arguments.plain) == arguments
