"""Whatever comes out of storage is a message, a state, or one of two errors; and what the lock allows can be read."""

import json
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from callboard.actors.actor import Actor
from callboard.actors.schema_lock import actors_in, lock, read
from callboard.actors.snapshot import UnreadableState, decode_state, encode_state
from callboard.mailbox import codec
from callboard.mailbox.errors import BadMessage, UnknownMessage
from callboard.mailbox.message import Message, decode, decode_tagged, encode, known_types, wire

from . import v2
from .bodies import PLAIN, Bodies
from .test_schema_lock import LOCK

LOCKED = read(LOCK)
lock(LOCKED.modules)  # so that all their types are known here
ACTORS = {actor.kind: actor for actor in actors_in(LOCKED.modules)}
SPOKEN = {**LOCKED.messages, **LOCKED.events}
JSON, PACKED = Bodies(LOCKED, json=True), Bodies(LOCKED, json=False)

CHANCE = [HealthCheck.too_slow, HealthCheck.data_too_large]
"""What depends on the machine, and on what happens to be drawn of shapes in shapes."""

some = settings(max_examples=8, deadline=None, suppress_health_check=CHANCE)
many = settings(max_examples=100, deadline=None, suppress_health_check=CHANCE)


@pytest.mark.parametrize("name", sorted(SPOKEN))
@given(data=st.data())
@some
def test_a_body_as_the_lock_has_it_is_read_and_comes_out_again(name: str, data: st.DataObject) -> None:
    shape = SPOKEN[name]
    plain = data.draw(JSON.of(shape))
    message = decode(name, shape.version, codec.encode(plain))
    newest = wire(type(message)).version
    assert decode(name, newest, encode(message)) == message
    if shape.version == newest:
        texts = {
            field: value
            for field, value in plain.items()
            if "str" in (shape.fields.get(field + end) for end in ("", "?"))
        }
        written = json.loads(encode(message))
        assert {field: written[field] for field in texts} == texts


@pytest.mark.parametrize("kind", sorted(LOCKED.states))
@given(data=st.data())
@some
def test_a_state_as_the_lock_has_it_is_read_and_comes_out_again(kind: str, data: st.DataObject) -> None:
    shape, actor = LOCKED.states[kind], ACTORS[kind]
    state = decode_state(actor, shape.version, msgspec.msgpack.encode(data.draw(PACKED.of(shape))))
    assert decode_state(actor, actor.state_version, encode_state(state)) == state


@cache
def names() -> list[str]:
    return sorted({*known_types(), "no.such.type"})


@given(data=st.data())
@many
def test_whatever_a_row_holds_becomes_a_message_or_one_of_two_errors(data: st.DataObject) -> None:
    name, version = data.draw(st.sampled_from(names())), data.draw(st.integers(-1, 4))
    body = data.draw(st.text(max_size=20) | PLAIN.map(json.dumps) | _objects.map(json.dumps))
    readers: list[Callable[[], Message]] = [
        lambda: decode(name, version, body),
        lambda: decode_tagged(f"{name}.v{version}", body),
    ]
    for reader in readers:
        with suppress(UnknownMessage, BadMessage):
            assert isinstance(reader(), Message)


_objects = st.dictionaries(st.sampled_from(["type", "euros", "cents", "step", "call", "content", "by"]), PLAIN)


@given(euros=PLAIN, others=_objects)
@many
def test_whatever_an_old_body_holds_its_upcast_ends_in_a_message_or_a_bad_one(euros: Any, others: Any) -> None:
    body = json.dumps({**others, "euros": euros})
    try:
        message = decode("deploy.add", 1, body)
    except BadMessage:
        assert type(euros) is not int or abs(euros) > 2**40 or others.get("type") is not None
    else:
        assert message == v2.Add(euros * 100)


@given(version=st.integers(-1, 4), state=st.binary(max_size=20) | PLAIN.map(msgspec.msgpack.encode))
@many
def test_whatever_bytes_there_are_they_become_a_state_or_one_of_two_errors(version: int, state: bytes) -> None:
    kinds: list[type[Actor[Any]]] = [v2.Counter, *ACTORS.values()]
    for actor in kinds:
        with suppress(UnknownMessage, UnreadableState):
            assert isinstance(decode_state(actor, version, state), actor.state_type)
