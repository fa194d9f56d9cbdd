"""One actor closely: what it recorded, its state, and the conversation of a run. All reads, bounded, and redacted.

Why it does not move, and what is in its mailbox, is told by `actors.Inspection`.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from ...mailbox.address import parse
from ...mailbox.errors import NotFound, UnknownMessage
from ...mailbox.message import decode_tagged
from ...persistence.rows import ActorRow, EventRow, TurnRow
from .lookup import KIND, pool_of, run_id_of
from .redaction import Body, body_of, redacted_text
from .runs import Operations

EVENTS = 200
"""The newest ones."""
TURNS = 1_000
"""Handled messages that are looked at, the oldest on record first: of a busier actor the latest are left out."""
LINE_CHARS = 300
SAID_CHARS = 4_000
SAID = 200
"""The last messages of a conversation that are shown."""


class Happened(msgspec.Struct, frozen=True):
    """An event in one line."""

    seq: int
    at: float
    node: int
    type: str
    text: str
    """What it says, in our words or as `name value` pairs; foreign text in it is not escaped."""


class Happenings(msgspec.Struct, frozen=True):
    """The newest events of an actor, the newest first; of one that records none, the messages that it handled."""

    items: list[Happened]
    total: int
    """Events, or messages on record."""
    turns: int
    """How many turns it has made; most actors record nothing in most of them."""


class Said(msgspec.Struct, frozen=True):
    """One message of a conversation."""

    who: str
    """user, assistant, or the tool's name."""
    text: str
    calls: list[str] = []
    """What an assistant asked for: name and arguments."""


class Closeup:
    """Looking at one actor, as one principal."""

    def __init__(self, operations: Operations) -> None:
        self.operations = operations
        self.store = operations.store

    async def happenings(self, address: str, *, limit: int = EVENTS) -> Happenings:
        """What it recorded last; also of one that does not exist yet, where there is a message to it, or was one.

        Raises:
            NotFound: there is no such actor, and nothing to it. BadAddress.
        """
        self.operations.require("read")
        row = await self.store.actor(parse(address))
        if row is None or not row.events:
            turns = await self.store.turns(address, limit=TURNS)
            if row is None and not turns and not await self.store.peek(address, limit=1):
                raise _nobody(address)
            version = 0 if row is None else row.version
            return Happenings([_handled(one) for one in turns[::-1][:limit]], len(turns), version)
        rows = await self.store.journal(address, after=max(0, row.events - limit), limit=limit)
        return Happenings(_told(row, rows)[::-1], row.events, row.version)

    async def state(self, address: str) -> Body:
        """Its state after its last turn, as JSON.

        Raises:
            NotFound: there is no such actor. BadAddress.
        """
        row = await self._row(address)
        if not row.state:
            return Body({}, 0)
        try:
            text = msgspec.json.encode(msgspec.msgpack.decode(row.state)).decode()
        except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
            return Body(f"this program cannot show it: {error}", len(row.state))
        shown = body_of(text)
        return Body(shown.value, len(row.state), shown.redacted)

    async def conversation(self, address: str) -> list[Said]:
        """What was said in a run, oldest first; its last messages, each cut. [] for what is no run, or has not begun.
        Raises as `state`."""
        from ...actors.agent.runs import Runs

        row = await self._row(address)
        if row.kind != KIND or not row.events:
            return []
        document = await Runs(self.operations.client, pool_of(address)).snapshot(run_id_of(address))
        return [_said(one) for one in document.messages[-SAID:]]

    async def _row(self, address: str) -> ActorRow:
        self.operations.require("read")
        row = await self.store.actor(parse(address))
        if row is None:
            raise _nobody(address)
        return row


def _nobody(address: str) -> NotFound:
    return NotFound(f"no actor at {address}; `callboard actors` lists those there are")


def _told(row: ActorRow, rows: list[EventRow]) -> list[Happened]:
    from ..trace import Teller

    teller = Teller() if row.kind == KIND else None
    found = []
    for one in rows:
        text = ""
        if teller is not None:
            try:
                text = teller.brief(one.type, decode_tagged(one.type, one.body), one.at)
            except (UnknownMessage, msgspec.MsgspecError):
                text = ""  # of a program that this one does not know: its fields are told
        found.append(Happened(one.seq, one.at, one.node, one.type, _cut(text or _fields(one.body), LINE_CHARS)))
    return found


def _handled(turn: TurnRow) -> Happened:
    outcome = "" if turn.outcome == "done" else f" · {turn.outcome}"
    again = f" · handed out {turn.deliveries} times" if turn.deliveries > 1 else ""
    return Happened(turn.version, turn.at, turn.node, turn.type, f"from {turn.sender or 'outside'}{outcome}{again}")


def _fields(body: str) -> str:
    """The fields of an event, one behind the other."""
    value = body_of(body).value
    return " · ".join(_pairs(value)) if isinstance(value, dict) else str(value)


def _pairs(value: dict[str, Any]) -> Iterator[str]:
    for name, each in value.items():
        if name != "type" and each not in ("", None, [], {}, 0, False):
            yield f"{name} {each if isinstance(each, str | int | float) else msgspec.json.encode(each).decode()}"


def _said(message: Any) -> Said:
    calls = [f"{one.get('name', '')} {_json(one.get('arguments'))}" for one in message.get("tool_calls") or ()]
    text = redacted_text(str(message.get("content") or ""))
    who = str(message.get("tool_name") or message.get("role", ""))
    return Said(who, _cut(text, SAID_CHARS), [_cut(call, SAID_CHARS) for call in calls])


def _json(value: Any) -> str:
    """A value on one line, redacted."""
    shown = body_of(msgspec.json.encode(value).decode()).value
    return msgspec.json.encode(shown).decode()


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
