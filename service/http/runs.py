"""Routes of runs under /v1: record, list, look, speak, cancel, fork, and their events. No request executes a run."""

from datetime import UTC, datetime
from hashlib import sha256
from typing import Annotated, Any

import msgspec
from litestar import Response
from litestar.params import FromPath, HeaderParameter, JSONBody, QueryParameter
from litestar.response import Stream

from ...actors.agent.messages import StartRun
from ...actors.agent.runs import Runs
from ...actors.guard.profiles import get_profile
from ...mailbox.errors import UsageError
from ..operations.lookup import find_run, pool_of, run_id_of
from ..operations.requests import say, start_run
from ..operations.runs import SCANNED
from ..operations.views import RunLine, RunWish, moment
from .admission import Gate
from .desk import Desk, Req, route
from .once import Key
from .pages import Cursor, Limit, Page, read_cursor, write_cursor
from .run_shapes import (
    Accepted,
    CancelRequest,
    EventOut,
    Forked,
    ForkRequest,
    RunDetail,
    RunPage,
    RunRequest,
    TellRequest,
    run_detail,
    run_item,
)

LastEventId = Annotated[
    str, HeaderParameter(name="Last-Event-ID", max_length=500, description="The `id` that came last: go on after it.")
]
Since = Annotated[
    str,
    QueryParameter(max_length=40, description="Begun then or later (RFC 3339).", schema_extra={"format": "date-time"}),
]
After = Annotated[int, QueryParameter(ge=0, le=1 << 53, description="The number of the event that was seen last.")]
SSE: dict[str, Any] = {"media_type": "text/event-stream"}
Word = Annotated[str, QueryParameter(max_length=500)]


class RunRoutes:
    """The routes over one desk."""

    def __init__(self, desk: Desk, gate: Gate) -> None:
        self.desk, self.gate = desk, gate

    def routes(self) -> list[Any]:
        """All of them, for an application."""
        one = "/runs/{run_id:str}"
        return [
            route("post", "/runs", self.start_run, "operate", status=201),
            route("get", "/runs", self.list_runs, "read"),
            route("get", one, self.get_run, "read", "not-found"),
            route("get", f"{one}/events", self.list_run_events, "read", "not-found"),
            route("get", f"{one}/stream", self.stream_run, "read", "not-found", "too-many-streams", **SSE),
            route("post", f"{one}/tell", self.tell_run, "operate", "not-found", status=202),
            route("post", f"{one}/cancel", self.cancel_run, "operate", "not-found", status=202),
            route("post", f"{one}/fork", self.fork_run, "operate", "not-found", status=201),
            route("get", "/events", self.stream_events, "read", "too-many-streams", **SSE),
        ]

    async def start_run(self, request: Req, data: JSONBody[RunRequest], idempotency_key: Key) -> Response[RunDetail]:
        """Record a run.

        A node that serves the pool begins it. Who asks for it is the token's principal.
        """
        operations, defaults = self.desk.operations(request), self.desk.defaults
        profile = defaults.guardrail_profile if data.guardrail_profile is None else data.guardrail_profile
        if profile:
            get_profile(profile, self.desk.profiles)
        start = StartRun(
            data.goal,
            defaults.budget if data.budget is None else data.budget.over(defaults.budget),
            defaults.model if data.model is None else data.model,
            defaults.system_prompt if data.system_prompt is None else data.system_prompt,
            operations.principal,
            goal_trust=data.trust,
            guardrails=profile,
        )

        async def work() -> RunDetail:
            run_id = await start_run(operations, self.desk.pool, start, client_id=idempotency_key)
            return run_detail(await operations.run(Runs(operations.client, self.desk.pool).address(run_id)))

        return await self.desk.once.answered(request, idempotency_key, operations.who, work, status=201)

    async def list_runs(
        self,
        request: Req,
        *,
        limit: Limit = 50,
        cursor: Cursor = "",
        status: Word = "",
        requested_by: Word = "",
        agent: Word = "",
        since: Since = "",
    ) -> RunPage:
        """List runs, newest first.

        All filters that are given have to fit. Of very many runs 10,000 are looked at, and `complete` is false.
        """
        wish = RunWish(status=status, since=_moment(since), requested_by=requested_by, agent=agent)
        found = await self.desk.operations(request).runs(limit=SCANNED, wish=wish)
        items = found.items
        if cursor:
            place = tuple(read_cursor("runs", cursor, float, str))
            items = [line for line in items if _place(line) > place]
        more = write_cursor("runs", *_place(items[limit - 1])) if len(items) > limit else None
        return RunPage([run_item(line) for line in items[:limit]], more, found.complete)

    async def get_run(self, request: Req, run_id: FromPath[str]) -> RunDetail:
        """Show one run: where it is, and why it does not move.

        `run_id` may be the unique beginning of one.
        """
        return run_detail(await self.desk.operations(request).run(run_id))

    async def list_run_events(
        self, run_id: FromPath[str], limit: Limit = 50, after: After = 0, cursor: Cursor = ""
    ) -> Page[EventOut]:
        """List a run's events, in order.

        From the beginning, from beyond the event `after`, or from where a page ended.
        """
        address = await find_run(self.desk.store, run_id)
        seen = read_cursor("events", cursor, int)[0] if cursor else after
        rows = await self.desk.store.journal(address, after=seen, limit=limit + 1)
        more = write_cursor("events", rows[limit - 1].seq) if len(rows) > limit else None
        return Page([_event(row.seq, row.at, row.node, row.type, row.body) for row in rows[:limit]], more)

    async def stream_run(self, request: Req, run_id: FromPath[str], last_event_id: LastEventId = "0") -> Stream:
        """Follow a run's events until it ends, as server-sent events.

        `id` is the event's number; `Last-Event-ID` goes on after one.
        """
        address = await find_run(self.desk.store, run_id)
        runs = Runs(self.desk.client, pool_of(address))
        still = lambda: self.gate.still(request)  # noqa: E731
        return await self.desk.streams.run(runs, run_id_of(address), last_event_id, still)

    async def stream_events(
        self,
        request: Req,
        types: Annotated[str, QueryParameter(max_length=2_000, description="Such as `run.*,tool.failed`.")] = "",
        after: Annotated[
            str | None,
            QueryParameter(max_length=500, description="As Last-Event-ID; empty: from the beginning of what is kept."),
        ] = None,
        last_event_id: LastEventId = "",
    ) -> Stream:
        """Follow the events of all actors, as server-sent events.

        From now on, unless `Last-Event-ID` (or `after`) says where to go on. `event: reset`: what came since then is
        not kept any more.
        """
        return await self.desk.streams.everything(last_event_id or after, types, lambda: self.gate.still(request))

    async def tell_run(
        self, request: Req, run_id: FromPath[str], data: JSONBody[TellRequest], idempotency_key: Key
    ) -> Response[Accepted]:
        """Say something to a live run.

        The model reads it at its next iteration.
        """
        operations = self.desk.operations(request)

        async def work() -> Accepted:
            said = say(operations, run_id, data.text, trust=data.trust, client_id=idempotency_key)
            return Accepted(await said, "told")

        return await self.desk.once.answered(request, idempotency_key, operations.who, work, status=202)

    async def cancel_run(
        self, request: Req, run_id: FromPath[str], data: JSONBody[CancelRequest], idempotency_key: Key
    ) -> Response[Accepted]:
        """Ask a run to begin nothing more and end.

        Calls that are under way are waited for.
        """
        operations = self.desk.operations(request)

        async def work() -> Accepted:
            return Accepted(await operations.cancel(run_id, reason=data.reason), "cancel-asked")

        return await self.desk.once.answered(request, idempotency_key, operations.who, work, status=202)

    async def fork_run(
        self, request: Req, run_id: FromPath[str], data: JSONBody[ForkRequest], idempotency_key: Key
    ) -> Response[Forked]:
        """Go on from any event of a run, in a new run.

        The run itself does not notice.
        """
        operations = self.desk.operations(request)

        async def work() -> Forked:
            # Named by the key: begun by a process that died and sent again, it is the same fork.
            name = sha256(f"http fork {operations.principal} {idempotency_key}".encode()).hexdigest()[:32]
            origin, new = await operations.fork(run_id, data.at, run_id=name, say=data.say, note=data.note)
            return Forked(new, origin)

        return await self.desk.once.answered(request, idempotency_key, operations.who, work, status=201)


def _moment(text: str) -> float:
    if not text:
        return 0.0
    try:
        found = msgspec.convert(text, datetime)
    except msgspec.ValidationError:
        raise UsageError(f"since: expected a time such as 2026-11-30T08:00:00Z, got {text!r}") from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _place(line: RunLine) -> tuple[float, str]:
    return -line.started_at, line.run_id


def _event(seq: int, at: float, node: int, type: str, body: str) -> EventOut:
    told = msgspec.json.decode(body)
    if isinstance(told, dict):
        told.pop("type", None)
    return EventOut(seq, moment(at), node, type, told)
