"""Actors at a glance and the supervision tree: `actors --order`, `actors --tree`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from ...mailbox.errors import UsageError
from ..trace_text import Line
from .render import print_table
from .terminal import note, print_lines
from .times import When
from .watch import Shown, watched

if TYPE_CHECKING:
    from typing import Literal

    from ..operations.rolling import TreeNode
    from ..operations.runs import Operations
    from ..operations.watching import ActorWindow
    from ..settings import Settings

ORDERS = ("attention", "address")


def list_at_a_glance(
    settings: "Settings", shown: Shown, *, prefix: str, kind: str, order: str, limit: int, alone: bool
) -> None:
    """List actors at a glance.

    Raises:
        UsageError: there is no such order, or it was asked for together with --stuck (not `alone`).
    """
    from ..operations.watching import Watching, window_document

    if order not in ORDERS:
        raise UsageError(f"--order: expected attention or address, got {order[:80]!r}")
    if not alone:
        raise UsageError("--stuck has an order of its own; give it or --order")

    async def read(operations: "Operations") -> "ActorWindow":
        wanted = cast("Literal['attention', 'address']", order)
        return await Watching(operations).actors(prefix=prefix, kind=kind, order=wanted, limit=limit)

    watched(read, print_window, settings, shown, document=window_document)


def print_window(found: "ActorWindow", when: When) -> None:
    """Actors, those that need somebody first."""
    if not found.items:
        note("no actors yet; start something: callboard run APP GOAL")
        return
    rows = [
        (
            one.word,
            one.address,
            str(one.waiting or ""),
            when(one.oldest_at),
            "" if one.spent is None else f"{one.spent:.0%}",
            one.doing,
        )
        for one in found.items
    ]
    print_table(("state", "actor", "waiting", "oldest", "budget", "doing"), rows)
    if not found.end:
        note("there are more; --limit shows them")


def show_tree(settings: "Settings", shown: Shown, *, alone: bool) -> None:
    """Show the supervision tree.

    Raises:
        UsageError: it was asked for together with what picks single actors (not `alone`).
    """
    from ..operations.rolling import tree_document
    from ..operations.watching import Watching

    if not alone:
        raise UsageError("--tree counts all actors; give it without a prefix, --kind, --order and --stuck")
    if shown.jsonl:
        raise UsageError("--tree is one document and no list; give --json")

    async def read(operations: "Operations") -> "TreeNode":
        return await Watching(operations).tree()

    def print_(root: "TreeNode", when: When) -> None:
        print_lines(tree_lines(root), settings.color)

    watched(read, print_, settings, shown, document=tree_document)


def tree_lines(node: "TreeNode", depth: int = 0) -> Iterator[Line]:
    """A node, and below it what it has, each further in."""
    name = f"{'  ' * depth}{node.name}{':*' if node.pool else ''}"
    words = "  ".join(f"{word.lower()} {amount:,}" for word, amount in node.words.items())
    yield Line(f"{name:<32} {node.total:>9,}  {words}".rstrip(), "title" if node.supervisor else "event")
    for child in node.children:
        yield from tree_lines(child, depth + 1)
