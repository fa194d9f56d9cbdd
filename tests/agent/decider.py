"""A process that decides, for the race tests: connects, says so, waits for a line, then lets its people act at once.

`python -m tests.agent.decider DSN ACT RUN FIRST COUNT`, where ACT is approve, deny, mixed, edit-or-approve or
take-back; its people are pFIRST, pFIRST+1, … It prints one JSON object: what became of each.
"""

import json
import sys

import anyio
import anyio.to_thread

from callboard import PostgresStore
from callboard.actors.agent.runs import Runs
from callboard.actors.client import Client
from callboard.mailbox.errors import Conflict

POOL = "/agents/run"


async def act(runs: Runs, what: str, run: str, number: int) -> str:
    """What one person gets: "won", or the error."""
    who = f"p{number}"
    try:
        match what, number % 2:
            case ("approve", _) | ("mixed", 0) | ("edit-or-approve", 0):
                await runs.decide(run, "approved", who, call=1)
            case ("deny", _) | ("mixed", 1):
                await runs.decide(run, "denied", who, call=1, note="no")
            case ("edit-or-approve", 1):
                await runs.edit(run, {"amount": 1000 + number}, who, call=1)
            case ("take-back", _):
                await runs.take_back(run, who, call=1)
    except Conflict as error:
        return str(error)
    return "won"


async def main(dsn: str, what: str, run: str, first: int, count: int) -> None:
    async with PostgresStore(dsn, sessions=count) as store:
        runs = Runs(Client(store, number_seconds=60.0), POOL)
        await runs.state(run)
        outcomes: dict[str, str] = {}

        async def one(number: int) -> None:
            outcomes[f"p{number}"] = await act(runs, what, run, number)

        print("ready", flush=True)
        await anyio.to_thread.run_sync(sys.stdin.readline)
        async with anyio.create_task_group() as group:
            for number in range(first, first + count):
                group.start_soon(one, number)
    print(json.dumps(outcomes), flush=True)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
