"""Requests that were not written to be understood: what is refused is refused in words, and nothing of it is done."""

import base64
import json
from typing import Any

import pytest

from tests.http.desk import Caller, Desk, problem

pytestmark = pytest.mark.anyio
NUL = "\0"

LOOKS = [
    ("/v1/audit", "who"), ("/v1/audit", "object"), ("/v1/audit", "action"), ("/v1/actors", "prefix"),
    ("/v1/actors", "kind"), ("/v1/mailboxes", "prefix"), ("/v1/messages", "text"), ("/v1/messages", "type"),
    ("/v1/messages", "recipient"), ("/v1/messages", "sender"), ("/v1/dead-letters", "recipient"), ("/runs", "after"),
]  # fmt: skip


async def test_a_nul_in_a_query_is_no_failure_of_the_database(real: Desk) -> None:
    async with real.caller(await real.token("ann")) as ann:
        for path, name in LOOKS:
            told = problem(await ann.get(path, **{name: f"a{NUL}b"}), 422, "usage")
            assert name in told["detail"]


@pytest.mark.parametrize("kind", ["audit", "dead-letters", "events", "runs", "actors", "approvals"])
async def test_a_cursor_that_somebody_made_up_is_refused_or_leads_somewhere(real: Desk, kind: str) -> None:
    run_id = await real.worked("close 5")
    path = f"/v1/runs/{run_id}/events" if kind == "events" else f"/v1/{kind}"
    places: list[Any] = [
        [2**70], [2**63], [-1], [NUL], ["\ud800"], [1e300, "x"], [-1.0, NUL], [None], [[]], [True], [], ["a", "b", "c"],
    ]  # fmt: skip
    texts = [json.dumps([kind, *place]).encode() for place in places]
    texts += [b"[" * 1_400, b"{}", b"[1]", b"\xff", json.dumps(["other", 1]).encode(), b'["%s",1e999]' % kind.encode()]
    async with real.caller(await real.token("ann")) as ann:
        for text in texts:
            cursor = base64.urlsafe_b64encode(text).decode().rstrip("=")
            answer = await ann.get(path, cursor=cursor)
            assert answer.status_code in (200, 422), (text, answer.text)
        problem(await ann.get(path, cursor="!" * 40), 422, "usage")
        problem(await ann.get(path, cursor="A" * 2_001), 422, "usage")


async def test_what_people_say_may_hold_anything_and_the_trail_keeps_it_as_it_can(real: Desk) -> None:
    said = f"a{NUL}\u202eb\x1b[31m"
    async with real.caller(await real.token("ann")) as ann:
        run_id = await real.worked("close 200")
        address = f"/agents/run:{run_id}"
        one = await ann.approval(run_id)
        done = await ann.decide(one, reason=said)
        assert (done.status_code, done.json()["note"]) == (200, said.replace(NUL, ""))
        url = f"/v1/approvals/{one['id']}"
        assert (await ann.post(f"{url}/take-back", {"note": said})).status_code == 200
        assert (await ann.post(f"/v1/runs/{run_id}/fork", {"at": 1, "say": said, "note": said})).status_code == 201
        assert (await ann.post(f"/v1/runs/{run_id}/tell", {"text": said})).status_code == 202
        assert (await ann.post("/v1/actor/pause", {"address": address, "reason": said})).status_code == 202
        edit = {"args_digest": one["digest"], "set": {"ticket": 6}, "note": said, "wait_seconds": 0}
        assert (await ann.post(f"{url}/edit", edit)).status_code == 200
        assert (await ann.post(f"/v1/runs/{run_id}/cancel", {"reason": said})).status_code == 202
    rows = await real.store.audit(who="ann")
    assert len([row for row in rows if "b\x1b[31m" in row.note]) == 7
    assert NUL not in repr(rows)


@pytest.mark.parametrize(
    "value", ["1e2", "\uff11\uff10\uff10", "NaN", "Infinity", "1_000", " 100", "+100", "0x64", "100,00", "", "1" * 41]
)
async def test_a_sum_is_written_in_one_way_only(desk: Desk, ann: Caller, value: str) -> None:
    run_id = await desk.worked("refund 100")
    one = await ann.approval(run_id)
    answer = await ann.decide(one, amount={"value": value, "currency": "EUR"})
    problem(answer, 422, "usage")
    assert (await ann.approval(run_id))["status"] == "pending"


@pytest.mark.parametrize(
    ("held", "typed"),
    [("100", "100.000"), ("100.00", "100"), ("19.990000000000002", "19.990000000000002"), ("1e2", "100"), ("-0", "0")],
)
async def test_a_sum_that_is_the_same_number_is_the_same_sum(desk: Desk, ann: Caller, held: str, typed: str) -> None:
    one = await ann.approval(await desk.worked(f"refund {held}"))
    assert (await ann.decide(one, amount={"value": typed, "currency": "EUR"})).status_code == 200


async def test_a_hostile_body_is_refused_with_words_and_is_no_run(desk: Desk, ann: Caller) -> None:
    bodies = [
        b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
        b"[" * 10_000 + b"]" * 10_000,
        b'{"goal": "a", "budget": {"iterations": 99999999999999999999999}}',
        b'{"goal": "a", "budget": {"duration_seconds": 1e400}}',
        b'{"goal": NaN}',
        b'{"goal": "\\ud800"}',
        b'{"goal": "\xed\xa0\x80"}',
        b'\xef\xbb\xbf{"goal": "a"}',
        '{"goal": "a"}'.encode("utf-16"),
        b"\x1f\x8b" + b"0" * 100,
        b'{"goal": "a"}{"goal": "b"}',
        b"",
    ]
    json_ = {"Content-Type": "application/json"}
    for number, body in enumerate(bodies):
        for path in ("/v1/runs", "/runs"):
            headers = {**json_, "Idempotency-Key": f"k{number}", "Content-Encoding": "gzip"}
            answer = await ann.http.post(path, content=body, headers=headers)
            told = problem(answer, 422, "usage")
            assert "Traceback" not in told["detail"] and len(told["detail"]) < 1_000
    assert (await ann.get("/v1/runs")).json()["items"] == []


@pytest.mark.parametrize("key", ["\u00e4", "a b", "\t", "\x00", "k" * 201])
async def test_an_idempotency_key_is_some_plain_characters(desk: Desk, ann: Caller, key: str) -> None:
    headers = {b"Content-Type": b"application/json", b"Idempotency-Key": key.encode()}
    problem(await ann.http.post("/v1/runs", content=b'{"goal": "a"}', headers=headers), 422, "usage")


async def test_a_secret_in_a_query_opens_nothing_and_comes_back_nowhere(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    secret = await desk.token("ann")
    async with desk.caller() as nobody:
        for path in ("/v1/runs", "/v1/events", "/runs", "/nowhere", f"/v1/runs/{secret[:8]}"):
            for name in ("access_token", "token", "Authorization"):
                answer = await nobody.get(path, **{name: secret})
                assert answer.status_code in (401, 404)
                assert secret not in answer.text and secret not in repr(answer.headers)
        answer = await nobody.http.get("/v1/runs", headers={"Authorization": f"Bearer {secret}x"})
        assert secret not in problem(answer, 401, "unauthenticated")["detail"]
    async with desk.caller(secret) as ann:
        assert secret not in problem(await ann.get("/v1/runs", access_token=secret), 422, "usage")["detail"]
    assert secret not in caplog.text


@pytest.mark.parametrize("method", ["HEAD", "PUT", "PATCH", "DELETE", "TRACE", "CONNECT", "FOO"])
async def test_a_method_that_no_route_takes_is_405_and_names_those_that_it_takes(ann: Caller, method: str) -> None:
    for path in ("/v1/runs", "/v1/events", "/runs", "/livez"):
        answer = await ann.http.request(method, path)
        assert answer.status_code == 405
        assert "GET" in answer.headers["allow"]
