"""Killed between an effect and its record, and run again: one refund exists, not two.

    python docs/examples/crash_and_resume.py        # kills itself (SIGKILL) right after the refund was paid
    python docs/examples/crash_and_resume.py        # goes on where it stopped

Uses DATABASE_URL, or an embedded PostgreSQL that starts by itself. The "payment provider" is a folder with one file for
each idempotency key: what a real provider does with the key, in the smallest way.
"""

import os
import signal
import sys
import tempfile
from pathlib import Path

import anyio

from callboard import LLMResponse, Runtime, ScriptedLLM, tool
from callboard.service.settings import read_settings
from callboard.service.wiring import open_store

RUN = "refund-of-a-8891"
PROVIDER = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.gettempdir()) / "callboard-crash-and-resume"


@tool(side_effect=True)
async def issue_refund(order_id: str, amount: int, idempotency_key: str) -> dict[str, object]:
    """Refund an order."""
    paid = PROVIDER / idempotency_key
    if paid.exists():
        return {"refund_id": "RF-55012", "dedup_hit": True}
    paid.write_text(f"{order_id} {amount}")
    print("the refund is paid; the process dies before it can say so", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


llm = ScriptedLLM(
    [
        LLMResponse(tool_calls=[{"name": "issue_refund", "arguments": {"order_id": "A-8891", "amount": 64}}]),
        LLMResponse("Refund RF-55012 processed."),
    ]
)
after_a_crash = ScriptedLLM([LLMResponse("Refund RF-55012 processed.")])


async def main() -> None:
    PROVIDER.mkdir(exist_ok=True)
    first = not any(PROVIDER.iterdir())
    async with open_store(read_settings(), create=True) as store:
        runtime = Runtime(store=store, llm=llm if first else after_a_crash, tools=[issue_refund], name="crash")
        if first:
            await runtime.create(goal="Refund order A-8891, it arrived damaged.", run_id=RUN)
        state = await runtime.resume(RUN)
        print(state.status, "-", state.final_answer)
        print("refunds at the provider:", len(list(PROVIDER.iterdir())))
        for recorded in await runtime.events(RUN):
            mark = " [recovered]" if getattr(recorded.event, "recovered", False) else ""
            print(f"{recorded.seq:3}  node {recorded.node}  {type(recorded.event).__name__}{mark}")


anyio.run(main)
