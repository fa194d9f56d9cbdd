"""The retail tasks with a real model: how often it does what the benchmark wants, and how reliably.

Nobody plays the customer: what the benchmark tells whoever would is the run's goal, so the model knows all at once what
a customer would say bit by bit. Figures are therefore not those of the benchmark's own set-up, where a second model is
the customer, and are to be compared with each other only. The desk is in PostgreSQL; every question of the gate
(profile `standard`) is answered with yes. A run that fails, or takes too long, has the reward 0.
"""

from collections.abc import Callable
from typing import Final

import anyio
import msgspec

from callboard.actors.agent.budget import Budget
from callboard.actors.agent.runtime import Runtime
from callboard.actors.agent.state import RunState
from callboard.actors.llm.client import LLMClient
from callboard.evals.fresh import fresh_databases
from callboard.evals.rates import Rate, rate
from callboard.evals.retail_keys import keyed_tools
from callboard.evals.retail_play import APPROVER, replayed
from callboard.evals.retail_reward import pass_hat, said_in, told
from callboard.evals.retail_sql import SCHEMA, SqlShop
from callboard.evals.retail_tasks import RetailData, RetailTask
from callboard.persistence.postgres.database import Database
from callboard.persistence.postgres.witnessed import WitnessedStore

USER: Final = "the task's text is the goal; nobody plays the customer"
PROFILE: Final = "standard"
TRIAL_SECONDS: Final = 900.0
MAX_STEPS: Final = 60
PROMPT: Final = (
    "You work at the desk of an online shop, for the customer whose wishes you are given. Find the customer by e-mail "
    "address, or by name and zip code, before anything else. Look orders and products up; never make anything up. Only "
    "pending orders can be changed or cancelled, and their items only once, so change all of them in one call; only "
    "delivered items can be returned or exchanged, an order's in one call. A reason to cancel is 'no longer needed' or "
    "'ordered by mistake'. Do what the customer wants if the tools can do it, and nothing else. Where they cannot, "
    "hand over to a person. Nobody can be asked: where the customer leaves you a choice, follow their words. "
    "Amounts are in cents; tell the customer dollars. End with what you did and every figure that was asked for."
)


class ModelTask(msgspec.Struct, frozen=True):
    """One task in all its trials."""

    task_id: str
    right_rows: int
    """Trials that left the right customers and orders."""
    rewarded: int
    """Trials in which the customer was also told what was to be told."""


class ModelReport(msgspec.Struct, frozen=True):
    """A model on the tasks."""

    model: str
    user: str
    """Who is the customer."""
    data: str
    trials: int
    rewarded: Rate
    """Of all trials of all tasks."""
    pass_hat: list[float]
    """pass^1, pass^2 and so on, up to the number of trials."""
    tasks: list[ModelTask]
    schema: str = "callboard.eval.retail-model/1"


async def model_report(
    dsn: str,
    data: RetailData,
    client: Callable[[], LLMClient],
    *,
    model: str,
    trials: int,
    advance: Callable[[], None],
    seconds: float = TRIAL_SECONDS,
) -> ModelReport:
    """Try each task so many times with a client of its own. `dsn` as for `over_postgres`.

    Raises:
        StoreError: the server refuses.
    """
    tasks: list[ModelTask] = []
    async with fresh_databases(dsn, 1) as (database,), await Database.open(database) as opened:
        await opened.execute(SCHEMA)
        for task in data.tasks:
            rows = [await _trial(database, opened, data, task, client(), f"{n}", seconds) for n in range(trials)]
            tasks.append(ModelTask(task.task_id, sum(right for right, _ in rows), sum(both for _, both in rows)))
            advance()
    counts = [one.rewarded for one in tasks]
    hats = [pass_hat(counts, trials, k) for k in range(1, trials + 1)]
    return ModelReport(model, USER, data.digest, trials, rate(sum(counts), trials * len(counts)), hats, tasks)


async def _trial(  # noqa: PLR0917 - what a trial is made of
    dsn: str, database: Database, data: RetailData, task: RetailTask, client: LLMClient, name: str, seconds: float
) -> tuple[bool, bool]:
    """Whether the rows are right in the end, and whether the trial is rewarded."""
    run = f"{task.task_id}-{name}"
    shop = SqlShop(database, run, data.records)
    await shop.open()
    runtime = Runtime(
        WitnessedStore(dsn),
        client,
        keyed_tools(shop),
        system_prompt=PROMPT,
        budget=Budget(max_iterations=MAX_STEPS, max_tokens=None, max_cost_usd=None),
        guardrail_profile=PROFILE,
        name=f"trial-{run}",
    )
    with anyio.move_on_after(seconds):
        async with runtime:
            state = await _to_the_end(runtime, task, run)
            said = said_in(await runtime.events(run))
        right = state.status == "completed" and (await shop.tables()).same_rows(
            await replayed(task.calls, data.records)
        )
        return right, right and told(task.told, said)
    return False, False


async def _to_the_end(runtime: Runtime, task: RetailTask, run: str) -> RunState:
    state = (await runtime.start(task.goal, run_id=run, requested_by="a customer")).state
    while not state.finished:
        for call in state.pending_approvals:
            await runtime.approve(run, APPROVER, call=call.call)
        state = await runtime.resume(run)
    return state
