"""What the end-to-end tests run: an application whose agent pays as its goal says, and the UI as somebody.

Goals: `pay 480.00 to Ann` asks for a payment; `hold 60`, `high` and `people 2` in it set the terms. The tool writes a
row into `ledger` each time it runs, whatever its key, so that a second run would be counted.

    python -m tests.tui.e2e.program NAME      the UI, with NAME as the authenticated principal
"""

import re
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio
import psycopg

from callboard import (
    App,
    ChatMessage,
    FunctionLLM,
    LLMResponse,
    PolicyCall,
    Supervisor,
    Surroundings,
    Terms,
    ToolCall,
    agent_tree,
    policy,
    tool,
)
from callboard.actors.agent.rules import Rules
from callboard.service.operations.principal import Principal
from callboard.service.settings import read_settings
from callboard.service.wiring import open_store

LEDGER = "create table ledger (at timestamptz default clock_timestamp(), key text, payee text, amount_cents int)"


def _model(messages: Sequence[ChatMessage], tools: object, system_prompt: str) -> LLMResponse:
    goal = messages[0].content
    answers = [message for message in messages if message.role == "tool"]
    found = re.search(r"pay ([\d.]+) to (.+?)(?: hold| high| people|$)", goal)
    if answers or found is None:
        return LLMResponse(content="Done.")
    cents = round(float(found[1]) * 100)
    return LLMResponse(tool_calls=(ToolCall("c1", "pay", {"payee": found[2], "amount_cents": cents, "memo": goal}),))


@policy
def as_the_memo_says(call: PolicyCall) -> Terms | None:
    """The terms that the goal asks for."""
    memo = str(call.arguments.get("memo", ""))
    hold, people = re.search(r"hold (\d+)", memo), re.search(r"people (\d+)", memo)
    return Terms(
        "payments are seen by people",
        "payments",
        risk="high" if " high" in memo else "medium",
        needed=int(people[1]) if people else 1,
        hold_seconds=float(hold[1]) if hold else 0.0,
    )


@asynccontextmanager
async def open_desk(surroundings: Surroundings) -> AsyncIterator[Supervisor]:
    @tool(effect="money")
    async def pay(payee: str, amount_cents: int, memo: str, idempotency_key: str) -> dict[str, str]:
        """Pay somebody."""
        async with await psycopg.AsyncConnection.connect(surroundings.dsn, autocommit=True) as connection:
            await connection.execute(
                "insert into ledger (key, payee, amount_cents) values (%s, %s, %s)",
                (idempotency_key, payee, amount_cents),
            )
        return {"paid": payee}

    yield agent_tree("e2e", FunctionLLM(_model), (pay,), rules=Rules(policies=(as_the_memo_says,)))


app = App("e2e", open_desk, runs="/e2e/run", system_prompt="Pay as you are told.")


async def _look(name: str) -> None:
    from callboard.tui.app import CallboardApp
    from callboard.tui.gateway import Gateway
    from tests.tui.e2e.patient import be_patient

    be_patient()
    async with open_store(read_settings()) as store:
        await CallboardApp(Gateway(store, Principal(name, "tui", "here"))).run_async()


if __name__ == "__main__":
    anyio.run(_look, sys.argv[1])
