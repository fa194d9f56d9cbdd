"""What was said in a run lately, for somebody who decides on one of its calls: by whom, when, and what a tool answered.

Read off the run's journal, in its order. All of it is somebody's word and nothing that the runtime has checked.
"""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

import msgspec

from ...mailbox.errors import CallboardError
from .runs import Operations

if TYPE_CHECKING:
    from ...actors.agent.runs import Recorded

Who = Literal["request", "agent", "tool", "person"]
MAX_CHARS = 2_000
"""Of one saying; of a longer one the beginning, and how much it is, are told."""


class Said(msgspec.Struct, frozen=True):
    """One saying."""

    at: float
    who: Who
    text: str
    name: str = ""
    """Of the tool, or of the person."""
    trusted: bool = True


async def words_of(operations: Operations, given: str) -> list[Said]:
    """What was said in a run so far, oldest first. Raises as `Operations.run`."""
    from ...actors.agent.runs import Runs
    from .lookup import find_run, pool_of, run_id_of

    operations.require("read")
    address = await find_run(operations.store, given)
    return list(_said(await Runs(operations.client, pool_of(address)).events(run_id_of(address))))


async def words_or_none(operations: Operations, given: str) -> list[Said]:
    """The same; nothing where the run cannot be read, whatever the reason: it is beside the point of the decision."""
    try:
        return await words_of(operations, given)
    except CallboardError:
        return []


def _said(events: "Iterable[Recorded]") -> Iterable[Said]:
    from ...actors.agent.events import LLMCallCompleted, MessageTold, RunStarted, ToolCallCompleted, ToolCallFailed

    for recorded in events:
        event = recorded.event
        match event:
            case RunStarted():
                yield Said(recorded.at, "request", _cut(event.goal), trusted=event.goal_trust == "trusted")
            case MessageTold():
                yield Said(recorded.at, "person", _cut(event.text), event.by, event.trust == "trusted")
            case LLMCallCompleted() if event.content.strip():
                yield Said(recorded.at, "agent", _cut(event.content))
            case ToolCallCompleted():
                yield Said(recorded.at, "tool", _cut(json.dumps(event.result, ensure_ascii=False)), event.tool)
            case ToolCallFailed() if event.final:
                yield Said(recorded.at, "tool", _cut(event.error), event.tool)
            case _:
                pass


def _cut(text: str) -> str:
    return text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]} … ({len(text):,} characters)"
