"""S22 above the store: batches, archives, interruptions; and runs that go on beside it."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
import msgspec
import pytest

from callboard import FunctionLLM, InMemoryStore, LLMResponse, PostgresStore, Runtime, ToolCall, tool
from callboard.actors.agent.messages import StartRun, Tell
from callboard.mailbox.errors import NotAllowed, StoreUnavailable, UsageError
from callboard.persistence.retention import Old, OldKind, Removed
from callboard.persistence.store import Store
from callboard.service.operations.principal import Principal
from callboard.service.operations.pruning import Pruned, Pruning
from callboard.service.operations.runs import Operations
from tests.made_database import made_database
from tests.postgres.conftest import until

pytestmark = pytest.mark.anyio


@tool
async def look_up(order: int) -> dict[str, object]:
    """The state of an order."""
    return {"order": order}


@tool(side_effect=True, requires_approval=True)
async def refund(order: int, idempotency_key: str) -> str:
    """Pay it back."""
    return "paid"


def _model(messages: Sequence[Any], tools: object, system_prompt: str) -> LLMResponse:
    if any(message.role == "tool" for message in messages):
        return LLMResponse("done")
    name = "refund" if messages[0].content == "refund" else "look_up"
    return LLMResponse(tool_calls=(ToolCall("c1", name, {"order": 7}),))


class Kept:
    """An archive that remembers, and what was still there when it was asked."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.items: list[tuple[OldKind, Old]] = []
        self.fails = False
        self.there = True

    async def keep(self, kind: OldKind, items: Sequence[Old]) -> None:
        if self.fails:
            raise OSError(28, "No space left on device")
        for item in items:
            if kind == "runs":
                address = msgspec.json.decode(item.key)[1]
                self.there = self.there and await self.store.actor(address) is not None
            self.items.append((kind, item))


@pytest.fixture(params=["memory", "postgres"])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    if request.param == "memory":
        yield InMemoryStore()
        return
    with made_database(request.getfixturevalue("server_dsn")) as dsn:
        yield PostgresStore(dsn)


def _runtime(store: Store) -> Runtime:
    return Runtime(store, FunctionLLM(_model), [look_up, refund])


@pytest.fixture
async def runtime(store: Store) -> AsyncIterator[Runtime]:
    async with _runtime(store) as opened:
        yield opened


class Later:
    """A store whose clock is a minute ahead, for those who ask: ids may run some milliseconds ahead of the real one."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def now(self) -> float:
        return await self._store.now() + 60.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@pytest.fixture
def pruning(runtime: Runtime) -> Pruning:
    return _pruning(runtime.store)


def _pruning(store: Store) -> Pruning:
    found = Pruning(Operations(store, "ann"))
    found.store = cast("Store", Later(store))
    return found


def amounts(report: Pruned) -> dict[str, int]:
    return {one.kind: one.items for one in report.kinds if one.items}


async def test_s22_what_has_ended_goes_and_what_is_open_stays_provable(runtime: Runtime, pruning: Pruning) -> None:
    for number in range(3):
        await runtime.start("look", run_id=f"done-{number}")
    held = await runtime.start("refund", run_id="held")
    assert held.state.status == "awaiting_approval"
    report = await pruning.prune(0.0)
    assert amounts(report)["runs"] == 3 and report.complete
    assert {row.address.partition(":")[2] for row in await runtime.store.actors(kind="run")} == {"held"}
    verified = await runtime.verify("held")
    assert verified.ok and await runtime.verify("held") == verified
    await runtime.approve("held", "ann")
    await runtime.resume("held")
    assert (await runtime.state("held")).status == "completed"
    assert amounts(await pruning.prune(0.0))["runs"] == 1
    assert await runtime.store.actors(kind="run") == [] and await runtime.store.decisions() == []


async def test_s22_a_node_that_remembers_a_run_that_is_gone_works_on(runtime: Runtime, pruning: Pruning) -> None:
    await runtime.start("look", run_id="gone")
    [row] = await runtime.store.actors(kind="run")
    assert amounts(await pruning.prune(0.0))["runs"] == 1
    async with serving(runtime):
        await runtime.client.send(row.address, Tell("are you there?"))

        async def given_up() -> bool:
            return bool(await runtime.store.dead_letters())

        await until(given_up)
        [letter] = await runtime.store.dead_letters()
        assert letter.reason in ("no-such-actor", "recipient-ended") and letter.envelope.recipient == row.address
        assert await runtime.store.actor(row.address) is None, "a message makes no run of it"
    assert (await runtime.start("look", run_id="next")).state.status == "completed"


async def test_s22_an_id_begins_anew_once_its_run_is_gone_and_no_node_remembers_it(store: Store) -> None:
    async with _runtime(store) as first:
        await first.start("look", run_id="again")
        [row] = await store.actors(kind="run")
        assert amounts(await _pruning(store).prune(0.0))["runs"] == 1
    async with _runtime(store) as second, serving(second):
        await second.client.send(row.address, StartRun("look"), client_id="another")

        async def ended() -> bool:
            found = await store.actor(row.address)
            return found is not None and found.status == "completed"

        await until(ended)
        verified = await second.verify("again")
        assert verified.ok and (await second.state("again")).final_answer == "done"


@asynccontextmanager
async def serving(runtime: Runtime) -> AsyncIterator[None]:
    async with anyio.create_task_group() as group:
        group.start_soon(runtime.serve)
        yield
        group.cancel_scope.cancel()


async def test_s22_a_record_is_durable_before_its_rows_go(runtime: Runtime, pruning: Pruning) -> None:
    for number in range(3):
        await runtime.start("look", run_id=f"r{number}")
    archive = Kept(runtime.store)
    report = await pruning.prune(0.0, ("runs",), archive=archive)
    assert amounts(report) == {"runs": 3} and archive.there
    assert all(item.record for _, item in archive.items) and len(archive.items) == 3


async def test_s22_where_the_archive_fails_nothing_goes(runtime: Runtime, pruning: Pruning) -> None:
    await runtime.start("look", run_id="r")
    archive = Kept(runtime.store)
    archive.fails = True
    with pytest.raises(OSError, match="No space"):
        await pruning.prune(0.0, archive=archive)
    assert len(await runtime.store.actors(kind="run")) == 1
    assert await runtime.store.audit(action="prune") == []


async def test_s22_ended_between_archive_and_removal_it_is_archived_again_and_removed_once(
    runtime: Runtime, pruning: Pruning, monkeypatch: pytest.MonkeyPatch
) -> None:
    await runtime.start("look", run_id="r")
    archive = Kept(runtime.store)

    async def cut(*_: object, **__: object) -> Removed:
        raise StoreUnavailable("cut")

    with monkeypatch.context() as patch:
        patch.setattr(runtime.store, "remove_old", cut)
        with pytest.raises(StoreUnavailable):
            await pruning.prune(0.0, ("runs",), archive=archive)
    assert len(await runtime.store.actors(kind="run")) == 1
    assert amounts(await pruning.prune(0.0, ("runs",), archive=archive)) == {"runs": 1}
    first, second = [item for _, item in archive.items]
    assert first.key == second.key and first.record == second.record


async def test_s22_a_dry_run_changes_nothing_and_says_what_would_go(runtime: Runtime, pruning: Pruning) -> None:
    for number in range(3):
        await runtime.start("look", run_id=f"r{number}")
    would = await pruning.prune(0.0, ("runs",), dry_run=True)
    assert len(await runtime.store.actors(kind="run")) == 3 and await runtime.store.audit(action="prune") == []
    did = await pruning.prune(0.0, ("runs",))
    assert [(one.items, one.rows, one.bytes) for one in would.kinds] == [
        (one.items, one.rows, one.bytes) for one in did.kinds
    ]


async def test_s22_a_transaction_removes_no_more_than_a_batch(
    runtime: Runtime, pruning: Pruning, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        await runtime.start("look", run_id=f"r{number}")
    sizes: list[int] = []
    remove = runtime.store.remove_old

    async def counted(kind: OldKind, keys: Sequence[str], **more: Any) -> Removed:
        sizes.append(len(keys))
        return await remove(kind, keys, **more)

    monkeypatch.setattr(runtime.store, "remove_old", counted)
    await pruning.prune(0.0, batch=2)
    assert sizes and max(sizes) <= 2
    assert len(await runtime.store.audit(action="prune", limit=1_000)) == len(sizes), "each is audited"


async def test_s22_out_of_time_it_goes_on_where_it_was(runtime: Runtime, pruning: Pruning) -> None:
    for number in range(4):
        await runtime.start("look", run_id=f"r{number}")
    kinds: tuple[OldKind, ...] = ("runs", "turns")
    report = await pruning.prune(0.0, kinds, batch=1, within_seconds=0.0)
    rounds = 1
    while not report.complete:
        assert report.place and rounds < 10_000
        report = await pruning.prune(0.0, kinds, batch=1, within_seconds=0.0, since=report)
        rounds += 1
    await pruning.prune(0.0, kinds)
    assert await runtime.store.actors(kind="run") == [] and rounds > 1


async def test_s22_pruning_takes_the_scope_admin_and_a_dry_run_takes_read(runtime: Runtime) -> None:
    reader = Pruning(Operations(runtime.store, Principal("reader", scopes=frozenset({"read"}))))
    await reader.prune(0.0, dry_run=True)
    with pytest.raises(NotAllowed, match="admin"):
        await reader.prune(0.0)


@pytest.mark.parametrize(("age", "kinds", "batch"), [(-1.0, ("runs",), 1), (0.0, (), 1), (0.0, ("runs",), 0)])
async def test_s22_nonsense_is_refused(pruning: Pruning, age: float, kinds: tuple[OldKind, ...], batch: int) -> None:
    with pytest.raises(UsageError):
        await pruning.prune(age, kinds, batch=batch)
