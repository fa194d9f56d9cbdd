"""Metrics: what a node sends is small, and what the daemon shows of it is bounded and always there."""

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from callboard.actors.testing import ManualPort
from callboard.mailbox.errors import StoreUnavailable
from callboard.persistence.operating import Census
from callboard.persistence.rows import Member
from callboard.service.metric_names import COUNTED, FAMILIES, LOOKED_UP, SHOWN, Labels, read_key
from callboard.service.metrics import Exposition, NodeMetrics

pytestmark = pytest.mark.anyio

Samples = dict[tuple[str, tuple[str, ...]], float]


# --- how it is sent ------------------------------------------------------------------------------------------------


async def test_what_is_drained_is_small_and_told_once_however_many_names_there_are() -> None:
    metrics = NodeMetrics(lambda: 0.0)
    for number in range(10_000):
        name = f"{'x' * 200} \x1b[31m\n{number}" if number % 2 else f"{number}-{'y' * 300}"
        metrics.retried(name)
        metrics.restarted(name)
        metrics.ran(name, 0.0)
        metrics._spent(name, _answer(name))
        metrics._count("tool_calls_total", 1, name, ("answered", "failed", "in_doubt")[number % 3])
    metrics.echoed(0.002)
    line = json.dumps(metrics.drain())
    assert len(line) < 48_000, "a line of a child is cut at 65,536 characters"
    assert metrics.drain() == {"listener_lag_seconds": 0.002}


def _answer(model: str) -> Any:
    from callboard.actors.agent.messages import ModelAnswered

    return ModelAnswered(1, "", [], "end_turn", 5, 6, Decimal("0.001"), 1, model=model)


async def test_a_daemon_passes_over_what_a_child_cannot_have_counted() -> None:
    exposition = Exposition(port=ManualPort())
    exposition.add(1, {
        "messages_total done": -5, "messages_total dead": "7", "messages_total": 3, "nonsense x": 1,
        "recovery_seconds": [1, 2], "up": 9, "mailbox_depth run": 9, 7: 1,
        "handler_seconds run": [float("nan")] * 18, "messages_total late": True, "retries_total a": float("inf"),
        "messages_total refused": 2,
    })  # fmt: skip
    exposition.add(2, None)
    exposition.add(2, ["x"])
    found = await scraped(exposition)
    assert {key: value for key, value in found.items() if key[0] == "callboard_messages_total"} == {
        ("callboard_messages_total", ("refused",)): 2.0
    }
    assert not [key for key in found if key[0].startswith(("callboard_recovery", "callboard_handler"))]
    assert found["callboard_up", ()] == 1.0


# --- how it is shown -----------------------------------------------------------------------------------------------


async def families(exposition: Exposition) -> dict[str, Metric]:
    return {family.name: family for family in text_string_to_metric_families((await exposition.text()).decode())}


async def scraped(exposition: Exposition) -> Samples:
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in (await families(exposition)).values()
        for sample in family.samples
    }


def census(**changes: Any) -> Census:
    values: dict[str, Any] = {
        "at": 1_000.0,
        "actors": {"run": {"active": 3, "parked": 1}, "supervisor": {"active": 2}},
        "messages": {"ready": 4, "held": 1},
        "depths": {"run": 4, "/sys/model": 7, "": 1},
        "oldest_ready_at": 940.0,
        "dead": 2,
        "decisions": {"pending": 1},
        "oldest_pending_at": 400.0,
        "next_expiry_at": 1_200.0,
        "shards_unowned": 5,
        "schema_version": 4,
        "server_version": "18.1",
        "members": [member(1), member(2, age=60.0), member(3, "draining"), member(4, "dead")],
    }
    return Census(**{**values, **changes})


def member(number: int, status: Any = "up", *, age: float = 0.1) -> Member:
    return Member(number, 1, f"boot{number}", status, age, 64, f"host/{number}")


class Database:
    """A store of which only the census is asked."""

    def __init__(self, found: Census | BaseException) -> None:
        self.found = found
        self.seconds = 0.0
        """How long counting takes."""
        self.port: ManualPort | None = None
        self.asked = 0
        self.gone = False
        self.answers = anyio.Event()
        self.answers.set()

    async def census(self) -> Census:
        self.asked += 1
        await self.answers.wait()
        if self.seconds and self.port is not None:
            await self.port.sleep(self.seconds)
        if isinstance(self.found, BaseException):
            raise self.found
        return self.found

    async def now(self) -> float:
        if self.gone:
            raise StoreUnavailable("gone")
        return 1_000.0


@pytest.fixture
def port() -> Iterator[ManualPort]:
    return ManualPort()  # type: ignore[return-value]


def exposition_on(database: Database, port: ManualPort) -> Exposition:
    database.port = port
    return Exposition(database, port, version="1.2.3")  # type: ignore[arg-type]


async def test_every_metric_has_the_name_type_and_labels_of_the_table(port: ManualPort) -> None:
    metrics = NodeMetrics(lambda: 0.0)
    for family in COUNTED:
        if family.type == "histogram":
            metrics._observe(family.name, 0.3, *(["x"] * len(family.labels)))
        else:
            metrics._count(family.name, 2, *(["x"] * len(family.labels)))
    metrics.echoed(0.25)
    exposition = exposition_on(Database(census()), port)
    exposition.add(1, json.loads(json.dumps(metrics.drain())))
    found = await families(exposition)
    assert set(found) == {f"callboard_{name.removesuffix('_total')}" for name in FAMILIES}
    for family in FAMILIES.values():
        parsed = found[f"callboard_{family.name.removesuffix('_total')}"]
        assert (parsed.type, parsed.documentation) == (family.type, family.help)
        assert parsed.samples, family.name
        for sample in parsed.samples:
            labels = set(sample.labels) - ({"le"} if family.type == "histogram" else set())
            assert labels == set(family.labels), sample


async def test_what_waits_in_the_database_is_shown_as_it_is(port: ManualPort) -> None:
    found = await scraped(exposition_on(Database(census()), port))
    assert found["callboard_database_up", ()] == 1.0
    assert found["callboard_mailbox_depth", ("run",)] == 4.0
    assert found["callboard_mailbox_depth", ("model",)] == 7.0  # a worker, by its name and not its address
    assert found["callboard_mailbox_messages", ("held",)] == 1.0
    assert found["callboard_mailbox_messages", ("retrying",)] == 0.0
    assert found["callboard_mailbox_oldest_seconds", ()] == 60.0
    assert found["callboard_dead_letters", ()] == 2.0
    assert found["callboard_approvals_pending", ()] == 1.0
    assert found["callboard_approval_wait_seconds", ()] == 600.0
    assert found["callboard_actors", ("run", "parked")] == 1.0
    assert found["callboard_shards_without_owner", ()] == 5.0
    nodes = {labels[0]: value for (name, labels), value in found.items() if name == "callboard_nodes"}
    assert nodes == {"up": 1.0, "draining": 1.0, "silent": 1.0, "gone": 1.0}


async def test_ten_thousand_actors_and_kinds_add_no_series_beyond_the_cap(port: ManualPort) -> None:
    few = exposition_on(Database(census()), port)
    names = {f"/crm/desk/ticket:{number}": 1 for number in range(10_000)}
    many = exposition_on(Database(census(depths={"run": 4, "/sys/model": 7, **names})), port)
    assert len(await scraped(many)) == len(await scraped(few)) + len({"ticket"}) - len({"none"})
    kinds = {f"kind-{number}": {"active": 1} for number in range(10_000)}
    crowd = await scraped(exposition_on(Database(census(actors=kinds, depths=dict.fromkeys(kinds, 1))), port))
    assert len(crowd) < 200
    assert crowd["callboard_actors", ("other", "active")] == 10_000 - 40
    assert not [labels for _, labels in crowd if any("/" in label or ":" in label for label in labels)]


async def test_the_database_is_counted_once_in_five_seconds_however_often_one_scrapes(port: ManualPort) -> None:
    database = Database(census())
    exposition = exposition_on(database, port)
    for _ in range(10):
        await exposition.text()
    assert database.asked == 1
    await port.advance(6)
    await exposition.text()
    assert database.asked == 2


async def test_without_a_database_a_scrape_says_so_and_shows_what_was_counted(port: ManualPort) -> None:
    database = Database(census())
    exposition = exposition_on(database, port)
    exposition.add(1, {"messages_total done": 5})
    assert (await scraped(exposition))["callboard_dead_letters", ()] == 2.0
    database.found, database.gone = StoreUnavailable("gone"), True
    await port.advance(6)
    exposition.add(1, {})
    found = await scraped(exposition)
    assert found["callboard_database_up", ()] == 0.0
    assert found["callboard_up", ()] == 1.0
    assert found["callboard_messages_total", ("done",)] == 5.0
    assert not {name for name, _ in found} & {f"callboard_{family.name}" for family in LOOKED_UP}
    database.found = RuntimeError("a bug")
    await port.advance(6)
    assert (await scraped(exposition))["callboard_database_up", ()] == 0.0
    database.found = census()
    await port.advance(6)
    assert (await scraped(exposition))["callboard_dead_letters", ()] == 2.0


async def test_a_daemon_that_has_no_store_open_shows_no_old_numbers(port: ManualPort) -> None:
    database = Database(census())
    exposition = exposition_on(database, port)
    assert (await scraped(exposition))["callboard_database_up", ()] == 1.0
    exposition.store = None
    found = await scraped(exposition)
    assert found["callboard_database_up", ()] == 0.0 and ("callboard_dead_letters", ()) not in found
    exposition.store = database  # type: ignore[assignment]
    assert (await scraped(exposition))["callboard_dead_letters", ()] == 2.0


async def test_a_database_with_too_much_to_count_is_up_and_is_counted_less_often(port: ManualPort) -> None:
    database = Database(StoreUnavailable("statement timeout"))
    exposition = exposition_on(database, port)
    database.seconds = 2.0
    async with anyio.create_task_group() as group:
        group.start_soon(exposition.text)
        await port.advance(2)
    found = await scraped(exposition)
    assert found["callboard_database_up", ()] == 1.0
    assert not {name for name, _ in found} & {f"callboard_{family.name}" for family in LOOKED_UP}
    database.found, database.seconds = census(), 0.0
    await port.advance(39)
    assert ("callboard_dead_letters", ()) not in await scraped(exposition)
    await port.advance(2)
    assert ("callboard_dead_letters", ()) in await scraped(exposition)


async def test_a_database_that_hangs_keeps_no_scrape_waiting(port: ManualPort, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callboard.service.metrics.LOOK_SECONDS", 0.05)
    database = Database(census())
    database.answers = anyio.Event()
    exposition = exposition_on(database, port)
    with anyio.fail_after(60):
        for _ in range(3):
            assert (await scraped(exposition))["callboard_database_up", ()] == 0.0
    assert database.asked == 1  # and no second one behind it
    database.answers.set()
    assert (await scraped(exposition))["callboard_database_up", ()] == 1.0


async def test_an_outage_in_which_the_database_hung_is_over_when_it_is_over(port: ManualPort) -> None:
    database = Database(StoreUnavailable("no answer"))
    database.gone, database.seconds = True, 30.0
    exposition = exposition_on(database, port)
    async with anyio.create_task_group() as group:
        group.start_soon(exposition.text)
        await port.advance(30)
    assert (await scraped(exposition))["callboard_database_up", ()] == 0.0
    database.found, database.gone, database.seconds = census(), False, 0.0
    await port.advance(6)
    found = await scraped(exposition)
    assert found["callboard_database_up", ()] == 1.0 and ("callboard_dead_letters", ()) in found


async def test_whoever_asks_the_database_more_often_says_whether_it_is_up(port: ManualPort) -> None:
    answers = True
    exposition = exposition_on(Database(census()), port)
    exposition.answers = lambda: answers
    found = await scraped(exposition)
    assert found["callboard_database_up", ()] == 1.0 and ("callboard_dead_letters", ()) in found
    answers = False  # what was counted is not asked for again before its time
    found = await scraped(exposition)
    assert found["callboard_database_up", ()] == 0.0 and ("callboard_dead_letters", ()) not in found


async def test_a_child_that_ended_or_is_mute_does_not_count_as_up_and_its_sums_stay(port: ManualPort) -> None:
    exposition = exposition_on(Database(census()), port)
    assert (await scraped(exposition))["callboard_up", ()] == 0.0
    exposition.add(1, {"messages_total done": 5, "listener_lag_seconds": 0.5})
    exposition.add(2, {"messages_total done": 1, "listener_lag_seconds": 0.1})
    found = await scraped(exposition)
    assert found["callboard_node_processes", ()] == 2.0
    assert found["callboard_listener_lag_seconds", ()] == 0.5
    exposition.ended(1)
    found = await scraped(exposition)
    assert found["callboard_node_processes", ()] == found["callboard_node_process_restarts_total", ()] == 1.0
    assert found["callboard_listener_lag_seconds", ()] == 0.1
    exposition.serves(2, ready=False)
    assert (await scraped(exposition))["callboard_up", ()] == 0.0
    exposition.serves(2, ready=True)
    assert (await scraped(exposition))["callboard_up", ()] == 1.0
    await port.advance(11)
    found = await scraped(exposition)
    assert found["callboard_up", ()] == 0.0
    assert ("callboard_listener_lag_seconds", ()) not in found
    assert found["callboard_messages_total", ("done",)] == 6.0


async def test_a_histogram_of_many_children_is_cumulative_and_adds_up(port: ManualPort) -> None:
    exposition = exposition_on(Database(census()), port)
    for place in (1, 2):
        metrics = NodeMetrics(lambda: 0.0)
        for seconds in (0.03, 0.3, 0.5, 900.0):
            metrics._observe("recovery_seconds", seconds)
        exposition.add(place, metrics.drain())
    found = await scraped(exposition)
    assert found["callboard_recovery_seconds_bucket", ("0.05",)] == 2.0
    assert found["callboard_recovery_seconds_bucket", ("0.5",)] == 6.0  # a value on an edge is below it
    assert found["callboard_recovery_seconds_bucket", ("60.0",)] == 6.0
    assert found["callboard_recovery_seconds_bucket", ("+Inf",)] == found["callboard_recovery_seconds_count", ()] == 8.0
    assert found["callboard_recovery_seconds_sum", ()] == pytest.approx(1801.66)


def test_labels_are_plain_and_few() -> None:
    labels = Labels(FAMILIES["tool_calls_total"])
    assert labels.of('a b"c\\d\n\x1b', "answered") == ("a_b_c_d__", "answered")
    assert labels.of("", "answered") == ("none", "answered")
    assert len({labels.of(f"tool{number}", "answered") for number in range(1_000)}) == 39
    assert labels.of("a later one", "answered") == ("other", "answered")
    assert not {name for family in FAMILIES.values() for name in family.labels} & {"address", "actor", "id", "run"}
    assert read_key("messages_total done extra") is None


def test_the_table_names_each_metric_once() -> None:
    assert len(FAMILIES) == len(COUNTED) + len(SHOWN) + len(LOOKED_UP)
    assert all(family.name.endswith("_total") == (family.type == "counter") for family in FAMILIES.values())


def test_the_guide_names_each_metric_with_its_type_and_labels_and_no_other() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs/METRICS.md").read_text("utf-8")
    rows = re.findall(r"^\| `callboard_(\w+)` \| (\w+) \|([^|]*)\|", text, re.MULTILINE)
    told = {name: (kind, tuple(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}
    assert told == {family.name: (family.type, family.labels) for family in FAMILIES.values()}
    asked = set(re.findall(r"\bcallboard_(\w+)", text.partition("## Alerts")[2]))
    assert {re.sub(r"_(bucket|count|sum)$", "", name) for name in asked} <= set(told)
