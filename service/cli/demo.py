"""`demo`: the support desk at work. What it does is in `callboard.service.demo`."""

from typing import Annotated

import typer

from .options import Dsn, Json


def add_to(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("demo")(demo)


def demo(
    *,
    tickets: Annotated[int, typer.Option("--tickets", min=1, max=10_000, help="How many tickets arrive.")] = 24,
    nodes: Annotated[int, typer.Option("--nodes", min=2, max=16, help="Node processes; one is killed.")] = 2,
    yes: Annotated[bool, typer.Option("--yes", help="Decide as the demo's approver instead of asking.")] = False,
    seed: Annotated[int, typer.Option("--seed", help="Which tickets, in which order.")] = 1,
    dsn: Dsn = None,
    json: Json = False,
) -> int:
    """A support desk at work: a node is killed in the middle of a refund, one refund exists."""
    import anyio

    from ..demo import DemoOptions, run_demo
    from ..settings import read_settings

    settings = read_settings(dsn=dsn, nodes=nodes)
    options = DemoOptions(tickets=tickets, nodes=settings.nodes, yes=yes, document=json, dsn=settings.dsn, seed=seed)
    return anyio.run(run_demo, options)
