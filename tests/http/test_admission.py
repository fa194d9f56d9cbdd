"""Who is let in, and as whom: tokens, scopes, hosts, and what every answer carries."""

from hashlib import sha256
from typing import Any

import pytest

from callboard import InMemoryStore
from callboard.mailbox.errors import Conflict, NotAllowed, NotFound, UsageError
from callboard.service.operations.principal import Principal, terminal_principal
from callboard.service.operations.runs import Operations
from callboard.service.operations.tokens import Credentials, Tokens, hashed
from tests.http.desk import Caller, Desk, eventually, problem

pytestmark = pytest.mark.anyio

ROUTES = [
    ("GET", "/v1/runs", "read"),
    ("GET", "/v1/runs/x", "read"),
    ("GET", "/v1/runs/x/events", "read"),
    ("GET", "/v1/runs/x/stream", "read"),
    ("GET", "/v1/events", "read"),
    ("GET", "/v1/approvals", "read"),
    ("GET", "/v1/audit", "read"),
    ("GET", "/v1/health", "read"),
    ("GET", "/v1/actors", "read"),
    ("GET", "/v1/mailboxes", "read"),
    ("GET", "/v1/messages", "read"),
    ("GET", "/v1/dead-letters", "read"),
    ("GET", "/runs", "read"),
    ("GET", "/approvals", "read"),
    ("POST", "/v1/runs", "operate"),
    ("POST", "/v1/runs/x/tell", "operate"),
    ("POST", "/v1/runs/x/cancel", "operate"),
    ("POST", "/v1/runs/x/fork", "operate"),
    ("POST", "/v1/actor/kill", "operate"),
    ("POST", "/v1/messages/1/discard", "operate"),
    ("POST", "/v1/dead-letters/1/requeue", "operate"),
    ("POST", "/runs", "operate"),
    ("POST", "/v1/approvals/x.1/decision", "approve"),
    ("POST", "/v1/approvals/x.1/take-back", "approve"),
    ("POST", "/v1/approvals/x.1/edit", "approve"),
    ("POST", "/runs/x/approve", "approve"),
    ("POST", "/runs/x/deny", "approve"),
]


@pytest.mark.parametrize(("method", "path", "scope"), ROUTES)
async def test_a_stranger_gets_401_and_a_token_without_the_scope_403_before_the_body_is_read(
    desk: Desk, method: str, path: str, scope: str
) -> None:
    others = " ".join({"read", "operate", "approve", "admin"} - {scope})
    junk: dict[str, Any] = {"content": b"{" * 1_000, "headers": {"Content-Type": "application/json"}}
    junk = junk if method == "POST" else {}
    secret = await desk.token("without", others)
    async with desk.caller() as stranger, desk.caller(secret) as without:
        answer = await stranger.http.request(method, path, **junk)
        problem(answer, 401, "unauthenticated")
        assert answer.headers["www-authenticate"] == 'Bearer realm="callboard"'
        answer = await without.http.request(method, path, **junk)
        assert scope in problem(answer, 403, "scope-missing")["detail"]
        assert 'error="insufficient_scope"' in answer.headers["www-authenticate"]


async def test_every_route_under_v1_takes_a_scope(desk: Desk) -> None:
    handlers = [one for route in desk.app.routes if route.path.startswith("/v1/") for one in route.route_handlers]
    assert len(handlers) > 30
    ours = [one for one in handlers if one.http_methods != {"OPTIONS"}]
    assert [one for one in ours if one.opt.get("callboard_scope") not in ("read", "operate", "approve")] == []


async def test_what_is_open_is_open_and_tells_nothing(desk: Desk) -> None:
    await desk.token("ann")
    async with desk.caller() as stranger:
        assert (await stranger.get("/livez")).json() == {"status": "ok"}
        assert (await stranger.get("/health")).json() == {"status": "ok"}
        assert (await stranger.get("/openapi.json")).json()["openapi"].startswith("3.1")


async def test_a_viewer_decides_nothing(desk: Desk) -> None:
    run_id = await desk.worked("close 5")
    async with desk.caller(await desk.token("viewer", "read")) as viewer:
        one = await viewer.approval(run_id)
        problem(await viewer.decide(one), 403, "scope-missing")
        problem(await viewer.post(f"/runs/{run_id}/approve", {"approver": "boss"}, key=""), 403, "scope-missing")
        assert (await viewer.approval(run_id))["status"] == "pending"


async def test_a_token_stands_for_its_principal_and_the_trail_names_it_and_the_token(desk: Desk) -> None:
    run_id = await desk.worked("close 5")
    async with desk.caller(await desk.token("ci-7", principal="mara")) as caller:
        done = (await caller.decide(await caller.approval(run_id))).json()
    assert done["decided_by"] == "mara"
    (row,) = await desk.store.audit(action="decide")
    assert (row.who, row.label, row.channel) == ("mara", "ci-7", "http")


async def test_a_revocation_holds_within_the_memory_of_the_door_and_an_expiry_too(desk: Desk, ann: Caller) -> None:
    assert (await ann.get("/v1/runs")).status_code == 200
    tokens = Tokens(Operations(desk.store, terminal_principal("root")))
    await tokens.revoke("ann")
    desk.app.state.credentials.memory_seconds = 0.0  # as if that time had passed
    answer = await ann.get("/v1/runs")
    problem(answer, 401, "unauthenticated")
    assert 'error="invalid_token"' in answer.headers["www-authenticate"]
    async with desk.caller(await desk.token("short", "read", expires_seconds=0.001)) as short:
        await eventually(lambda: _is_refused(short))
        problem(await short.get("/v1/runs"), 401, "unauthenticated")
    async with desk.caller() as stranger:  # revoking the last token opens nothing
        problem(await stranger.get("/v1/runs"), 401, "unauthenticated")


async def _is_refused(caller: Caller) -> bool:
    return (await caller.get("/v1/runs")).status_code == 401


async def test_the_door_asks_the_database_once_in_five_seconds_and_not_for_what_is_no_secret(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = await desk.token("ann")

    class Clock:
        now = 100.0

        def monotonic(self) -> float:
            return self.now

    clock: Any = Clock()
    asked: list[bytes] = []
    look = desk.store.token

    async def counted(secret_hash: bytes) -> Any:
        asked.append(secret_hash)
        return await look(secret_hash)

    monkeypatch.setattr(desk.store, "token", counted)
    door = Credentials(desk.store, clock)
    for _ in range(5):
        assert await door.token(secret) is not None
    assert asked == [hashed(secret)]
    clock.now += 5.0
    assert await door.token(secret) is not None
    assert len(asked) == 2
    for guess in ("", "x", "cb_short", "cb_" + "ä" * 43, secret + "x"):
        assert await door.token(guess) is None
    assert len(asked) == 2
    for n in range(3_000):
        await door.token("cb_" + f"{n:043d}")
    assert len(door._known) <= 1_000


async def test_a_secret_is_kept_as_a_hash_only(real: Desk) -> None:
    secret = await real.token("ann")
    assert secret.startswith("cb_") and len(secret) == 46
    (kept,) = await real.store.tokens()
    assert secret not in repr(kept)
    (row,) = await real.store.audit(action="token create")
    assert secret not in repr(row) and row.object == "token:ann"
    assert (await real.store.token(hashed(secret))) is not None
    assert (await real.store.token(hashed(secret[:-1]))) is None


async def test_tokens_are_made_with_names_scopes_and_times_that_can_be() -> None:
    store = InMemoryStore()
    tokens = Tokens(Operations(store, terminal_principal("root")))
    for name, scopes, more in [
        ("a b", ["read"], {}),
        ("", ["read"], {}),
        ("ann", [], {}),
        ("ann", ["reed"], {}),
        ("ann", ["read"], {"principal": "node 3"}),
        ("ann", ["read"], {"expires_seconds": -1.0}),
        ("ann", ["read"], {"expires_seconds": float("nan")}),
    ]:
        with pytest.raises(UsageError):
            await tokens.create(name, scopes, **more)  # type: ignore[arg-type]
    await tokens.create("ann", ["read", " approve"])
    with pytest.raises(Conflict):
        await tokens.create("ann", ["read"])
    with pytest.raises(NotFound):
        await tokens.revoke("bob")
    few = Tokens(Operations(store, Principal("eve", scopes=frozenset({"read"}))))
    for refused in (few.create("x", ["read"]), few.list(), few.revoke("ann")):
        with pytest.raises(NotAllowed):
            await refused


@pytest.mark.parametrize("host", ["localhost:8080", "127.0.0.1", "[::1]:9", "127.8.8.8:1", "LOCALHOST"])
async def test_without_a_token_whoever_says_localhost_is_let_in(host: str) -> None:
    desk = Desk(InMemoryStore())
    async with desk.caller() as caller:
        assert (await caller.http.get("/v1/runs", headers={"Host": host})).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example:8080", "127.0.0.1.evil.example", "10.0.0.7", ""]
)
async def test_without_a_token_a_page_that_made_its_name_point_here_is_not(host: str) -> None:
    desk = Desk(InMemoryStore())
    async with desk.caller() as caller:
        problem(await caller.http.get("/v1/runs", headers={"Host": host}), 421, "host-unknown")
        secret = await desk.token("ann")
        desk.app.state.credentials.memory_seconds = 0.0
        bearer = {"Host": host, "Authorization": f"Bearer {secret}"}
        assert (await caller.http.get("/v1/runs", headers=bearer)).status_code == 200  # the token tells whom


async def test_without_tokens_nobody_is_an_admin_and_everybody_is_one_person() -> None:
    desk = Desk(InMemoryStore())
    async with desk.caller() as caller:
        run_id = (await caller.post("/v1/runs", {"goal": "close 300"})).json()["run_id"]
        await desk.runtime.resume(run_id)
        problem(await caller.decide(await caller.approval(run_id)), 403, "not-allowed")
    (row,) = await desk.store.audit(action="submit")
    assert row.who == "anonymous"


async def test_a_server_that_others_reach_asks_for_a_token_even_where_none_was_made() -> None:
    desk = Desk(InMemoryStore(), require_token=True)
    async with desk.caller() as caller:
        problem(await caller.get("/v1/runs"), 401, "unauthenticated")


async def test_tokens_of_the_application_stand_beside_those_of_the_store() -> None:
    desk = Desk(InMemoryStore(), tokens={sha256(b"fixed").hexdigest().upper(): "dana"})
    async with desk.caller("fixed") as dana, desk.caller(await desk.token("ann")) as ann, desk.caller("") as nobody:
        assert (await dana.post("/v1/runs", {"goal": "g"})).json()["requested_by"] == "dana"
        assert (await ann.get("/v1/runs")).status_code == 200
        problem(await nobody.get("/v1/runs"), 401, "unauthenticated")


@pytest.mark.parametrize(
    ("given", "kept"), [("abc.DEF-1_2", True), ("a b", False), ("x" * 65, False), ("a\u00e4", False), ("", False)]
)
async def test_the_request_id_is_echoed_where_it_is_a_plain_word(ann: Caller, given: str, kept: bool) -> None:
    answer = await ann.http.get("/v1/runs", headers={b"X-Request-Id": given.encode()})
    assert (answer.headers["x-request-id"] == given) is kept
    assert answer.headers["x-request-id"].isascii() and 0 < len(answer.headers["x-request-id"]) <= 64


@pytest.mark.parametrize("path", ["/v1/runs", "/nowhere", "/livez", "/openapi.json", "/openapi/x"])
async def test_every_answer_keeps_browsers_out(ann: Caller, path: str) -> None:
    answer = await ann.http.get(path, headers={"Origin": "https://evil.example"})
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert not [name for name in answer.headers if name.startswith("access-control")]


async def test_every_error_is_a_problem_whoever_raises_it(ann: Caller) -> None:
    problem(await ann.get("/nowhere"), 404, "no-such-route")
    problem(await ann.get("/v1/runs/a/b/c"), 404, "no-such-route")
    problem(await ann.get("/openapi/x"), 404, "no-such-route")
    answer = await ann.http.delete("/v1/runs")
    problem(answer, 405, "method-not-allowed")
    assert "GET" in answer.headers["allow"]
    for path in ("/runs", "/v1/runs"):
        allowed = (await ann.http.options(path)).headers["allow"]
        assert set(allowed.split(", ")) == {"GET", "OPTIONS", "POST"}
    key = {"Idempotency-Key": "k"}
    big = b'{"goal": "' + b"g" * (1 << 20) + b'"}'
    json = {"Content-Type": "application/json"}
    problem(await ann.http.post("/v1/runs", content=big, headers=key | json), 413, "too-large")
    problem(await ann.http.post("/v1/runs", content=b"goal=x", headers=key), 415, "media-type")
    for body in (b"{", b"[]", b"null", b"[" * 100_000, b'{"goal": "\xff"}'):
        told = problem(await ann.http.post("/v1/runs", content=body, headers=key | json), 422, "usage")
        assert "Traceback" not in told["detail"]
    told = problem(await ann.post("/v1/runs", {"goal": 7}), 422, "usage")
    assert told["errors"] == [{"field": "goal", "detail": "Expected `str`, got `int`"}]
