"""What the routes of one server share: the store, the client that numbers its messages, and how a route is declared."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Literal

import msgspec
from litestar import Request, get, post
from litestar.handlers import HTTPRouteHandler

from ...actors.agent.budget import Budget
from ...actors.client import Client
from ...actors.guard.profiles import GuardrailProfile
from ...persistence.port import Port, RealPort
from ...persistence.store import Store
from ..operations.answers import Answers
from ..operations.principal import Principal, Scope
from ..operations.runs import Operations
from .admission import SCOPE, STRICT
from .feed import Hub
from .once import Once
from .problems import answers
from .streams import Streams

Req = Request[Any, Any, Any]


class Defaults(msgspec.Struct, frozen=True):
    """What a run gets whose request says nothing else."""

    model: str = "unspecified"
    budget: Budget = Budget(max_iterations=25, max_tokens=None, max_cost_usd=Decimal("1.00"))
    guardrail_profile: str = "validation"
    """"": the desk's own."""
    system_prompt: str = ""


class Desk:
    """One server's."""

    def __init__(
        self,
        store: Store,
        pool: str,
        defaults: Defaults,
        profiles: Mapping[str, GuardrailProfile],
        port: Port | None = None,
    ) -> None:
        self.store, self.pool, self.defaults, self.profiles = store, pool, defaults, profiles
        self.port: Port = port or RealPort()
        self.client = Client(store, self.port)
        self.hub = Hub(store, self.port)
        self.streams = Streams(self.hub, self.port)
        self.once = Once(Answers(store))

    def operations(self, request: Req, who: Principal | None = None) -> Operations:
        """The operations as who makes this request (or as `who`)."""
        made = Operations(self.store, who or principal(request), self.port)
        # One client for all: each request would lease a number of its own otherwise, of which there are thousands.
        made.client = self.client
        return made


def principal(request: Req) -> Principal:
    """Who makes a request that was let in."""
    found: Principal = request.state.principal
    return found


def is_unknown(request: Req) -> bool:
    """Whether no token says who makes a request that was let in; a token's principal may be called as anybody is."""
    found: bool = request.state.is_unknown
    return found


_READ = ("unauthenticated", "scope-missing")
_WRITE = (
    *_READ, "too-large", "too-slow", "media-type", "idempotency-key-missing", "idempotency-key-reused",
    "still-answering", "mailbox-full", "conflict", "failed", "timed-out",
)  # fmt: skip


def route(
    verb: Literal["get", "post"],
    path: str,
    function: Callable[..., Any],
    scope: Scope,
    *may: str,
    status: int = 200,
    **more: Any,
) -> HTTPRouteHandler:
    """A route under /v1: what it takes, and what it may answer beside success (`may`, of `problems.KINDS`)."""
    declare: Any = get if verb == "get" else post
    declared: HTTPRouteHandler = declare(
        f"/v1{path}",
        opt={SCOPE: scope, STRICT: True},
        status_code=status,
        operation_id=function.__name__,
        summary=_title(function),
        responses=answers(*(_READ if verb == "get" else _WRITE), *may),
        security=[{"bearer": []}],
        tags=[path.split("/")[1]],
        **more,
    )(function)
    return declared


def _title(function: Callable[..., Any]) -> str:
    return (function.__doc__ or "").partition("\n")[0].rstrip(".")
