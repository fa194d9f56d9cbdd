"""`daemon`, and the hidden `node` that it starts."""

import logging
from typing import TYPE_CHECKING, Annotated

import typer

from .options import Application, AppOption, Dsn, Json, LogJson, LogLevel

if TYPE_CHECKING:
    from ..settings import Settings

_Drain = Annotated[float | None, typer.Option("--drain-seconds", help="How long a leaving node waits for its calls.")]
_Retain = Annotated[
    float | None,
    typer.Option("--retain-days", metavar="DAYS", help="Remove what ended so long ago, as prune does; 0: nothing."),
]
_Name = Annotated[
    str | None, typer.Option("--name", help="Of this daemon: no second one of that name runs on the database.")
]
_Health = Annotated[
    str | None,
    typer.Option(
        "--health",
        metavar="HOST:PORT",
        help="Serve /livez, /readyz, /startupz and /metrics there; port 0 is any that is free.",
    ),
]
_Anywhere = Annotated[
    bool | None,
    typer.Option("--health-anywhere", help="Let --health be an address that other machines can reach."),
]
_Escalation = Annotated[
    bool | None,
    typer.Option("--exit-on-escalation", help="End with 4 when the application's root supervisor has given up."),
]


def add_to(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("daemon")(daemon)
    app.command("node", hidden=True)(node)


def daemon(
    application: Application,
    *,
    nodes: Annotated[int | None, typer.Option("--nodes", "-n", help="Node processes; 2 unless said.")] = None,
    option: AppOption = [],  # noqa: B006 - Typer copies it
    init: Annotated[bool, typer.Option("--init", help="Make the schema first where it is missing.")] = False,
    drain_seconds: _Drain = None,
    retain_days: _Retain = None,
    name: _Name = None,
    health: _Health = None,
    health_anywhere: _Anywhere = None,
    exit_on_escalation: _Escalation = None,
    log_json: LogJson = None,
    log_level: LogLevel = None,
    dsn: Dsn = None,
    json: Json = False,
) -> int:
    """Keep node processes of an application alive.

    SIGTERM and ctrl-C drain them: nothing new begins, /readyz says 503, what is in hand is finished or given back, and
    other nodes have the shards at once. A second one ends them at once.

    With --json, what happens to nodes is printed as JSON lines on stdout. Logs go to stderr.

    Exit codes: 0 drained, 1 the schema does not fit (see init-db), 2 the application or a setting is wrong, 3 drained
    by time (what was not finished was given back), 4 the root supervisor has given up (--exit-on-escalation), 5 another
    daemon of that --name runs, 70 crashed, 75 the database was not reachable at the start (later outages are waited
    out), 143 a second SIGTERM (130: ctrl-C).
    """
    from ..applications import load_app, parse_options
    from ..configuration import read_configuration
    from ..health_server import health_address
    from ..logs import configure_logging
    from ..settings import read_settings

    settings = read_settings(
        dsn=dsn,
        nodes=nodes,
        drain_seconds=drain_seconds,
        retain_days=retain_days,
        name=name,
        health=health,
        health_anywhere=health_anywhere,
        exit_on_escalation=exit_on_escalation,
        log_json=log_json,
        log_level=log_level,
    )
    configure_logging(settings)
    options = parse_options(option)
    health_address(settings)
    load_app(application)  # what is wrong with it is said once and here, not by each node for ever
    read_configuration()

    return _keep(application, settings, options, init=init, json=json)


def _keep(application: str, settings: "Settings", options: dict[str, str], *, init: bool, json: bool) -> int:
    import anyio

    from ...mailbox.errors import CallboardError, leaf
    from ..daemon import CRASHED, Daemon
    from .terminal import print_json_line

    async def serve() -> int:
        announce = print_json_line if json else _ignore
        return await Daemon(application, settings, options, announce, create_schema=init).run()

    try:
        return anyio.run(serve)
    except Exception as error:
        if isinstance(leaf(error), CallboardError):
            raise  # what is known has a code and a sentence of its own
        logging.getLogger(__name__).exception("the daemon crashed; its nodes have ended with it")
        return CRASHED


def _ignore(event: object) -> None:
    """Without --json the log says it all."""


def node(
    application: Application,
    *,
    option: AppOption = [],  # noqa: B006 - Typer copies it
    label: Annotated[str, typer.Option("--label", help="The node's name for people.")] = "",
    parent: Annotated[int, typer.Option("--parent", help="Drain when this process is no longer the parent.")] = 0,
    blame: Annotated[int, typer.Option("--blame", help="Descriptor of the file in which to note what runs.")] = -1,
    mark: Annotated[str, typer.Option("--mark", help="What begins the lines for the parent.")] = "",
    drain_seconds: _Drain = None,
    log_json: LogJson = None,
    log_level: LogLevel = None,
    dsn: Dsn = None,
    json: Json = False,
) -> int:
    """One node of an application, as this process, until SIGTERM. A JSON line on stdout says that it is ready.

    Exit codes: as `daemon`; 70 where it stopped by itself (out of memory), 143 after a second SIGTERM or ctrl-C.
    """
    import anyio

    from ..applications import load_app, parse_options
    from ..logs import configure_logging
    from ..node_process import run_node
    from ..settings import read_settings

    settings = read_settings(dsn=dsn, drain_seconds=drain_seconds, log_json=log_json, log_level=log_level)
    configure_logging(settings)
    app, options = load_app(application), parse_options(option)

    async def serve() -> int:
        return await run_node(
            app, settings, options, label=label, parent=parent, blame=blame, name=application, mark=mark
        )

    return anyio.run(serve)
