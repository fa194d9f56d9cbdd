"""Real node processes on the stage of a story, of which one is killed in the middle of a refund.

The first node to come to a refund hangs between its commit and its return (`crm.app`, option `hang_once`) and says so;
there it gets a kill -9.
"""

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc

from .nodes import NodeProcess
from .story import TurnMissed
from .story_stage import Stage

LEASE_SECONDS = 30.0
"""Long, so that no node of a busy machine is taken for dead; a kill is seen by the lock that the process held."""
_WATCHED = """
SELECT count(DISTINCT objid) AS nodes FROM pg_locks
WHERE locktype = 'advisory' AND NOT granted AND classid = callboard.lock_class()::oid AND objsubid = 2
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


class Nodes:
    """The node processes of one stage."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.nodes: list[NodeProcess] = []
        self._in_refund: tuple[NodeProcess, str] | None = None

    def told(self, node: NodeProcess, event: dict[str, Any]) -> None:
        """A node has said something."""
        if event.get("event") == "in_refund" and self._in_refund is None:
            self._in_refund = (node, str(event["key"]))

    async def kill_in_refund(self, ticket: str) -> str:
        """Wait until a refund is in the ledger and its outcome in no journal, and kill that node. The refund's key.

        Raises:
            TurnMissed: the work on `ticket` comes to rest without one.
        """

        async def paid_or_at_rest() -> bool:
            return self._in_refund is not None or await self.stage.runs.at_rest(ticket)

        await self.stage.until(paid_or_at_rest, "a node makes a refund, to be killed in it")
        if self._in_refund is None:
            raise TurnMissed("a node makes a refund, to be killed in it", "none did")
        node, key = self._in_refund
        node.kill()
        await node.process.wait()
        self.stage.tale.tell(
            "kill -9", "the process that has just paid the refund dies before it can record that it has", "bad"
        )
        return key


@asynccontextmanager
async def open_nodes(stage: Stage, count: int = 2) -> AsyncIterator[Nodes]:
    """`count` nodes for as long as the block lasts; those that live drain at its end.

    Raises:
        NodeFailed: one did not start.
    """
    nodes = Nodes(stage)
    with tempfile.TemporaryDirectory(prefix="callboard-story-") as folder:
        options = {"hang_once": str(Path(folder) / "hangs"), **({"model": stage.model.name} if stage.model else {})}
        async with anyio.create_task_group() as group:
            try:
                for number in range(1, count + 1):
                    await _start(nodes, f"node-{number}", Path(folder), options, group)
                for node in nodes.nodes:
                    await node.wait_ready()
                await _all_watched(stage, count)
                yield nodes
            finally:
                with anyio.CancelScope(shield=True):
                    for node in nodes.nodes:
                        await node.stop()
                group.cancel_scope.cancel()


async def _all_watched(stage: Stage, count: int) -> None:
    """Return when each node waits for the lock of another: from then on a death is seen at once."""

    async def look() -> bool:
        [row] = await stage.rows(_WATCHED)
        return bool(row["nodes"] == count)

    await stage.until(look, f"{count} nodes watch each other")


async def _start(nodes: Nodes, label: str, folder: Path, options: dict[str, str], group: anyio.abc.TaskGroup) -> None:
    database = nodes.stage.database
    node = await NodeProcess.start(
        label, database.dsn, folder / f"{label}.log", options, database.desk_dsn, lease_seconds=LEASE_SECONDS
    )
    node.told = nodes.told
    nodes.nodes.append(node)
    group.start_soon(node.listen)
