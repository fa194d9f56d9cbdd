"""One actor closely: the newest events, its state without secrets, and the conversation of a run."""

import pytest

from callboard.mailbox.errors import NotAllowed, NotFound
from callboard.persistence.memory import MemoryStore
from callboard.service.operations.closeup import Closeup
from callboard.service.operations.principal import Principal
from callboard.service.operations.runs import Operations
from tests.tui.desk import desk
from tests.tui.still import desk_life
from tests.tui.trouble import CLERK, trouble

pytestmark = pytest.mark.anyio


def closeup(store: MemoryStore, *scopes: str) -> Closeup:
    rights = frozenset(scopes) or frozenset({"read"})
    return Closeup(Operations(store, Principal("mara", scopes=rights)))  # type: ignore[arg-type]


async def test_the_newest_events_come_first_and_no_more_than_were_asked_for() -> None:
    async with MemoryStore() as store, trouble(store) as it:
        await it.send("1", "ok")
        await it.row("1")
        await it.until(lambda: _recorded(store))
        whole = await closeup(store).happenings("/office")
        assert [one.seq for one in whole.items] == list(range(whole.total, 0, -1))
        assert whole.items[-1].type.startswith("sys.supervision.")
        newest = await closeup(store).happenings("/office", limit=1)
        assert [one.seq for one in newest.items] == [whole.total] and newest.total == whole.total


async def _recorded(store: MemoryStore) -> bool:
    row = await store.actor("/office")
    return row is not None and row.events > 2


@pytest.fixture
def life() -> MemoryStore:
    return desk_life()


async def test_g6_what_was_to_make_an_actor_is_told_though_it_is_not_there(life: MemoryStore) -> None:
    store = life
    [lost] = (await closeup(store).happenings("/crm/office/clerk:crm-5")).items
    assert (lost.type, lost.text) == ("ticket.update", "from outside · dead")
    assert (await closeup(store).happenings("/crm/office/clerk:eu-1")).items == []
    with pytest.raises(NotFound):
        await closeup(store).happenings("/crm/office/clerk:nobody")


async def test_a_state_is_shown_as_json_and_what_looks_like_a_secret_is_not() -> None:
    async with MemoryStore() as store, trouble(store) as it:
        await it.send("1", "ok", "ok password: hunter2")
        await it.row("1")
        await it.until(lambda: _turns(store, 2))
        body = await closeup(store).state(f"{CLERK}:1")
        assert body.value == {"tasks": ["ok", "ok password: [redacted]"]}
        assert body.redacted == ["tasks[1]"]


async def _turns(store: MemoryStore, least: int) -> bool:
    row = await store.actor(f"{CLERK}:1")
    return row is not None and row.version >= least


async def test_a_run_is_told_as_events_and_as_a_conversation() -> None:
    async with desk() as d:
        view = await d.row(await d.refund("480.00"))
        said = await closeup(d.store).conversation(view.run_address)
        assert [one.who for one in said][:2] == ["user", "assistant"]
        assert any("issue_refund" in call for one in said for call in one.calls)
        events = await closeup(d.store).happenings(view.run_address)
        held = next(one for one in events.items if one.type == "approval.requested")
        assert "issue_refund HELD" in held.text


async def test_what_is_no_run_has_no_conversation_and_what_is_not_there_is_said() -> None:
    async with MemoryStore() as store, trouble(store) as it:
        await it.send("1", "ok")
        await it.row("1")
        assert await closeup(store).conversation("/office") == []
        with pytest.raises(NotFound, match="no actor at /office/clerk:9"):
            await closeup(store).state(f"{CLERK}:9")
        with pytest.raises(NotAllowed):
            await closeup(store, "approve").state("/office")
