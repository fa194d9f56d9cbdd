"""What the commands of a document find: a desk that has worked, in a database of the document's own.

Twelve tickets of the small desk, T-0001 to T-0012; the runs are called as their tickets:

    T-0001, T-0002    wait for their agents T-0001.4 and T-0002.4, which wait for a person: a refund above the limit
    T-0003 to T-0008  are completed, and so are the agents that they have called
    T-0009            is paused by an operator, with a reason, while its agent T-0009.4 waits for a person
    T-0010            has failed: its budget allows one iteration
    T-0011            is recorded, and no node has begun it
    T-0012            has no run

and one dead letter, number 1: a message to an actor that there is none of, `/crm/desk/clerk:1`. No node runs.
"""

import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from urllib.parse import urlsplit

import anyio
import psycopg
from psycopg import sql

from callboard.actors.agent.budget import Budget
from callboard.actors.agent.messages import Tell
from callboard.actors.agent.runs import Runs
from callboard.actors.app import Surroundings
from callboard.actors.client import Client
from callboard.actors.node import Node, NodeSettings
from callboard.crm.app import AGENTS, app
from callboard.crm.load import load
from callboard.crm.schema import install
from callboard.crm.small_desk import read_small_desk
from callboard.crm.tickets import make_tickets
from callboard.persistence.port import RealPort
from callboard.persistence.postgres import create_schema
from callboard.persistence.postgres.database import Database
from callboard.persistence.store import Store
from callboard.service.applications import opened
from callboard.service.operations.actors import Inspection
from callboard.service.operations.runs import Operations
from callboard.service.wiring import open_store_at

WAIT_SECONDS = 240.0
LEASE_SECONDS = 60.0
"""However long the machine stands still, what has worked is one node: the documents show its number."""
NOBODY = "/crm/desk/clerk:1"


@contextmanager
def stage(server_dsn: str) -> Iterator[Callable[[], str]]:
    """Make it once; a function that gives the DSN of a new copy each time. All are gone with the block."""
    names = [f"stage_{uuid.uuid4().hex[:12]}"]
    with psycopg.connect(server_dsn, autocommit=True) as connection:

        def made(name: str, template: str) -> str:
            command = sql.SQL("create database {} template {}")
            connection.execute(command.format(sql.Identifier(name), sql.Identifier(template)))
            return urlsplit(server_dsn)._replace(path=f"/{name}").geturl()

        def copy() -> str:
            names.append(f"stage_{uuid.uuid4().hex[:12]}")
            return made(names[-1], names[0])

        try:
            anyio.run(_play, made(names[0], "template0"))
            yield copy
        finally:
            for name in names:
                connection.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))


async def _play(dsn: str) -> None:
    await create_schema(dsn)
    async with await Database.open(dsn) as owner:
        await install(owner)
        await load(owner, read_small_desk())
        await make_tickets(owner, 8, above_limit=2)
        await make_tickets(owner, 1, above_limit=1)
        await make_tickets(owner, 3, above_limit=0)
    async with open_store_at(dsn) as store:
        operations = Operations(store, "dana@example.com")
        async with _node(dsn, store):
            for number in range(1, 11):
                await _work(operations, number)
            await Client(store).send(NOBODY, Tell("is anybody there?"))
            with anyio.fail_after(WAIT_SECONDS):
                while not await store.dead_letters():  # noqa: ASYNC110 - a node of this process, but no event of ours
                    await anyio.sleep(0.05)
            await Inspection(operations).pause(f"{AGENTS}:T-0009", "the customer is on the phone")
            await _until(store, _has_rested)
        await operations.submit(app, "Work ticket T-0011.", run_id="T-0011")


async def _work(operations: Operations, number: int) -> None:
    """One run after the other: what lists sort by time has one order only, the order of the tickets."""
    run_id = f"T-{number:04d}"
    budget = Budget(max_iterations=1) if number == 10 else Budget(max_iterations=25)
    await operations.submit(app, f"Work ticket {run_id}.", run_id=run_id, budget=budget)
    runs = Runs(operations.client, AGENTS)
    with anyio.fail_after(WAIT_SECONDS):
        while not await runs.at_rest(run_id):  # noqa: ASYNC110 - a node of this process, but no event of ours
            await anyio.sleep(0.05)


@asynccontextmanager
async def _node(dsn: str, store: Store) -> AsyncIterator[None]:
    port = RealPort()
    async with opened(app, Surroundings(dsn, "stage/1", {}, {})) as tree, anyio.create_task_group() as group:
        node = Node(store, tree, port, NodeSettings(lease_seconds=LEASE_SECONDS))
        port.spawn(group, node.run, name="node")
        await node.ready.wait()
        yield
        node.stop()


async def _until(store: Store, condition: Callable[[dict[str, str]], bool]) -> None:
    with anyio.fail_after(WAIT_SECONDS):
        while True:
            lines = (await Operations(store, "dana@example.com").runs()).items
            if condition({line.run_id: line.status for line in lines}):
                return
            await anyio.sleep(0.05)


def _has_rested(statuses: dict[str, str]) -> bool:
    wanted = {**dict.fromkeys(("T-0001", "T-0002"), "running"), "T-0009": "paused", "T-0010": "failed"}
    wanted |= dict.fromkeys(("T-0001.4", "T-0002.4", "T-0009.4"), "awaiting_approval")
    wanted |= {f"T-{number:04d}": "completed" for number in range(3, 9)}
    return wanted.items() <= statuses.items()
