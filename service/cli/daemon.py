"""`daemon`, and the hidden `node` that it starts."""

from typing import Annotated

import typer

from .options import Application, AppOption, Dsn, Json, LogJson, LogLevel

_Drain = Annotated[float | None, typer.Option("--drain-seconds", help="How long a leaving node waits for its calls.")]


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
    log_json: LogJson = None,
    log_level: LogLevel = None,
    dsn: Dsn = None,
    json: Json = False,
) -> int:
    """Keep node processes of an application alive.

    SIGTERM and ctrl-C drain them; a second one ends them at once.

    With --json, what happens to nodes is printed as JSON lines on stdout. Logs go to stderr.

    Exit codes: 0 drained, 1 a node had to be killed or the schema does not fit (see init-db), 2 the application or a
    setting is wrong, 75 the database was not reachable at the start. Later outages are waited out.
    """
    import anyio

    from ..applications import load_app, parse_options
    from ..configuration import read_configuration
    from ..daemon import Daemon
    from ..logs import configure_logging
    from ..settings import read_settings
    from .terminal import print_json_line

    settings = read_settings(dsn=dsn, nodes=nodes, drain_seconds=drain_seconds, log_json=log_json, log_level=log_level)
    configure_logging(settings)
    options = parse_options(option)
    load_app(application)  # what is wrong with it is said once and here, not by each node for ever
    read_configuration()

    async def serve() -> int:
        announce = print_json_line if json else _ignore
        return await Daemon(application, settings, options, announce, create_schema=init).run()

    return anyio.run(serve)


def _ignore(event: object) -> None:
    """Without --json the log says it all."""


def node(
    application: Application,
    *,
    option: AppOption = [],  # noqa: B006 - Typer copies it
    label: Annotated[str, typer.Option("--label", help="The node's name for people.")] = "",
    parent: Annotated[int, typer.Option("--parent", help="Drain when this process is no longer the parent.")] = 0,
    blame: Annotated[int, typer.Option("--blame", help="Descriptor of the file in which to note what runs.")] = -1,
    drain_seconds: _Drain = None,
    log_json: LogJson = None,
    log_level: LogLevel = None,
    dsn: Dsn = None,
    json: Json = False,
) -> int:
    """One node of an application, as this process, until SIGTERM. A JSON line on stdout says that it is ready.

    Exit codes: as `daemon`; 70 where it stopped by itself (out of memory), 143 after a second SIGTERM.
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
        return await run_node(app, settings, options, label=label, parent=parent, blame=blame, name=application)

    return anyio.run(serve)
