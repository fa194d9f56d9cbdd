"""Annotations in every style that people write, as text too: the schema says what is checked, and the values are typed.

The module has `from __future__ import annotations`, so every annotation in it is text (W-40).
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple, NewType, NotRequired, Optional, TypedDict

import anyio.to_thread
import msgspec
import pydantic
import pytest

from callboard.actors.agent.arguments import InvalidArguments
from callboard.actors.agent.schema import BadTool
from callboard.actors.agent.tool import Tool, tool

pytestmark = pytest.mark.anyio


async def in_thread(function: Callable[[], Any]) -> Any:
    return await anyio.to_thread.run_sync(function)


async def called(made: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    """What the function gave, called with the recorded form of the arguments."""
    stored = json.loads(json.dumps(made.validate(arguments).plain))
    again = made.validate(stored)
    assert again.canonical == made.validate(arguments).canonical
    return await made.call(again, "key", in_thread)


def kinds(values: dict[str, Any]) -> dict[str, str]:
    return {name: type(value).__name__ for name, value in values.items()}


class Node(msgspec.Struct):
    value: int
    children: list[Node] = []


@dataclasses.dataclass
class Chain:
    value: int
    rest: Chain | None = None


class Person(pydantic.BaseModel):
    name: str
    age: int = 3


class Family(pydantic.BaseModel):
    head: Person
    members: list[Person] = []
    beyond: Family | None = None


Sku = NewType("Sku", str)


async def test_w40_types_of_a_module_that_name_themselves_as_text() -> None:
    @tool
    def look(node: Node, chain: Chain | None, family: Optional[Family], sku: Sku) -> dict[str, str]:  # noqa: UP045
        """Look."""
        return kinds(locals())

    arguments = {
        "node": {"value": 1, "children": [{"value": "2"}]},
        "chain": {"value": 1, "rest": {"value": 2}},
        "family": {"head": {"name": "a"}, "beyond": {"head": {"name": "b", "age": "5"}}},
        "sku": "x",
    }
    assert await called(look, arguments) == {"node": "Node", "chain": "Chain", "family": "Family", "sku": "str"}


async def test_w40_types_of_a_function_that_name_each_other_as_text() -> None:
    class Item(msgspec.Struct):
        sku: str

    @dataclasses.dataclass
    class Order:
        items: list[Item]
        again: Order | None = None

    class Row(NamedTuple):
        order: Order

    class Page(TypedDict):
        row: Row
        next: NotRequired[Item]

    class Model(pydantic.BaseModel):
        inner: Inner

    class Inner(pydantic.BaseModel):
        n: int

    @tool
    def look(page: Page, model: Model) -> dict[str, Any]:
        """Look."""
        return {"items": page["row"].order.items[0].sku, "inner": type(model.inner).__name__}

    arguments = {"page": {"row": [{"items": [{"sku": "x"}]}]}, "model": {"inner": {"n": "1"}}}
    assert await called(look, arguments) == {"items": "x", "inner": "Inner"}
    with pytest.raises(InvalidArguments, match=r"model\.inner\.n"):
        look.validate({"page": {"row": [{"items": []}]}, "model": {"inner": {"n": "one"}}})


async def test_pydantic_models_in_lists_dicts_and_options_arrive_as_models() -> None:
    @tool
    def look(many: list[Person], by_name: dict[str, Person], maybe: Person | None = None) -> dict[str, Any]:
        """Look."""
        return {"many": kinds({"0": many[0]}), "by": kinds(by_name), "maybe": maybe is None}

    given = {"many": [{"name": "a"}], "by_name": {"k": {"name": "b", "age": "7"}}}
    assert await called(look, given) == {"many": {"0": "Person"}, "by": {"k": "Person"}, "maybe": True}


def test_da045_a_pydantic_model_s_complaint_names_the_field_and_nothing_else() -> None:
    @tool
    def look(people: list[Person]) -> None:
        """Look."""

    with pytest.raises(InvalidArguments) as caught:
        look.validate({"people": [{"name": "a"}, {"age": "old"}]})
    assert caught.value.problem == (
        "argument 'people[1].name': Field required; "
        "argument 'people[1].age': Input should be a valid integer, unable to parse string as an integer"
    )


async def test_pydantic_aliases_and_computed_fields_survive_being_recorded() -> None:
    class Money(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(extra="forbid")
        cents: int = pydantic.Field(validation_alias="centsIn", serialization_alias="centsOut")
        code: str = pydantic.Field(default="EUR", alias="currencyCode")

        @pydantic.computed_field
        def euros(self) -> float:
            return self.cents / 100

    @tool
    def pay(amount: Money) -> dict[str, Any]:
        """Pay."""
        return {"euros": amount.euros, "code": amount.code}

    assert await called(pay, {"amount": {"centsIn": 250, "currencyCode": "USD"}}) == {"euros": 2.5, "code": "USD"}


@pytest.mark.parametrize(
    ("hint", "good", "bad", "schema"),
    [
        (Annotated[int, pydantic.Field(ge=1, le=5)], 5, 6, {"type": "integer", "minimum": 1, "maximum": 5}),
        (Annotated[int, msgspec.Meta(gt=0)], 1, 0, {"type": "integer", "exclusiveMinimum": 0}),
        (
            Annotated[str, pydantic.Field(max_length=2, description="short")],
            "ab",
            "abc",
            {"type": "string", "maxLength": 2, "description": "short"},
        ),
        (Annotated[str, pydantic.Field(pattern="^a+$")], "aa", "b", {"type": "string", "pattern": "^a+$"}),
        (Annotated[str, "what it is"], "x", 5, {"type": "string", "description": "what it is"}),
        (
            list[Annotated[int, pydantic.Field(gt=0)]],
            [1],
            [1, 0],
            {"type": "array", "items": {"type": "integer", "exclusiveMinimum": 0}},
        ),
        (
            dict[str, Annotated[int, pydantic.Field(lt=9)]] | None,
            {"a": 8},
            {"a": 9},
            {
                "anyOf": [
                    {"type": "object", "additionalProperties": {"type": "integer", "exclusiveMaximum": 9}},
                    {"type": "null"},
                ]
            },
        ),
    ],
)
def test_w19_limits_in_an_annotation_are_told_and_kept(
    hint: Any, good: object, bad: object, schema: dict[str, Any]
) -> None:
    def look(x: Any) -> None:
        """Look."""

    look.__annotations__["x"] = hint
    made = tool(look)
    assert made.parameters["properties"]["x"] == schema
    assert made.validate({"x": good}).plain == {"x": good}
    with pytest.raises(InvalidArguments, match="argument 'x"):
        made.validate({"x": bad})


class Secret(pydantic.BaseModel):
    password: pydantic.SecretStr


def _after(x: Annotated[int, pydantic.AfterValidator(abs)]) -> None: ...
def _field(x: int = pydantic.Field(3, ge=1)) -> None: ...
def _inner(x: Annotated[int, pydantic.Field(3, ge=1)]) -> None: ...
def _alias(x: Annotated[int, pydantic.Field(alias="y")]) -> None: ...
def _secret(x: Secret) -> None: ...
def _wrong(x: Annotated[int, pydantic.Field(max_length=3)]) -> None: ...


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (_after, "would not be checked"),
        (_field, "Annotated"),
        (_inner, "the parameter's own"),
        (_alias, "alias"),
        (_secret, "stars"),
        (_wrong, "cannot be read"),
    ],
)
def test_what_would_be_ignored_in_silence_is_refused(function: Callable[..., Any], reason: str) -> None:
    with pytest.raises(BadTool, match=reason):
        tool(function)


def test_two_types_of_one_name_are_refused() -> None:
    def other() -> Any:
        class Inner(pydantic.BaseModel):
            b: int

        class Second(pydantic.BaseModel):
            inner: Inner

        Second.model_rebuild(_types_namespace=locals())
        return Second

    class Inner(pydantic.BaseModel):
        a: int

    class First(pydantic.BaseModel):
        inner: Inner

    def look(a: Any, b: Any) -> None:
        """Look."""

    First.model_rebuild(_types_namespace=locals())
    look.__annotations__.update(a=First, b=other())
    with pytest.raises(BadTool, match="'Inner'"):
        tool(look)


@dataclasses.dataclass
class Grows:
    n: int

    def __post_init__(self) -> None:
        self.n += 1


def test_g5_a_value_that_changes_when_it_is_read_again_is_not_what_was_approved() -> None:
    @tool
    def look(x: Grows) -> None:
        """Look."""

    with pytest.raises(InvalidArguments, match="does not keep its own value"):
        look.validate({"x": {"n": 1}})


@dataclasses.dataclass
class Reading:
    value: float = math.nan
    unit: str = "C"


async def test_w21_a_nan_among_the_defaults_is_neither_told_nor_recorded() -> None:
    @tool
    def look(reading: Reading, limit: float = math.inf) -> dict[str, Any]:
        """Look."""
        return {"nan": math.isnan(reading.value), "limit": limit}

    json.dumps(look.parameters, allow_nan=False)
    # The dataclass's other default is spelled out: an approver sees it.
    assert look.validate({"reading": {}}).plain == {"reading": {"unit": "C"}}
    assert await called(look, {"reading": {}}) == {"nan": True, "limit": "inf"}


async def test_what_a_partial_has_fixed_no_model_decides() -> None:
    def search(query: str, tenant: str, limit: int = 5) -> dict[str, Any]:
        """Search."""
        return {"tenant": tenant, "limit": limit}

    made = tool(functools.partial(search, tenant="t1"), name="search")
    assert (made.description, list(made.parameters["properties"])) == ("Search.", ["query", "limit"])
    assert await called(made, {"query": "x"}) == {"tenant": "t1", "limit": 5}
    with pytest.raises(InvalidArguments, match="unknown argument 'tenant'"):
        made.validate({"query": "x", "tenant": "t2"})
    keyed = tool(functools.partial(_keyed, idempotency_key="mine"), name="keyed", side_effect=True)
    assert (keyed.takes_key, await called(keyed, {"x": 1})) == (False, {"key": "mine"})


def _keyed(x: int, idempotency_key: str) -> dict[str, str]:
    return {"key": idempotency_key}


class Searcher:
    async def __call__(self, person: Person) -> dict[str, str]:
        """Search for somebody."""
        return kinds({"person": person})


async def test_an_object_that_can_be_called_is_a_tool_with_its_method_s_docstring() -> None:
    made = tool(Searcher(), name="search")
    assert made.description == "Search for somebody."
    assert await called(made, {"person": {"name": "a"}}) == {"person": "Person"}
    with pytest.raises(BadTool, match="class"):
        tool(Searcher)


def test_w41_the_version_of_what_wraps_is_that_of_what_is_wrapped() -> None:
    first, second = (tool(functools.partial(f, y=1), name="same") for f in (_one, _two))
    assert first.version != second.version
    assert tool(Searcher(), name="s").version == tool(Searcher(), name="s").version


def _one(x: int, y: int) -> int:
    return x + y


def _two(x: int, y: int) -> int:
    return x - y
