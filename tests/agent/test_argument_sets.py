"""Sets in arguments: one order in every process, whatever they are sets of, for approvals are given on it (G5)."""

import dataclasses
import enum
import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from callboard import tool

pydantic = pytest.importorskip("pydantic")


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"
    GREEN = "green"


class Tagged(pydantic.BaseModel):  # type: ignore[misc, name-defined]
    tags: set[str]
    colours: frozenset[Colour] = frozenset()
    inner: dict[str, set[str]]


@dataclasses.dataclass
class Painted:
    all: set[Colour]
    some: list[set[Colour]]


class Renamed(msgspec.Struct, rename="camel", tag=True):
    my_set: set[Colour]
    by_colour: dict[Colour, int]


class Listed(msgspec.Struct, array_like=True):
    colours: set[Colour]


@tool
def paint(  # noqa: PLR0917 - called by name
    model: Tagged, painted: Painted, renamed: Renamed, listed: Listed, plain: set[Colour], mixed: set[int | str]
) -> None:
    """Paint."""


ARGUMENTS = {
    "model": {"tags": list("hagbfced"), "colours": ["red", "blue"], "inner": {"b": list("qwerty"), "a": ["1"]}},
    "painted": {"all": ["red", "blue", "green"], "some": [["green", "red"]]},
    "renamed": {"type": "Renamed", "mySet": ["green", "red", "blue"], "byColour": {"red": 1, "green": 2}},
    "listed": [["red", "green", "blue"]],
    "plain": ["red", "green", "blue"],
    "mixed": [1, "a", 2, "b"],
}
ROOT = Path(__file__).resolve().parents[2]


def test_a_set_of_an_enum_has_an_order_and_is_given_as_a_set() -> None:
    found = paint.validate(ARGUMENTS)
    assert found.plain["plain"] == found.plain["listed"][0] == ["blue", "green", "red"]
    assert found.values["plain"] == {Colour.RED, Colour.GREEN, Colour.BLUE}
    assert found.values["renamed"].my_set == {Colour.RED, Colour.GREEN, Colour.BLUE}
    assert found.plain["model"]["tags"] == list("abcdefgh")
    assert paint.validate(json.loads(found.canonical)).canonical == found.canonical


def test_g5_sets_of_whatever_kind_have_one_canonical_text_in_every_process() -> None:
    code = "from tests.agent.test_argument_sets import paint, ARGUMENTS; print(paint.validate(ARGUMENTS).canonical)"
    texts = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in range(1, 4)
    }
    assert len(texts) == 1


def test_one_enum_beside_a_model_and_within_it_is_no_contradiction() -> None:
    schema = paint.parameters
    inside = schema["properties"]["model"]["properties"]["colours"]["items"]
    assert sorted(inside["enum"]) == sorted(schema["$defs"]["Colour"]["enum"]) == ["blue", "green", "red"]
