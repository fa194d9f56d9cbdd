"""docs/MIGRATING.md: programs in the old names run after its substitutions, and every old name has a new home."""

import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
GUIDE = ROOT / "docs" / "MIGRATING.md"

HEAD = """
import asyncio
from durable_agents import InMemoryEventStore, LLMResponse, Runtime, ScriptedLLM, tool

ledger = []

@tool(requires_approval=lambda args: args["amount"] > 5000, side_effect=True)
async def issue_refund(order_id: str, amount: int, idempotency_key: str) -> dict:
    \"\"\"Refund an order. Needs approval above 5000.\"\"\"
    ledger.append((order_id, amount, idempotency_key))
    return {"refund_id": "RF-1", "amount": amount}

def refund(amount):
    return LLMResponse(content="", tool_calls=[
        {"id": "c1", "name": "issue_refund", "arguments": {"order_id": "A-8891", "amount": amount}}
    ])
"""

START = """
async def main():
    llm = ScriptedLLM([refund(40), LLMResponse(content="Refunded.")])
    runtime = Runtime(store=InMemoryEventStore(), llm=llm, tools=[issue_refund])
    run = await runtime.start(goal="Refund order A-8891, item arrived damaged.")
    print(run.state.status, run.state.final_answer, len(ledger))

asyncio.run(main())
"""

CREATE_AND_RESUME = """
async def main():
    llm = ScriptedLLM([Exception("429 Too Many Requests"), refund(40), LLMResponse(content="Refunded.")])
    runtime = Runtime(store=InMemoryEventStore(), llm=llm, tools=[issue_refund], retry_base_delay_seconds=0.0)
    run_id = await runtime.create(goal="Refund order A-8891.")
    before = await runtime.get_state(run_id)
    first = await runtime.resume(run_id)
    again = await runtime.resume(run_id)
    print(before.step, first.status, again == first, len(ledger))

asyncio.run(main())
"""

APPROVE = """
async def main():
    store = InMemoryEventStore()
    runtime = Runtime(store=store, llm=ScriptedLLM([refund(6400), LLMResponse(content="ok")]), tools=[issue_refund])
    run = await runtime.start(goal="Refund order A-8891.")
    print(run.state.status, run.state.pending_approval.tool, len(ledger))
    later = Runtime(store=store, llm=ScriptedLLM([LLMResponse(content="paid")]), tools=[issue_refund])
    await later.approve(run.id, approver="dana@example.com")
    final = await later.resume(run.id)
    print(final.status, final.final_answer, len(ledger))

asyncio.run(main())
"""

DENY = """
async def main():
    llm = ScriptedLLM([refund(6400), LLMResponse(content="Sorry.")])
    runtime = Runtime(store=InMemoryEventStore(), llm=llm, tools=[issue_refund], guardrail_profile="standard")
    run = await runtime.start(goal="Refund order A-8891, 6400 please.")
    await runtime.deny(run.id, approver="dana@example.com", reason="too much")
    final = await runtime.resume(run.id)
    print(final.status, final.final_answer, len(ledger))

asyncio.run(main())
"""

OWN_CLIENT_AND_WORKER = """
from decimal import Decimal
from durable_agents import LLMClient, Worker

class MyClient(LLMClient):
    async def call(self, messages, tools, system_prompt=""):
        return LLMResponse(
            content=f"{messages[-1].content} {len(tools)} {system_prompt}", tool_calls=[], stop_reason="end_turn",
            input_tokens=3, output_tokens=4, cost_usd=Decimal("0.002"), latency_ms=5, provider_request_id="r-1",
        )

async def main():
    store = InMemoryEventStore()
    runtime = Runtime(store=store, llm=MyClient(), tools=[issue_refund], system_prompt="Be brief.")
    run_id = await runtime.create(goal="Hello.")
    worker = asyncio.create_task(Worker(runtime, stale_after_seconds=60.0).run_forever())
    while (await runtime.get_state(run_id)).status == "running":
        await asyncio.sleep(0.01)
    worker.cancel()
    state = await runtime.get_state(run_id)
    print(state.final_answer, state.total_tokens, state.total_cost_usd)

asyncio.run(main())
"""

POSTGRES = """
import os
from durable_agents import PostgresEventStore, create_schema

async def main():
    await create_schema(os.environ["DATABASE_URL"])
    store = await PostgresEventStore.connect(os.environ["DATABASE_URL"])
    llm = ScriptedLLM([refund(40), LLMResponse(content="Refunded.")])
    runtime = Runtime(store=store, llm=llm, tools=[issue_refund])
    run_id = await runtime.create(goal="Refund order A-8891.")
    state = await runtime.resume(run_id)
    print(state.status, len(ledger))

asyncio.run(main())
"""

PROVIDER_AND_API = """
from durable_agents.api.app import create_app
from durable_agents.llm.openai_compatible import OpenAICompatibleClient

llm = OpenAICompatibleClient(base_url="https://api.openai.com/v1", model="gpt-4o-mini", api_key="sk-none")
app = create_app(InMemoryEventStore(), default_max_steps=15)
print(type(llm).__name__, callable(app))
"""

PROGRAMS = {
    "start": (START, ["completed Refunded. 1"]),
    "create and resume": (CREATE_AND_RESUME, ["0 completed True 1"]),
    "approve": (APPROVE, ["awaiting_approval issue_refund 0", "completed paid 1"]),
    "deny": (DENY, ["completed Sorry. 0"]),
    "own client and worker": (OWN_CLIENT_AND_WORKER, ["Hello. 1 Be brief. 7 0.002"]),
    "postgres": (POSTGRES, ["completed 1"]),
    "provider and api": (PROVIDER_AND_API, ["OpenAICompatibleClient True"]),
}


def table(heading: str) -> list[tuple[str, str]]:
    """First and second cell of the first table below a heading: what stands between backticks."""
    text = GUIDE.read_text().split(heading, 1)[1]
    found: list[tuple[str, str]] = []
    for line in text.splitlines():
        cells = re.match(r"\| `([^`]+)` \| `([^`]+)`", line)
        if cells:
            found.append((cells[1], cells[2]))
        elif found:
            break
    return found


def migrated(program: str) -> str:
    for old, new in table("## From durable-agents"):
        program = program.replace(old, new)
    return program


@pytest.mark.parametrize("name", PROGRAMS)
def test_da180_a_program_in_the_old_names_runs_after_the_substitutions(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    program, says = PROGRAMS[name]
    environment: dict[str, str] = {}
    if "DATABASE_URL" in program:
        environment["DATABASE_URL"] = request.getfixturevalue("dsn")
    if "api.app" in program:
        pytest.importorskip("litestar")
    file = tmp_path / "program.py"
    file.write_text(migrated(HEAD + program))
    assert "durable_agents" not in file.read_text()
    done = subprocess.run(
        [sys.executable, str(file)],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == says


def test_da002_every_public_name_of_the_old_package_has_a_home() -> None:
    homes = table("### Every public name")
    assert len(homes) == 49
    for old, new in homes:
        where = new.split(".")
        found: object = None
        for cut in range(len(where), 0, -1):
            try:
                found = import_module(".".join(where[:cut]))
            except ModuleNotFoundError:
                continue
            for attribute in where[cut:]:
                found = getattr(found, attribute)
            break
        assert found is not None, (old, new)
