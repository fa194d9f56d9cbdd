"""Messages: frozen tagged structs, each with a wire name and a version.

    class Opened(Message, tag="ticket.opened.v2"):
        subject: str
        urgent: bool = False          # added later, with a default: old bodies still fit

    @upcast("ticket.opened", 1)       # what v1 said, as v2 says it
    def _(body: dict[str, Any]) -> dict[str, Any]: ...

A tag without `.vN` is version 1; a class without a tag is called by its own name in kebab case. Fields are only added,
and with a default; any other change is a new version and an upcast from the one before. There are no downcasts: a
process that meets a type or version it does not know leaves the message for one that does (`UnknownMessage`).
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, dataclass_transform

import msgspec

from . import codec
from .errors import BadMessage, CallboardError, UnknownMessage

MAX_BODY_BYTES = 1 << 20
"""The largest body that a mailbox takes (1 MiB)."""

Upcast = Callable[[dict[str, Any]], dict[str, Any]]

_TAG = re.compile(r"([a-z][a-z0-9_]*(?:[.-][a-z0-9_]+)*?)(?:\.v([1-9][0-9]*))?")


class Wire(NamedTuple):
    """How a type is called in storage."""

    name: str
    version: int


def _kebab(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()


_declared: list[type["Message"]] = []


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class MessageMeta(msgspec.StructMeta):
    """Only for type checkers: says that messages are frozen although their classes do not repeat it."""


class Message(msgspec.Struct, metaclass=MessageMeta, frozen=True, tag=_kebab):
    """Base of everything that goes through a mailbox."""

    def __init_subclass__(cls, **config: Any) -> None:
        super().__init_subclass__(**config)
        # The class is not finished here (msgspec sets it up afterwards), so it is only noted; `_settle` reads it.
        _declared.append(cls)


_classes: dict[Wire, type[Message]] = {}
_newest: dict[str, type[Message]] = {}
_wires: dict[type[Message], Wire] = {}
_faults: dict[type[Message], str] = {}
_tags: dict[type[Message], str] = {}
_upcasts: dict[Wire, Upcast] = {}


def _settle() -> None:
    """Register the classes declared since the last look; what is wrong with one is said to whoever uses that one."""
    while _declared:
        cls = _declared.pop(0)
        try:
            _register(cls, _wire_of(cls))
        except BadMessage as error:
            _faults[cls] = str(error)


def _register(cls: type[Message], wire: Wire) -> None:
    known = _classes.get(wire)
    if known is not None and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
        raise BadMessage(
            f"two message types are called {wire.name!r} version {wire.version}: "
            f"{known.__module__}.{known.__qualname__} and {cls.__module__}.{cls.__qualname__}; give one another tag"
        )
    _classes[wire] = cls
    _wires[cls] = wire
    newest = _newest.get(wire.name)
    if newest is None or _wires[newest].version <= wire.version:
        _newest[wire.name] = cls


def _wire_of(cls: type[Message]) -> Wire:
    config = cls.__struct_config__
    match = _TAG.fullmatch(config.tag) if isinstance(config.tag, str) else None
    if match is None or re.search(r"\.v[0-9]+$", match[1]):  # such as x.v0, which would be a name
        raise BadMessage(f"{cls.__qualname__}: tag {config.tag!r} is not like 'ticket.opened' or 'ticket.opened.v2'")
    if config.array_like:
        raise BadMessage(f"{cls.__qualname__}: array_like messages cannot grow fields; leave it off")
    return Wire(match[1], int(match[2] or 1))


def wire(cls: type[Message]) -> Wire:
    """Name and version of a message type.

    Raises:
        BadMessage: when its tag is malformed or taken by another type.
    """
    if cls not in _wires:
        _settle()
    if cls in _faults:
        raise BadMessage(_faults[cls])
    return _wires[cls]


def tag(cls: type[Message]) -> str:
    """Name and version of a message type as one text, the way bodies and journals carry it: `ticket.opened.v2`."""
    known = _tags.get(cls)
    if known is None:
        name, version = wire(cls)
        known = _tags[cls] = name if version == 1 else f"{name}.v{version}"
    return known


def decode_tagged(text: str, body: str) -> Message:
    """The message that a body holds whose tag (see `tag`) is `text`.

    Raises:
        UnknownMessage, BadMessage: as `decode`.
    """
    name, version = _read_tag(text)
    return decode(name, version, body)


@lru_cache(maxsize=1_024)
def _read_tag(text: str) -> Wire:
    """
    Raises:
        UnknownMessage: it is none.
    """
    match = _TAG.fullmatch(text)
    if match is None:
        raise UnknownMessage(f"no message type {text[:80]!r} is known here")
    return Wire(match[1], int(match[2] or 1))


def upcast(name: str, version: int) -> Callable[[Upcast], Upcast]:
    """Declare how a body of `version` is said in `version + 1`; bodies are plain dicts without the tag.

    Raises:
        BadMessage: the step is declared elsewhere too, or is none.
    """
    if version < 1:
        raise BadMessage(f"upcast of {name!r} from version {version}: versions begin with 1")

    def declare(function: Upcast) -> Upcast:
        known = _upcasts.get(Wire(name, version))
        if known is not None and known.__module__ != function.__module__:
            raise BadMessage(
                f"two upcasts of {name!r} from version {version}: "
                f"in {known.__module__} and in {function.__module__}; leave one out"
            )
        _upcasts[Wire(name, version)] = function
        return function

    return declare


def known_types() -> dict[str, int]:
    """Every wire name that this process can read, with its newest version."""
    _settle()
    return {name: _wires[cls].version for name, cls in _newest.items()}


def newest_types() -> dict[str, type[Message]]:
    """Every wire name that this process can read, with the class of its newest version."""
    _settle()
    return dict(_newest)


def refused_types() -> dict[type[Message], str]:
    """The message types that are declared wrongly, with what is wrong."""
    _settle()
    return dict(_faults)


def oldest_readable(name: str) -> int:
    """The oldest version of a type whose bodies this process can read.

    Raises:
        UnknownMessage: no such type here.
    """
    _settle()
    if name not in _newest:
        raise UnknownMessage(f"no message type {name!r} is known here")
    version = _wires[_newest[name]].version
    while Wire(name, version - 1) in _upcasts:
        version -= 1
    return version


def encode(message: Message) -> str:
    """The body of a message, as JSON text.

    Raises:
        BadMessage: when it cannot be JSON, or is larger than MAX_BODY_BYTES.
    """
    body = codec.encode(message)
    if len(body) > MAX_BODY_BYTES // 4 and len(body.encode()) > MAX_BODY_BYTES:
        name = wire(type(message)).name
        raise BadMessage(f"{name}: the body is {len(body):,} characters; {MAX_BODY_BYTES:,} bytes are allowed")
    return body


def decode(name: str, version: int, body: str) -> Message:
    """The message that a stored body holds, as the newest version of its type.

    Raises:
        UnknownMessage: no such type here, or a newer version of it.
        BadMessage: the body does not fit its type.
    """
    cls = _newest.get(name)
    if cls is None or _declared:
        _settle()
        cls = _newest.get(name)
    if cls is None:
        raise UnknownMessage(f"no message type {name!r} is known here", name, version)
    newest = _wires[cls].version
    if version > newest:
        said = f"message type {name!r} is known here up to version {newest}, this one is {version}"
        raise UnknownMessage(said, name, version)
    try:
        return codec.decode(body, cls) if version == newest else _upcast_to(cls, newest, name, version, body)
    except CallboardError:
        raise
    except Exception as error:  # whatever a type's own __post_init__ raises
        raise BadMessage(f"not a {cls.__name__}: {error!r}") from error


def _upcast_to(cls: type[Message], newest: int, name: str, version: int, body: str) -> Message:
    fields = codec.builtins(body)
    if not isinstance(fields, dict):
        raise BadMessage(f"{name} version {version}: the body is not an object")
    fields.pop("type", None)
    for step in range(version, newest):
        cast = _upcasts.get(Wire(name, step))
        if cast is None:
            said = f"message type {name!r}: no upcast from version {step} is declared here"
            raise UnknownMessage(said, name, version)
        try:
            fields = {**cast(fields)}
        except Exception as error:  # whatever a body that is not as expected makes of an application's function
            raise BadMessage(f"{name} version {version}: the upcast from {step} failed: {error!r}") from error
    return codec.convert({**fields, "type": cls.__struct_config__.tag}, cls)
