"""Recordings: any run that has ended becomes a model that answers as its model did, without a network.

    write_recording("refund.jsonl", await runtime.events(run))          # or: callboard record RUN > refund.jsonl
    Runtime(store, RecordedLLM.from_file("refund.jsonl"), tools=[issue_refund])

The answer is chosen by what is asked, never by how often, so many runs, restarts and processes can share one. A
recording holds what was said to the model and what it said: no node, no approver, no provider's request id. It does
hold what the tools returned, so treat it as you treat that.

What came to nothing and was told to the model (`run_model.FED_BACK`) comes to nothing again; a summary of turns that a
model wrote is found by the number of the turns. Failed attempts that were tried again are left out.

Neighbours: `transcript` rebuilds what was asked. The file is JSON lines: a head with a version, then one turn a line,
each with only what was new in its conversation. Invariant: reading what was written gives the same recording.
"""

import os
from collections.abc import Iterable, Sequence
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from ...mailbox import codec
from ...mailbox.address import key_of
from ...mailbox.errors import BadMessage, CallboardError
from ...mailbox.message import Message
from ..llm.client import ChatMessage, LLMClient, LLMResponse, PermanentModelError, ToolCall, ToolSpec
from .compaction import summary_in, turns_to_sum_up
from .events import LLMCallCompleted, LLMCallFailed, LLMCallRequested, RunForked, SummaryRequested, TranscriptCompacted
from .transcript import Transcript

FORMAT: Literal["callboard.recording"] = "callboard.recording"
VERSION = 1
MAX_LINE_BYTES = 64 << 20
SHOWN_CHARS = 120


class BadRecording(CallboardError):
    """A file is no recording, or one of another version."""


class NotRecorded(PermanentModelError):
    """Nothing was recorded for what is asked; the message says where it differs from what was."""


class HasEvent(Protocol):
    """A row of a journal (`Recorded`)."""

    @property
    def event(self) -> Message:
        """The event itself."""
        ...


class Head(msgspec.Struct, frozen=True):
    """First line of a recording."""

    format: str = ""
    version: int = 0
    turns: int = 0


class Turn(msgspec.Struct, frozen=True, omit_defaults=True):
    """One answer, and what it was the answer to."""

    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    stop_reason: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: Decimal = Decimal(0)
    same: int = 0
    """So many messages at the beginning are those of the turn before."""
    asked: tuple[ChatMessage, ...] = ()
    """The messages after them."""
    system_prompt: str | None = None
    """Where it is another one than that of the turn before."""
    failed: str = ""
    """Where there was no answer that could be read: the error, which the model was told of."""
    kind: Literal["", "malformed", "length"] = ""
    """Of that error."""
    sums_up: int = 0
    """A summary of the turns up to this one; such a turn is no part of the conversation, and has none of the above."""


Asked = tuple[str, tuple[ChatMessage, ...]]


class RecordedLLM(LLMClient):
    """Answers what was recorded. `strict`: only to exactly what was asked then; else, where that is not found, by how
    many answers the conversation has so far (for tools whose results differ each time)."""

    def __init__(self, turns: Sequence[Turn], *, strict: bool = True) -> None:
        self.strict = strict
        self.turns = tuple(turn for turn in turns if not turn.sums_up)
        self._summaries = {turn.sums_up: turn for turn in turns if turn.sums_up}
        self._asked = list(_expanded(self.turns))
        self._by_asked = dict(zip(_keys(self.turns), self.turns, strict=True))

    @classmethod
    def from_events(cls, events: Iterable[Message | HasEvent], *, strict: bool = True) -> "RecordedLLM":
        """From a run's journal, whole or as far as it got.

        Raises:
            BadRecording: the run is a fork, and what it was forked from is not before it.
        """
        return cls(recorded_turns(events), strict=strict)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], *, strict: bool = True) -> "RecordedLLM":
        """From a file of `write_recording`.

        Raises:
            BadRecording: it is none. OSError: it cannot be read.
        """
        return cls(read_recording(path), strict=strict)

    async def call(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system_prompt: str = ""
    ) -> LLMResponse:
        """See `LLMClient.call`.

        Raises:
            NotRecorded: saying which message differs.
        """
        asked = (system_prompt, tuple(messages))
        turn = self._by_asked.get(_key(asked)) or self._summaries.get(turns_to_sum_up(messages))
        if turn is None:
            nearest = self._nearest(asked)
            if self.strict or nearest is None:
                raise NotRecorded(self._difference(asked, nearest))
            turn = self.turns[nearest]
        if turn.kind:
            raise PermanentModelError(turn.failed, cost_usd=turn.cost_usd, kind=turn.kind)
        return LLMResponse(
            turn.content, turn.tool_calls, turn.stop_reason, turn.input_tokens, turn.output_tokens, turn.cost_usd
        )

    def _nearest(self, asked: Asked) -> int | None:
        """The turn with as many answers before it; of several (one of them could be read), the one of like length."""
        answers, length = _answers(asked[1]), len(asked[1])
        found = [number for number, (_, messages) in enumerate(self._asked) if _answers(messages) == answers]
        return min(found, key=lambda number: abs(len(self._asked[number][1]) - length), default=None)

    def _difference(self, asked: Asked, nearest: int | None) -> str:
        if nearest is None:
            return (
                f"{len(self.turns)} answers were recorded, and this conversation has {_answers(asked[1])} already: "
                "record a longer run"
            )
        prompt, messages = self._asked[nearest]
        loosely = "record anew, or give strict=False to go by the position only"
        if prompt != asked[0]:
            was, now = _shown(prompt), _shown(asked[0])
            return f"answer {nearest + 1} was recorded under another system prompt: {was}, and not {now}; {loosely}"
        for number, (was_said, is_said) in enumerate(zip(messages, asked[1], strict=False), 1):
            if was_said != is_said:
                what = f"message {number} ({is_said.role}) differs from the one recorded for answer {nearest + 1}"
                return f"{what}: recorded {_shown(_flat(was_said))}, asked {_shown(_flat(is_said))}; {loosely}"
        return (
            f"answer {nearest + 1} was recorded for {len(messages)} messages, and {len(asked[1])} are asked; {loosely}"
        )


def recorded_turns(events: Iterable[Message | HasEvent]) -> list[Turn]:
    """The answers in a run's journal, each with what it was the answer to.

    Raises:
        BadRecording: the run is a fork, and what it was forked from is not before it.
    """
    transcript, turns = Transcript(), list[Turn]()
    before: Asked = ("", ())
    asked: Asked = before
    summing = False
    for row in events:
        event = row if isinstance(row, Message) else row.event
        match event:
            case RunForked() if not transcript.messages:
                raise BadRecording(
                    f"run {event.run_id} is a fork, and what its model was asked begins in the journal of run "
                    f"{key_of(event.origin)}: give the first {event.origin_seq} events of that one before it"
                )
            case LLMCallCompleted():
                turns.append(_placed(_turn(event), asked, before, first=not turns))
                before = asked
            case LLMCallFailed() if event.final and event.kind in {"malformed", "length"}:
                failed = Turn("", cost_usd=event.cost_usd, failed=event.error, kind=_kind(event.kind))
                turns.append(_placed(failed, asked, before, first=not turns))
                before = asked
            case TranscriptCompacted() if summing:
                turns.append(_summary(event))
        transcript.feed([event])
        if isinstance(event, LLMCallRequested | TranscriptCompacted):
            asked = (transcript.system_prompt, tuple(transcript.messages))
        summing = isinstance(event, SummaryRequested)
    return turns


def _kind(kind: str) -> Literal["malformed", "length"]:
    return "length" if kind == "length" else "malformed"


def _summary(event: TranscriptCompacted) -> Turn:
    return Turn(
        summary_in(event.cut),
        input_tokens=event.input_tokens,
        output_tokens=event.output_tokens,
        cost_usd=event.cost_usd,
        sums_up=event.cut.dropped_turns,
    )


def _placed(turn: Turn, asked: Asked, before: Asked, *, first: bool) -> Turn:
    """The turn with what it was the answer to."""
    same = 0
    for was, now in zip(before[1], asked[1], strict=False):
        if was != now:
            break
        same += 1
    prompt = asked[0] if first or asked[0] != before[0] else None
    return msgspec.structs.replace(turn, same=same, asked=asked[1][same:], system_prompt=prompt)


def _turn(event: LLMCallCompleted) -> Turn:
    calls = tuple(ToolCall(call.id, call.name, call.arguments, call.problem, call.opaque) for call in event.tool_calls)
    return Turn(
        content=event.content,
        tool_calls=calls,
        stop_reason=event.stop_reason,
        input_tokens=event.input_tokens,
        output_tokens=event.output_tokens,
        cost_usd=event.cost_usd,
    )


def recording_lines(events: Iterable[Message | HasEvent]) -> list[str]:
    """A run's journal as the lines of a recording."""
    turns = recorded_turns(events)
    return [codec.encode(Head(FORMAT, VERSION, len(turns))), *(codec.encode(turn) for turn in turns)]


def write_recording(path: str | os.PathLike[str], events: Iterable[Message | HasEvent]) -> int:
    """Write a run's journal as a recording; how many answers it holds."""
    lines = recording_lines(events)
    Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return len(lines) - 1


def read_recording(path: str | os.PathLike[str]) -> list[Turn]:
    """The turns of a recording.

    Raises:
        BadRecording: it is none, or of another version.
    """
    with Path(path).open(encoding="utf-8") as file:
        try:
            lines = [line for line in iter(lambda: file.readline(MAX_LINE_BYTES), "") if line.strip()]
        except UnicodeError as error:
            raise BadRecording(f"{path} is no recording: {error}") from error
    head = _decoded(lines[0], Head, path, 1) if lines else Head()
    if head.format != FORMAT:
        raise BadRecording(f"{path} is no recording: its first line does not say so")
    if head.version != VERSION:
        raise BadRecording(
            f"{path} is a recording of version {head.version}; this program reads {VERSION}: record anew"
        )
    turns = [_decoded(line, Turn, path, number) for number, line in enumerate(lines[1:], 2)]
    if len(turns) != head.turns:
        raise BadRecording(f"{path} holds {len(turns)} answers where its first line says {head.turns}: it was cut off")
    return turns


def _decoded(line: str, kind: type[Any], path: object, number: int) -> Any:
    try:
        return codec.decode(line, kind)
    except (BadMessage, ValueError) as error:
        raise BadRecording(f"line {number} of {path} cannot be read: {error}") from error


def _expanded(turns: Sequence[Turn]) -> Iterable[Asked]:
    prompt, messages = "", tuple[ChatMessage, ...]()
    for turn in turns:
        prompt = prompt if turn.system_prompt is None else turn.system_prompt
        messages = (*messages[: turn.same], *turn.asked)
        yield prompt, messages


def _key(asked: Asked) -> bytes:
    chain = b""
    for message in asked[1]:
        chain = _linked(chain, message)
    return _linked(chain, asked[0])


def _keys(turns: Sequence[Turn]) -> Iterable[bytes]:
    """`_key` of every turn, at the cost of what is new in each."""
    prompt, chains = "", [b""]
    for turn in turns:
        prompt = prompt if turn.system_prompt is None else turn.system_prompt
        del chains[turn.same + 1 :]
        for message in turn.asked:
            chains.append(_linked(chains[-1], message))
        yield _linked(chains[-1], prompt)


def _linked(chain: bytes, link: ChatMessage | str) -> bytes:
    return sha256(chain + codec.encode(link).encode()).digest()


def _flat(message: ChatMessage) -> str:
    return codec.encode(message)


def _answers(messages: Sequence[ChatMessage]) -> int:
    return sum(message.role == "assistant" for message in messages)


def _shown(text: str) -> str:
    return repr(text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…")
