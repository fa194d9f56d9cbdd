"""`http`: serve the HTTP API."""

from typing import Annotated

import typer

from .options import Dsn, Json, LogJson, LogLevel
from .terminal import note, print_json_line

_Application = Annotated[
    str, typer.Argument(metavar="[APP]", help="Whose runs are recorded: module:attribute. Without: /agents/run.")
]
_Bind = Annotated[
    str, typer.Option("--bind", metavar="ADDRESS:PORT", help="Where to listen. Beyond loopback only with a token.")
]


def add_to(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command("http")(http)


def http(
    application: _Application = "",
    *,
    bind: _Bind = "127.0.0.1:8080",
    init: Annotated[bool, typer.Option("--init", help="Make the schema first where it is missing.")] = False,
    log_json: LogJson = None,
    log_level: LogLevel = None,
    dsn: Dsn = None,
    json: Json = False,
) -> int:
    """Serve the HTTP API; nodes do the work.

    It records runs, shows what there is, and takes decisions: no node is needed for that, and none runs here. Without a
    token (see callboard token) it listens on loopback only. SIGTERM and ctrl-C end it in good order.

    With --json, a JSON line on stdout says where it listens.

    Exit codes: 0 ended by a signal, 2 the address or the application is wrong, or a token is missing, 75 the database
    was not reachable at the start.
    """
    import anyio

    from ...mailbox.errors import UsageError
    from ..applications import load_app
    from ..configuration import read_configuration
    from ..logs import configure_logging
    from ..settings import read_settings
    from ..wiring import open_store

    try:
        from ..http.app import create_app
        from ..http.server import parse_bind, require_reachable_safely, serve
    except ModuleNotFoundError as error:
        if error.name not in ("litestar", "uvicorn"):
            raise
        raise UsageError(f"{error.name} is not installed; callboard http needs the extra: callboard[http]") from error

    settings = read_settings(dsn=dsn, log_json=log_json, log_level=log_level)
    configure_logging(settings)
    where, app = parse_bind(bind), load_app(application) if application else None
    budget = read_configuration().budget

    async def work() -> int:
        async with open_store(settings, create=init) as store:
            await require_reachable_safely(where, store)
            api = create_app(
                store,
                default_budget=budget,
                default_guardrail_profile="",
                default_system_prompt="" if app is None else app.system_prompt,
                pool="/agents/run" if app is None else app.runs,
                require_token=not where.is_loopback,
            )
            await serve(api, where, _say_as_json if json else _say)
        return 0

    return anyio.run(work)


def _say(url: str) -> None:
    note(f"listening on {url}; its routes: {url}/openapi.json")


def _say_as_json(url: str) -> None:
    print_json_line({"event": "listening", "url": url})
