"""What a hosted run and the worker that runs its code say to each other.

    run ──RunCode──▶ worker        run the code from its beginning; the answer is CodeReturned, CodeRaised, CodeWaits …
    worker ──BeginCode──▶ run      which attempt is this? (CodeGranted)
    worker ──KeepStep, BeginStep, MakeCalls, AwaitCalls, KeepOpaque──▶ run     all under that attempt's number

Each request of an attempt that is not the latest is answered with `AttemptOver`, and changes nothing.
"""

from decimal import Decimal
from typing import Any, Literal

import msgspec

from ...mailbox.message import Message
from ...mailbox.request import Request

OnDoubt = Literal["retry", "reconcile", "park"]


class RunCode(Message, tag="code.run"):
    """Run to worker."""

    run_id: str


class BeginCode(Request["CodeGranted"], tag="code.begin"):
    """Worker to run: the code is about to begin; `message` is the id of the `RunCode` in hand."""

    message: int
    node: int = 0


class CodeGranted(Message, tag="code.granted"):
    """Run to worker: it is attempt so-and-so, and the journal up to event `upto` is what happened before."""

    attempt: int
    upto: int
    step: int = 0
    """How many batches of calls there were before."""
    over: str = ""
    """Why nothing new may begin: a sentence that names the limit."""


class AttemptOver(Message, tag="code.over"):
    """Run to worker: stop, nothing that this attempt says counts any more."""

    why: str


class Kept(Message, tag="code.kept"):
    """Run to worker: it is on record, at event `upto` or before."""

    upto: int
    waits: list[int] = msgspec.field(default_factory=list)
    """Numbers of calls asked about that wait for a person."""
    over: str = ""
    """Why nothing new may begin."""


class StepGranted(Message, tag="code.step_granted"):
    """Run to worker: the step may be done, under this key."""

    idempotency_key: str
    in_doubt: bool = False
    """It was begun before, and nobody knows whether it happened."""
    waits: list[int] = msgspec.field(default_factory=list)
    """It may not be done: a person has to say whether it happened."""


class KeepStep(Request["Kept"], tag="code.keep_step"):
    """Worker to run: a step is done, or has raised (`error_type`)."""

    attempt: int
    key: str
    name: str
    digest: str
    value: Any = None
    form: str = "plain"
    error_type: str = ""
    error: str = ""
    duration_ms: int = 0
    tries: int = 1
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: Decimal = Decimal(0)


class BeginStep(Request["StepGranted"], tag="code.begin_step"):
    """Worker to run: a step with a side effect is about to begin; put that on record."""

    attempt: int
    key: str
    name: str
    digest: str
    arguments: dict[str, Any]
    """For people to read; bounded."""
    step: int = 0
    on_doubt: OnDoubt = "park"


class DoubtStep(Request["StepGranted"], tag="code.doubt_step"):
    """Worker to run: `reconcile` could not say whether a step happened; ask a person."""

    attempt: int
    key: str
    detail: str


class WantedCall(msgspec.Struct, frozen=True):
    """A tool call that the code asks for."""

    key: str
    tool: str
    arguments: dict[str, Any]
    digest: str
    id: str = ""
    """The model's own id of it, if it has one."""


class MakeCalls(Request["Kept"], tag="code.make_calls"):
    """Worker to run: make these calls, side by side; answered when each has an outcome or waits for a person."""

    attempt: int
    step: int
    """Number of the batch that they are of: what the code asked for before any of it was answered."""
    calls: list[WantedCall]


class AwaitCalls(Request["Kept"], tag="code.await_calls"):
    """Worker to run: answer when each of these calls has an outcome or waits for a person."""

    attempt: int
    calls: list[int]


class KeepOpaque(Request["Kept"], tag="code.keep_opaque"):
    """Worker to run: keep a part of a library's own state."""

    attempt: int
    record: str
    part: int
    parts: int
    text: str


class CodeReturned(Message, tag="code.returned"):
    """Worker to run: the code has come to its end."""

    attempt: int
    answer: str


class CodeRaised(Message, tag="code.raised"):
    """Worker to run: the code ended with an error that it did not catch."""

    attempt: int
    error: str


class CodeWaits(Message, tag="code.waits"):
    """Worker to run: the code cannot go on before these calls are answered; nothing of it is kept."""

    attempt: int
    waits: list[int]


class CodeStopped(Message, tag="code.stopped"):
    """Worker to run: it was told to stop, and did. `over`: because a limit forbids what comes next."""

    attempt: int
    over: bool = False
