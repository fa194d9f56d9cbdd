"""The HTTP API of one desk of runs: record, look, decide, speak, cancel. No request executes a run: nodes do.

    app = create_app(store)          # an ASGI application, for uvicorn or any other server

The routes and codes of the seed (`POST /runs`, `GET /runs/{id}`, `GET /approvals`, `…/approve`, `…/deny`), and what it
lacked: a list, the journal, `tell`, `cancel`, `Idempotency-Key`, digests, and who was first in a 409.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from decimal import Decimal
from hashlib import sha256
from typing import Annotated, Any

import anyio
import msgspec
from litestar import Litestar, Request, get, post
from litestar.connection import ASGIConnection
from litestar.exceptions import HTTPException, NotAuthorizedException
from litestar.handlers import BaseRouteHandler
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter
from litestar.response import ServerSentEvent

from ...actors.agent.budget import Budget
from ...actors.agent.messages import StartRun
from ...actors.agent.runs import RunNotFound, Runs
from ...actors.client import Client
from ...actors.guard.profiles import GuardrailProfile, get_profile
from ...mailbox.errors import UsageError
from ...persistence.store import Store
from ..decisions import Decisions
from ..operations import Operations
from .bodies import Approve, Deny, NewRun, RunOut, Say, Stop, Waiting, run_out, waiting_out
from .problems import problem

MAX_BODY_BYTES = 1 << 20
MAX_COST_USD = Decimal(1_000_000)
MIN_COST_USD = Decimal("1e-9")
"""Less is no money, and "1e-999999999" takes a gigabyte to write out."""
MAX_ID_CHARS = 200
FIRST_LOOK_SECONDS = 0.05
CAP_LOOK_SECONDS = 1.0
"""How often a stream looks for news: doubling from the first to the second while nothing happens."""

Limit = Annotated[int, QueryParameter(ge=1, le=1_000)]


class Defaults(msgspec.Struct, frozen=True):
    """What a run gets whose request says nothing else."""

    model: str = "unspecified"
    max_steps: int = 25
    max_cost_usd: Decimal = Decimal("1.00")
    guardrail_profile: str = "validation"
    system_prompt: str = ""


def create_app(
    store: Store,
    *,
    default_model: str = "unspecified",
    default_max_steps: int = 25,
    default_max_cost_usd: Decimal | float | str = Decimal("1.00"),
    default_guardrail_profile: str = "validation",
    default_system_prompt: str = "",
    guardrail_profiles: Mapping[str, GuardrailProfile] | None = None,
    pool: str = "/agents/run",
    tokens: Mapping[str, str] | None = None,
) -> Litestar:
    """An ASGI application over `store`, for the runs of `pool` (a Runtime's default one).

    `guardrail_profiles`: the desk's own, beside those that there are.
    `tokens`: who may call, as sha256 of a bearer token (hexadecimal) to the principal it stands for; that principal is
    who decides, and what a request calls itself is a label. Without tokens everybody who reaches the server may call
    and is taken at their word, so bind it to loopback only.
    """
    defaults = Defaults(
        default_model,
        default_max_steps,
        Decimal(str(default_max_cost_usd)),
        default_guardrail_profile,
        default_system_prompt,
    )
    api = Api(store, pool, defaults, tokens, guardrail_profiles or {})

    @asynccontextmanager
    async def opened(_: Litestar) -> AsyncIterator[None]:
        async with store:
            yield

    return Litestar(
        api.routes(),
        lifespan=[opened],
        exception_handlers={Exception: problem},
        # The document, and none of the pages that show it: their scripts come from elsewhere and would run beside ours.
        openapi_config=OpenAPIConfig(title="Callboard", version="1", path="/", render_plugins=[JsonRenderPlugin()]),
        request_max_body_size=MAX_BODY_BYTES,
    )


class Api:
    """The routes over one store."""

    def __init__(
        self,
        store: Store,
        pool: str,
        defaults: Defaults,
        tokens: Mapping[str, str] | None,
        profiles: Mapping[str, GuardrailProfile],
    ) -> None:
        self.profiles = profiles
        self.store = store
        self.defaults = defaults
        self.tokens = tokens
        self.runs = Runs(Client(store), pool)

    def routes(self) -> list[Any]:
        """All of them, for an application."""
        known: dict[str, Any] = {"guards": [self.admit]}
        return [
            post("/runs", **known)(self.create),
            get("/runs", **known)(self.list_runs),
            get("/runs/{run_id:str}", **known)(self.show),
            get("/runs/{run_id:str}/events", **known)(self.events),
            get("/runs/{run_id:str}/stream", **known)(self.stream),
            get("/health")(self.health),
            get("/approvals", **known)(self.approvals),
            post("/runs/{run_id:str}/approve", status_code=204, **known)(self.approve),
            post("/runs/{run_id:str}/deny", status_code=204, **known)(self.deny),
            post("/runs/{run_id:str}/tell", status_code=204, **known)(self.tell),
            post("/runs/{run_id:str}/cancel", status_code=204, **known)(self.cancel),
        ]

    def admit(self, connection: ASGIConnection[Any, Any, Any, Any], _: BaseRouteHandler) -> None:
        """Whether a request is read at all: before its body is, and on every route but /health.

        Raises:
            NotAuthorizedException: as `principal`.
            HTTPException: 415, a body that is not said to be JSON. A page of somebody else's that is open in a browser
                on this machine can send any other kind here without being asked, and would decide in its user's place.
        """
        self.principal(connection, "")
        kind = connection.headers.get("content-type", "").partition(";")[0].strip().lower()
        if connection.scope.get("method") == "POST" and kind != "application/json":
            raise HTTPException("send application/json", status_code=415)

    def principal(self, request: ASGIConnection[Any, Any, Any, Any], claimed: str) -> str:
        """Who makes this request.

        Raises:
            NotAuthorizedException: tokens are asked for, and this is none of them.
        """
        if self.tokens is None:
            return claimed
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        who = self.tokens.get(sha256(token.strip().encode()).hexdigest()) if scheme.lower() == "bearer" else None
        if who is None:
            raise NotAuthorizedException("a bearer token is needed", headers={"WWW-Authenticate": "Bearer"})
        return who

    # --- routes ------------------------------------------------------------------------------------------------

    async def create(self, data: JSONBody[NewRun], request: Request[Any, Any, Any]) -> RunOut:
        """Record a run; whoever serves it begins it. `Idempotency-Key`: a repeated request is the same request."""
        by = self.principal(request, data.requested_by)
        start = self._beginning(data, by)
        key = request.headers.get("idempotency-key", "")
        if len(key) > MAX_ID_CHARS:
            raise UsageError(f"Idempotency-Key: at most {MAX_ID_CHARS} characters, got {len(key)}")
        run_id = sha256(f"{self.runs.pool} {key}".encode()).hexdigest()[:32] if key else ""
        run_id = await self.runs.create(start, run_id)
        return run_out(run_id, await self.runs.state(run_id))

    def _beginning(self, data: NewRun, by: str) -> StartRun:
        cost = self.defaults.max_cost_usd if data.max_cost_usd is None else data.max_cost_usd
        if not (cost.is_finite() and MIN_COST_USD <= cost <= MAX_COST_USD):
            raise UsageError(f"max_cost_usd: expected a number above 0, at most {MAX_COST_USD:,}, got {cost}")
        for name, text in (("goal", data.goal), ("system_prompt", data.system_prompt or ""), ("requested_by", by)):
            if "\x00" in text:
                raise UsageError(f"{name}: holds a NUL character, which no journal can show; leave it out")
        profile = data.guardrail_profile or self.defaults.guardrail_profile
        get_profile(profile, self.profiles)
        return StartRun(
            data.goal,
            Budget(data.max_steps or self.defaults.max_steps, max_tokens=None, max_cost_usd=cost),
            data.model or self.defaults.model,
            self.defaults.system_prompt if data.system_prompt is None else data.system_prompt,
            by,
            goal_trust=data.trust,
            guardrails=profile,
        )

    async def list_runs(
        self, request: Request[Any, Any, Any], limit: Limit = 100, after: FromQuery[str] = ""
    ) -> list[Any]:
        """Runs of the pool, by id, beyond the id `after`."""
        self.principal(request, "")
        return [{"run_id": run_id, **summary} for run_id, summary in await self.runs.list(limit=limit, after=after)]

    async def show(self, run_id: FromPath[str], request: Request[Any, Any, Any]) -> RunOut:
        """One run."""
        self.principal(request, "")
        state = await self.runs.state(_named(run_id))
        if state.status == "not_started":
            raise RunNotFound("run not found")
        return run_out(run_id, state)

    async def events(self, run_id: FromPath[str], request: Request[Any, Any, Any]) -> list[Any]:
        """A run's journal."""
        self.principal(request, "")
        found = await self.runs.events(_named(run_id))
        return [{"seq": e.seq, "at": e.at, "node": e.node, **msgspec.to_builtins(e.event)} for e in found]

    async def stream(self, run_id: FromPath[str], request: Request[Any, Any, Any]) -> ServerSentEvent:
        """A run's journal as it grows (server-sent events), until the run ends. `Last-Event-ID`: from there on."""
        self.principal(request, "")
        last = request.headers.get("last-event-id", "0")
        if not last.isdecimal() or len(last) > 18:
            raise UsageError(f"Last-Event-ID: expected the number of an event, got {last[:40]!r}")
        if (await self.runs.state(_named(run_id))).status == "not_started":
            raise RunNotFound("run not found")
        return ServerSentEvent(self._told(run_id, int(last)))

    async def _told(self, run_id: str, seen: int) -> AsyncIterator[dict[str, Any]]:
        pause = FIRST_LOOK_SECONDS
        while True:
            # Asked first: what was recorded before the end is read after it.
            ended = (await self.runs.state(run_id)).finished
            rows = await self.store.journal(self.runs.address(run_id), after=seen)
            for row in rows:
                seen = row.seq
                yield {"id": row.seq, "event": row.type, "data": row.body}
            if ended and not rows:
                return
            pause = FIRST_LOOK_SECONDS if rows else min(2 * pause, CAP_LOOK_SECONDS)
            await anyio.sleep(pause)

    async def health(self) -> dict[str, str]:
        """Whether the database answers; 503 where it does not."""
        await self.store.now()
        return {"status": "ok"}

    async def approvals(self, request: Request[Any, Any, Any], limit: Limit = 100) -> list[Waiting]:
        """Calls that wait for a person, oldest first."""
        self.principal(request, "")
        found = await Decisions(Operations(self.store, "http")).list(limit=limit)
        return [waiting_out(one) for one in found if one.run_address.startswith(f"{self.runs.pool}:")]

    async def approve(self, run_id: FromPath[str], data: JSONBody[Approve], request: Request[Any, Any, Any]) -> None:
        """Let exactly one call go."""
        by = self.principal(request, data.approver)
        await self.runs.decide(_named(run_id), "approved", by, call=data.call, digest=data.digest, note=data.note)

    async def deny(self, run_id: FromPath[str], data: JSONBody[Deny], request: Request[Any, Any, Any]) -> None:
        """Refuse a call."""
        by = self.principal(request, data.approver)
        await self.runs.decide(_named(run_id), "denied", by, call=data.call, digest=data.digest, note=data.reason)

    async def tell(self, run_id: FromPath[str], data: JSONBody[Say], request: Request[Any, Any, Any]) -> None:
        """Say something to a live run."""
        by = self.principal(request, data.by)
        await self.runs.tell(_named(run_id), data.text, by=by, trust=data.trust)

    async def cancel(self, run_id: FromPath[str], data: JSONBody[Stop], request: Request[Any, Any, Any]) -> None:
        """Ask a run to begin nothing more and end."""
        await self.runs.cancel(_named(run_id), by=self.principal(request, data.by), reason=data.reason)


def _named(run_id: str) -> str:
    if not run_id.isprintable() or len(run_id) > MAX_ID_CHARS:
        raise UsageError(f"run id: expected at most {MAX_ID_CHARS} printable characters")
    return run_id
