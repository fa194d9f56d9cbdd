"""Is the system healthy? Every check says what is so and what to do; `status` and `health` say it in one word."""

import http.server
import json
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from callboard.actors.client import Client
from callboard.actors.node import Node, NodeSettings
from callboard.actors.spec import Tree
from callboard.mailbox.address import shard_of
from callboard.mailbox.errors import StoreUnavailable
from callboard.persistence.operating import Census, MailboxSummary
from callboard.persistence.port import RealPort
from callboard.persistence.postgres import PostgresStore
from callboard.persistence.rows import ActorRow, Member
from callboard.service.operations.health import Check, HealthReport, health_document, status
from tests.actors.world import Note, tree
from tests.service.conftest import ROOT, WAIT_SECONDS, Cli, environment, execute

pytestmark = pytest.mark.anyio
NOWHERE = "postgresql://nobody@127.0.0.1:1/nothing"


def check_of(found: HealthReport, name: str) -> Check:
    return next(check for check in found.checks if check.name == name)


def levels(found: HealthReport) -> dict[str, str]:
    """What is not all right."""
    return {check.name: check.level for check in found.checks if check.level != "ok"}


@asynccontextmanager
async def served(store: PostgresStore, shards: frozenset[int] | None = None) -> AsyncIterator[Node]:
    """A node that serves; only these shards, if said."""
    node = Node(store, Tree(tree()), settings=NodeSettings(drain_seconds=1.0), serves=shards)
    async with anyio.create_task_group() as group:
        group.start_soon(node.run)
        with anyio.fail_after(60):
            await node.ready.wait()
        yield node
        node.stop()


# --- on PostgreSQL -------------------------------------------------------------------------------------------------


async def test_a_system_that_nobody_serves_is_not_healthy_and_one_with_a_node_is(database: str) -> None:
    async with PostgresStore(database) as store:
        found = await _settled(store, nodes="bad", shards="bad")
        assert not found.ok
        assert levels(found) == {"nodes": "bad", "shards": "bad"}
        assert check_of(found, "nodes").way_out == "callboard daemon APP"
        assert check_of(found, "shards").count == 256
        async with served(store):
            found = await _settled(store)
            assert found.ok and levels(found) == {}, found
            assert "PostgreSQL" in check_of(found, "schema").text
            assert check_of(found, "nodes").count == 1
            assert check_of(found, "schema").count >= 4


async def _settled(store: PostgresStore, **wanted: str) -> HealthReport:
    """The report once it has no levels but these, and one message is ready where queues are asked for, else none: a
    node that has just begun is still reading what it took, and one slow answer is a warning."""
    found = await status(store)
    with anyio.move_on_after(60):
        while levels(found) != wanted or check_of(found, "queues").count != ("queues" in wanted):
            await anyio.sleep(0.1)
            found = await status(store)
    return found


async def test_what_waits_for_somebody_is_counted_with_its_reason_and_the_next_command(database: str) -> None:
    async with PostgresStore(database) as store, served(store):
        execute(
            database,
            "insert into callboard.actor (shard, address, kind, version, incarnation, status, reason, state, "
            "state_version, last_id, sent, events, summary) values "
            "(3, '/desk/run:7', 'run', 1, 1, 'parked', 'provider_down: no answer for an hour', '', 1, 0, 0, 0, '')",
        )
        execute(
            database,
            "insert into callboard.dead_letter (shard, id, recipient, sender, lane, type, version, body, sender_seq, "
            "deliveries, failures, last_error, reply_to, correlation, causation, started, sent_by_node, reason, "
            "detail, at) values (3, 9, '/desk/run:7', '', 2, 'run.tell', 1, '{}', 1, 5, 5, 'x', '', 0, 0, false, 1, "
            "'failed', 'ValueError: \x1b[31mred', now())",
        )
        found = await _settled(store, stuck="warn", **{"dead letters": "warn"})
        assert found.ok, "work that waits for a person is no fault of the system"
        stuck, dead = check_of(found, "stuck"), check_of(found, "dead letters")
        assert (stuck.count, stuck.text) == (1, "1 run parked")
        assert stuck.examples == ["/desk/run:7 parked: provider_down: no answer for an hour"]
        assert (dead.count, dead.way_out) == (1, "callboard dead")
        assert dead.examples[0].startswith("/desk/run:7 run.tell: failed: ValueError")
        execute(
            database, "update callboard.dead_letter set settled = 'discarded', settled_at = now(), settled_by = 'a'"
        )
        execute(database, "update callboard.actor set status = 'active' where kind = 'run'")
        assert levels(await _settled(store)) == {}


async def test_a_shard_that_nobody_serves_is_bad_though_a_node_runs_and_so_is_what_waits_there(
    database: str,
) -> None:
    served_shards = frozenset(range(256)) - {shard_of("/t/p:1")}
    async with PostgresStore(database) as store, served(store, served_shards):
        found = await _settled(store, shards="bad")
        assert not found.ok
        assert check_of(found, "shards").text == "1 of 256 have no owner: what is sent to actors there waits"
        assert check_of(found, "nodes").level == "ok"
        await Client(store).send("/t/p:1", Note("who will read this?"))
        execute(database, "update callboard.message set sent_at = sent_at - interval '1 hour'")
        found = await _settled(store, shards="bad", queues="bad")
        queues = check_of(found, "queues")
        assert (queues.level, queues.count, queues.way_out) == ("bad", 1, "callboard mailbox /t/p:1")
        async with served(store):
            assert levels(await _settled(store)) == {}


# --- whatever the store says ---------------------------------------------------------------------------------------


class Still(RealPort):
    """No time passes."""

    def wall(self) -> float:
        return 10_000.0

    def monotonic(self) -> float:
        return 1_000.0


class Said:
    """A store that says what a test has it say."""

    def __init__(self, **changes: Any) -> None:
        self.ahead = 0.0
        self.gone = False
        self.boxes: list[MailboxSummary] = []
        self.standing: dict[str, Any] = {}
        self.census_error: StoreUnavailable | None = None
        self.found = Census(
            **{
                "at": 10_000.0,
                "actors": {},
                "messages": {},
                "depths": {},
                "oldest_ready_at": 0.0,
                "dead": 0,
                "decisions": {},
                "oldest_pending_at": 0.0,
                "next_expiry_at": 0.0,
                "shards_unowned": 0,
                "schema_version": 4,
                "server_version": "18.1",
                "members": [Member(1, 1, "b", "up", 0.1, 256, "host/1")],
                **changes,
            }
        )

    async def now(self) -> float:
        return Still().wall() + self.ahead

    async def census(self) -> Census:
        if self.census_error is not None:
            raise self.census_error
        return self.found

    async def owner(self, shard: int) -> Member | None:
        if self.gone:
            raise StoreUnavailable("the connection was cut")
        return next(iter(self.found.members), None)

    async def mailboxes(self, **_: Any) -> list[MailboxSummary]:
        return self.boxes

    async def actors(self, **_: Any) -> list[Any]:
        return []

    async def actor(self, address: str) -> ActorRow | None:
        status = self.standing.get(address)
        return ActorRow(1, address, "run", 1, status=status) if status else None


async def look(said: Said) -> HealthReport:
    return await status(said, Still())  # type: ignore[arg-type]


async def test_a_clock_that_is_far_off_is_said_and_by_how_much() -> None:
    said = Said()
    assert levels(await look(said)) == {}
    said.ahead = 5.0
    found = await look(said)
    assert found.ok and levels(found) == {"clock": "warn"}
    assert "behind the database's" in check_of(found, "clock").text
    said.ahead = -100.0
    found = await look(said)
    assert not found.ok and "ahead of the database's" in check_of(found, "clock").text


async def test_a_queue_that_nobody_serves_is_named() -> None:
    said = Said(messages={"ready": 12}, oldest_ready_at=9_999.0)
    assert levels(await look(said)) == {}
    said = Said(messages={"ready": 12}, oldest_ready_at=9_900.0)
    said.boxes = [MailboxSummary("/crm/desk/agent:7", 3, 12, 12, 0, 0, 0, 0, 9_900.0, 0)]
    found = await look(said)
    queues = check_of(found, "queues")
    assert found.ok and queues.level == "warn"
    assert queues.way_out == "callboard mailbox /crm/desk/agent:7"
    assert queues.examples == ["/crm/desk/agent:7: 12 ready, since 1 min 40 s"]
    assert not (await look(Said(messages={"ready": 12}, oldest_ready_at=9_000.0))).ok


async def test_what_waits_for_a_parked_actor_is_no_queue_that_nobody_serves() -> None:
    said = Said(messages={"ready": 3}, oldest_ready_at=1_000.0, actors={"run": {"parked": 1}})
    parked = MailboxSummary("/crm/desk/agent:1", 3, 2, 2, 0, 0, 0, 0, 1_000.0, 0)
    said.boxes, said.standing = [parked], {parked.address: "parked"}
    found = await look(said)
    assert found.ok and levels(found) == {"stuck": "warn"}
    said.boxes = [parked, MailboxSummary("/crm/desk/agent:2", 3, 1, 1, 0, 0, 0, 0, 9_900.0, 0)]
    queues = check_of(await look(said), "queues")
    assert (queues.level, queues.way_out) == ("warn", "callboard mailbox /crm/desk/agent:2")


async def test_a_silent_node_is_named_and_only_silent_ones_are_bad() -> None:
    up, silent = Member(1, 1, "b", "up", 0.1, 128), Member(2, 1, "c", "up", 70.0, 128, "host/2")
    found = await look(Said(members=[up, silent]))
    assert found.ok and levels(found) == {"nodes": "warn"}
    assert check_of(found, "nodes").examples == ["node 2 (host/2): up, last heard 1 min 10 s ago, 128 shards"]
    found = await look(Said(members=[silent], messages={"ready": 3}))
    assert not found.ok and "3 message(s) wait for one" in check_of(found, "nodes").text


async def test_a_supervisor_that_gave_up_is_bad_and_a_parked_run_is_not() -> None:
    assert (await look(Said(actors={"run": {"parked": 3, "completed": 9, "active": 1}}))).ok
    found = await look(Said(actors={"run": {"parked": 3}, "supervisor": {"parked": 1, "active": 2}}))
    assert not found.ok
    assert check_of(found, "stuck").text == "1 supervisor parked, 3 run parked"


async def test_calls_that_wait_are_told_with_the_oldest_and_the_next_to_expire() -> None:
    said = Said(decisions={"pending": 2}, oldest_pending_at=6_400.0, next_expiry_at=20_000.0)
    found = await look(said)
    assert levels(found) == {}
    text = "2 call(s) wait for a person, the oldest for 1 h 00 min; the next one expires in 2 h 46 min"
    assert check_of(found, "approvals").text == text
    soon = Said(decisions={"pending": 2}, oldest_pending_at=6_400.0, next_expiry_at=10_060.0)
    assert levels(await look(soon)) == {"approvals": "warn"}


async def test_what_cannot_be_counted_in_time_is_said_and_no_reason_to_call_the_database_away() -> None:
    said = Said()
    said.census_error = StoreUnavailable("it took too long")
    found = await look(said)
    assert found.ok and levels(found) == {"counts": "warn"}
    said.found.members.clear()
    found = await look(said)
    assert not found.ok and "no node serves" in check_of(found, "counts").text


async def test_a_database_that_leaves_in_the_middle_is_away() -> None:
    said = Said()
    said.census_error = StoreUnavailable("the connection was cut")
    said.gone = True
    found = await look(said)
    assert levels(found) == {"database": "bad"} and found.at == 0.0


async def test_the_document_says_its_shape_and_its_times() -> None:
    document = json.loads(json.dumps(health_document(await look(Said()))))
    assert document["schema"] == "callboard.status/1" and document["ok"] is True
    assert document["at"].endswith("Z")
    assert {"name", "level", "text", "way_out", "count", "examples"} == set(document["checks"][0])


# --- the commands --------------------------------------------------------------------------------------------------


def test_without_a_database_status_says_so_and_exits_with_75(cli: Cli) -> None:
    said = cli("status", "--dsn", NOWHERE)
    assert said.code == 75
    assert said.out.startswith("not healthy: database\n")
    said = cli("status", "--json", "--dsn", NOWHERE)
    assert (said.code, said.document["ok"], said.document["at"]) == (75, False, None)
    said = cli("health", "--dsn", NOWHERE)
    assert said.code == 75 and said.one_line().startswith("callboard: database: ")


def test_a_schema_that_is_missing_is_bad_and_names_the_command(cli: Cli, dsn: str) -> None:
    said = cli("status", "--dsn", dsn)
    assert said.code == 1 and "callboard init-db" in said.out


def test_status_and_health_exit_with_1_where_something_is_bad(cli: Cli, database: str) -> None:
    said = cli("status", dsn=database)
    assert said.code == 1
    assert said.out.startswith("not healthy: nodes, shards\n")
    assert "next: callboard daemon APP" in said.out
    said = cli("status", "--json", dsn=database)
    assert said.code == 1
    assert {check["name"] for check in said.document["checks"] if check["level"] == "bad"} == {"nodes", "shards"}
    said = cli("health", dsn=database)
    assert (said.code, said.out) == (1, "")
    assert "no node serves" in said.err


async def test_health_is_silent_where_nothing_is_bad_and_status_is_not(cli: Cli, database: str) -> None:
    async with PostgresStore(database) as store, served(store):
        await _settled(store)
        said = await anyio.to_thread.run_sync(lambda: cli("health", dsn=database))
        assert (said.code, said.out, said.err) == (0, "", "")
        said = await anyio.to_thread.run_sync(lambda: cli("status", dsn=database))
        assert said.code == 0 and said.out.startswith("healthy\n")


def test_status_goes_on_saying_it_to_a_pipe_until_it_is_interrupted(database: str) -> None:
    command = [sys.executable, "-m", "callboard", "status", "--watch"]
    watching = subprocess.Popen(
        command, cwd=ROOT, env=environment(database), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert watching.stdout is not None
        said = [json.loads(watching.stdout.readline()) for _ in range(2)]
        assert [one["schema"] for one in said] == ["callboard.status/1"] * 2
        assert said[0]["at"] < said[1]["at"] and not said[0]["ok"]
        watching.send_signal(signal.SIGINT)
        watching.communicate(timeout=WAIT_SECONDS)
        assert watching.returncode == 130
    finally:
        watching.kill()
        watching.communicate()


class Answering(http.server.BaseHTTPRequestHandler):
    """A daemon that is ready, or not, or sends elsewhere."""

    def do_GET(self) -> None:
        codes = {"/readyz": 200, "/draining": 503, "/moved": 302}
        self.send_response(codes.get(self.path, 404))
        self.end_headers()
        self.wfile.write(b"draining \x1b[31m" + b"x" * 100_000 if self.path == "/draining" else b"ok")

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class Server(http.server.ThreadingHTTPServer):
    """Who has read enough hangs up, also in the middle of an answer."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: what is said on stderr would be the command's."""


@pytest.fixture
def daemon() -> Iterator[str]:
    server = Server(("127.0.0.1", 0), Answering)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_health_asks_a_daemon_and_believes_200_only(cli: Cli, daemon: str) -> None:
    said = cli("health", "--url", f"{daemon}/readyz")
    assert (said.code, said.out, said.err) == (0, "", "")
    said = cli("health", "--url", f"{daemon}/draining")
    assert said.code == 1 and "answers 503: draining" in said.one_line()
    assert "\x1b" not in said.err and len(said.err) < 3_000
    assert cli("health", "--url", f"{daemon}/moved").code == 1
    said = cli("health", "--json", "--url", f"{daemon}/readyz")
    assert (said.document["schema"], said.document["ok"]) == ("callboard.health/1", True)


def test_health_says_when_no_daemon_answers_and_refuses_what_is_no_url(cli: Cli) -> None:
    said = cli("health", "--url", "http://127.0.0.1:1/readyz")
    assert said.code == 1 and "does not answer" in said.one_line()
    for wrong in ("file:///etc/passwd", "127.0.0.1:9464", "http://", "http://a b/", "http://x:99999/"):
        assert cli("health", "--url", wrong).code == 2, wrong
