"""The processes that are killed: each works on the reference run until it ends, and may be its own executioner.

The reference run has one of everything: sibling calls, a tool with a key, one without that can be asked afterwards, one
that fails at first, a child run that pays, a call that a person has to release. Whatever it does outside, and every
model call, leaves a row in tables that are counted afterwards. They have no unique keys: what happens twice is there
twice.
"""

import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Literal

import anyio
import msgspec

from callboard.actors.agent.agents import AgentSpec
from callboard.actors.agent.events import LLMCallCompleted
from callboard.actors.agent.faults import NotBegun
from callboard.actors.agent.options import Retries
from callboard.actors.agent.runtime import Runtime
from callboard.actors.agent.tool import Tool, tool
from callboard.actors.llm.client import ChatMessage, LLMResponse, ToolSpec
from callboard.actors.llm.scripted import FunctionLLM
from callboard.persistence.postgres.database import Database
from callboard.persistence.postgres.witnessed import WitnessedStore, Written
from callboard.persistence.unit import Unit

Side = Literal["before", "after"]
TABLES: Final = """
CREATE TABLE IF NOT EXISTS effect (run text, what text, key text, pid integer);
CREATE TABLE IF NOT EXISTS model_call (run text, role text, turn integer, pid integer);
CREATE TABLE IF NOT EXISTS answered (run text, role text, turns integer);
"""
APPROVER: Final = "an approver"
END_SECONDS: Final = 120.0
"""Bounds one process, which takes about a second: a run that hangs fails the measurement."""


class Order(msgspec.Struct, frozen=True):
    """What one process is to do."""

    dsn: str
    run: str
    commit: int = 0
    """Number of the commit at which it kills itself; 0: at none."""
    side: Side = "before"
    """Whether that commit is lost, or has landed and nobody was told."""
    mark: str = ""
    """Or at the first commit in which this stands: `RECIPIENT TYPE` of a message whose handling it records."""
    careless: bool = False
    """Whether the tool that takes a key does not look at it: the negative control."""


class Executioner:
    """Counts what this process writes to the store, and kills it at the one that was named."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self.written = 0

    @asynccontextmanager
    async def around(self, what: Written, units: Sequence[Unit]) -> AsyncIterator[None]:
        """One commit."""
        self.written += 1
        doomed = self.written == self._order.commit or self._is_marked(units)
        if doomed and self._order.side == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        yield
        if doomed:
            os.kill(os.getpid(), signal.SIGKILL)

    def _is_marked(self, units: Sequence[Unit]) -> bool:
        mark = self._order.mark
        return bool(mark) and any(mark in f"{turn.recipient} {turn.type}" for unit in units for turn in unit.turns)


class Outside:
    """The world outside: what tools and models did there."""

    def __init__(self, database: Database, order: Order) -> None:
        self._database = database
        self._order = order

    async def count(self, what: str, key: str = "") -> int:
        """How often it happened for the run, under the key where one is given."""
        rows = await self._database.rows("SELECT key FROM effect WHERE run = %s AND what = %s", [self._order.run, what])
        return sum(not key or row["key"] == key for row in rows)

    async def do(self, what: str, key: str) -> dict[str, Any]:
        """Do it once for each key, as a well-made service does; without a key, each time."""
        if not key or self._order.careless or not await self.count(what, key):
            await self._database.execute(
                "INSERT INTO effect VALUES (%s, %s, %s, %s)", [self._order.run, what, key, os.getpid()]
            )
        return {"done": what}

    async def asked(self, role: str, turn: int) -> None:
        """A model was called."""
        await self._database.execute(
            "INSERT INTO model_call VALUES (%s, %s, %s, %s)", [self._order.run, role, turn, os.getpid()]
        )

    async def note_answered(self, role: str, turns: int) -> None:
        """So many answers were on record when this process began."""
        await self._database.execute("INSERT INTO answered VALUES (%s, %s, %s)", [self._order.run, role, turns])


def tools_of(outside: Outside) -> list[Tool]:
    """Of each kind one."""

    @tool
    async def look_up(case: str) -> dict[str, str]:
        """Look something up."""
        return {"case": case, "state": "open"}

    @tool(effect="write")
    async def note(case: str, text: str, idempotency_key: str) -> dict[str, Any]:
        """Leave a note."""
        return await outside.do(f"note {text}", idempotency_key)

    @tool(effect="money", requires_approval=lambda given: given["amount"] > 100)
    async def refund(case: str, amount: int, idempotency_key: str) -> dict[str, Any]:
        """Pay; above 100 a person decides."""
        return await outside.do(f"refund {amount}", idempotency_key)

    async def shipped(case: str) -> dict[str, Any] | None:
        return {"done": "ship"} if await outside.count("ship") else None

    @tool(effect="write", reconcile=shipped)
    async def ship(case: str) -> dict[str, Any]:
        """Ship something: takes no key, but can be asked."""
        return await outside.do("ship", "")

    @tool(effect="write", retry=Retries(attempts=9, first_seconds=0))
    async def shaky(case: str, idempotency_key: str) -> dict[str, Any]:
        """Fails at first."""
        if not await outside.count("knock", idempotency_key):
            await outside.do("knock", idempotency_key)
            raise NotBegun("nobody is there")
        return await outside.do("shaky", idempotency_key)

    return [look_up, note, refund, ship, shaky]


def model_of(outside: Outside) -> FunctionLLM:
    """A model whose answers follow from the conversation alone."""

    async def answer(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system: str) -> LLMResponse:
        del tools
        role, turn = system or "desk", sum(message.role == "assistant" for message in messages)
        await outside.asked(role, turn)
        case = messages[0].content.rpartition(" ")[2]
        script = _PAYMENT if role == "cashier" else _CASE
        if turn >= len(script):
            return LLMResponse(f"{role} is done with {case}")
        calls = [
            {"id": f"{role}-{turn}-{number}", "name": name, "arguments": {"case": case, **given}}
            for number, (name, given) in enumerate(script[turn])
        ]
        return LLMResponse("", [_addressed(call, case) for call in calls])

    return FunctionLLM(answer)


_Script = Sequence[Sequence[tuple[str, dict[str, Any]]]]
_CASE: Final[_Script] = (
    [("look_up", {}), ("note", {"text": "opened"})],
    [("cashier", {})],
    [("refund", {"amount": 640}), ("note", {"text": "asked"})],
    [("ship", {}), ("shaky", {})],
)
_PAYMENT: Final[_Script] = ([("refund", {"amount": 40})],)
PAID: Final = ".3 tool.answered"
"""Marks the commit that records the child's payment: the only call of its turn, so that the payment was made before."""
EFFECTS: Final = ("note opened", "note asked", "refund 40", "refund 640", "ship", "knock", "shaky")
"""What the reference run does outside, each once."""


def _addressed(call: dict[str, Any], case: str) -> dict[str, Any]:
    return {**call, "arguments": {"goal": f"pay for {case}"}} if call["name"] == "cashier" else call


def main() -> None:
    """For each order on standard input, one a line, a process that plays it; its exit code on standard output.

    The processes are forks of this one, which has loaded everything and has neither threads nor connections.
    """
    for line in sys.stdin:
        order = msgspec.json.decode(line, type=Order)
        child = os.fork()
        if not child:
            sys.stdin.close()
            play(order)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)  # noqa: T201 - the answer


def play(order: Order) -> None:
    """Work on the run to its end, or to this process's."""
    logging.getLogger("callboard").setLevel(logging.ERROR)  # that a dead node is taken over is no news here
    anyio.run(_play, order)


async def _play(order: Order) -> None:
    with anyio.fail_after(END_SECONDS):
        await _work(order)


async def _work(order: Order) -> None:
    async with await Database.open(order.dsn) as database:
        outside = Outside(database, order)
        tools = {one.name: one for one in tools_of(outside)}
        cashier = AgentSpec("cashier", "Pays what is owed.", "cashier", (tools.pop("refund"),))
        store = WitnessedStore(order.dsn, Executioner(order).around)
        everything = [*tools.values(), *cashier.tools]
        runtime = Runtime(store, model_of(outside), everything, agents=[cashier])
        await _note_answers(runtime, outside, order)
        async with runtime:
            await runtime.create(f"case {order.run}", run_id=order.run)
            state = await runtime.resume(order.run)
            while not state.finished:
                for call in state.pending_approvals:
                    await runtime.approve(order.run, APPROVER, call=call.call)
                state = await runtime.resume(order.run)


async def _note_answers(runtime: Runtime, outside: Outside, order: Order) -> None:
    """Which answers of models the journals hold before anything goes on."""
    for run, _ in await runtime.list(limit=10_000):
        if run == order.run or run.startswith(f"{order.run}."):
            events = [recorded.event for recorded in await runtime.events(run)]
            role = "desk" if run == order.run else "cashier"
            await outside.note_answered(role, sum(isinstance(one, LLMCallCompleted) for one in events))


if __name__ == "__main__":
    main()
