"""What the field tests run: a pool of actors that count, and a worker, both of which do as they are told.

`Do.what` of an actor's message:
    ""              count
    sleep SECONDS   leave a row in `began`, sleep, count
    wait            leave a row in `began`, wait until there is one that says "go", count
    fail            count, then raise: nothing of it may be kept
    exhaust         the first time: raise a MemoryError
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import psycopg

from callboard import App, Supervisor, Surroundings
from callboard.actors.actor import Actor, Worker, on
from callboard.actors.context import Context, WorkerContext
from callboard.actors.retry import RetryPolicy
from callboard.actors.spec import Child
from callboard.actors.system import AskFailed
from callboard.mailbox.message import Message

BEGAN = "create table began (what text, pid integer, at timestamptz default clock_timestamp())"


class Do(Message, tag="field.do"):
    """To a counter."""

    what: str = ""


class Work(Message, tag="field.work"):
    """To the worker: leave a row, then take so long."""

    name: str
    seconds: float = 0.0


class Worked(Message, tag="field.worked"):
    """Its answer."""

    name: str


class Count(msgspec.Struct):
    """State of a counter."""

    done: int = 0
    answers: int = 0


class Counter(Actor[Count], kind="field-counter"):
    """Counts what it was told."""

    retry = RetryPolicy(max_failures=5, first_seconds=0.05, cap_seconds=0.2)

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn

    @on(creates=True)
    async def do(self, message: Do, ctx: Context) -> None:
        self.state.done += 1
        what, _, rest = message.what.partition(" ")
        if what == "sleep":
            await note(self.dsn, message.what)
            await ctx.port.sleep(float(rest))
        elif what == "wait":
            await note(self.dsn, what)
            while not await is_noted(self.dsn, "go"):
                await ctx.port.sleep(0.02)
        elif what == "fail":
            raise RuntimeError("told to fail")
        elif what == "exhaust" and not ctx.envelope.losses:
            raise MemoryError
        elif what == "work":
            ctx.send("/field/worker", Work(ctx.address, float(rest)))

    @on
    def worked(self, message: Worked | AskFailed, ctx: Context) -> None:
        self.state.answers += 1


class Patient(Counter, kind="field-patient"):
    """Counts, and takes its time where that failed."""

    retry = RetryPolicy(max_failures=5, first_seconds=3_600, cap_seconds=3_600)


class Slow(Worker, kind="field-worker"):
    """Takes its time."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn

    @on
    async def work(self, message: Work, ctx: WorkerContext) -> Worked:
        await note(self.dsn, f"work {message.name}")
        await ctx.port.sleep(message.seconds)
        await note(self.dsn, f"worked {message.name}")
        return Worked(message.name)


async def note(dsn: str, what: str) -> None:
    """A row that says who began what."""
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        await connection.execute("insert into began (what, pid) values (%s, %s)", [what, os.getpid()])


async def is_noted(dsn: str, what: str) -> bool:
    """Whether there is such a row."""
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        found = await connection.execute("select 1 from began where what = %s limit 1", [what])
        return await found.fetchone() is not None


@asynccontextmanager
async def opened(surroundings: Surroundings) -> AsyncIterator[Supervisor]:
    args = (surroundings.dsn,)
    counters = Child(Counter, "counter", pool=True, args=args), Child(Patient, "patient", pool=True, args=args)
    yield Supervisor("field", (*counters, Child(Slow, "worker", args=args)))


app = App("field", opened, runs="/field/run")
