"""The small application of the deploy tests, version 1: counters that add what they are told."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from callboard import Actor, App, Child, Context, Message, Supervisor, Surroundings
from callboard.actors.actor import on


class Add(Message, tag="deploy.add"):
    """Outside to a counter."""

    euros: int


class Totals(msgspec.Struct):
    """What a counter keeps."""

    count: int = 0
    euros: int = 0


class Counter(Actor[Totals], kind="deploy-counter"):
    """Counts and adds."""

    @on(creates=True)
    def add(self, message: Add, ctx: Context) -> None:
        self.state.count += 1
        self.state.euros += message.euros


@asynccontextmanager
async def open_counters(surroundings: Surroundings) -> AsyncIterator[Supervisor]:
    yield Supervisor("deploy", (Child(Counter, "counter", pool=True),))


app = App("deploy", open_counters, runs="/deploy/counter")
