"""The border between a run and its model: what the model is shown, and what its answer is taken for.

    journal ──feed──▶ sources, placeholders, signals
    transcript ──outgoing──▶ the same conversation with personal data hidden and outside text marked off
    answer ──restored──▶ placeholders are values again ──explained──▶ each value with where it comes from

One belongs to each transcript that is kept, and is fed the same events, each once. The journal keeps everything as it
was; what is added to an answer (`RequestedCall.provenance`, findings) goes into the journal with it, so that the gate
needs nothing else.

Invariant: everything here follows from the events in their order, so a node that takes a run over shows the model the
same placeholders as the one before.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import is_
from typing import Any

import msgspec

from ...mailbox import codec
from ...mailbox.message import Message
from ..guard.delimit import marked, tag_of
from ..guard.pii import Detect, Placeholders, detectors_of
from ..guard.profiles import GuardrailProfile
from ..guard.taint import Label, Path, Source, Sources
from ..llm.client import ChatMessage, LLMResponse, ToolCall
from .events import (
    ApprovalDenied,
    LLMCallCompleted,
    LLMCallRequested,
    MessageTold,
    Provenance,
    RequestedCall,
    RunForked,
    RunStarted,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallSettled,
    TranscriptCompacted,
)
from .guard_events import Guarded, Layer
from .messages import ModelAnswered
from .request import values_in
from .signals import MAX_FINDINGS, Signals, personal_data
from .tool import Tool
from .trust import short_path

MAX_PROVENANCE = 500
"""Of one answer; the calls beyond it say only that nobody looked."""
MAX_PROVENANCE_BYTES = 48 << 10
"""The same of one answer, as it is recorded: its paths hold keys, which are as long as the model makes them."""
INDEX_FACTOR = 8
"""Bytes of the index of sources for each character of text, about."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,39}")
"""A key of a result that names a field. Another one may be a text that somebody outside has chosen."""
OWN_WORDS = ("Error: approval denied", "Error: approval expired")
"""How the runtime's own answers to a call begin. That counts only where no tool said it: an error may say anything."""


class Boundary:
    """The border of one run."""

    def __init__(
        self,
        profile: GuardrailProfile,
        run: str,
        tools: Mapping[str, Tool],
        *,
        detectors: Mapping[str, Detect] | None = None,
        monotonic: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.profile = profile
        self._tools = tools
        self._tag = tag_of(run)
        self._hidden = Placeholders(detectors_of(profile.redact, detectors))
        self._sources = Sources() if profile.watches else None
        self._signals = Signals(profile, monotonic)
        self._texts: dict[str, str] = {}
        """Texts that were fed and not yet shown, as they are to be shown."""
        self._sides: dict[int, str] = {}
        """By hash of a text that was fed: who said it, where it is not trusted, else ""."""
        self._given: list[ChatMessage] = []
        """The messages of the last call."""
        self._shown: list[ChatMessage] = []
        """The same as the model saw them."""
        self._own: list[Guarded] = []
        """What was found in the answer in hand."""
        self._read_outside = False
        self._forked = False
        """Between a fork's beginning and its first call: what failed then says what became of it elsewhere."""
        self.size = 0
        """Bytes that all this takes, about."""

    # --- from the journal ----------------------------------------------------------------------------------------

    def feed(self, event: Message) -> None:
        """Take in what happened next."""
        match event:
            case RunStarted():
                self._source(event.system_prompt, Source("system", "trusted"))
                self._goal(event)
            case MessageTold():
                self._said(event.text, Source("said", event.trust, event.by[:80]))
            case ToolCallCompleted():
                self._result(event)
            case ToolCallFailed() if event.final:
                self._failed(event)
            case ApprovalDenied():
                self._source(event.reason, Source("said", "trusted", event.approver[:80]))
            case ToolCallSettled():
                self._source(event.note, Source("said", "trusted", event.by[:80]))
            case TranscriptCompacted():
                self._hide(event.cut.summary, "L1_input", "summary")
            case RunForked() | LLMCallRequested():
                self._forked = isinstance(event, RunForked)
            case LLMCallCompleted():
                # What is in the journal is not said again by whoever reads it anew.
                self._signals.forget()
                self._hide_own(event)
            case _:
                return

    def _source(self, text: str, source: Source) -> None:
        if self._sources is not None and text:
            self._sources.add(text, source)

    def _goal(self, event: RunStarted) -> None:
        """Of a goal that is a request in JSON, each value counts as it is, and not only as it is written there."""
        source, values = Source("goal", event.goal_trust), values_in(event.goal)
        for value in values:
            self._source(value, source)
        self._said(event.goal, source, "\n".join(values))

    def _said(self, text: str, source: Source, read: str = "") -> None:
        """`read`: what a reader makes of the text, where that is something else than what is written."""
        self._source(text, source)
        self._signals.search(read or text, "L1_input", source.kind)
        self._hide(text, "L1_input", source.kind)
        self._note(text, source.kind if source.trust == "untrusted" else "")

    def _note(self, text: str, outside: str) -> None:
        """Remember on which side a text was written. `outside`: by whom, where it is not trusted."""
        self._sides[hash(text)] = outside
        self._read_outside |= bool(outside)
        self.size += len(text) * (INDEX_FACTOR if self._sources is not None else 1)

    def _result(self, event: ToolCallCompleted) -> None:
        tool = self._tools.get(event.tool)
        trust_of = _labels(tool)
        origin = f"{event.tool}#{event.call}"
        if self._sources is not None:
            self._sources.add_values(event.result, trust_of, lambda path: f"{origin}.{short_path(path)}")
        text = codec.encode(event.result)
        outside = list(_texts(event.result, trust_of))
        self._note(text, event.tool if outside else "")
        if outside:
            self._signals.search("\n".join(outside), "L2_tool_result", origin, event.call)
        self._hide(text, "L2_tool_result", origin, event.call)

    def _failed(self, event: ToolCallFailed) -> None:
        text = f"Error: {event.error}"
        outside = event.attempt or self._forked  # else the gate said so, and nothing outside
        self._note(text, event.tool if outside else "")
        if outside:
            self._source(event.error, Source("tool", "untrusted", f"{event.tool}#{event.call}"))
            self._signals.search(event.error, "L2_tool_result", f"{event.tool}#{event.call}", event.call)
        self._hide(text, "L2_tool_result", f"{event.tool}#{event.call}", event.call)

    def _hide(self, text: str, layer: Layer, where: str, call: int = 0) -> None:
        """Give the personal data in a text its placeholders."""
        if not self.profile.redact or text in self._texts:
            return
        began = self._signals.now()
        shown, found = self._hidden.hide(text)
        self._texts[text] = shown
        self._signals.personal(found, layer, where, call, began)

    def _hide_own(self, event: LLMCallCompleted) -> None:
        """What the model wrote: values that it was not given get their placeholders too."""
        if self.profile.redact:
            for text in (event.content, *(text for call in event.tool_calls for text in _strings(call.arguments))):
                if text not in self._texts:
                    self._texts[text] = self._hidden.hide(text, keep=True)[0]

    # --- to the model --------------------------------------------------------------------------------------------

    def outgoing(self, messages: Sequence[ChatMessage]) -> tuple[ChatMessage, ...]:
        """The conversation as the model sees it. Each message is worked on once."""
        if not self.profile.redact and not self.profile.delimit:
            return tuple(messages)
        given, shown = self._given, self._shown
        if not (len(given) <= len(messages) and all(map(is_, given, messages))):  # shortened, or another conversation
            known = {id(before): as_shown for before, as_shown in zip(given, shown, strict=True)}
            shown = [known.get(id(message)) or self._protected(message) for message in messages]
        else:
            shown.extend(self._protected(message) for message in messages[len(given) :])
        self._given, self._shown = list(messages), shown
        self._texts.clear()
        return tuple(shown)

    def _protected(self, message: ChatMessage) -> ChatMessage:
        content = self._without_data(message.content, own=message.role == "assistant")
        source = self._author(message) if self.profile.delimit else ""
        if source:
            content = marked(content, self._tag, source)
        calls = message.tool_calls
        if calls and self.profile.redact:
            calls = tuple(self._hidden_call(call) for call in calls)
        return msgspec.structs.replace(message, content=content, tool_calls=calls)

    def _author(self, message: ChatMessage) -> str:
        """Who wrote a message, where that is not trusted; else ""."""
        known = self._sides.get(hash(message.content))
        if message.role == "tool":
            # Unknown is what compaction left of a result.
            ours = known == "" or (known is None and message.content.startswith(OWN_WORDS))
            return "" if ours else f"tool:{message.tool_name}"
        if message.role != "user":
            return ""
        if known is None:  # a summary, or what compaction left of a message: made of all that the run has read
            return "message:shortened" if self._read_outside else ""
        return f"message:{known}" if known else ""

    def _without_data(self, text: str, *, own: bool) -> str:
        if not self.profile.redact:
            return text
        known = self._texts.get(text)
        return self._hidden.hide(text, keep=own, new=False)[0] if known is None else known

    def _hidden_call(self, call: ToolCall) -> ToolCall:
        return msgspec.structs.replace(call, arguments=self._hidden_values(call.arguments))

    def _hidden_values(self, value: Any) -> Any:
        match value:
            case str():
                return self._without_data(value, own=True)
            case dict():
                return {self._without_data(key, own=True): self._hidden_values(item) for key, item in value.items()}
            case list():
                return [self._hidden_values(item) for item in value]
        return value

    # --- from the model ------------------------------------------------------------------------------------------

    def restored(self, answer: LLMResponse) -> LLMResponse:
        """The answer with values where the model wrote placeholders."""
        self._note_own(answer)
        if not self._hidden:
            return answer
        calls = tuple(
            msgspec.structs.replace(call, arguments=self._hidden.restore_values(call.arguments))
            for call in answer.tool_calls
        )
        return replace(answer, content=self._hidden.restore(answer.content), tool_calls=calls)

    def _note_own(self, answer: LLMResponse) -> None:
        """Personal data that the model wrote itself. Its placeholder follows when the answer is in the journal."""
        if not self.profile.redact:
            return
        began = self._signals.now()
        texts = [answer.content, *(text for call in answer.tool_calls for text in _strings(call.arguments))]
        found = [one for text in texts for one in self._hidden.hide(text, keep=True, new=False)[1]]
        self._own = personal_data(found, "L3_output", "the answer", 0, (self._signals.now() - began) * 1000)

    def explained(self, answer: ModelAnswered) -> ModelAnswered:
        """The answer with what is to be recorded about it."""
        calls = answer.tool_calls
        if self.profile.traces and calls:
            calls = self._traced(calls)
        findings = [*self._signals.since_the_last_answer(), *self._own][:MAX_FINDINGS]
        return msgspec.structs.replace(answer, tool_calls=calls, findings=findings, untrusted=self._read_outside)

    def _traced(self, calls: Sequence[RequestedCall]) -> list[RequestedCall]:
        left, room, traced = MAX_PROVENANCE, MAX_PROVENANCE_BYTES, []
        for call in calls:
            found = self._provenance(call)
            size = len(msgspec.json.encode(found))
            fits = len(found) <= left and size <= room
            traced.append(msgspec.structs.replace(call, provenance=found) if fits else call)
            left, room = left - len(found), room - size
        return traced

    def _provenance(self, call: RequestedCall) -> list[Provenance]:
        tool = self._tools.get(call.name)
        if tool is None or self._sources is None:
            return []
        return [
            Provenance(short_path(one.path), one.source.kind, one.source.trust, one.source.origin[:200])
            for one in self._sources.explain(call.arguments, tool.parameters, self.profile.free_text.get(tool.name, ()))
        ]


def _labels(tool: Tool | None) -> Callable[[Path], Label]:
    return (lambda path: "untrusted") if tool is None else tool.trust_of


def _texts(value: Any, trust_of: Callable[[Path], Label], path: Path = ()) -> "list[str]":
    """The texts of a result that are not trusted."""
    match value:
        case str() if value and trust_of(path) == "untrusted":
            return [value]
        case dict():
            found = [text for key, item in value.items() for text in _texts(item, trust_of, (*path, str(key)))]
            strange = (key for key in map(str, value) if not _NAME.fullmatch(key))
            return [*found, *(key for key in strange if trust_of((*path, key)) == "untrusted")]
        case list():
            return [text for number, item in enumerate(value) for text in _texts(item, trust_of, (*path, number))]
    return []


def _strings(value: Any) -> "list[str]":
    match value:
        case str():
            return [value]
        case dict():
            return [text for key, item in value.items() for text in (str(key), *_strings(item))]
        case list():
            return [text for item in value for text in _strings(item)]
    return []
