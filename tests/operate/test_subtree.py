"""Pausing and resuming all below a place: who is reached, who is not, and what the audit trail has of it."""

import pytest

from callboard.mailbox.errors import BadAddress, NotAllowed, NotFound
from callboard.persistence.memory import MemoryStore
from callboard.service.operations import subtree as module
from callboard.service.operations.actors import Inspection
from callboard.service.operations.principal import Principal
from callboard.service.operations.runs import Operations
from callboard.service.operations.subtree import Subtree
from callboard.service.setting_sources import Layer
from callboard.service.settings import Settings, resolve
from tests.tui.trouble import CLERK, Trouble, trouble

pytestmark = pytest.mark.anyio


def operations(store: MemoryStore, *, chaos: bool = True) -> Operations:
    return Operations(store, Principal("mara", "tui", "desk", chaos=chaos))


async def clerks(it: Trouble, *keys: str) -> None:
    for key in keys:
        await it.send(key, "ok")
        await it.row(key)


async def test_a_place_is_paused_and_resumed_and_supervisors_stay_at_work() -> None:
    async with MemoryStore() as store, trouble(store) as it:
        await clerks(it, "1", "2")
        told = await Subtree(operations(store)).pause("/office", "month end")
        assert (told.actors, told.complete) == (2, True), "a worker is no actor that takes messages"
        for key in ("1", "2"):
            assert (await it.row(key, "paused")).reason == "paused by mara: month end"
        supervisor = await store.actor("/office")
        assert supervisor is not None and supervisor.status == "active"
        assert (await Subtree(operations(store)).pause("/office")).actors == 0
        assert (await Subtree(operations(store)).resume(CLERK)).actors == 2
        for key in ("1", "2"):
            await it.row(key, "active")


async def test_what_only_begins_like_the_place_is_left_alone() -> None:
    async with MemoryStore() as store, trouble(store) as it:
        await clerks(it, "1", "12")
        assert (await Subtree(operations(store)).pause(f"{CLERK}:1")).actors == 1
        await it.row("1", "paused")
        await it.row("12", "active")


async def test_resuming_leaves_what_is_parked_to_be_looked_at() -> None:
    async with MemoryStore() as store, trouble(store) as it:
        await it.parked()
        assert (await Subtree(operations(store)).resume("/office")).actors == 0
        await it.row("parked", "parked")


async def test_r12_each_batch_has_its_audit_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH", 2)
    async with MemoryStore() as store, trouble(store) as it:
        await clerks(it, "1", "2", "3")
        await Subtree(operations(store)).pause(CLERK, "month end")
        rows = [row for row in await store.audit() if row.action == "pause below"]
        assert {(row.who, row.object, row.note) for row in rows} == {("mara", CLERK, "month end")}
        assert sorted(row.after for row in rows) == ["1 actor(s)", "2 actor(s)"]


async def test_more_than_it_does_in_one_go_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH", 1)
    monkeypatch.setattr(module, "MOST", 2)
    async with MemoryStore() as store, trouble(store) as it:
        await clerks(it, "1", "2", "3")
        told = await Subtree(operations(store)).pause(CLERK)
        assert (told.actors, told.complete) == (2, False)


async def test_a_place_where_nothing_is_and_a_text_that_is_no_place_are_refused() -> None:
    async with MemoryStore() as store:
        with pytest.raises(NotFound, match="no actor at /nowhere or below"):
            await Subtree(operations(store)).pause("/nowhere")
        with pytest.raises(BadAddress):
            await Subtree(operations(store)).pause("office")


async def test_killing_takes_a_place_that_allows_chaos() -> None:
    async with MemoryStore() as store, trouble(store) as it:
        await clerks(it, "1")
        with pytest.raises(NotAllowed, match="allow_chaos"):
            await Inspection(operations(store, chaos=False)).kill(f"{CLERK}:1")
        assert not [row for row in await store.audit() if row.action == "kill"]
        await Inspection(operations(store)).kill(f"{CLERK}:1")
        assert [row.who for row in await store.audit() if row.action == "kill"] == ["mara"]


def test_chaos_is_off_in_a_terminal_ui_unless_it_is_said_and_nowhere_allowed_where_it_is_denied() -> None:
    def settings(text: str | None) -> Settings:
        values = {} if text is None else {"allow_chaos": text}
        return resolve((Layer(values, lambda name: name),), principal="mara")

    assert [settings(text).chaos(unless_said=False) for text in (None, "false", "true")] == [False, False, True]
    assert [settings(text).chaos(unless_said=True) for text in (None, "false", "true")] == [True, False, True]
