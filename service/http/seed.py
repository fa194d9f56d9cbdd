"""The seed's routes, with its codes: `POST /runs`, `GET /runs/{id}`, `GET /approvals`, `…/approve`, `…/deny`; and what
they lacked at first. `/v1` (see `runs`, `approvals`) says more, and is what new programs should use.

`Idempotency-Key` is not asked for here. What a request calls itself is taken for its principal where no token is asked
for, and is nothing but a label where one is.
"""

from decimal import Decimal
from hashlib import sha256
from typing import Annotated, Any, Literal

import msgspec
from litestar import get, post
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter
from litestar.response import Stream

from ...actors.agent.messages import StartRun
from ...actors.agent.runs import RunNotFound, Runs
from ...actors.guard.profiles import get_profile
from ...mailbox.errors import UsageError
from ..operations.decisions import Decisions
from ..operations.principal import Principal
from .admission import SCOPE, Gate
from .bodies import Approve, Deny, NewRun, RunOut, Say, Stop, Waiting, run_out, waiting_out
from .desk import Desk, Req, is_unknown, principal
from .problems import answers

MAX_COST_USD = Decimal(1_000_000)
MIN_COST_USD = Decimal("1e-9")
"""Less is no money, and "1e-999999999" takes a gigabyte to write out."""
MAX_ID_CHARS = 200

Limit = Annotated[int, QueryParameter(ge=1, le=1_000)]


class SeedRoutes:
    """The routes over one desk, for the runs of its pool."""

    def __init__(self, desk: Desk, gate: Gate) -> None:
        self.desk, self.gate = desk, gate
        self.runs = Runs(desk.client, desk.pool)

    def routes(self) -> list[Any]:
        """All of them, for an application."""
        told = ("unauthenticated", "scope-missing", "media-type", "too-large", "too-slow", "mailbox-full", "failed")
        read: dict[str, Any] = {
            "opt": {SCOPE: "read"}, "security": [{"bearer": []}], "responses": answers(*told[:2], "not-found"),
        }  # fmt: skip
        operate = {**read, "opt": {SCOPE: "operate"}, "responses": answers(*told, "not-found", "conflict")}
        approve = {
            **read, "opt": {SCOPE: "approve"},
            "responses": answers(*told, "not-found", "conflict", "already-decided", "not-allowed"),
        }  # fmt: skip
        stream = {
            **read, "media_type": "text/event-stream",
            "responses": answers(*told[:2], "not-found", "too-many-streams"),
        }  # fmt: skip
        one = "/runs/{run_id:str}"
        return [
            post("/runs", **operate)(self.create),
            get("/runs", **read)(self.list_runs),
            get(one, **read)(self.show),
            get(f"{one}/events", **read)(self.events),
            get(f"{one}/stream", **stream)(self.stream),
            get("/health", responses=answers())(self.health),
            get("/approvals", **read)(self.approvals),
            post(f"{one}/approve", status_code=204, **approve)(self.approve),
            post(f"{one}/deny", status_code=204, **approve)(self.deny),
            post(f"{one}/tell", status_code=204, **operate)(self.tell),
            post(f"{one}/cancel", status_code=204, **operate)(self.cancel),
        ]

    def _who(self, request: Req, claimed: str) -> Principal:
        """Who makes this request: whom its token names, else who it says it is."""
        known = principal(request)
        return msgspec.structs.replace(known, name=claimed) if is_unknown(request) and claimed.strip() else known

    def _runs(self, request: Req, who: Principal, action: str, run_id: str, note: str) -> Runs:
        """The runs, as this principal, whose messages carry an audit row."""
        entry = self.desk.operations(request, who).entry(action, self.runs.address(run_id), note=note)
        return Runs(self.desk.client.audited(entry), self.desk.pool)

    # --- routes ------------------------------------------------------------------------------------------------

    async def create(self, data: JSONBody[NewRun], request: Req) -> RunOut:
        """Record a run; whoever serves it begins it. `Idempotency-Key`: a repeated request is the same request."""
        who = self._who(request, data.requested_by)
        start = self._beginning(data, data.requested_by if is_unknown(request) else who.name)
        key = request.headers.get("idempotency-key", "")
        if len(key) > MAX_ID_CHARS:
            raise UsageError(f"Idempotency-Key: at most {MAX_ID_CHARS} characters, got {len(key)}")
        run_id = sha256(f"{self.runs.pool} {key}".encode()).hexdigest()[:32] if key else self.desk.port.token()
        run_id = await self._runs(request, who, "submit", run_id, data.goal).create(start, run_id)
        return run_out(run_id, await self.runs.state(run_id))

    def _beginning(self, data: NewRun, by: str) -> StartRun:
        defaults = self.desk.defaults
        cost = defaults.budget.max_cost_usd if data.max_cost_usd is None else data.max_cost_usd
        if cost is not None and not (cost.is_finite() and MIN_COST_USD <= cost <= MAX_COST_USD):
            raise UsageError(f"max_cost_usd: expected a number above 0, at most {MAX_COST_USD:,}, got {cost}")
        for name, text in (("goal", data.goal), ("system_prompt", data.system_prompt or ""), ("requested_by", by)):
            if "\x00" in text:
                raise UsageError(f"{name}: holds a NUL character, which no journal can show; leave it out")
        profile = data.guardrail_profile or defaults.guardrail_profile
        if profile:
            get_profile(profile, self.desk.profiles)
        budget = msgspec.structs.replace(defaults.budget, max_cost_usd=cost)
        if data.max_steps:
            budget = msgspec.structs.replace(budget, max_iterations=data.max_steps)
        return StartRun(
            data.goal,
            budget,
            data.model or defaults.model,
            defaults.system_prompt if data.system_prompt is None else data.system_prompt,
            by,
            goal_trust=data.trust,
            guardrails=profile,
        )

    async def list_runs(self, limit: Limit = 100, after: FromQuery[str] = "") -> list[Any]:
        """Runs of the pool, by id, beyond the id `after`."""
        return [{"run_id": run_id, **summary} for run_id, summary in await self.runs.list(limit=limit, after=after)]

    async def show(self, run_id: FromPath[str]) -> RunOut:
        """One run."""
        state = await self.runs.state(_named(run_id))
        if state.status == "not_started":
            raise RunNotFound("run not found")
        return run_out(run_id, state)

    async def events(self, run_id: FromPath[str]) -> list[Any]:
        """A run's journal."""
        found = await self.runs.events(_named(run_id))
        return [{"seq": e.seq, "at": e.at, "node": e.node, **msgspec.to_builtins(e.event)} for e in found]

    async def stream(self, run_id: FromPath[str], request: Req) -> Stream:
        """A run's journal as it grows (server-sent events), until the run ends. `Last-Event-ID`: from there on."""
        last = request.headers.get("last-event-id", "0")
        return await self.desk.streams.run(self.runs, _named(run_id), last, lambda: self.gate.still(request))

    async def health(self) -> dict[str, str]:
        """Whether the database answers; 503 where it does not."""
        await self.desk.store.now()
        return {"status": "ok"}

    async def approvals(self, request: Req, limit: Limit = 100) -> list[Waiting]:
        """Calls that wait for a person, oldest first."""
        found = await Decisions(self.desk.operations(request)).list(limit=limit)
        return [waiting_out(one) for one in found if one.run_address.startswith(f"{self.runs.pool}:")]

    async def approve(self, run_id: FromPath[str], data: JSONBody[Approve], request: Req) -> None:
        """Let exactly one call go."""
        await self._decide(request, run_id, "approved", data, data.note)

    async def deny(self, run_id: FromPath[str], data: JSONBody[Deny], request: Req) -> None:
        """Refuse a call."""
        await self._decide(request, run_id, "denied", data, data.reason)

    async def _decide(
        self, request: Req, run_id: str, status: Literal["approved", "denied"], data: Approve | Deny, note: str
    ) -> None:
        who = self._who(request, data.approver)
        await self.runs.decide(
            _named(run_id), status, who.name, call=data.call, digest=data.digest, note=note,
            label=who.label, channel=who.channel, host=who.host,
        )  # fmt: skip

    async def tell(self, run_id: FromPath[str], data: JSONBody[Say], request: Req) -> None:
        """Say something to a live run."""
        who = self._who(request, data.by)
        by = data.by if is_unknown(request) else who.name
        await self._runs(request, who, "tell", _named(run_id), data.text).tell(
            run_id, data.text, by=by, trust=data.trust
        )

    async def cancel(self, run_id: FromPath[str], data: JSONBody[Stop], request: Req) -> None:
        """Ask a run to begin nothing more and end."""
        who = self._who(request, data.by)
        by = data.by if is_unknown(request) else who.name
        await self._runs(request, who, "cancel", _named(run_id), data.reason).cancel(run_id, by=by, reason=data.reason)


def _named(run_id: str) -> str:
    if not run_id.isprintable() or len(run_id) > MAX_ID_CHARS:
        raise UsageError(f"run id: expected at most {MAX_ID_CHARS} printable characters")
    return run_id
