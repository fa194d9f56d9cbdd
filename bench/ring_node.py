"""A node of the messages bench as a process of its own: `python -m callboard.bench.ring_node DSN`.

It says `{"ready": true, "number": N, "pid": N}` once it serves, and answers each line of input with what it has done
so far. It ends when its input does, without leaving: who measures it drops the database.
"""

import logging
import os
import sys

import anyio
import anyio.to_thread
import msgspec

from callboard.actors.node import Node
from callboard.bench.messages import Tally, ring_tree
from callboard.persistence.postgres import PostgresStore


class Ready(msgspec.Struct, frozen=True):
    """The first line."""

    ready: bool
    number: int
    pid: int


class Done(msgspec.Struct, frozen=True):
    """Every other line."""

    handled: int
    commits: int
    owned: int
    """Shards."""


def _say(line: msgspec.Struct) -> None:
    sys.stdout.write(msgspec.json.encode(line).decode() + "\n")
    sys.stdout.flush()


async def serve(dsn: str, actors: int) -> None:
    """Serve, and answer."""
    logging.basicConfig(level=logging.ERROR)  # that nodes take over from each other is what is measured
    tally = Tally(actors, -1, anyio.Event())
    async with PostgresStore(dsn) as store, anyio.create_task_group() as group:
        node = Node(store, ring_tree(tally))
        group.start_soon(node.run)
        await node.ready.wait()
        assert node.life is not None
        _say(Ready(True, node.life.session.number, os.getpid()))
        while await anyio.to_thread.run_sync(sys.stdin.readline):
            life = node.life
            _say(Done(tally.handled, life.committer.commits, len(life.ownership.owned)))
        os._exit(0)


if __name__ == "__main__":
    anyio.run(serve, sys.argv[1], int(sys.argv[2]))
