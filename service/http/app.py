"""The HTTP API (`callboard http`, or any ASGI server): look, record, decide, speak, cancel. No request executes a run.

    app = create_app(store)          # an ASGI application, for uvicorn or any other server

`/v1` is the API: typed, paged, bound to digests and keys, described by `/openapi.json`. The seed's routes stand beside
it (`seed`). Rules are the operations'; what is here says them in HTTP. docs/HTTP.md tells how to use it.
"""

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from decimal import Decimal

from litestar import Litestar
from litestar.datastructures import State

from ...actors.agent.budget import Budget
from ...actors.guard.profiles import GuardrailProfile
from ...persistence.store import Store
from ..operations.tokens import Credentials
from .admission import Gate
from .approvals import ApprovalRoutes
from .desk import Defaults, Desk
from .document import document, document_route
from .heading import head
from .inspector import InspectorRoutes
from .patience import patient
from .problems import problem
from .runs import RunRoutes
from .seed import SeedRoutes
from .system import SystemRoutes

MAX_BODY_BYTES = 1 << 20


def create_app(
    store: Store,
    *,
    default_model: str = "unspecified",
    default_max_steps: int = 25,
    default_max_cost_usd: Decimal | float | str = Decimal("1.00"),
    default_guardrail_profile: str = "validation",
    default_system_prompt: str = "",
    default_budget: Budget | None = None,
    guardrail_profiles: Mapping[str, GuardrailProfile] | None = None,
    pool: str = "/agents/run",
    tokens: Mapping[str, str] | None = None,
    require_token: bool = False,
    hosts: Collection[str] | None = (),
) -> Litestar:
    """An ASGI application over `store`, for the runs of `pool` (a Runtime's default one).

    `default_budget`: instead of a budget of `default_max_steps` and `default_max_cost_usd`.
    `guardrail_profiles`: the desk's own, beside those that there are.
    `tokens`: who may call, beside the tokens of the store (`callboard token`), as sha256 of a bearer token
    (hexadecimal) to the principal it stands for; these may do everything. That principal is who decides, and what a
    request calls itself is a label.
    `require_token`: ask for one even where none was ever made; else everybody who reaches the server may call then, so
    bind it to loopback only. `hosts`: by which names (`Host`) it may be reached without a token, beside those of
    loopback; None: by any, which lets a page in a browser on this machine reach it too.
    """
    budget = default_budget or Budget(
        default_max_steps, max_tokens=None, max_cost_usd=Decimal(str(default_max_cost_usd))
    )
    defaults = Defaults(default_model, budget, default_guardrail_profile, default_system_prompt)
    desk = Desk(store, pool, defaults, guardrail_profiles or {})
    credentials = Credentials(store, desk.port)
    gate = Gate(credentials, tokens, hosts, always=require_token)

    @asynccontextmanager
    async def opened(_: Litestar) -> AsyncIterator[None]:
        async with store, desk.hub.running():
            yield

    return Litestar(
        [
            *SeedRoutes(desk, gate).routes(),
            *RunRoutes(desk, gate).routes(),
            *ApprovalRoutes(desk).routes(),
            *InspectorRoutes(desk).routes(),
            *SystemRoutes(desk).routes(),
            document_route(),
        ],
        guards=[gate.admit],
        middleware=[patient],
        lifespan=[opened],
        before_send=[head],
        exception_handlers={Exception: problem},
        openapi_config=document(),
        request_max_body_size=MAX_BODY_BYTES,
        logging_config=None,  # how to log is for whoever runs this to say
        state=State({"hub": desk.hub, "streams": desk.streams, "credentials": credentials}),
    )
