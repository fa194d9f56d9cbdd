"""Server-sent events: the text of them, and the two streams there are (everything, and one run).

`id:` is where a reader goes on (`Last-Event-ID`): the feed's cursor for everything, the event's number for a run. A
line `: keepalive` comes where nothing else does for KEEPALIVE_SECONDS, and with it the place so far, so that a reader
of rare events does not come back with an old one. `event: reset`: what came before is not kept any more.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
from litestar.response import Stream

from ...actors.agent.runs import RunNotFound, Runs
from ...mailbox.errors import NotFound, StoreUnavailable, UsageError
from ...persistence.port import Port
from ...persistence.rows import EventRow
from ..operations.views import moment
from .feed import Hub, Reader, Told, fitting
from .problems import ProblemError

KEEPALIVE_SECONDS = 15.0
MAX_STREAMS = 100
"""Of one server, of both kinds."""
FIRST_LOOK_SECONDS = 0.05
CAP_LOOK_SECONDS = 1.0
"""How often a run's stream looks for news: doubling from the first to the second while nothing happens."""
_PAGE = 50
MAX_TYPES = 50

Still = Callable[[], Awaitable[bool]]
"""Whether who reads may go on reading."""


def message(data: str = "", *, id: str = "", event: str = "", comment: str = "") -> bytes:
    """One server-sent event."""
    lines = [f": {comment}"] if comment else []
    lines += [f"id: {id}"] if id else []
    lines += [f"event: {event}"] if event else []
    lines += [f"data: {line}" for line in data.split("\n")] if data else []
    return ("\n".join(lines) + "\n\n").encode()


class Streams:
    """The streams of one server."""

    def __init__(self, hub: Hub, port: Port, *, keepalive_seconds: float = KEEPALIVE_SECONDS) -> None:
        self.hub, self.port = hub, port
        self.keepalive_seconds = keepalive_seconds
        self.open = 0

    async def everything(self, after: str | None, types: str, still: Still) -> Stream:
        """Events of all journals from a cursor on, of some types (`run.*,tool.completed`) where any are named.

        Raises:
            ProblemError: too many streams. UsageError: types or a cursor that cannot be.
        """
        wanted = _types(types)
        with suppress(NotFound):  # which the stream itself says, as it goes on
            await self.hub.store.feed(after, limit=0)
        return self._streamed(self._everything(after, wanted, still))

    async def run(self, runs: Runs, run_id: str, last: str, still: Still) -> Stream:
        """A run's journal from beyond an event's number as it grows, until the run ends.

        Raises:
            as `everything`; RunNotFound; UsageError: no number.
        """
        if not last.isdecimal() or len(last) > 18:
            raise UsageError(f"Last-Event-ID: expected the number of an event, got {last[:40]!r}")
        if (await runs.state(run_id)).status == "not_started":
            raise RunNotFound("run not found")
        return self._streamed(self._run(runs, run_id, int(last), still))

    def _streamed(self, told: AsyncIterator[bytes]) -> Stream:
        if self.open >= MAX_STREAMS:
            raise ProblemError("too-many-streams", f"{MAX_STREAMS} streams are open; close one, or come again")
        return Stream(told, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

    @asynccontextmanager
    async def _counted(self) -> AsyncIterator["_Pulse"]:
        self.open += 1
        try:
            yield _Pulse(self.port, self.keepalive_seconds)
        finally:
            self.open -= 1

    async def _everything(self, after: str | None, wanted: "_Wanted", still: Still) -> AsyncIterator[bytes]:
        begun = False
        async with self._counted() as pulse, self.hub.reader(after) as reader:
            while not self.hub.closed and await pulse.may(still):
                found, words = await _read(reader)
                if not begun:  # with the place where it begins, for who is cut off before anything was said
                    words.insert(0, message(comment="callboard", id="" if found else reader.cursor or ""))
                    begun = True
                words += [
                    message(_body(one.event), id=one.cursor, event=one.event.type)
                    for one in found
                    if wanted(one.event.type)
                ]
                if words:
                    pulse.beat()
                    yield b"".join(words)
                elif not found:
                    await self.hub.wait(min(1.0, pulse.left))
                if pulse.is_due:
                    pulse.beat()
                    yield message(comment="keepalive", id=reader.cursor or "")

    async def _run(self, runs: Runs, run_id: str, seen: int, still: Still) -> AsyncIterator[bytes]:
        pause = FIRST_LOOK_SECONDS
        async with self._counted() as pulse:
            yield message(comment="callboard")
            while not self.hub.closed and await pulse.may(still):
                # Asked first: what was recorded before the end is read after it.
                ended = (await runs.state(run_id)).finished
                rows = await runs.store.journal(runs.address(run_id), after=seen, limit=_PAGE)
                if rows:
                    told = fitting([Told("", row) for row in rows])  # the others are read again when these are taken
                    seen, pause = told[-1].event.seq, FIRST_LOOK_SECONDS
                    rows = []
                    pulse.beat()
                    yield b"".join(message(one.body, id=str(one.seq), event=one.type) for _, one in told)
                    continue
                if ended:
                    return
                if pulse.is_due:
                    pulse.beat()
                    yield message(comment="keepalive")
                await self.port.sleep(pause)
                pause = min(2 * pause, CAP_LOOK_SECONDS)


class _Pulse:
    """When a stream has to say something again, and when whether it may go on is to be asked again."""

    def __init__(self, port: Port, seconds: float) -> None:
        self._port, self._seconds = port, seconds
        self._silent_until = self._trusted_until = port.monotonic() + seconds

    def beat(self) -> None:
        """Something was said."""
        self._silent_until = self._port.monotonic() + self._seconds

    @property
    def left(self) -> float:
        """Seconds until something has to be said."""
        return max(0.01, self._silent_until - self._port.monotonic())

    @property
    def is_due(self) -> bool:
        """Whether nothing was said for long."""
        return self._port.monotonic() >= self._silent_until

    async def may(self, still: Still) -> bool:
        """Whether the stream may go on; asked as often as something has to be said, however much is said."""
        now = self._port.monotonic()
        if now < self._trusted_until:
            return True
        self._trusted_until = now + self._seconds
        try:
            return await still()
        except StoreUnavailable:
            return True  # nothing can be read either, so nothing is told before it can be asked


class _Wanted:
    """Types of events: exact ones, and beginnings of them."""

    def __init__(self, exact: frozenset[str], beginnings: tuple[str, ...]) -> None:
        self._exact, self._beginnings = exact, beginnings

    def __call__(self, type: str) -> bool:
        if not self._exact and not self._beginnings:
            return True
        return type in self._exact or type.startswith(self._beginnings)


def _types(text: str) -> _Wanted:
    given = [one.strip() for one in text.split(",") if one.strip()]
    if len(given) > MAX_TYPES or any(len(one) > 100 or "*" in one[:-1] for one in given):
        raise UsageError(f"types: expected up to {MAX_TYPES} such as run.completed or run.*, with commas between them")
    beginnings = tuple(one[:-1] for one in given if one.endswith("*"))
    return _Wanted(frozenset(one for one in given if not one.endswith("*")), beginnings)


async def _read(reader: Reader) -> tuple[list[Any], list[bytes]]:
    """What is new, and what has to be said before it."""
    try:
        return await reader.next(), []
    except NotFound as error:
        reader.restart()
        await reader.next()
        lost = {"detail": f"{error}; events since your cursor are left out, read the lists again"}
        return [], [message(msgspec.json.encode(lost).decode(), id=reader.cursor or "", event="reset")]
    except StoreUnavailable:
        return [], []  # silence; the keepalive goes on, and so does the stream when the database is back


def _body(row: EventRow) -> str:
    """An event of all journals: whose it is, and what it says."""
    body = msgspec.Raw(row.body.encode())
    told = {"address": row.address, "seq": row.seq, "at": moment(row.at), "node": row.node, "event": body}
    return msgspec.json.encode(told).decode()
