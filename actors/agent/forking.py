"""Forks: a new run that goes on from an event of another one, which does not notice.

The fork reads its past in the other run's journal, so nothing is copied and nothing is done again. What the other run
asked for and had no answer to at that event is answered with an error that says what became of it there. What it did
with side effects beyond that event is remembered by fingerprint, and the same call in the fork needs a person. What a
run that is still at work will do cannot be known: a fork of one asks for every call with a side effect.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from ...mailbox.address import key_of
from ...mailbox.errors import CallboardError, UsageError
from ...mailbox.message import Message, decode_tagged
from .digest import canonical
from .events import (
    ApprovalDenied,
    ApprovalExpired,
    ApprovalRequested,
    CancelRequested,
    ChildStarted,
    CodeRequested,
    LLMCallCompleted,
    RequestedCall,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunForked,
    RunStarted,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallInDoubt,
    ToolCallRequested,
    ToolCallSettled,
)
from .gate import Go, Hold, Refuse
from .messages import Unanswered
from .policy import Terms, merged
from .state import KEPT_BY_FORKS, RunState, fold
from .text import row_text
from .transcript import Transcript

MAX_ELSEWHERE = 1_000
"""Calls that a fork remembers one by one; beyond that, every call of the tools concerned needs a person."""
MAX_RESULT_CHARS = 2_000
POLICY = "fork"
AT_WORK = "*"
"""In place of a fingerprint: any call may be made elsewhere too."""

Journal = Callable[[str], Awaitable[Sequence[Message]]]
"""The events of a run's own journal, by its address."""


def fingerprint(tool: str, canonical_args: str) -> str:
    """Of a call, whichever run makes it."""
    return sha256(f"{tool}\0{canonical_args}".encode(errors="surrogatepass")).hexdigest()[:24]


def unlike(verdict: Refuse | Hold | Go, elsewhere: Mapping[str, str]) -> Refuse | Hold | Go:
    """The verdict on a call, unless a run that this one was forked from did the same already: then a person decides."""
    if not elsewhere or isinstance(verdict, Refuse) or not verdict.tool.side_effect:
        return verdict
    name = verdict.tool.name
    same = elsewhere.get(fingerprint(name, verdict.arguments.canonical)) or elsewhere.get(fingerprint(name, "*"))
    if same is not None:
        reason = f"{same} is this very call, asked for after the event where this run was forked"
    elif AT_WORK in elsewhere:
        reason = f"{elsewhere[AT_WORK]} was still at work when this run was forked, and may make this call as well"
    else:
        return verdict
    again = Terms(reason, policy=POLICY, risk="high")
    terms = merged([verdict.terms, again]) if isinstance(verdict, Hold) else again
    return Hold(verdict.tool, verdict.arguments, terms or again, verdict.tally, verdict.findings)


class PastLost(CallboardError):
    """The journal that a fork goes on from cannot be read any more; the message names it."""


async def past_of(first: Message, read: Journal) -> list[list[Message]]:
    """The past of a run that begins with event `first`: a part of each journal it comes from, oldest first; none where
    it is no fork.

    Raises:
        PastLost: a part is not there any more.
    """
    found: list[list[Message]] = []
    while isinstance(first, RunForked):
        events = list(await read(first.origin))[: first.origin_seq]
        if len(events) < first.origin_seq:
            name = key_of(first.origin) or first.origin
            raise PastLost(f"event {first.origin_seq} of run {name}, which this is a fork of, is not there any more")
        found.insert(0, events)
        first = beginning(events)
    return found


def beginning(events: Sequence[Message]) -> Message:
    """The event that a journal begins a run with. Not always its first: who cancels may be quicker than the start."""
    return next((event for event in events if isinstance(event, RunStarted | RunForked)), events[0])


async def inherit(transcript: Transcript, first: RunForked, journal: Callable[..., Awaitable[Any]]) -> None:
    """Feed a fork's past to its transcript, before its own first event. `journal` gives the rows of an address.

    Raises:
        PastLost.
    """

    async def read(address: str) -> list[Message]:
        return [decode_tagged(row.type, row.body) for row in await journal(address, 0)]

    for events in await past_of(first, read):
        transcript.seq = 0
        transcript.feed(events)
    transcript.seq = 0


def fork_state(events: Sequence[Message], at: int, run_id: str) -> tuple[RunState, dict[str, Any]]:
    """The state of run `run_id` at event `at`, and what of it a fork takes over, as plain data.

    Raises:
        UsageError: there is no such event, or the run had not begun by then.
    """
    if not events:
        raise UsageError(f"run {run_id} has no events yet, as no node has taken it; fork it once it has begun")
    if not 1 <= at <= len(events):
        raise UsageError(f"run {run_id} has events 1 to {len(events)} and cannot be forked at {at}; name one of them")
    if any(isinstance(event, CodeRequested) for event in events):
        raise UsageError(f"run {run_id} is a loop of other code, which begins anew each time; start another run of it")
    state = fold(events[:at])
    for call in state.pending.values():
        if call.status == "held":
            state.counted.never_made(call.tool, call.decision)  # in the fork it is answered by an error
    kept = {name: getattr(state, name) for name in (*KEPT_BY_FORKS, "step", "calls")}
    plain: dict[str, Any] = msgspec.to_builtins(kept)
    return state, plain


def unanswered(origin: str, events: Sequence[Message], at: int) -> list[Unanswered]:
    """Calls that the origin's model had asked for by event `at` and that had no answer by then."""
    name = key_of(origin) or origin
    state, asked = fold(events[:at]), last_turn(events[:at])
    later = dict(_outcomes(events[at:]))
    found = []
    for number, call in asked.items():
        if number in state.pending or number > state.calls:
            became = later.get(number, "it has no outcome there yet" if number in state.pending else "")
            text = f"call {number} of run {name}: {became or 'not made there yet'}; it was not made in this fork"
            found.append(Unanswered(number, call.name, call.id, text))
    return found


def last_turn(events: Sequence[Message]) -> dict[int, RequestedCall]:
    """The calls that the model asked for last, by number."""
    turn: Sequence[RequestedCall] = ()
    before, count = 0, 0
    for event in events:
        if isinstance(event, RunForked):
            count = int(event.state.get("calls", 0))
        if isinstance(event, LLMCallCompleted):
            before, turn = count, event.tool_calls
            count += len(turn)
    return {before + n: call for n, call in enumerate(turn, 1)}


def _outcomes(events: Sequence[Message]) -> Iterator[tuple[int, str]]:
    for event in events:
        match event:
            case ToolCallCompleted():
                yield event.call, f"completed there with {row_text(encode_result(event.result), MAX_RESULT_CHARS)}"
            case ToolCallSettled() if event.happened:
                yield event.call, "it did happen there, as a person said"
            case ToolCallFailed() if event.final:
                yield event.call, f"failed there with: {row_text(event.error, MAX_RESULT_CHARS)}"
            case ApprovalDenied():
                yield event.call, "denied there by a person"
            case ApprovalExpired():
                yield event.call, "expired there, as nobody decided"
            case ApprovalRequested():
                yield event.call, "waits there for a person"
            case ToolCallRequested():
                yield event.call, "under way there"


def encode_result(result: Mapping[str, Any]) -> str:
    """A result as one line."""
    return msgspec.json.encode(result).decode()


async def done_elsewhere(origin: str, events: Sequence[Message], at: int, read: Journal) -> dict[str, str]:
    """What the origin, and the runs it called, did or may yet do beyond event `at`: fingerprints, and which calls.

    AT_WORK is among them, with the run's name, where one of these runs had not ended. Calls whose tools have no side
    effects are, too; the fork's gate knows its tools and passes them by.
    """
    found: dict[str, str] = {}
    for event in events[:at]:
        if isinstance(event, RunForked):
            found.update(event.elsewhere)  # its own origin's, which hold for all that come from it
    await _collect(origin, events, at, read, found)
    return found


async def _collect(address: str, events: Sequence[Message], at: int, read: Journal, found: dict[str, str]) -> None:
    if not any(isinstance(event, RunCompleted | RunFailed | RunCancelled) for event in events):
        found.setdefault(AT_WORK, f"run {key_of(address) or address}")
    answered = {call for call, _ in _outcomes_of_calls(events[:at])}
    undone = {call for call, done in _outcomes_of_calls(events) if not done}
    for event in events:
        if not isinstance(event, ToolCallRequested | ApprovalRequested | ChildStarted) or event.call in answered:
            continue
        if isinstance(event, ChildStarted):
            # Also of one that failed, or was given up: it may have done much before that.
            await _collect(event.child, await read(event.child), 0, read, found)
            continue
        if event.call in undone:
            continue
        arguments = canonical(event.arguments) if len(found) < MAX_ELSEWHERE else "*"
        found.setdefault(fingerprint(event.tool, arguments), f"call {event.call} of run {key_of(address) or address}")


def _outcomes_of_calls(events: Sequence[Message]) -> Iterator[tuple[int, bool]]:
    """Calls that were answered, and whether something was done. Not those of which nobody knows: in doubt, or under
    way, when a run was cancelled, whose answer says only that it was not waited for."""
    unknown: set[int] = set()
    let_go: set[int] = set()
    cancelled = False
    for event in events:
        match event:
            case CancelRequested():
                cancelled = True
            case ToolCallRequested():
                let_go.add(event.call)
            case ApprovalRequested():
                let_go.discard(event.call)  # the tool asked, and had done nothing
            case ToolCallInDoubt():
                unknown.add(event.call)
            case ToolCallCompleted():
                yield event.call, True
            case ToolCallSettled():
                unknown.discard(event.call)
                if event.happened:
                    yield event.call, True
            case ToolCallFailed() if event.final:
                if event.call not in unknown and not (cancelled and event.call in let_go):
                    yield event.call, False
            case ApprovalDenied() | ApprovalExpired():
                yield event.call, False
