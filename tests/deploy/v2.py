"""The small application of the deploy tests, version 2: it adds cents, and has a message and a kind of actor more.

With DEPLOY_FORGETS=states or DEPLOY_FORGETS=messages whoever released it forgot those upcasts.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from callboard import Actor, App, Child, Context, Message, Supervisor, Surroundings, upcast
from callboard.actors.actor import on
from callboard.actors.snapshot import upcast_state

FORGOTTEN = os.environ.get("DEPLOY_FORGETS", "")


class Add(Message, tag="deploy.add.v2"):
    """Outside to a counter."""

    cents: int


class Bonus(Message, tag="deploy.bonus"):
    """Outside to a counter: new in this version."""

    cents: int


class Totals(msgspec.Struct):
    """What a counter keeps."""

    count: int = 0
    cents: int = 0
    bonuses: int = 0


def add_in_cents(body: dict[str, Any]) -> dict[str, Any]:
    return {"cents": body["euros"] * 100}


def totals_in_cents(state: dict[str, Any]) -> dict[str, Any]:
    return {"count": state["count"], "cents": state["euros"] * 100}


if FORGOTTEN != "messages":
    upcast("deploy.add", 1)(add_in_cents)
if FORGOTTEN != "states":
    upcast_state("deploy-counter", 1)(totals_in_cents)


class Counter(Actor[Totals], kind="deploy-counter"):
    """Counts and adds."""

    state_version = 2

    @on(creates=True)
    def add(self, message: Add, ctx: Context) -> None:
        self.state.count += 1
        self.state.cents += message.cents

    @on(creates=True)
    def bonus(self, message: Bonus, ctx: Context) -> None:
        self.state.bonuses += 1
        self.state.cents += message.cents


class Saver(Actor[Totals], kind="deploy-saver"):
    """Only bonuses."""

    @on(creates=True)
    def bonus(self, message: Bonus, ctx: Context) -> None:
        self.state.bonuses += 1


@asynccontextmanager
async def open_counters(surroundings: Surroundings) -> AsyncIterator[Supervisor]:
    yield Supervisor("deploy", (Child(Counter, "counter", pool=True), Child(Saver, "saver", pool=True)))


app = App("deploy", open_counters, runs="/deploy/counter")
