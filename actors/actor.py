"""Actors and workers: the two kinds of things that handle messages, and how their handlers are found.

    class Ticket(Actor[TicketState]):
        @on
        async def opened(self, message: Opened, ctx: Context) -> None: ...

An **Actor** has state and handles one message at a time; a handler changes `self.state`, buffers effects in its
context and does no I/O, so that the whole turn can be committed or forgotten. A **Worker** has no state, handles many
messages at a time in no order, may do I/O, and answers with what its handler returns: model and tool calls are workers.

Handlers are found by the type of their `message` parameter (a union handles several) when the class is made, so a
mistake shows at import.
"""

import inspect
import re
import sys
import types
import typing
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar, Generic, TypeVar, overload

import msgspec

from ..mailbox.errors import UsageError
from ..mailbox.message import Message
from .retry import RetryPolicy
from .tracing import Span
from .waiting import may_wait

if typing.TYPE_CHECKING:
    from .context import Context, WorkerContext

S = TypeVar("S", bound=msgspec.Struct)
Function = TypeVar("Function", bound=Callable[..., Any])

_MARK = "__callboard_on__"


class Stateless(msgspec.Struct):
    """State of an actor that has none."""


@overload
def on(function: Function, /) -> Function: ...
@overload
def on(*, creates: bool = False) -> Callable[[Function], Function]: ...


def on(function: Any = None, /, *, creates: bool = False) -> Any:
    """Mark a method as the handler of its `message` parameter's type.

    `creates`: such a message brings a pool's actor into being when there is none at its address yet.
    """

    def mark(target: Function) -> Function:
        setattr(target, _MARK, creates)
        return target

    return mark(function) if function is not None else mark


class Handler(msgspec.Struct, frozen=True):
    """One handler: the method's name, whether its message may create the actor, and whether it may wait."""

    method: str
    creates: bool
    waits: bool = False


def _kebab(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()


def _message_types(cls: type, name: str, function: Callable[..., Any], scope: Mapping[str, Any]) -> list[type[Message]]:
    parameters = list(inspect.signature(function).parameters)
    if len(parameters) != 3:
        raise UsageError(
            f"{cls.__qualname__}.{name}: a handler takes (self, message, ctx), not ({', '.join(parameters)})"
        )
    try:
        hints = typing.get_type_hints(function, localns=dict(scope))
    except NameError as error:
        raise UsageError(f"{cls.__qualname__}.{name}: cannot read its annotations: {error}") from error
    hint = hints.get(parameters[1])
    union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    kinds: list[type[Message]] = []
    for kind in typing.get_args(hint) if union else (hint,):
        if not (isinstance(kind, type) and issubclass(kind, Message)):
            raise UsageError(
                f"{cls.__qualname__}.{name}: {parameters[1]!r} must be annotated with a Message type, not {hint!r}"
            )
        kinds.append(kind)
    return kinds


def _collect(cls: type, scope: Mapping[str, Any]) -> dict[type[Message], Handler]:
    handlers: dict[type[Message], Handler] = {}
    for base in reversed(cls.__mro__):
        for name, function in vars(base).items():
            creates = getattr(function, _MARK, None)
            if creates is None:
                continue
            for kind in _message_types(cls, name, function, scope):
                known = handlers.get(kind)
                if known is not None and known.method != name:
                    raise UsageError(f"{cls.__qualname__}: {known.method} and {name} both handle {kind.__qualname__}")
                handlers[kind] = Handler(name, creates, may_wait(function))
    return handlers


class Actor(Generic[S]):
    """Base of stateful actors; `Actor[State]` names the struct that is kept between turns.

    Class arguments: `kind`, its name in storage (default: the class name in kebab case); never change it.
    """

    kind: ClassVar[str] = "actor"
    handlers: ClassVar[dict[type[Message], Handler]] = {}
    state_type: ClassVar[type[msgspec.Struct]] = Stateless
    state_version: ClassVar[int] = 1
    """Raised by a change of the state type that is more than a new field with a default; see `snapshot`."""
    retry: ClassVar[RetryPolicy] = RetryPolicy()
    turn_seconds: ClassVar[float] = 300.0
    """Bound on one turn of a handler that awaits; over it the turn counts as a bug."""
    stash_limit: ClassVar[int] = 1_000
    """How many messages it may put aside (`Context.stash`); at the next one it is parked."""

    state: S

    def __init_subclass__(cls, *, kind: str | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.kind = kind or _kebab(cls.__name__)
        version: object = cls.state_version
        if not isinstance(version, int) or version < 1:
            raise UsageError(f"{cls.__qualname__}: state_version is a number from 1, not {version!r}")
        cls.handlers = _collect(cls, sys._getframe(1).f_locals)
        for base in getattr(cls, "__orig_bases__", ()):
            arguments = typing.get_args(base)
            if arguments and isinstance(arguments[0], type) and issubclass(arguments[0], msgspec.Struct):
                cls.state_type = arguments[0]

    def initial(self) -> S:
        """The state of an actor that was never started; by default the state type's defaults."""
        return typing.cast(S, self.state_type())

    def on_start(self, ctx: "Context") -> Awaitable[None] | None:
        """Runs in the first turn of each incarnation, before anything else; may send, schedule, record."""
        return None

    def on_stop(self, ctx: "Context") -> Awaitable[None] | None:
        """Runs in the turn that stops the actor."""
        return None

    def on_cancel(self, ctx: "Context") -> Awaitable[None] | None:
        """Runs in the turn that cancels the actor, bounded as any turn; may send, record, drop what it holds."""
        return None

    def traced(self, span: Span) -> None:
        """A turn that is traced begins: say with `span.part_of` what it is a part of, beyond what has caused it."""

    def summary(self) -> Mapping[str, Any] | None:
        """A few plain values to show in lists; stored with each snapshot, so keep it small."""
        return None


class Worker:
    """Base of stateless workers; a handler returns the reply (or None), and may await what it likes."""

    kind: ClassVar[str] = "worker"
    handlers: ClassVar[dict[type[Message], Handler]] = {}
    retry: ClassVar[RetryPolicy] = RetryPolicy()
    concurrency: ClassVar[int] = 64
    """How many of its messages one node handles at a time."""
    remote: ClassVar[bool] = False
    """Its calls wait for a server; how they are drawn in a trace, and nothing else."""

    def __init_subclass__(cls, *, kind: str | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.kind = kind or _kebab(cls.__name__)
        cls.handlers = _collect(cls, sys._getframe(1).f_locals)

    def records_start(self, message: Message) -> bool:
        """Whether the start of this call must be on disk before it begins, because doing it twice would do harm."""
        return False

    def given_up(self, message: Message, error: str, ctx: "WorkerContext") -> Message | None:
        """The reply when a call was given up; None for a plain AskFailed."""
        return None
