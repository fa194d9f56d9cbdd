"""W-20 with a real process: what it may have bought when it was killed is in the journal when another one goes on."""

import signal
import sys
from decimal import Decimal
from pathlib import Path

import anyio
import pytest

from callboard import PostgresStore, Runtime, create_schema
from callboard.actors.agent.events import LLMCallCompleted, LLMCallFailed

from .test_model_errors import Dear

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).resolve().parents[2]
BUYS = """
import sys
import anyio
from callboard import PostgresStore, Runtime
from tests.agent.test_model_errors import Dear

class Telling(Dear):
    async def call(self, messages, tools, system_prompt=""):
        print("asked", flush=True)
        return await super().call(messages, tools, system_prompt)

async def main():
    await Runtime(PostgresStore(sys.argv[1]), Telling("0.30")).start("go", run_id="r1")

anyio.run(main)
"""


async def test_w20_a_call_that_was_under_way_at_kill_9_is_booked_once_by_the_next_process(dsn: str) -> None:
    await create_schema(dsn)
    with anyio.fail_after(200):
        async with await anyio.open_process([sys.executable, "-c", BUYS, dsn], cwd=ROOT) as buyer:
            assert buyer.stdout is not None
            assert (await buyer.stdout.receive()).startswith(b"asked")
            buyer.send_signal(signal.SIGKILL)
            await buyer.wait()
        runtime = Runtime(PostgresStore(dsn), Dear("0.30", hangs=0))
        state = await runtime.resume("r1")
    assert (state.final_answer, state.total_cost_usd) == ("ok", Decimal("0.31"))
    events = [row.event for row in await runtime.events("r1")]
    assert [event.lost for event in events if isinstance(event, LLMCallFailed)] == [1]
    assert [event.recovered for event in events if isinstance(event, LLMCallCompleted)] == [True]
    assert (await runtime.verify("r1")).ok
