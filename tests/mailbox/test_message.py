"""The registry of message types: names, versions, upcasts, and what is refused when."""

import types
from typing import Any

import pytest

from callboard.mailbox.errors import BadMessage, UnknownMessage
from callboard.mailbox.message import (
    MAX_BODY_BYTES,
    Message,
    Wire,
    decode,
    encode,
    known_types,
    newest_types,
    oldest_readable,
    refused_types,
    upcast,
    wire,
)


class Opened(Message, tag="test.opened.v3"):
    """Third version: v1 had `title`, v2 renamed it, v3 split off `tags`."""

    subject: str
    tags: list[str]
    urgent: bool = False


@upcast("test.opened", 1)
def _(body: dict[str, Any]) -> dict[str, Any]:
    return {"subject": body["title"]}


@upcast("test.opened", 2)
def _(body: dict[str, Any]) -> dict[str, Any]:
    subject, *tags = body["subject"].split("#")
    return {**body, "subject": subject, "tags": tags}


class PlainName(Message):
    """Called by its own name."""

    text: str


class Jumped(Message, tag="test.jumped.v3"):
    """Nobody wrote the upcast from version 1."""

    text: str


@upcast("test.jumped", 2)
def _(body: dict[str, Any]) -> dict[str, Any]:
    return body


def test_message_a_body_comes_out_as_it_went_in() -> None:
    sent = Opened("late\0 \ud800", ["a"], urgent=True)
    body = encode(sent)
    assert decode("test.opened", 3, body) == sent
    assert wire(Opened) == Wire("test.opened", 3)


def test_message_a_class_without_a_tag_is_called_by_its_name() -> None:
    assert wire(PlainName) == Wire("plain-name", 1)
    assert decode("plain-name", 1, '{"type":"plain-name","text":"a"}') == PlainName("a")


def test_message_known_types_tell_the_newest_version() -> None:
    assert known_types()["test.opened"] == 3
    assert known_types()["plain-name"] == 1


def test_message_old_versions_are_cast_up_step_by_step() -> None:
    assert decode("test.opened", 1, '{"type":"test.opened","title":"late#a#b"}') == Opened("late", ["a", "b"])
    assert decode("test.opened", 2, '{"subject":"late#a","urgent":true}') == Opened("late", ["a"], urgent=True)


def test_message_unknown_fields_are_ignored_and_missing_ones_have_their_default() -> None:
    body = '{"type":"test.opened.v3","subject":"a","tags":[],"added_later":{"x":1}}'
    assert decode("test.opened", 3, body) == Opened("a", [])


def test_message_a_gap_in_the_casts_leaves_it_for_another_process() -> None:
    assert decode("test.jumped", 2, '{"text":"a"}') == Jumped("a")
    with pytest.raises(UnknownMessage, match="version 1"):
        decode("test.jumped", 1, '{"text":"a"}')


def test_message_an_unknown_type_or_a_newer_version_is_left_for_another_process() -> None:
    with pytest.raises(UnknownMessage, match="nowhere"):
        decode("test.nowhere", 1, "{}")
    with pytest.raises(UnknownMessage, match="up to version 3, this one is 4"):
        decode("test.opened", 4, "not even json")


@pytest.mark.parametrize(
    "body",
    ["", "[]", "null", "{}", '{"type":"test.opened.v3"}', '{"type":"test.opened.v3","subject":1,"tags":[]}',
     '{"type":"other","subject":"a","tags":[]}', "{", '{"type":"test.opened.v3","subject":"\\ud800","tags":1}'],
)  # fmt: skip
def test_message_a_body_that_does_not_fit_its_type_is_bad(body: str) -> None:
    with pytest.raises(BadMessage):
        decode("test.opened", 3, body)


@pytest.mark.parametrize("body", ["[]", '"text"', "{", "", "1"])
def test_message_an_old_body_that_is_no_object_is_bad(body: str) -> None:
    with pytest.raises(BadMessage):
        decode("test.opened", 1, body)


@pytest.mark.parametrize("body", ["{}", '{"title":1}', '{"title":null}'])
def test_message_an_old_body_that_its_upcast_cannot_read_is_bad(body: str) -> None:
    with pytest.raises(BadMessage):
        decode("test.opened", 1, body)


class Strict(Message, tag="test.strict"):
    """Looks at itself when it is made."""

    text: str

    def __post_init__(self) -> None:
        if self.text == "key":
            raise KeyError(self.text)
        if self.text == "value":
            raise ValueError(self.text)


@pytest.mark.parametrize("text", ["key", "value"])
def test_message_a_body_that_its_types_own_check_refuses_is_bad(text: str) -> None:
    with pytest.raises(BadMessage, match=text):
        decode("test.strict", 1, f'{{"type":"test.strict","text":"{text}"}}')


def test_message_the_oldest_readable_version_is_where_the_chain_of_casts_begins() -> None:
    assert oldest_readable("test.opened") == 1
    assert oldest_readable("test.jumped") == 2
    assert oldest_readable("plain-name") == 1
    with pytest.raises(UnknownMessage):
        oldest_readable("test.nowhere")


def test_message_a_cast_is_declared_once_and_from_version_one_on() -> None:
    @upcast("test.twice", 1)
    def _(body: dict[str, Any]) -> dict[str, Any]:
        return body

    @upcast("test.twice", 1)  # the same module again, as when it is imported anew
    def same(body: dict[str, Any]) -> dict[str, Any]:
        return body

    def other(body: dict[str, Any]) -> dict[str, Any]:
        return body

    other.__module__ = "elsewhere"
    with pytest.raises(BadMessage, match=r"two upcasts of 'test.twice' from version 1.*elsewhere"):
        upcast("test.twice", 1)(other)
    with pytest.raises(BadMessage, match="begin with 1"):
        upcast("test.twice", 0)


def test_message_a_body_too_large_is_bad() -> None:
    assert len(encode(PlainName("x" * (MAX_BODY_BYTES - 100)))) < MAX_BODY_BYTES
    with pytest.raises(BadMessage, match="plain-name"):
        encode(PlainName("x" * MAX_BODY_BYTES))
    with pytest.raises(BadMessage):
        encode(PlainName("é" * (MAX_BODY_BYTES // 2)))


def test_message_a_body_that_json_cannot_hold_is_bad() -> None:
    class Odd(Message, tag="test.odd"):
        value: Any

    with pytest.raises(BadMessage):
        encode(Odd(object()))


def test_message_messages_are_frozen() -> None:
    sent = PlainName("a")
    with pytest.raises(AttributeError):
        sent.text = "b"


def _class(name: str, **config: Any) -> type[Message]:
    body = {"__module__": "made.by.test", "__annotations__": {"text": str}}
    made = types.new_class(name, (Message,), config, lambda namespace: namespace.update(body))
    assert issubclass(made, Message)
    return made


def test_message_two_types_of_one_name_and_version_are_refused() -> None:
    first = _class("FirstOwner", tag="test.taken")
    assert wire(first) == Wire("test.taken", 1)
    second = _class("SecondOwner", tag="test.taken")
    with pytest.raises(BadMessage, match=r"FirstOwner.*SecondOwner"):
        wire(second)
    assert known_types()["test.taken"] == 1
    assert newest_types()["test.taken"] is first
    assert "SecondOwner" in refused_types()[second]


def test_message_a_refused_type_stays_refused_and_spoils_no_other() -> None:
    first = _class("KeptOwner", tag="test.kept")
    wire(first)
    second = _class("LateOwner", tag="test.kept")
    third = _class("Bystander", tag="test.bystander")
    for _ in range(2):
        with pytest.raises(BadMessage):
            wire(second)
    assert wire(first) == Wire("test.kept", 1)
    assert wire(third) == Wire("test.bystander", 1)


@pytest.mark.parametrize("tag", ["Upper", "a b", ".x", "x.", "x.v0", 7])
def test_message_a_malformed_tag_is_refused(tag: str | int) -> None:
    odd = _class("OddTag", tag=tag)
    with pytest.raises(BadMessage, match="OddTag"):
        wire(odd)


def test_message_array_like_is_refused() -> None:
    odd = _class("Rows", tag="test.rows", array_like=True)
    with pytest.raises(BadMessage, match="array_like"):
        wire(odd)


def test_message_the_same_class_imported_twice_is_no_clash() -> None:
    first = _class("Reloaded", tag="test.reloaded")
    wire(first)
    again = _class("Reloaded", tag="test.reloaded")
    assert wire(again) == Wire("test.reloaded", 1)
    assert type(decode("test.reloaded", 1, '{"type":"test.reloaded","text":"a"}')) is again


def test_message_types_declared_later_are_found() -> None:
    with pytest.raises(UnknownMessage):
        decode("test.later", 1, "{}")
    late = _class("Later", tag="test.later")
    assert isinstance(decode("test.later", 1, '{"type":"test.later","text":"a"}'), late)


def test_message_wire_names_with_dots_and_dashes() -> None:
    expected: dict[str, Wire] = {
        "a.b-c.v12": Wire("a.b-c", 12),
        "snake_case.x1": Wire("snake_case.x1", 1),
        "run.v2x": Wire("run.v2x", 1),
    }
    for tag, name in expected.items():
        assert wire(_class("Named", tag=tag)) == name
