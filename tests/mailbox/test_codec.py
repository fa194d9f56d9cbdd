"""The codec: whatever can be JSON comes out as it went in, and whatever cannot is refused, by one error."""

import json
import math
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.mailbox import codec
from callboard.mailbox.errors import BadMessage

any_text = st.text(st.characters(codec=None, categories=None))  # lone surrogates and NUL included
surrogates = st.text(st.characters(min_codepoint=0xD800, max_codepoint=0xDFFF), min_size=1)
texts = st.one_of(any_text, surrogates, st.builds("".join, st.lists(st.one_of(any_text, surrogates), max_size=3)))
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=True), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=12,
)


class Note(msgspec.Struct):
    """Something with text in it."""

    text: str
    data: Any = None
    numbers: list[int] = []


def joined(text: str) -> str:
    """JSON cannot tell two halves of a character side by side from the character."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def as_json_has_it(value: Any) -> Any:
    """Infinity and NaN are null, halves of characters are joined."""
    if isinstance(value, str):
        return joined(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, list):
        return [as_json_has_it(item) for item in value]
    if isinstance(value, dict):
        return {joined(key): as_json_has_it(item) for key, item in value.items()}
    return value


@given(texts)
def test_codec_any_text_comes_out_as_it_went_in(text: str) -> None:
    body = codec.encode(Note(text))
    assert codec.decode(body, Note) == Note(joined(text))
    assert codec.encode(codec.decode(body, Note)) == codec.encode(Note(joined(text)))


@given(values)
def test_codec_any_json_value_comes_out_as_it_went_in(value: Any) -> None:
    body = codec.encode(Note("x", value))
    assert codec.decode(body, Note).data == as_json_has_it(value)
    assert codec.builtins(body)["data"] == as_json_has_it(value)


@given(values)
def test_codec_a_body_can_be_stored(value: Any) -> None:
    body = codec.encode(value)
    assert "\0" not in body
    body.encode()  # no lone surrogate
    json.loads(body)


@pytest.mark.parametrize("text", ["\0", "a\0b", "\ud800", "\udfff\ud800", "\\ud800", "\\u0000", '"', "😀"])
def test_codec_awkward_texts(text: str) -> None:
    assert codec.decode(codec.encode(Note(text)), Note).text == text
    assert codec.builtins(codec.encode({"text": text, text: 1})) == {"text": text, text: 1}


def test_codec_text_is_told_from_its_escape() -> None:
    assert codec.encode(Note("\\ud800")) != codec.encode(Note("\ud800"))


@pytest.mark.parametrize("value", [object(), {1: object()}, {"x": {1j}}, b"\xff\xfe".__class__, lambda: None])
def test_codec_what_json_cannot_hold_is_refused(value: object) -> None:
    with pytest.raises(BadMessage):
        codec.encode(value)


@pytest.mark.parametrize("text", ["plain", "lone \ud800"])
def test_codec_what_json_cannot_hold_is_refused_beside_any_text(text: str) -> None:
    with pytest.raises(BadMessage):
        codec.encode([text, object()])
    with pytest.raises(BadMessage):
        codec.encode([object(), text])


def _nested(depth: int, leaf: object) -> object:
    for _ in range(depth):
        leaf = [leaf]
    return leaf


@pytest.mark.parametrize("leaf", ["plain", "lone \ud800"])
def test_codec_a_value_nested_too_deep_is_refused(leaf: str) -> None:
    with pytest.raises(BadMessage):
        codec.encode(_nested(100_000, leaf))


@pytest.mark.parametrize("leaf", ["plain", "lone \ud800"])
def test_codec_a_value_that_holds_itself_is_refused(leaf: str) -> None:
    circle: list[object] = [leaf]
    circle.append(circle)
    with pytest.raises(BadMessage):
        codec.encode(circle)


@pytest.mark.parametrize(
    "body",
    [
        "", "{", "[]", "null", '{"text":1}', '{"text":"a"', '{"text":"\\ud800', '{"text":"a","numbers":["\\ud800"]}',
        '{"text":"\\uZZZZ"}', "\ud800", '{"text":"a\ud800"}', "[" * 100_000, "NaN", '{"text":"\\ud800","numbers":NaN}',
    ],
)  # fmt: skip
def test_codec_a_body_that_does_not_fit_is_refused(body: str) -> None:
    with pytest.raises(BadMessage):
        codec.decode(body, Note)


@given(texts)
def test_codec_any_body_is_read_or_refused(body: str) -> None:
    try:
        codec.decode(body, Note)
    except BadMessage:
        pass
    else:
        assert isinstance(json.loads(body), dict)


@given(values, st.sampled_from([Note, int, str, list[int], dict[str, int]]))
def test_codec_any_json_is_read_or_refused(value: Any, kind: Any) -> None:
    with suppress(BadMessage):  # any other exception would fail the test
        codec.decode(codec.encode(value), kind)


def test_codec_the_error_says_where() -> None:
    with pytest.raises(BadMessage, match=r"\$\.numbers\[1\]"):
        codec.decode('{"text":"a","numbers":[1,"x"]}', Note)
