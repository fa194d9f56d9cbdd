"""`Idempotency-Key` under /v1: done once, answered the same."""

from typing import Any

import anyio
import pytest

from callboard.mailbox.errors import MailboxFull, StoreUnavailable
from callboard.persistence.operating import KeptAnswer
from tests.http.desk import Caller, Desk, problem

pytestmark = pytest.mark.anyio
GOAL = {"goal": "hi"}


async def test_a_change_without_a_key_is_refused_before_anything_is_done(ann: Caller) -> None:
    problem(await ann.post("/v1/runs", GOAL, key=""), 400, "idempotency-key-missing")
    problem(await ann.post("/v1/runs", GOAL, key="k" * 201), 422, "usage")
    assert (await ann.get("/v1/runs")).json()["items"] == []


async def test_the_same_request_again_is_one_run_and_the_stored_answer(desk: Desk, ann: Caller) -> None:
    first = await ann.post("/v1/runs", GOAL, key="k")
    await desk.runtime.resume(first.json()["run_id"])  # the run goes on; the answer is that of then
    again = await ann.post("/v1/runs", GOAL, key="k")
    assert (again.status_code, again.content) == (first.status_code, first.content)
    assert again.headers["idempotency-replayed"] == "true"
    assert "idempotency-replayed" not in first.headers
    assert len((await ann.get("/v1/runs")).json()["items"]) == 1
    assert len(await desk.store.audit(action="submit")) == 1


async def test_the_same_key_with_another_body_is_refused_and_belongs_to_one_principal(desk: Desk, ann: Caller) -> None:
    await ann.post("/v1/runs", GOAL, key="k")
    problem(await ann.post("/v1/runs", {"goal": "ho"}, key="k"), 422, "idempotency-key-reused")
    async with desk.caller(await desk.token("bob")) as bob:
        assert (await bob.post("/v1/runs", {"goal": "ho"}, key="k")).status_code == 201
    assert len((await ann.get("/v1/runs")).json()["items"]) == 2


async def test_a_decision_that_is_sent_again_is_the_same_decision_and_no_409(real: Desk) -> None:
    async with real.caller(await real.token("ann")) as ann:
        run_id = await real.worked("close 5")
        one = await ann.approval(run_id)
        url = f"/v1/approvals/{one['id']}/decision"
        body = {"decision": "approve", "args_digest": one["digest"]}
        answers: list[Any] = []

        async def decide() -> None:
            answers.append(await ann.post(url, body, key="once"))

        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(decide)
        again = await ann.post(url, body, key="once")
        assert again.status_code == 200 and again.headers["idempotency-replayed"] == "true"
        for answer in answers:
            # While the first is under way the others are told so; nobody is told that somebody else decided.
            assert answer.status_code == 200 or problem(answer, 409, "still-answering")["retry_after"]
        other = problem(await ann.post(url, body, key="another"), 409, "already-decided")
        assert other["decided_by"] == "ann"


async def test_a_refusal_is_kept_too(desk: Desk, ann: Caller) -> None:
    run_id = await desk.worked("close 5")
    one = await ann.approval(run_id)
    url, body = f"/v1/approvals/{one['id']}/decision", {"decision": "approve", "args_digest": "0" * 64}
    first = await ann.post(url, body, key="k")
    again = await ann.post(url, body, key="k")
    problem(again, 412, "digest-differs")
    assert again.content == first.content and again.headers["idempotency-replayed"] == "true"


async def test_one_that_is_still_answered_is_said_to_be(desk: Desk, ann: Caller) -> None:
    body = b'{"goal": "hi"}'
    from callboard.service.operations.answers import Answers

    assert await Answers(desk.store).begin("ann", "k", b"\0".join((b"POST", b"/v1/runs", body))) is None
    headers = {"Idempotency-Key": "k", "Content-Type": "application/json"}
    answer = await ann.http.post("/v1/runs", content=body, headers=headers)
    assert problem(answer, 409, "still-answering")["retry_after"] == 1
    assert answer.headers["retry-after"] == "1"
    await desk.store.keep_answer("ann", "k", KeptAnswer(201, "{}"))
    assert (await ann.http.post("/v1/runs", content=body, headers=headers)).json() == {}


@pytest.mark.parametrize(
    ("error", "status", "name"),
    [
        (StoreUnavailable("gone"), 503, "database-unavailable"),
        (MailboxFull("full"), 429, "mailbox-full"),
        (ZeroDivisionError("oh"), 500, "bug"),
        (TimeoutError(), 503, "timed-out"),
    ],
)
async def test_what_may_succeed_later_is_not_kept(
    desk: Desk, ann: Caller, *, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int, name: str
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(desk.store, "send", fail)
        told = problem(await ann.post("/v1/runs", GOAL, key="k"), status, name)
    assert "oh" not in told["detail"]  # what a bug says stays in the log
    made = await ann.post("/v1/runs", GOAL, key="k")
    assert made.status_code == 201 and "idempotency-replayed" not in made.headers


async def test_an_answer_that_cannot_be_kept_is_given_all_the_same(
    desk: Desk, ann: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise StoreUnavailable("gone")

    with monkeypatch.context() as patch:
        patch.setattr(desk.store, "keep_answer", fail)
        assert (await ann.post("/v1/runs", GOAL, key="k")).status_code == 201
    problem(await ann.post("/v1/runs", GOAL, key="k"), 409, "still-answering")


async def test_work_that_takes_too_long_is_left_and_said_so(
    desk: Desk, ann: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(*_: object, **__: object) -> None:
        await anyio.sleep_forever()

    monkeypatch.setattr("callboard.service.http.once.WORK_SECONDS", 0.01)
    monkeypatch.setattr(desk.store, "send", hang)
    problem(await ann.post("/v1/runs", GOAL, key="k"), 503, "timed-out")


async def test_a_fork_whose_process_died_before_it_could_answer_is_the_same_fork_when_sent_again(
    desk: Desk, ann: Caller
) -> None:
    run_id = await desk.worked("close 5")
    first = (await ann.post(f"/v1/runs/{run_id}/fork", {"at": 1}, key="k")).json()
    desk.store._answers.clear()  # type: ignore[attr-defined]  # as if it had not been kept
    again = (await ann.post(f"/v1/runs/{run_id}/fork", {"at": 1}, key="k")).json()
    assert again == first
