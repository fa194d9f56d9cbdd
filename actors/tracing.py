"""Tracing as the runtime sees it: spans that are begun, told things, and ended; by default none of it happens.

A turn and an attempt at a worker's call are a span each. What a turn sends carries the turn's context in its envelope
(`Headers.traceparent`), so whoever handles it, in whatever process and however much later, goes on in the same trace.
Work that outlasts its turns (a run of an agent) has a span of its own, `Work`, which is the parent of all its turns: it
is known by its ids from the first turn on, kept in the actor's state, and written when the work has ended. A turn of it
that somebody outside has caused (a person's decision, a clock) is linked to what caused it, and not moved there.

Nothing here knows who records spans: that is `service.telemetry`, handed to the node. Invariant: without one, nothing
is done, nothing is written into envelopes, and a turn costs what it would cost without this file (`traced` is not used
then). No span ever holds what a message, a model, a tool or an error says; only types, names, ids and counts.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import msgspec

from ..mailbox.envelope import Envelope

Value = str | int | float | bool | Sequence[str]
Attributes = Mapping[str, Value]


class Work(msgspec.Struct, frozen=True, omit_defaults=True):
    """A piece of work that is more than one turn, by the ids of its own span."""

    traceparent: str
    parent: str = ""
    """Of what it is a part; "" for none."""
    began_ns: int = 0
    """When, in nanoseconds since 1970 by the clock of the node that had its first turn."""


class Ended(msgspec.Struct, frozen=True):
    """What is said of such work at its end."""

    name: str
    began_at: float
    """Seconds since 1970; where it is older than its trace, that begins then."""
    attributes: Attributes
    error: str = ""
    """What kind of failure it ended with; "" for none."""


class Span(Protocol):
    """One turn, or one attempt at a call."""

    @property
    def on(self) -> bool:
        """Whether anybody records it; else there is no use in working out what to say."""
        ...

    @property
    def traceparent(self) -> str:
        """The context that what it sends carries (W3C); "" where nothing is traced."""
        ...

    def part_of(self, work: Work | None) -> Work | None:
        """Say, before it begins, what this turn is a turn of; None: of work that it is the first turn of, which is
        given back to be kept in the actor's state."""
        ...

    def link(self, traceparent: str) -> None:
        """Say, before it begins, what has led to it without being its parent; "" for nothing."""
        ...

    def begin(self) -> None:
        """Who its parent is, is known."""
        ...

    def name(self, name: str, attributes: Attributes) -> None:
        """Call it what it turned out to be."""
        ...

    def note(self, attributes: Attributes) -> None:
        """Say more of it."""
        ...

    def fail(self, kind: str) -> None:
        """It has failed with this kind of error, a name and no text; the first word counts."""
        ...

    def close(self, work: Work | None, ended: Ended) -> None:
        """If this turn counts, its work has ended with it."""
        ...

    def current(self) -> AbstractContextManager[object]:
        """In the block, it is what runs here: for logs, and for spans of others in it."""
        ...

    def end(self, outcome: str) -> None:
        """It is over. Said twice, the first counts."""
        ...

    def drop(self) -> None:
        """It never was."""
        ...


class NoSpan:
    """Where nothing is traced."""

    __slots__ = ()

    on = False
    traceparent = ""

    def part_of(self, work: Work | None) -> Work | None:
        return work

    def link(self, traceparent: str) -> None:
        return None

    def begin(self) -> None:
        return None

    def name(self, name: str, attributes: Attributes) -> None:
        return None

    def note(self, attributes: Attributes) -> None:
        return None

    def fail(self, kind: str) -> None:
        return None

    def close(self, work: Work | None, ended: Ended) -> None:
        return None

    def current(self) -> AbstractContextManager[object]:
        return nullcontext()

    def end(self, outcome: str) -> None:
        return None

    def drop(self) -> None:
        return None


NO_SPAN: Span = NoSpan()


class Tracing(Protocol):
    """Who records spans."""

    @property
    def on(self) -> bool:
        """Whether anybody does."""
        ...

    def turn(self, envelope: Envelope, node: int) -> Span:
        """A turn is about to begin, for this message."""
        ...

    def call(self, envelope: Envelope, node: int, *, remote: bool) -> Span:
        """An attempt at this call begins, and with it the span. `remote`: it waits for a server."""
        ...


class NoTracing:
    """Nobody."""

    __slots__ = ()

    on = False

    def turn(self, envelope: Envelope, node: int) -> Span:
        return NO_SPAN

    def call(self, envelope: Envelope, node: int, *, remote: bool) -> Span:
        return NO_SPAN


OFF: Tracing = NoTracing()


class _Ambient:
    """What this process does just now, where that is neither a turn nor a call: what a client sends carries it."""

    __slots__ = ("traceparent",)

    def __init__(self) -> None:
        self.traceparent: Callable[[], str] = str


AMBIENT = _Ambient()
"""Set by whoever traces this process."""
