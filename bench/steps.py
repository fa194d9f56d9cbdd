"""What a step of an agent costs: one iteration, that is one model call and one tool call, both journaled.

Model and tool do no work, so what is left is the engine. Three questions: one run alone (latency), many at once
(throughput and CPU), and whether the thousandth step of a run costs what the tenth does.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import anyio
import msgspec

from callboard.actors.agent.budget import Budget
from callboard.actors.agent.runtime import Runtime
from callboard.actors.agent.tool import tool
from callboard.actors.llm.client import ChatMessage, LLMResponse, ToolCall, ToolSpec
from callboard.actors.llm.scripted import FunctionLLM
from callboard.bench.machine import Machine, facts
from callboard.bench.meter import Cost, Latency, Meter, cost, quantile
from callboard.bench.server import fresh_database, server
from callboard.persistence.postgres import PostgresStore

WORDS = "x" * 200
"""What the model says with each call."""
RESULT = "y" * 50
WINDOW = 20
"""Steps on both sides of a place in a long run that are looked at together."""
UNLIMITED = Budget(max_iterations=None, max_tokens=None)


class Sizes(msgspec.Struct, frozen=True):
    """How much is done."""

    steps: int = 10
    """Of each run."""
    runs: int = 1_000
    """With many at once."""
    runs_alone: int = 30
    at_once: int = 50
    growth_steps: int = 1_000
    """Of the long run; 0: none."""


class Phase(msgspec.Struct, frozen=True):
    """Many runs, `at_once` of them at a time."""

    at_once: int
    runs: int
    step: Cost
    """A run's start and end are in it, spread over its steps."""
    cpu_ms_per_step: float | None
    """Client and server."""
    between_model_calls: Latency


class Place(msgspec.Struct, frozen=True):
    """Steps around a place in a long run."""

    step: int
    client_cpu_us: float
    """Median of one step."""
    latency: Latency


class Growth(msgspec.Struct, frozen=True):
    """One long run."""

    steps: int
    places: list[Place]
    client_cpu_ratio: float
    """Of the last place to the first: 1 where a step costs the same at any length."""
    server_cpu_us_first_half: float | None
    server_cpu_us_second_half: float | None
    """Server's CPU a step, in the two halves of the run."""


class StepsReport(msgspec.Struct, frozen=True):
    """What `python -m bench steps --json` prints."""

    bench: str
    machine: Machine
    phases: list[Phase]
    growth: Growth | None


@tool
async def noop(q: str) -> dict[str, object]:
    """Does nothing."""
    return {"ok": True, "result": RESULT}


@dataclass
class Model:
    """Asks for `noop` in each of `steps` turns, then ends the run; notes when it was asked what."""

    steps: int
    meter: Meter | None = None
    """Given: the server's CPU is noted in the middle and at the ends of a run."""
    calls: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    """By goal: time, and with a meter the CPU of this process, at each call."""
    server_cpu: list[float | None] = field(default_factory=list)

    def answer(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system_prompt: str) -> LLMResponse:
        """The model."""
        calls = self.calls.setdefault(messages[0].content, [])
        calls.append((time.perf_counter(), 0.0 if self.meter is None else time.process_time()))
        if self.meter is not None and len(calls) - 1 in (0, self.steps // 2, self.steps):
            self.server_cpu.append(self.meter.server_cpu())
        if len(calls) > self.steps:
            return LLMResponse(content="done")
        return LLMResponse(content=WORDS, tool_calls=(ToolCall(f"c{len(calls)}", "noop", {"q": "abc"}),))

    def step_seconds(self) -> list[float]:
        """Time from each model call to the next one of its run."""
        return [b[0] - a[0] for calls in self.calls.values() for a, b in pairwise(calls)]


def runtime(dsn: str, model: Model) -> Runtime:
    """A node with that model, to be entered."""
    return Runtime(PostgresStore(dsn), FunctionLLM(model.answer), [noop], budget=UNLIMITED)


async def many(runtime: Runtime, runs: int, at_once: int, text: str = "") -> None:
    """Do so many runs, `at_once` of them at a time; `text` is a part of each goal."""
    goals = iter(range(runs))

    async def work() -> None:
        for goal in goals:
            run = await runtime.start(f"goal {goal}{text}")
            assert run.state.status == "completed", run

    async with anyio.create_task_group() as group:
        for _ in range(at_once):
            group.start_soon(work)


async def phase(server_dsn: str, *, steps: int, runs: int, at_once: int) -> Phase:
    """Runs of so many `steps`, `at_once` of them at a time, on a database of their own."""
    async with fresh_database(server_dsn) as dsn, Meter.of(dsn, server_dsn) as meter:
        model = Model(steps)
        async with runtime(dsn, model) as here:
            await many(here, max(1, min(at_once, runs)), at_once)  # plans, pages and code are warm
        model.calls.clear()
        idle = await meter.settled()
        async with runtime(dsn, model) as here:
            before = await meter.read()
            await many(here, runs, at_once)
            after = await meter.read()
        after = msgspec.structs.replace(after, transactions=(await meter.settled()).transactions)
    step = cost(msgspec.structs.replace(before, transactions=idle.transactions), after, runs * steps)
    both = None if step.server_cpu_us is None else round((step.client_cpu_us + step.server_cpu_us) / 1e3, 3)
    return Phase(at_once, runs, step, both, Latency.of(model.step_seconds()))


async def _growth(server_dsn: str, steps: int) -> Growth:
    async with fresh_database(server_dsn) as dsn, Meter.of(dsn, server_dsn) as meter:
        model = Model(steps, meter)
        async with runtime(dsn, model) as here:
            run = await here.start("a long one")
            assert run.state.status == "completed" and run.state.tool_calls == steps, run.state
    [calls] = model.calls.values()
    places = [_place(calls, step) for step in (10, 100, 1_000, 10_000) if step <= steps]
    first, middle, last = [*model.server_cpu, None, None, None][:3]
    half = steps // 2
    return Growth(
        steps,
        places,
        round(places[-1].client_cpu_us / places[0].client_cpu_us, 2) if places else 1.0,
        None if first is None or middle is None else round(1e6 * (middle - first) / max(1, half), 1),
        None if middle is None or last is None else round(1e6 * (last - middle) / (steps - half), 1),
    )


def _place(calls: list[tuple[float, float]], step: int) -> Place:
    around = calls[max(1, step - WINDOW) : step + WINDOW + 1]  # the first step pays for all that is new
    pairs = list(pairwise(around))
    cpu = quantile([b[1] - a[1] for a, b in pairs], 0.5)
    return Place(step, round(1e6 * cpu, 1), Latency.of([b[0] - a[0] for a, b in pairs]))


async def measure(server_dsn: str, sizes: Sizes) -> StepsReport:
    """Run it all on a server."""
    machine = await facts(server_dsn)
    phases = [
        await phase(server_dsn, steps=sizes.steps, runs=sizes.runs_alone, at_once=1),
        await phase(server_dsn, steps=sizes.steps, runs=sizes.runs, at_once=sizes.at_once),
    ]
    growth = await _growth(server_dsn, sizes.growth_steps) if sizes.growth_steps else None
    return StepsReport("steps", machine, phases, growth)


def run(dsn: str, sizes: Sizes) -> StepsReport:
    """Run it all on the server of `dsn`, or on one of its own."""
    with server(dsn) as server_dsn:
        return anyio.run(measure, server_dsn, sizes)
