"""A server's schema is a program of somebody else's: it is bounded, nothing of it runs for long, nothing is fetched."""

import sys
import time
from typing import Any

import pytest

pytest.importorskip("mcp")

from callboard.actors.adapters.mcp_result import error_of, result_of
from callboard.actors.adapters.mcp_schema import BadSchema, Check, bounded, plain_text
from callboard.actors.agent.result import normalise


def problem(schema: dict[str, Any], arguments: dict[str, Any]) -> str:
    return Check(bounded(schema)).problem(arguments)


def having(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    ("schema", "arguments", "said"),
    [
        (having(a={"type": "integer"}), {"a": 1}, ""),
        (having(a={"type": "integer"}), {"a": "1"}, "argument 'a': '1' is not of type 'integer'"),
        (having(a={"type": "integer", "maximum": 3}), {"a": 4}, "4 is greater than the maximum of 3"),
        (having(a={"enum": ["x", "y"]}), {"a": "z"}, "is not one of"),
        (having(a={"type": "integer"}), {"b": 1}, "'b' was unexpected"),
        ({"type": "object"}, {"b": 1}, "'b' was unexpected"),
        ({"type": "object", "additionalProperties": True}, {"b": 1}, ""),
        ({"type": "object", "additionalProperties": {"type": "string"}}, {"b": 1}, "is not of type 'string'"),
        (having(a={"$ref": "#/$defs/A"}) | {"$defs": {"A": {"type": "string"}}}, {"a": 1}, "not of type 'string'"),
        (having(a={"anyOf": [{"type": "string"}, {"type": "null"}]}), {"a": None}, ""),
        (having(a=having(b={"type": "array", "items": {"type": "integer"}})), {"a": {"b": [1, "x"]}}, "'a.b[1]'"),
        # a property may be called like a keyword
        (having(pattern={"type": "integer"}, format={"type": "string"}), {"pattern": "x"}, "argument 'pattern'"),
        (having(enum={"type": "integer"}, const={"pattern": "^a$"}), {"enum": 1, "const": "b"}, ""),
    ],
)
def test_da045_arguments_are_checked(schema: dict[str, Any], arguments: dict[str, Any], said: str) -> None:
    found = problem(schema, arguments)
    assert (said in found) if said else (found == "")


@pytest.mark.parametrize(
    "schema",
    [
        None,
        [],
        {"type": "string"},
        having(a={"type": "nonsense"}),
        having(a={"properties": 3}),
        having(a={"description": "x" * 100_000}),
        having(a={"default": float("nan")}),
    ],
)
def test_what_is_no_usable_schema_is_refused(schema: Any) -> None:
    with pytest.raises(BadSchema):
        Check(bounded(schema))


def test_a_schema_that_is_too_deep_is_refused() -> None:
    schema: dict[str, Any] = {}
    for _ in range(40):
        schema = {"type": "object", "properties": {"a": schema}}
    with pytest.raises(BadSchema, match="deeper"):
        bounded(schema)


def bomb() -> dict[str, Any]:
    parts = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n - 1}"}] * 2} for n in range(1, 40)}
    return having(x={"$ref": "#/$defs/a39"}) | {"$defs": {"a0": {"type": "integer"}, **parts}}


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        (having(x={"type": "string", "pattern": "^(a+)+$"}), {"x": "a" * 40 + "!"}),
        (having(x={"patternProperties": {"^(a+)+$": {}}}), {"x": {"a" * 40 + "!": 1}}),
        (bomb(), {"x": 1}),
        (having(x={"uniqueItems": True}), {"x": [{"n": n} for n in range(5_000)]}),
        (having(x={"items": {"enum": list(range(5_000))}}), {"x": [-1] * 50_000}),
        (having(x={"$ref": "#/properties/x"}), {"x": 1}),
        (having(x={"$ref": "https://example.com/schema.json"}), {"x": 1}),
        (having(x={"$ref": "file:///etc/passwd"}), {"x": 1}),
        (having(x={"$ref": "#/nowhere"}), {"x": 1}),
    ],
)
def test_a_hostile_schema_takes_no_time_and_fetches_nothing(schema: dict[str, Any], arguments: dict[str, Any]) -> None:
    began = time.process_time()  # of this process: whatever else the machine does meanwhile
    problem(schema, arguments)
    assert time.process_time() - began < 30.0


@pytest.mark.parametrize("reference", ["https://example.com/schema.json", "#/nowhere"])
def test_what_cannot_be_checked_is_not_called(reference: str) -> None:
    assert "cannot be checked" in problem(having(x={"$ref": reference}), {"x": 1})


@pytest.mark.parametrize("depth", [400, 20_000])
def test_what_takes_too_much_work_is_not_called_however_deep_the_stack_may_be(depth: int) -> None:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(depth, stack_depth() + 200))
    try:
        assert "too large or too nested" in problem(having(x={"$ref": "#/properties/x"}), {"x": 1})
        assert "too large or too nested" in problem(bomb(), {"x": 1})
    finally:
        sys.setrecursionlimit(before)


def stack_depth() -> int:
    """How many frames there are above the caller's."""
    frame, depth = sys._getframe(), 0
    while frame.f_back is not None:
        frame, depth = frame.f_back, depth + 1
    return depth


def test_texts_of_a_server_are_plain_and_bounded() -> None:
    assert plain_text("a\u202eb\u200bc\x07\U000e0041d\ud800") == "a b c  d\ufffd"
    assert plain_text("line\n\ttab") == "line\n\ttab"
    assert len(plain_text("x" * 9_000)) == 2_002
    found = bounded(having(a={"type": "string", "description": "hidden\u200b text", "title": "\x1b[31mred"}))
    assert found["properties"]["a"]["description"] == "hidden  text"
    assert found["properties"]["a"]["title"] == "[31mred"
    # a property that is called so is no text
    assert bounded(having(description={"type": "string"}))["properties"]["description"] == {"type": "string"}


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, {"text": "a\nb"}),
        ({"content": [], "structuredContent": {"a": [1]}}, {"a": [1]}),
        ({"content": [{"type": "text", "text": "x"}], "structuredContent": {"a": 1}}, {"a": 1}),
        ({"content": [{"type": "text", "text": "x"}], "structuredContent": [1]}, {"text": "x", "structured": [1]}),
        ({"content": []}, {"text": ""}),
        ({}, {"text": ""}),
        ({"content": "nonsense"}, {"text": ""}),
        ({"content": [3, {"type": "text", "text": 5}, {}]}, {"content": [{"type": "text"}, {"type": None}]}),
        (
            {"content": [{"type": "resource", "resource": {"uri": "file:///a", "text": "words"}}]},
            {"content": [{"type": "resource", "uri": "file:///a", "text": "words"}]},
        ),
        (
            {"content": [{"type": "resource_link", "uri": "file:///a", "name": "a"}]},
            {"content": [{"type": "resource_link", "uri": "file:///a", "name": "a"}]},
        ),
    ],
)
def test_da046_whatever_a_server_answers_is_a_result(answer: dict[str, Any], result: dict[str, Any]) -> None:
    assert normalise(result_of(answer)) == result
    assert error_of(answer) is None


def test_pictures_are_described_and_not_kept() -> None:
    (found,) = result_of({"content": [{"type": "image", "data": "!not base64!", "mimeType": "image/png"}]})["content"]
    assert (found["type"], found["bytes"], len(found["sha256"])) == ("image", 12, 64)


@pytest.mark.parametrize(
    ("content", "said"),
    [([{"type": "text", "text": "no\x00 such"}], "no  such"), ([], "does not say which"), (None, "does not say which")],
)
def test_an_error_of_the_server_is_said(content: Any, said: str) -> None:
    assert said in (error_of({"isError": True, "content": content}) or "")
