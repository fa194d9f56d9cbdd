"""Offboarding an employee: one step fails twice and is tried again, one needs a person, none happens twice.

`python docs/examples/offboarding.py` uses DATABASE_URL, or an embedded PostgreSQL that starts by itself.
"""

from collections import Counter

import anyio

from callboard import LLMResponse, Runtime, ScriptedLLM, Transient, tool
from callboard.service.settings import read_settings
from callboard.service.wiring import open_store

done: Counter[str] = Counter()
tries: Counter[str] = Counter()


@tool(side_effect=True)
async def revoke_access(employee: str, idempotency_key: str) -> str:
    """Revoke all sessions and keys of an employee."""
    done["revoked"] += 1
    return f"{employee} has no access any more"


@tool(side_effect=True)
async def transfer_files(employee: str, to: str, idempotency_key: str) -> str:
    """Hand an employee's files over."""
    tries[idempotency_key] += 1
    if tries[idempotency_key] < 3:
        raise Transient("the file server is busy", after_seconds=0.1)
    done["transferred"] += 1
    return f"files of {employee} belong to {to}"


@tool(side_effect=True, requires_approval="deleting an account cannot be undone")
async def delete_account(employee: str, idempotency_key: str) -> str:
    """Delete an employee's account."""
    done["deleted"] += 1
    return f"account of {employee} deleted"


def call(name: str, **arguments: str) -> dict[str, object]:
    return {"id": name, "name": name, "arguments": arguments}


llm = ScriptedLLM(
    [
        LLMResponse(
            tool_calls=[
                call("delete_account", employee="sam"),  # held; the two below do not wait for it
                call("revoke_access", employee="sam"),
                call("transfer_files", employee="sam", to="dana"),
            ]
        ),
        LLMResponse("Sam is offboarded."),
    ]
)


async def main() -> None:
    async with open_store(read_settings(), create=True) as store:
        tools = [revoke_access, transfer_files, delete_account]
        async with Runtime(store=store, llm=llm, tools=tools, name="offboarding") as runtime:
            run = await runtime.start(goal="Offboard sam; files go to dana.")
            waits = run.state.pending_approval
            assert waits is not None
            print(run.state.status, "-", waits.tool, waits.arguments, "-", waits.reason)
            print("meanwhile:", dict(done))
            await runtime.approve(run.id, "dana@example.com", digest=waits.digest)
            state = await runtime.resume(run.id)
            print(state.status, "-", state.final_answer)
            print("in the end:", dict(done))


anyio.run(main)
