"""Events of a run whose loop is somebody else's code (`callboard.actors.adapters`). `events` names them all."""

from decimal import Decimal
from typing import Any

from ..context import Event


class CodeRequested(Event, tag="code.requested"):
    """The code is about to be run from its beginning; what it has done already is answered from the journal."""

    message: int
    """Id of the message to the worker that runs it."""
    node: int = 0


class CodeBegun(Event, tag="code.begun"):
    """An attempt at it has begun; what an earlier one still says is refused from here on."""

    attempt: int
    node: int = 0


class CodeSuspended(Event, tag="code.suspended"):
    """It cannot go on before these calls are answered. Nothing of it is kept in memory."""

    attempt: int
    waits: list[int]


class CodeCalled(Event, tag="code.called"):
    """The code asked for a call: a tool's, or a step's with a side effect. What became of it: the events of `call`."""

    key: str
    """What names it in the code: its position, or what its graph calls it."""
    call: int
    step: int
    name: str
    digest: str
    """sha256 of its arguments, as the code gave them."""


class StepCompleted(Event, tag="code.step_completed"):
    """A step of the code was done; its result is given to the code whenever it comes here again."""

    key: str
    name: str
    digest: str
    value: Any = None
    form: str = "plain"
    """What the value was: plain, or `llm` for a model's answer."""
    duration_ms: int = 0
    attempt: int = 1
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: Decimal = Decimal(0)


class StepFailed(Event, tag="code.step_failed"):
    """A step of the code raised; it raises that again whenever the code comes here."""

    key: str
    name: str
    digest: str
    error_type: str
    error: str
    attempt: int = 1


class OpaqueKept(Event, tag="code.opaque_kept"):
    """A part of what a library keeps of itself, such as a graph's checkpoint; nobody here looks into it."""

    record: str
    """Names the whole."""
    part: int
    """From 1."""
    parts: int
    text: str
