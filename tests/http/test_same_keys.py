"""What two principals, two processes and two moments make of one `Idempotency-Key`."""

from collections import Counter

import anyio
import httpx
import pytest

from callboard.actors.agent.messages import StartRun
from callboard.mailbox.errors import Conflict, UsageError
from callboard.persistence.rows import Decision
from callboard.service.http.approval_shapes import Amount, amounts_of
from callboard.service.operations.principal import terminal_principal
from callboard.service.operations.requests import start_run
from callboard.service.operations.runs import Operations
from callboard.service.operations.views import approval_view
from tests.http.desk import POOL, Desk, problem

pytestmark = pytest.mark.anyio


def forget_answers(desk: Desk) -> None:
    """As if the process had died between doing and keeping, a minute ago."""
    desk.store._answers.clear()  # type: ignore[attr-defined]


async def test_two_principals_with_one_client_id_get_two_runs_and_one_gets_the_same_again(desk: Desk) -> None:
    start = StartRun("same")
    ann, bob = (Operations(desk.store, terminal_principal(name)) for name in ("ann", "bob"))
    first = await start_run(ann, POOL, start, client_id="k")
    assert await start_run(ann, POOL, start, client_id="k") == first
    assert await start_run(bob, POOL, start, client_id="k") != first
    assert await start_run(ann, "/other/run", start, client_id="k") != first
    with pytest.raises(Conflict):
        await start_run(ann, POOL, StartRun("another"), client_id="k")


async def test_a_text_whose_answer_was_lost_is_said_once_when_it_is_sent_again(desk: Desk) -> None:
    run_id = await desk.worked("close 5")
    address = f"{POOL}:{run_id}"
    async with desk.caller(await desk.token("ann")) as ann, desk.caller(await desk.token("bob")) as bob:
        url = f"/v1/runs/{run_id}/tell"
        for _ in range(2):
            assert (await ann.post(url, {"text": "hurry"}, key="k")).status_code == 202
            forget_answers(desk)
        assert len(await desk.store.peek(address, limit=10)) == 1
        assert len(await desk.store.audit(action="tell")) == 1
        problem(await ann.post(url, {"text": "wait"}, key="k"), 409, "conflict")  # and another text is not swallowed
        assert (await bob.post(url, {"text": "hurry"}, key="k")).status_code == 202
        assert (await ann.post(url, {"text": "hurry"}, key="other")).status_code == 202
    assert len(await desk.store.peek(address, limit=10)) == 3


async def test_a_run_whose_answer_was_lost_is_the_same_run_when_it_is_sent_again(desk: Desk) -> None:
    async with desk.caller(await desk.token("ann")) as ann:
        first = (await ann.post("/v1/runs", {"goal": "g"}, key="k")).json()["run_id"]
        forget_answers(desk)
        assert (await ann.post("/v1/runs", {"goal": "g"}, key="k")).json()["run_id"] == first
    assert len(await desk.store.audit(action="submit")) == 1


async def test_one_key_twenty_times_at_once_is_one_run(real: Desk) -> None:
    answers: list[httpx.Response] = []
    async with real.caller(await real.token("ann")) as ann:

        async def ask() -> None:
            answers.append(await ann.post("/v1/runs", {"goal": "g"}, key="k"))

        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(ask)
        made = {one.json()["run_id"] for one in answers if one.status_code == 201}
        assert len(made) == 1
        for one in answers:
            assert one.status_code == 201 or problem(one, 409, "still-answering")
        assert [one["run_id"] for one in (await ann.get("/v1/runs")).json()["items"]] == list(made)


async def test_the_same_key_for_what_is_written_otherwise_is_another_request(desk: Desk) -> None:
    async with desk.caller(await desk.token("ann")) as ann:
        headers = {"Idempotency-Key": "k", "Content-Type": "application/json"}
        first = await ann.http.post("/v1/runs", content=b'{"goal": "g", "model": "m"}', headers=headers)
        assert first.status_code == 201
        for body in (b'{"model": "m", "goal": "g"}', b'{"goal":"g","model":"m"}'):
            answer = await ann.http.post("/v1/runs", content=body, headers=headers)
            problem(answer, 422, "idempotency-key-reused")


async def test_twenty_decisions_of_three_people_at_once_are_one(real: Desk) -> None:
    async with (
        real.caller(await real.token("ann")) as ann,
        real.caller(await real.token("bob")) as bob,
        real.caller(await real.token("cat")) as cat,
    ):
        one = await ann.approval(await real.worked("close 5"))
        answers: list[httpx.Response] = []

        async def decide(number: int) -> None:
            who = (ann, bob, cat)[number % 3]
            answers.append(await who.decide(one, ("approve", "deny")[number % 2]))

        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(decide, number)
        assert Counter(answer.status_code for answer in answers) == {200: 1, 409: 19}
        (won,) = [answer.json()["decided_by"] for answer in answers if answer.status_code == 200]
        lost = [problem(answer, 409, "already-decided") for answer in answers if answer.status_code == 409]
        assert {told["decided_by"] for told in lost} == {won}
        assert len(await real.store.audit(object=one["id"])) == 1


async def test_two_tokens_of_one_person_are_one_of_the_two_who_have_to_approve(real: Desk) -> None:
    async with (
        real.caller(await real.token("ann")) as ann,
        real.caller(await real.token("ann-2", principal="ann")) as again,
    ):
        one = await ann.approval(await real.worked("close 100"))
        answers: list[int] = []

        async def approve(number: int) -> None:
            answers.append((await (ann, again)[number % 2].decide(one)).status_code)

        async with anyio.create_task_group() as group:
            for number in range(10):
                group.start_soon(approve, number)
        assert Counter(answers) == {200: 1, 409: 9}
        found = (await ann.get(f"/v1/approvals/{one['id']}")).json()
        assert (found["status"], found["missing"], [sign["by"] for sign in found["approved_by"]]) == (
            "pending",
            1,
            ["ann"],
        )


async def test_two_sums_of_one_value_in_two_currencies_are_repeated_in_both() -> None:
    arguments = '{"refund":{"amount":"480.00","currency":"EUR"},"fee":{"amount":480,"currency":"USD"}}'
    row = Decision("r.1", f"{POOL}:r", "1", 7, "/agents/approvals", "approval", "pay", arguments, "0" * 64, "")
    view, euros, dollars = approval_view(row, "r"), Amount("480.00", "EUR"), Amount("480", "USD")
    assert amounts_of([dollars, euros], view) == ("480", "480.00")
    with pytest.raises(UsageError):
        amounts_of([euros, euros], view)
