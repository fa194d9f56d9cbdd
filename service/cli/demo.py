"""`demo`: the support desk at work. What it does is in `callboard.service.demo`.

`demonstration_desk` is what `tui --demo` opens: the same desk, kept open for as long as somebody looks.
"""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from .options import Dsn, Json

if TYPE_CHECKING:
    from ..settings import Settings


def add_to(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("demo")(demo)


def demo(
    *,
    tickets: Annotated[int, typer.Option("--tickets", min=1, max=10_000, help="How many tickets arrive.")] = 24,
    nodes: Annotated[int, typer.Option("--nodes", min=2, max=16, help="Node processes; one is killed.")] = 2,
    yes: Annotated[bool, typer.Option("--yes", help="Decide as the demo's approver instead of asking.")] = False,
    seed: Annotated[int, typer.Option("--seed", help="Which tickets, in which order.")] = 1,
    scenario: Annotated[
        str, typer.Option("--scenario", metavar="NAME|list|all", help="Play this short story instead, and prove it.")
    ] = "",
    model: Annotated[
        str, typer.Option("--model", metavar="SPEC", help="A real model for the agents: ollama:qwen3:8b, openai:NAME.")
    ] = "",
    dsn: Dsn = None,
    json: Json = False,
) -> int:
    """A support desk at work: a node is killed in the middle of a refund, one refund exists."""
    import anyio

    from ..settings import read_settings

    if scenario == "list":
        return _list_stories(json=json)
    settings = read_settings(dsn=dsn, nodes=nodes)
    if scenario:
        from ..demo.story_player import EVERY, StoryOptions, run_stories

        names = () if scenario == EVERY else (scenario,)
        return anyio.run(run_stories, StoryOptions(names, json, settings.dsn, settings.home, model, settings.color))
    from ..demo import DemoOptions, run_demo

    options = DemoOptions(
        tickets=tickets, nodes=settings.nodes, yes=yes, document=json, dsn=settings.dsn, seed=seed, model=model
    )
    return anyio.run(run_demo, options)


def _list_stories(*, json: bool) -> int:
    from ..demo.story_player import list_document
    from .render import print_table
    from .terminal import print_json

    document = list_document()
    if json:
        print_json(document)
    else:
        print_table(("scenario", "what happens"), [(one["name"], one["about"]) for one in document["stories"]])
    return 0


@contextmanager
def demonstration_desk(settings: "Settings") -> "Iterator[Settings]":
    """These settings, but for the database of a desk at work, which ends with the block; says on stderr how to look
    around in what it leaves.

    Raises:
        DeskFailed: it cannot be opened.
    """
    import msgspec

    from ..demo.desk import open_desk
    from .progress import progress

    with ExitStack() as stack:
        with progress("opening a desk with agents at work"):
            desk = stack.enter_context(open_desk(settings.dsn))
        where = desk.dsn if settings.dsn else desk.name
        yield msgspec.structs.replace(settings, dsn=where, environment=settings.environment or "demo")
    sys.stderr.write(
        "The demonstration desk has ended: its agents work no more. What they left stays until the next one is opened; "
        f"to look around in it:\n  callboard tui --dsn '{desk.name}'\n"
    )
