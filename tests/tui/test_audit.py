"""The screen of the audit trail: what was done is there with what it was about, and can be taken along."""

import json
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from callboard.persistence.memory import MemoryStore
from callboard.persistence.operating import AuditEntry
from callboard.service.operations.audit_records import did_of, records
from callboard.service.operations.decisions import Answer
from callboard.service.operations.filters import Filter
from callboard.service.operations.runs import Operations
from callboard.tui.app import CallboardApp
from callboard.tui.panes.audit import AuditPane
from callboard.tui.panes.audit.export import file_name, write
from callboard.tui.panes.audit.listing import CAP, PAGE, Listing

from .conftest import Line, gateway_on, said, screen_text, until
from .desk import Desk, desk
from .fallen import HOSTILE

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("at_once")]


@asynccontextmanager
async def audit_of(
    store: Any, size: tuple[int, int] = (120, 36)
) -> AsyncIterator[tuple[CallboardApp, Pilot[None], AuditPane]]:
    """The screen, once its list was read."""
    app = CallboardApp(gateway_on(store))
    async with app.run_test(size=size) as pilot:
        await pilot.press("6")
        pane = app.pane
        assert isinstance(pane, AuditPane)
        await until(pilot, lambda: pane.listing is not None and pane.listing.known)
        yield app, pilot, pane


async def decided(d: Desk) -> str:
    """A refund approved by ana, another one denied with a hostile note; id of the first."""
    yes, no = await d.refund("480.00"), await d.refund("24.00")
    await d.decisions("ana").decide(yes, Answer("approved", ("480.00",), note="photos seen"))
    await d.decisions("bo").decide(no, Answer("denied", note=f"ask for photos {HOSTILE}"))
    return yes


async def noted(store: MemoryStore, count: int) -> None:
    for number in range(1, count + 1):
        await store.note(AuditEntry("ann", "export", f"/a/b:{number}", channel="cli", host="ci", note=f"n {number}"))


def exported(folder: Path) -> tuple[int, str]:
    """Mode and text of the one file there."""
    (path,) = folder.iterdir()
    return stat.S_IMODE(path.stat().st_mode), path.read_text()


@pytest.mark.parametrize("size", [(120, 36), (80, 24), (60, 15)])
async def test_a18_who_did_what_from_where_with_sums_and_outcome_at_every_size(size: tuple[int, int]) -> None:
    async with desk(hold_seconds=600.0) as d:
        await decided(d)
        async with audit_of(d.store, size) as (app, pilot, pane):
            await until(pilot, lambda: "✗ denied" in screen_text(app) and "issue_refund" in screen_text(app))
            text = screen_text(app)
            assert "ana" in text and "bo" in text and "✓ approved" in text and "append-only" in text
            if size[0] == 120:
                assert "€480.00" in text and "€24.00" in text and "cli ci-7" in text and "photos seen" in text
            assert "\x1b" not in text and "\u202e" not in text
            assert [row.key for row in pane.table.rows] == sorted(
                (row.key for row in pane.table.rows), key=int, reverse=True
            )


async def test_enter_tells_a_row_whole_with_before_after_digest_and_note() -> None:
    async with desk(hold_seconds=600.0) as d:
        yes = await decided(d)
        async with audit_of(d.store, (80, 24)) as (app, pilot, pane):
            await until(pilot, lambda: "issue_refund" in screen_text(app))
            await pilot.press("j", "enter")
            await until(pilot, lambda: len(app.screen_stack) == 2 and "photos seen" in screen_text(app))
            text, row = screen_text(app), await d.row(yes)
            assert "pending → approved" in text and row.digest in text and "€480.00" in text and "/crm/run:" in text
            await pilot.press("w")
            await until(pilot, lambda: '"schema": "callboard.audit.item/1"' in screen_text(app))
            await pilot.press("escape")
            assert pane.table.has_focus


async def test_rows_are_paged_by_number_and_the_cursor_stays_when_more_is_done() -> None:
    async with MemoryStore() as store:
        await noted(store, PAGE * 2 + 50)
        async with audit_of(store) as (app, pilot, pane):
            await until(pilot, lambda: len(pane.table.rows) >= PAGE)
            await pilot.press("j", "j")
            key = pane.table.cursor_key
            await store.note(AuditEntry("bo", "export", "/new", channel="cli"))
            app.action_look_now()
            await until(pilot, lambda: pane.table.rows[0].key == str(PAGE * 2 + 51))
            assert pane.table.cursor_key == key
            await pilot.press("G")
            await until(pilot, lambda: pane.table.cursor_key == "1")
            await pilot.press("g")
            await until(pilot, lambda: pane.table.cursor_key == str(PAGE * 2 + 51))


async def test_a_listing_walks_down_and_up_the_whole_trail_without_gaps() -> None:
    async with MemoryStore() as store:
        total = CAP + 3 * PAGE + 7
        await noted(store, total)
        listing = Listing(gateway_on(store).audit, Filter())
        await listing.look()
        seen = [row.number for row in listing.items]
        while not listing.end:
            await listing.more(below=True)
            seen += [row.number for row in listing.items if row.number < seen[-1]]
            numbers = [row.number for row in listing.items]
            assert numbers == list(range(numbers[0], numbers[-1] - 1, -1)) and len(numbers) <= CAP
        assert seen == list(range(total, 0, -1))
        while not listing.start:
            await listing.more(below=False)
            numbers = [row.number for row in listing.items]
            assert numbers == list(range(numbers[0], numbers[-1] - 1, -1))
        assert listing.items[0].number == total


def _shows(app: CallboardApp, pane: AuditPane, text: str, rows: int) -> bool:
    return f"Audit · {text} · newest first" in screen_text(app) and len(pane.table.rows) == rows


async def test_the_filter_knows_who_action_object_and_channel() -> None:
    async with desk(hold_seconds=600.0) as d:
        await decided(d)
        async with audit_of(d.store) as (app, pilot, pane):
            for text, rows in (("who:ana", 1), ("action:denied", 1), ("action:decide", 2), ("channel:http", 0)):
                pane.bar.put(text)
                await until(pilot, partial(_shows, app, pane, text, rows))
            await until(pilot, lambda: "Nothing of that kind was done" in screen_text(app))


async def test_o_goes_to_what_it_was_done_to_and_r_to_its_run() -> None:
    async with desk(hold_seconds=600.0) as d:
        await decided(d)
        async with audit_of(d.store) as (app, pilot, pane):
            await until(pilot, lambda: pane.table.rows)
            await pilot.press("r")
            await until(pilot, lambda: app.pane.heading == "Runs" and "Run T-" in screen_text(app))
            await pilot.press("6", "o")
            await until(pilot, lambda: app.pane.heading == "Runs")


async def test_export_writes_a_private_file_once_and_as_the_command_line_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with desk(hold_seconds=600.0) as d:
        await decided(d)
        before = len(await d.store.audit())
        async with audit_of(d.store) as (app, pilot, pane):
            await until(pilot, lambda: len(pane.table.rows) == 2)
            await pilot.press("E")
            await until(pilot, lambda: "written to" in said(app))
        mode, text = exported(tmp_path)
        assert mode == 0o600
        rows = [json.loads(line) for line in text.splitlines()]
        assert [row["schema"] for row in rows] == ["callboard.audit.item/1"] * 2
        assert {row["who"] for row in rows} == {"ana", "bo"} and "\x1b" not in text
        assert len(await d.store.audit()) == before, "callboard audit --jsonl leaves no row either"


def test_export_never_takes_the_place_of_a_file(tmp_path: Path) -> None:
    now = 1_800_000_000.0
    (tmp_path / file_name(now)).write_text("mine")
    with pytest.raises(FileExistsError):
        write([], tmp_path, now)
    (tmp_path / file_name(now)).unlink()
    (tmp_path / file_name(now)).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="exists"):
        write([], tmp_path, now)
    assert not (tmp_path / "elsewhere").exists()


async def test_what_rows_are_about_is_read_for_those_in_sight_only() -> None:
    async with desk(hold_seconds=600.0) as d:
        await decided(d)
        line = Line(d.store)
        async with audit_of(line.store) as (app, pilot, pane):
            await until(pilot, lambda: "issue_refund" in screen_text(app))
            assert line.asked.count("decision") <= (1 + line.asked.count("audit")) * len(pane.table.shown)


async def test_records_say_what_was_done_and_what_came_of_it() -> None:
    async with desk(hold_seconds=600.0) as d:
        await decided(d)
        found = await records(Operations(d.store, "mara"), await d.store.audit())
        by_did = {record.did: record for record in found}
        assert by_did["denied"].outcome == "not made; the model was told"
        assert by_did["approved"].outcome.startswith("held until") and not by_did["approved"].settled
        assert did_of((await d.store.audit(action="decide"))[0]) == "denied"
