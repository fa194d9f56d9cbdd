"""Snapshots: an actor's state as bytes, and how the bytes of an older version are read.

    class Counter(Actor[CounterState]):        # CounterState once had `hits`, and has `total` now
        state_version = 2

    @upcast_state("counter", 1)                # what v1 kept, as v2 keeps it
    def _(state: dict[str, Any]) -> dict[str, Any]: ...

The same rules as for messages: fields are only added, and with a default (then nothing has to be said); any other
change is a new `state_version` and an upcast from the one before. There are no downcasts: bytes of a newer version are
for a process that knows it (`UnknownMessage`). Bytes that nobody here can read are `UnreadableState`; whoever meets
them leaves them as they are.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from ..mailbox.errors import CallboardError, UnknownMessage, UsageError
from ..mailbox.message import Upcast
from .actor import Actor

_encoder = msgspec.msgpack.Encoder()
_decoders: dict[type[Any], msgspec.msgpack.Decoder[Any]] = {}
_upcasts: dict[tuple[str, int], Upcast] = {}


class UnreadableState(CallboardError):
    """A state that does not fit its type, or is of an old version without an upcast to the newest."""


def kind_name(kind: str) -> str:
    """What the state of a kind of actors is called where nodes say what they can read (`schemas`)."""
    return f"kind:{kind}"


def upcast_state(kind: str, version: int) -> Callable[[Upcast], Upcast]:
    """Declare how a state of `version` of the actors called `kind` is said in `version + 1`, as plain dicts.

    Raises:
        UsageError: the step is declared elsewhere too, or is none.
    """
    if version < 1:
        raise UsageError(f"upcast of the state of {kind!r} from version {version}: versions begin with 1")

    def declare(function: Upcast) -> Upcast:
        known = _upcasts.get((kind, version))
        if known is not None and known.__module__ != function.__module__:
            raise UsageError(
                f"two upcasts of the state of {kind!r} from version {version}: "
                f"in {known.__module__} and in {function.__module__}; leave one out"
            )
        _upcasts[kind, version] = function
        return function

    return declare


def oldest_state(actor: type[Actor[Any]]) -> int:
    """The oldest version of an actor's state that this process can read."""
    version = actor.state_version
    while (actor.kind, version - 1) in _upcasts:
        version -= 1
    return version


def encode_state(state: msgspec.Struct) -> bytes:
    """A state as bytes of its newest version.

    Raises:
        TypeError, ValueError: a part of it is nothing msgpack can hold.
    """
    return _encoder.encode(state)


def decode_state(actor: type[Actor[Any]], version: int, state: bytes) -> Any:
    """The state that `state` holds, written as `version`, as the newest version of `actor`'s state type.

    Raises:
        UnknownMessage: it is of a newer version than this process knows.
        UnreadableState: nobody can read it as it is with this process's code.
    """
    newest = actor.state_version
    if version > newest:
        said = f"the state of {actor.kind!r} is known here up to version {newest}, this one is {version}"
        raise UnknownMessage(said, kind_name(actor.kind), version)
    decoder = _decoders.get(actor.state_type)
    if decoder is None:
        decoder = _decoders[actor.state_type] = msgspec.msgpack.Decoder(actor.state_type)
    try:
        if version < newest:
            state = _cast(actor.kind, version, newest, state)
        return decoder.decode(state)
    except UnreadableState:
        raise
    except Exception as error:  # what msgspec says, and whatever a type's own __post_init__ raises
        raise UnreadableState(f"not a state of {actor.kind!r} version {newest}: {error}") from error


def _cast(kind: str, version: int, newest: int, state: bytes) -> bytes:
    fields = msgspec.msgpack.decode(state)
    if not isinstance(fields, dict):
        raise UnreadableState(f"the state of {kind!r} version {version} is not an object")
    for step in range(version, newest):
        cast = _upcasts.get((kind, step))
        if cast is None:
            raise UnreadableState(f"the state of {kind!r}: no upcast from version {step} is declared here")
        try:
            fields = {**cast(fields)}
        except Exception as error:  # whatever a state that is not as expected makes of an application's function
            raise UnreadableState(f"the state of {kind!r}: the upcast from version {step} failed: {error!r}") from error
    # Through bytes again, so that it is read exactly as a state that was written as the newest version is.
    return _encoder.encode(fields)
