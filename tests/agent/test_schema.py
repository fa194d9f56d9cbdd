"""What models are told about a tool, for every style of annotation; this module's own are strings (W-40)."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import functools
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any, Literal, Optional, TypedDict
from uuid import UUID

import msgspec
import pytest

from callboard.actors.agent.schema import BadTool
from callboard.actors.agent.tool import Tool, tool


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Line(msgspec.Struct):
    sku: str
    count: int = 1


class Order(msgspec.Struct):
    lines: list[Line]
    note: str | None = None


@dataclasses.dataclass
class Address:
    street: str
    zip: int


class Customer(TypedDict):
    name: str


def test_the_schema_covers_the_types_people_use() -> None:
    @tool
    def everything(  # noqa: PLR0917
        order: Order,
        address: Address,
        customer: Customer,
        colour: Colour,
        size: Literal["s", "m"],
        amount: Decimal,
        at: dt.datetime,
        run: UUID,
        tags: set[str],
        count: Annotated[int, msgspec.Meta(ge=1, le=9, description="how many")],
        anything: object,
        note: Optional[str] = None,  # noqa: UP045 - a typing name is what is tested
        *,
        limit: int = 10,
    ) -> None:
        """Take everything."""

    schema = everything.parameters
    assert list(schema) == ["type", "properties", "required", "additionalProperties", "$defs"]
    assert schema["additionalProperties"] is False
    assert schema["required"] == list(schema["properties"])[:11]
    properties = schema["properties"]
    assert properties["order"] == {"$ref": "#/$defs/Order"}
    assert schema["$defs"]["Order"]["properties"]["lines"] == {"type": "array", "items": {"$ref": "#/$defs/Line"}}
    assert properties["size"] == {"enum": ["m", "s"]}
    assert properties["count"] == {"type": "integer", "minimum": 1, "maximum": 9, "description": "how many"}
    assert properties["note"] == {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}
    assert properties["limit"] == {"type": "integer", "default": 10}
    assert properties["anything"] == {}

    arguments = everything.validate(
        {
            "order": {"lines": [{"sku": "a"}]},
            "address": {"street": "x", "zip": "12"},
            "customer": {"name": "n"},
            "colour": "red",
            "size": "m",
            "amount": "1.50",
            "at": "2024-05-01T00:00:00Z",
            "run": "12345678123456781234567812345678",
            "tags": ["b", "a", "b"],
            "count": 3,
            "anything": [1, {"x": None}],
        }
    )
    values = arguments.values
    assert values["order"] == Order(lines=[Line(sku="a")])
    assert values["address"] == Address("x", 12)
    assert values["colour"] is Colour.RED
    assert values["amount"] == Decimal("1.50") and isinstance(values["amount"], Decimal)
    assert values["at"] == dt.datetime(2024, 5, 1, tzinfo=dt.UTC)
    assert values["tags"] == {"a", "b"}
    assert values["limit"] == 10
    assert arguments.plain["tags"] == ["a", "b"]
    assert everything.validate(arguments.plain) == arguments


def test_an_argument_less_tool_takes_an_empty_object() -> None:
    @tool
    def now() -> str:
        return ""

    assert now.parameters == {"type": "object", "properties": {}, "additionalProperties": False}
    assert now.validate({}).canonical == "{}"


def test_types_of_the_enclosing_functions_are_found() -> None:
    class Outer(msgspec.Struct):
        x: int

    def make() -> tuple[Tool, Callable[..., Any]]:
        class Inner(msgspec.Struct):
            y: int

        @tool
        def by_frame(inner: Inner, outer: Outer, many: list[Inner]) -> int:
            return inner.y

        captured = Inner

        def by_closure(inner: captured) -> Any:  # type: ignore[valid-type]
            return captured(inner.y + 1)  # type: ignore[attr-defined]

        return by_frame, by_closure

    by_frame, undeclared = make()
    by_closure = tool(undeclared)
    assert by_frame.validate({"inner": {"y": 1}, "outer": {"x": 2}, "many": []}).values["inner"].y == 1
    assert by_closure(by_closure.validate({"inner": {"y": 1}}).values["inner"]).y == 2


def test_a_caller_that_is_no_enclosing_scope_lends_no_names() -> None:
    def elsewhere(declare: Callable[[], Tool]) -> Tool:
        Line = str  # noqa: N806, F841 - shadows the module's Line for nobody but itself
        return declare()

    def declare() -> Tool:
        @tool
        def count(line: Line) -> int:
            return line.count

        return count

    assert elsewhere(declare).parameters["properties"]["line"] == {"$ref": "#/$defs/Line"}


def test_methods_work_when_bound_and_wrappers_are_looked_through() -> None:
    class Desk:
        def find(self, order: Order) -> int:
            """Find."""
            return len(order.lines)

    def logged(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapper

    @tool
    @logged
    def wrapped(order: Order) -> int:
        return 0

    assert tool(Desk().find).parameters == wrapped.parameters
    assert tool(functools.partial(Desk().find), name="find").parameters == wrapped.parameters


def test_parameters_may_have_any_name() -> None:
    @tool
    def odd(_x: int, model_x: int, json: int, cls: int, __y: int = 2, schema: int = 3) -> None: ...

    assert list(odd.parameters["properties"]) == ["_x", "model_x", "json", "cls", "__y", "schema"]
    assert odd.validate({"_x": 1, "model_x": 1, "json": 1, "cls": 1}).plain["__y"] == 2


def test_the_idempotency_key_is_hidden() -> None:
    @tool
    def pay(amount: int, idempotency_key: str) -> None: ...

    @tool
    def pay_optional(amount: int, *, idempotency_key: Optional[str] = None) -> None: ...  # noqa: UP045

    assert pay.takes_key and pay_optional.takes_key
    assert list(pay.parameters["properties"]) == list(pay_optional.parameters["properties"]) == ["amount"]


def test_a_default_of_none_makes_the_parameter_optional() -> None:
    @tool
    def find(name: str = None) -> None: ...  # type: ignore[assignment]  # noqa: RUF013

    assert find.validate({"name": None}).plain == find.validate({}).plain == {"name": None}


def test_a_default_that_json_cannot_hold_is_left_to_the_function() -> None:
    missing: Any = object()

    @tool
    def find(name: str = missing, names: list[str] = ["a"]) -> bool:  # noqa: B006 - as people write it
        return name is missing

    assert find.parameters["properties"]["name"] == {"type": "string"}
    assert find.validate({}).plain == {"names": ["a"]}


def test_pydantic_models_arrive_as_models() -> None:
    pydantic = pytest.importorskip("pydantic")
    part: Any = pydantic.create_model("Part", sku=(str, ...))
    item: Any = pydantic.create_model("Item", parts=(list[part], ...), count=(int, 1))

    def order(item: Any, items: Any) -> None: ...

    order.__annotations__ = {"item": item, "items": list[item]}
    declared = tool(order)
    assert set(declared.parameters["$defs"]) == {"Part"}
    assert "$defs" not in declared.parameters["properties"]["item"]
    arguments = declared.validate({"item": {"parts": [{"sku": "a"}], "count": "2"}, "items": []})
    assert isinstance(arguments.values["item"], item)
    assert arguments.plain["item"] == {"parts": [{"sku": "a"}], "count": 2}


def _star(*args: int) -> None: ...
def _kwargs(**kwargs: int) -> None: ...
def _positional(x: int, /) -> None: ...
def _bare(x) -> None: ...  # type: ignore[no-untyped-def]
def _unresolved(x: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def _foreign(x: complex) -> None: ...
def _ambiguous(x: str | dt.date) -> None: ...
def _numeric_key(x: int, idempotency_key: int) -> None: ...


@pytest.mark.parametrize(
    ("function", "parameter", "reason"),
    [
        (_star, "args", "name each parameter"),
        (_kwargs, "kwargs", "name each parameter"),
        (_positional, "x", "positional-only"),
        (_bare, "x", "no annotation"),
        (_unresolved, "x", "cannot be resolved"),
        (_foreign, "x", "cannot be read from JSON"),
        (_ambiguous, "x", "cannot be read from JSON"),
        (_numeric_key, "idempotency_key", "annotate it with str"),
    ],
)
def test_what_cannot_work_is_refused_when_declared(function: Callable[..., Any], parameter: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        tool(function)
    assert isinstance(caught.value, BadTool)
    assert f"'{function.__name__}'" in str(caught.value)
    assert f"'{parameter}'" in str(caught.value)


def test_an_unbound_method_is_refused_for_its_self() -> None:
    with pytest.raises(ValueError, match="'self'"):

        class Desk:
            @tool
            def find(self, order: int) -> None: ...
