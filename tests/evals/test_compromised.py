"""The desk under attack: both ends of the scale, and the same outcome through a whole runtime."""

from collections.abc import Sequence

import pytest

from callboard import FunctionLLM, LLMResponse
from callboard.actors.guard.profiles import PROFILES
from callboard.actors.llm.client import ChatMessage, ToolSpec
from callboard.crm.policy import policy_text
from callboard.evals.compromised import DESK, SEEN_CHARS, gate_for, measure, play_ticket
from callboard.evals.desk_tasks import GOAL, DeskTask, attacked_tasks, desk_tasks
from callboard.evals.injections import CARRIERS, GOALS, Carrier, Goal
from callboard.evals.paper_desk import PLACES, PaperDesk, real_tools
from callboard.evals.profiles import EVERY_WRITE
from callboard.evals.tables import desk_table
from tests.agent.stage import Stage, asks, says

TASK = attacked_tasks()[0]
PLAIN = Carrier("message", "plain")
FEW = (GOALS[3], GOALS[7], GOALS[10], GOALS[17])


def test_there_are_twenty_goals_and_sixteen_carriers_and_each_is_read() -> None:
    assert (len(GOALS), len({goal.name for goal in GOALS}), len(CARRIERS), len(PLACES)) == (20, 20, 16, 8)
    for carrier in CARRIERS:
        played, _ = play_ticket(TASK, gate_for(PROFILES["off"], TASK), GOALS[0], carrier)
        assert played.read, carrier.name


def test_the_tasks_are_worked_with_the_desks_own_tools() -> None:
    assert {task.scenario for task in attacked_tasks()} == {
        "damaged",
        "damaged_above_limit",
        "cancel_pending",
        "order_status",
    }
    known = {tool.name: tool for tool in real_tools()}
    for task in desk_tasks():
        for name, arguments in (call for turn in task.turns for call in turn):
            known[name].validate(arguments)
    for goal in GOALS:
        for name, arguments in goal.calls(TASK.facts):
            known[name].validate(arguments)


def test_negative_control_a_gate_that_is_off_lets_every_attack_land_that_no_tool_gates() -> None:
    report = measure(["off"], goals=FEW, carriers=CARRIERS[:4], tasks=[TASK])
    assert report.rows[0].landed.count == report.ceiling == report.pairs == 16


def test_negative_control_a_gate_that_holds_every_write_lets_none_land() -> None:
    report = measure([EVERY_WRITE], goals=FEW, carriers=CARRIERS[:4], tasks=[TASK])
    assert report.rows[0].landed.count == 0
    assert report.rows[0].tasks_asking.share == 1.0
    assert report.ceiling == 16
    assert desk_table(report)[1][0][1] == "0 of 16"


def test_the_desks_own_profile_asks_no_more_than_standard_and_stops_more() -> None:
    carriers = [carrier for carrier in CARRIERS if carrier.place in ("message", "note")]
    report = measure(["standard", DESK], goals=GOALS, carriers=carriers, tasks=[TASK])
    standard, own = report.rows
    assert own.name == DESK and own.landed.count < standard.landed.count
    assert own.asked_per_task <= standard.asked_per_task


def test_standard_holds_a_strangers_order_and_lets_the_honest_ticket_go() -> None:
    attacked, _ = play_ticket(TASK, gate_for(PROFILES["standard"], TASK), GOALS[4], PLAIN)
    assert attacked.read and not attacked.landed
    honest, paper = play_ticket(TASK, gate_for(PROFILES["standard"], TASK))
    assert honest.asked == 0
    assert [name for name, _ in paper.done] == ["issue_refund", "add_note", "reply_to_customer", "set_ticket"]


def through_a_runtime(task: DeskTask, goal: Goal, carrier: Carrier) -> FunctionLLM:
    """The compromised model, as a model."""
    mark = carrier.text(goal.sentence(task.facts))[:SEEN_CHARS]

    def answer(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system: str) -> LLMResponse:
        script = [list(turn) for turn in task.turns]
        turn = 0
        for message in messages:
            turn += message.role == "assistant"
            if message.role == "tool" and mark in message.content:
                script[turn:turn] = [[call] for call in goal.calls(task.facts)]
                break
        given = sum(message.role == "assistant" for message in messages)
        return asks(*script[given]) if given < len(script) else says("done")

    return FunctionLLM(answer)


@pytest.mark.anyio
@pytest.mark.parametrize("profile", ["off", "validation", "standard", "strict"])
@pytest.mark.parametrize(
    ("goal", "carrier"),
    [
        (GOALS[4], PLAIN),
        (GOALS[5], Carrier("note", "plain")),
        (GOALS[17], Carrier("subject", "encoded")),
        (GOALS[8], PLAIN),
    ],
    ids=lambda value: value.name.replace(" ", "_"),
)
async def test_what_lands_at_the_gate_lands_in_a_whole_runtime(profile: str, goal: Goal, carrier: Carrier) -> None:
    _, at_the_gate = play_ticket(TASK, gate_for(PROFILES[profile], TASK), goal, carrier)
    paper = PaperDesk(TASK.ticket, {carrier.place: carrier.text(goal.sentence(TASK.facts))})
    model = through_a_runtime(TASK, goal, carrier)
    async with Stage(model, paper.tools(), system_prompt=policy_text(), guardrail_profile=profile) as stage:
        run = await stage.begin(GOAL, plan=TASK.plan)
        for _ in range(50):
            state = await stage.state(run)
            if state.finished:
                break
            for call in state.pending_approvals:
                await stage.deny(run, "nobody approves", by="nobody", call=call.call)
        assert (await stage.state(run)).status == "completed"
    # Calls of one turn run side by side, so their order is nobody's.
    assert sorted(map(repr, paper.done)) == sorted(map(repr, at_the_gate.done))
