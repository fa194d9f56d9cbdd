"""Whatever people and models write into a held call, its run goes on: what is recorded about it is bounded."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from callboard import AgentSpec, LLMResponse, tool
from callboard.actors.agent.approval_events import Change
from callboard.actors.agent.question import MAX_CUT_CHARS, MAX_SOURCES, changes, said_by
from callboard.actors.llm.client import ChatMessage
from callboard.mailbox.message import MAX_BODY_BYTES, encode

from .stage import Stage, asks, results, says, script

pytestmark = pytest.mark.anyio

DONE: list[str] = []
LONG = "k" * 50_000


@tool(side_effect=True, requires_approval=True)
async def put(data: dict[str, Any], to: str = "x", *, idempotency_key: str) -> str:
    """Put."""
    DONE.append(idempotency_key)
    return "ok"


EDITS: dict[str, list[dict[str, Any]]] = {
    "two long texts": [{"x": "a" * 400_000}, {"x": "b" * 400_000}],
    "many values under a long key": [{LONG: {str(n): n for n in range(300)}}, {LONG: {str(n): -n for n in range(300)}}],
    "as large as a message may be": [{"x": "b" * 1_046_000}],
    "characters that take six bytes": [{"x": "\x00" * 80_000}, {"x": "\x01" * 80_000}],
    "half characters": [{"x": "\ud800", "\udc00": 1}],
    "other values each time": [{f"{n}.{m}": m for m in range(200)} for n in range(4)],
}


@pytest.mark.parametrize("profile", ["validation", "strict"])
@pytest.mark.parametrize("name", EDITS)
async def test_a_run_survives_every_edit_and_makes_the_call_that_was_approved(name: str, profile: str) -> None:
    DONE.clear()
    async with Stage(script(asks(("put", {"data": {"a": 1}})), says("ok")), [put]) as stage:
        run = await stage.begin(guardrail_profile=profile)
        for data in EDITS[name]:
            await stage.runs.edit(run, {"data": data}, "ann" * 400)
            await stage.settle()
            assert (await stage.state(run)).status == "awaiting_approval"
            row = (await stage.decisions(run))[-1]
            assert row.status == "pending"
            assert len(row.diff) + len(row.provenance) + len(row.checks) + len(row.reason) < MAX_BODY_BYTES
        await stage.approve(run)
        assert (await stage.state(run)).status == "completed" and len(DONE) == 1
        for event in await stage.events(run):
            assert len(encode(event)) <= MAX_BODY_BYTES


@pytest.mark.parametrize("profile", ["validation", "strict"])
async def test_an_answer_whose_keys_are_very_long_is_taken_all_the_same(profile: str) -> None:
    wanted: list[tuple[str, dict[str, Any]]] = [
        ("put", {"data": {LONG: {str(n): f"evil {n}" for n in range(190)}}}),
        ("put", {"data": {"a": "evil"}}),
    ]
    async with Stage(script(asks(*wanted), says("ok")), [put]) as stage:
        run = await stage.begin(guardrail_profile=profile)
        first, _ = await stage.decisions(run)
        assert (await stage.state(run)).status == "awaiting_approval"
        assert len(first.reason) <= 2_000 and len(first.provenance) < 100_000
        await stage.deny(run, "no", call=1)
        await stage.deny(run, "\ud800\x00" * 500_000, call=2)
        assert (await stage.state(run)).status == "completed"


async def test_the_model_is_told_of_all_edits_of_a_call_and_not_of_the_last_one_only() -> None:
    llm = script(asks(("put", {"data": {"a": 1}})), says("ok"))
    async with Stage(llm, [put]) as stage:
        run = await stage.begin()
        for arguments in ({"data": {"a": 2}}, {"data": {"a": 2}, "to": "bob"}):
            await stage.runs.edit(run, arguments, "ann")
            await stage.settle()
        await stage.approve(run)
        assert '{"data.a":2,"to":"bob"}' in results(llm.last_messages)[0]


def test_a_diff_tells_small_values_in_whole_and_of_very_large_ones_the_beginning() -> None:
    small, large = changes({"a": 1, "b": "x"}, {"a": 2, "b": "y" * 300_000})
    assert small == Change("a", 1, 2)
    assert large.before == "x" and len(large.after) < MAX_CUT_CHARS + 50 and "300,002 characters" in large.after
    one, two = {LONG: {str(n): n for n in range(300)}}, {LONG: {str(n): -n for n in range(300)}}
    assert len(msgspec.json.encode(changes(one, two))) < 200_000


def test_where_more_values_come_from_than_are_kept_is_unread() -> None:
    diff = [Change(str(n), 0, 1) for n in range(MAX_SOURCES + 1)]
    assert [(one.source, one.trust) for one in said_by("ann", diff, [])] == [("unread", "untrusted")]
    assert {one.source for one in said_by("ann", diff[1:], [])} == {"said"}


async def test_an_agent_that_cannot_be_begun_as_prompt_and_goal_are_too_long_is_an_error_for_the_model() -> None:
    expert = AgentSpec("expert", "Knows.", "p" * 900_000, llm=script(says("42")))
    asked = asks(("expert", {"goal": "g" * 190_000}))
    async with Stage(script(asked, lambda messages: says(messages[-1].content[:100])), agents=[expert]) as stage:
        run = await stage.begin()
        assert "bytes are allowed" in ((await stage.state(run)).final_answer or "")


@tool(side_effect=True, requires_approval=True)
async def pay(amount: int) -> str:
    """Pay."""
    return "paid"


@pytest.mark.parametrize("number", [1 << 64, -(1 << 63) - 1, 10**400, 1e300])
async def test_a_number_that_no_snapshot_can_hold_is_an_error_and_stops_no_run(number: float) -> None:
    told: list[str] = []

    def last(messages: Sequence[ChatMessage]) -> LLMResponse:
        told.extend(results(messages))
        return says("ok")

    model = script(asks(("put", {"data": {"a": number}}), ("pay", {"amount": number})), last)
    async with Stage(model, [put, pay]) as stage:
        run = await stage.begin()
        await stage.advance(5)
        while (await stage.state(run)).pending_approvals:
            await stage.approve(run)
        assert (await stage.state(run)).status == "completed"
        assert "invalid arguments" in told[1]


@pytest.mark.parametrize("number", [1 << 64, 10**400])
async def test_an_edit_to_a_number_that_no_snapshot_can_hold_is_refused_with_the_reason(number: int) -> None:
    async with Stage(script(asks(("put", {"data": {"a": 1}})), says("ok")), [put]) as stage:
        run = await stage.begin()
        await stage.runs.edit(run, {"data": {"a": number}}, "ann")
        await stage.settle()
        row = (await stage.decisions(run))[-1]
        assert row.status == "pending" and "at most 64 can be kept" in row.reason
        await stage.deny(run)
        assert (await stage.state(run)).status == "completed"
