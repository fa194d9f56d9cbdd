"""A desk behind its API: an application over a store, a runtime that works on its runs when told to, and a client."""

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import uvicorn

from callboard import ChatMessage, FunctionLLM, LLMResponse, PostgresStore, Runtime, ToolCall, tool
from callboard.actors.agent.policy_data import policies_from
from callboard.persistence.store import Store
from callboard.service.http import create_app
from callboard.service.http.server import Server
from callboard.service.operations.principal import terminal_principal
from callboard.service.operations.runs import Operations
from callboard.service.operations.tokens import Tokens

POOL = "/agents/run"
BASE = "http://localhost"
WAIT_SECONDS = 120.0


def _model(messages: Sequence[ChatMessage], tools: object, system_prompt: str) -> LLMResponse:
    answers = [message.content for message in messages if message.role == "tool"]
    if answers:
        return LLMResponse(content=f"done: {answers[-1]}")
    goal = messages[0].content
    word, _, rest = goal.partition(" ")
    if word == "refund":
        sums = rest.split()
        calls = [ToolCall(f"c{n}", "issue_refund", {"order_id": "A", "amount_eur": one}) for n, one in enumerate(sums)]
        return LLMResponse(content="", tool_calls=tuple(calls))
    if word == "close":
        return LLMResponse(content="", tool_calls=(ToolCall("c", "close_ticket", {"ticket": int(rest)}),))
    return LLMResponse(content=f"you said: {goal}")


@tool(side_effect=True, requires_approval=True)
async def issue_refund(order_id: str, amount_eur: str, idempotency_key: str) -> dict[str, Any]:
    """Refund an order."""
    return {"refunded": amount_eur, "order": order_id}


@tool(requires_approval=True)
async def close_ticket(ticket: int) -> dict[str, Any]:
    """Close a ticket: from 100 on two people, from 200 on held for long when approved, from 300 on not by who asked."""
    return {"closed": ticket}


POLICIES = policies_from([
    {"tool": "close_ticket", "when": [{"field": "ticket", "at_least": 100, "below": 200}], "name": "two", "needed": 2},
    {"tool": "close_ticket", "when": [{"field": "ticket", "at_least": 200, "below": 300}], "name": "slow",
     "hold_seconds": 600},
    {"tool": "close_ticket", "when": [{"field": "ticket", "at_least": 300}], "name": "four eyes",
     "not_requester": True},
])  # fmt: skip


class Desk:
    """A store, its API over ASGI, and who calls it."""

    def __init__(self, store: Store, works_on: Store | None = None, **options: Any) -> None:
        """`works_on`: the runtime's own way to the same data, where it shall not close the API's."""
        self.store = store
        self.app: Any = create_app(store, **options)
        self.runtime = Runtime(works_on or store, FunctionLLM(_model), [issue_refund, close_ticket], policies=POLICIES)
        self.secrets: dict[str, str] = {}

    async def token(self, name: str, scopes: str = "read operate approve", **more: Any) -> str:
        """A new token's secret."""
        tokens = Tokens(Operations(self.store, terminal_principal("root")))
        made = await tokens.create(name, scopes.split(), **more)
        self.secrets[name] = made.secret
        return made.secret

    @asynccontextmanager
    async def caller(self, secret: str = "") -> AsyncIterator["Caller"]:
        """Somebody who calls, with this secret."""
        headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(self.app), base_url=BASE, headers=headers, timeout=WAIT_SECONDS
        ) as http:
            yield Caller(http)

    async def worked(self, goal: str, by: str = "root") -> str:
        """A run that was recorded and has come to rest."""
        run = await self.runtime.start(goal=goal, requested_by=by)
        return run.id


class Caller:
    """One who calls."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http

    async def get(self, path: str, **query: Any) -> httpx.Response:
        """A look."""
        return await self.http.get(path, params=query or None)

    async def post(self, path: str, body: Any, key: str | None = None, **headers: str) -> httpx.Response:
        """A change, under a key of its own unless one is given; "": under none."""
        key = uuid.uuid4().hex if key is None else key
        return await self.http.post(path, json=body, headers={**({"Idempotency-Key": key} if key else {}), **headers})

    async def approval(self, run_id: str) -> dict[str, Any]:
        """The one approval that a run waits for."""
        answer = await self.get("/v1/approvals", run=run_id)
        assert answer.status_code == 200, answer.text
        (found,) = answer.json()["items"]
        return dict(found)

    async def decide(self, approval: dict[str, Any], decision: str = "approve", **more: Any) -> httpx.Response:
        """Decide, as it was looked at."""
        amount = [{"value": one["value"], "currency": one["currency"]} for one in approval["money"]]
        body = {"decision": decision, "args_digest": approval["digest"], **({"amount": amount} if amount else {})}
        return await self.post(f"/v1/approvals/{approval['id']}/decision", {**body, **more})


def problem(response: httpx.Response, status: int, name: str) -> dict[str, Any]:
    """The problem of a refusal, which has to be one of this name."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = response.json()
    assert body["type"] == f"urn:callboard:problem:{name}", body
    assert body["status"] == status and body["title"] and body["detail"]
    assert body["request_id"] == response.headers["x-request-id"] or "idempotency-replayed" in response.headers
    return body


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that other tasks do."""
    with anyio.fail_after(WAIT_SECONDS):
        while not condition():  # noqa: ASYNC110 - what is waited for tells nobody
            await anyio.sleep(0.01)


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait for something that the store has to show."""
    with anyio.fail_after(WAIT_SECONDS):
        while not await condition():  # noqa: ASYNC110 - what is waited for tells nobody
            await anyio.sleep(0.01)


@asynccontextmanager
async def postgres_desk(dsn: str, **options: Any) -> AsyncIterator[Desk]:
    """A desk over a database with the schema."""
    async with PostgresStore(dsn) as store:
        yield Desk(store, PostgresStore(dsn), **options)


@asynccontextmanager
async def served(app: Any) -> AsyncIterator[str]:
    """The URL of an application behind a real server, for streams that do not end."""
    ready: list[bool] = []
    config = uvicorn.Config(app, port=0, http="h11", lifespan="on", ws="none", log_config=None, access_log=False)
    server = Server(config, lambda: ready.append(True))
    async with anyio.create_task_group() as group:
        group.start_soon(server.serve)
        await until(lambda: bool(ready))
        try:
            yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        finally:
            server.should_exit = True
            app.state.hub.close()


class Listener:
    """One who follows a stream; what was heard so far."""

    def __init__(self, url: str, secret: str = "", last: str = "") -> None:
        self.url = url
        self.headers = {
            **({"Authorization": f"Bearer {secret}"} if secret else {}),
            **({"Last-Event-ID": last} if last else {}),
        }
        self.heard: list[dict[str, str]] = []
        self.comments: list[str] = []
        self.last = last
        self.ended = False
        self.scope = anyio.CancelScope()

    async def follow(self) -> None:
        """Until the stream ends, or it is hung up."""
        with self.scope:
            async with (
                httpx.AsyncClient(timeout=WAIT_SECONDS) as http,
                http.stream("GET", self.url, headers=self.headers) as answer,
            ):
                assert answer.status_code == 200, await answer.aread()
                assert answer.headers["content-type"].startswith("text/event-stream")
                told: dict[str, str] = {}
                async for line in answer.aiter_lines():
                    told = self._line(line, told)
        self.ended = True

    def _line(self, line: str, told: dict[str, str]) -> dict[str, str]:
        if not line:
            self.last = told.get("id", self.last)
            if "data" in told:
                self.heard.append(told)
            return {}
        name, _, value = line.partition(": ")
        if name == "":
            self.comments.append(value)
        else:
            told[name] = value
        return told

    def hang_up(self) -> None:
        """Leave."""
        self.scope.cancel()
