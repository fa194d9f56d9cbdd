"""The decision dialog while others act: another was first, it changed, time ran out, the database went away."""

import time
from typing import Any

import msgspec
import pytest

from callboard.mailbox.errors import AlreadyDecided, Conflict, StoreUnavailable
from callboard.persistence.rows import Verdict
from callboard.service.operations.decisions import Answer
from callboard.service.operations.words import Said
from callboard.tui.decide import DecideDialog
from callboard.tui.decide.sheet import words_lines
from callboard.tui.times import clock

from .conftest import Line
from .seat import SMALL, seat

pytestmark = pytest.mark.anyio


async def test_a5_r6_arguments_that_change_disarm_and_the_old_digest_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(DecideDialog, "look_seconds", 3_600.0)
    async with seat(monkeypatch) as s:
        approval = await s.desk.refund("480.00")
        await s.open(approval)
        old = s.dialog.subject.view
        await s.ask("y")
        await s.type("480.00")
        await s.until(lambda: "● armed" in s.text())
        await s.desk.decisions("ana").edit(approval, {"amount": "512.40"}, Answer("approved"), seconds=120.0)
        await s.desk.waiting(old.run_id)
        s.dialog.look()  # once, when all is there: that the checks of the new one have answered is news of its own
        await s.until(lambda: s.dialog.subject.view.id != approval)
        await s.until(lambda: "Disarmed." in s.text() and '"480.00" → "512.40"' in s.text())
        await s.shows("ana changed the request")
        assert s.dialog.stage == "look"
        await s.press("enter")
        assert await s.status(s.dialog.subject.view.id) == "pending"
        stale = Verdict(s.dialog.subject.view.id, "approved", old.digest, "mara")
        with pytest.raises(Conflict):
            await s.desk.decisions("mara").client.decide(stale)
        with pytest.raises(AlreadyDecided):
            await s.desk.decisions("mara").decide(approval, Answer("approved", ("480.00",), old.digest, "x"))
        assert not s.desk.done
        await s.ask("y")
        await s.until(lambda: s.dialog.fields.amounts == [""])


async def test_a5_what_changed_is_still_told_when_the_checks_of_the_new_request_have_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(DecideDialog, "look_seconds", 3_600.0)
    async with seat(monkeypatch) as s:
        approval = await s.desk.refund("480.00")
        await s.open(approval)
        old = s.dialog.subject.view
        await s.desk.decisions("ana").edit(approval, {"amount": "512.40"}, Answer("approved"), seconds=120.0)
        await s.desk.waiting(old.run_id)
        s.dialog.look()
        await s.until(lambda: s.dialog.subject.view.id != approval)
        asked = s.dialog.subject.view
        answered = msgspec.structs.replace(
            asked, checks=[*asked.checks, {"name": "window", "verdict": "pass", "says": "it is open"}]
        )
        await s.dialog._compare(answered)
        await s.shows("ana changed the request", '"480.00" → "512.40"', "The runtime's checks changed what they found")
        await s.dialog._compare(asked)  # and once more
        await s.shows("ana changed the request", "The runtime's checks changed what they found")
        await s.ask("y")
        await s.press("escape")
        await s.until(lambda: s.dialog.stage == "look" and "ana changed the request" not in s.text())


async def test_a6_of_two_who_decide_one_wins_and_the_other_sees_who_and_when(monkeypatch: pytest.MonkeyPatch) -> None:
    async with seat(monkeypatch) as s:
        approval = await s.desk.refund()
        await s.open(approval)
        await s.ask("y")
        await s.type("480.00")
        with monkeypatch.context() as patch:
            patch.setattr(s.dialog, "look", lambda: None)  # nothing was heard yet
            await s.desk.decisions("ana").decide(approval, Answer("denied", note="ask for photos first"))
        await s.press("enter")
        await s.until(lambda: s.is_open and s.dialog.stage == "over")
        await s.until(lambda: "ana denied this" in s.text() and '"ask for photos first"' in s.text())
        await s.shows("Your input was not sent.", "ago")
        view = await s.desk.row(approval)
        assert (view.status, view.decided_by) == ("denied", "ana")
        rows = await s.desk.store.audit(object=approval, action="decide", limit=10)
        assert [row.who for row in rows] == ["ana"]


async def test_a6_what_somebody_else_decided_is_said_while_it_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    async with seat(monkeypatch, size=SMALL) as s:
        one, two = await s.desk.refund(order="A-1"), await s.desk.refund(order="A-2")
        await s.open(one, [one, two])
        await s.desk.decisions("ana").decide(one, Answer("denied", note="no"))
        await s.until(lambda: "ana denied this" in s.text())
        await s.press("y", "n", "enter")
        await s.until(lambda: s.dialog.stage == "over")
        await s.press("right_square_bracket")
        await s.until(lambda: s.dialog.subject.view.id == two and s.dialog.stage == "look")


async def test_a8_what_expires_while_somebody_types_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    async with seat(monkeypatch) as s:
        approval = await s.desk.refund()
        await s.open(approval)
        await s.ask("y")
        await s.type("480.00")
        await s.desk.pass_time(4_000.0)
        await s.press("enter")
        await s.until(lambda: s.is_open and "Expired" in s.text())
        await s.shows("denied by policy refunds.over_25", "Your input was not sent.")
        assert (await s.desk.row(approval)).decided_by != "mara" and not s.desk.done
        assert not await s.desk.store.audit(object=approval, who="mara", limit=10)


def test_what_was_said_on_another_day_has_its_date_and_is_cut_nowhere() -> None:
    noon = time.mktime((2031, 3, 12, 12, 0, 0, 0, 0, -1))
    words = [Said(noon - 86_400.0, "agent", "Let me check the order."), Said(noon, "tool", "it was paid " * 9, "look")]
    lines = words_lines(words, 70, lambda at: clock(at, "local", now=noon))
    told = ["".join(part.text for part in one).rstrip() for one in lines]
    assert told[0] == "2031-03-11 12:00:00 agent     Let me check the order."
    assert told[1].startswith("12:00:00            tool      look → it was paid it was paid")
    assert len(told) > 2 and told[2].startswith(" " * 30) and max(map(len, told)) <= 70


async def test_a_request_that_was_taken_back_can_be_decided_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with seat(monkeypatch, hold=600.0) as s:
        approval = await s.desk.refund()
        await s.open(approval)
        await s.desk.decisions("ana").decide(approval, Answer("approved", ("480.00",)))
        await s.until(lambda: "ana approved this" in s.text())
        await s.desk.decisions("ana").take_back(approval)
        await s.until(lambda: s.dialog.stage == "look" and "taken back" in s.text())
        await s.ask("y")


class Wire(Line):
    """A connection on which the answer to a decision gets lost, before or after it is recorded."""

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.loses = ""
        self.decided = 0

    async def decide(self, *given: Any) -> Any:
        self.decided += 1
        if self.loses == "before":
            self.cut()
        found = await self.__getattr__("decide")(*given)
        if self.loses == "after":
            self.cut()
            raise StoreUnavailable("the connection was lost")
        return found


@pytest.mark.parametrize("loses", ["before", "after"])
async def test_r10_an_answer_of_which_nothing_was_heard_is_asked_for_and_never_sent_twice(
    loses: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wires: list[Wire] = []

    def cut(store: Any) -> Any:
        wires.append(Wire(store))
        return wires[0]

    async with seat(monkeypatch, store=cut, hold=600.0) as s:
        approval = await s.desk.refund()
        await s.open(approval)
        await s.ask("y")
        await s.type("480.00")
        wires[0].loses = loses
        await s.press("enter")
        await s.until(lambda: s.is_open and s.dialog.stage == "unknown")
        await s.until(lambda: "Checking with key dec_" in s.text() and "Do not decide again" in s.text())
        await s.press("enter", "enter", "y")
        assert wires[0].decided == 1 and s.dialog.fields.amounts == ["480.00"]
        wires[0].loses = ""
        wires[0].mend()
        if loses == "after":
            await s.until(lambda: not s.is_open)
            assert await s.status(approval) == "approved"
        else:
            await s.until(lambda: s.dialog.stage == "approve" and "It did not arrive: nothing was decided" in s.text())
            assert await s.status(approval) == "pending" and s.dialog.fields.amounts == ["480.00"]
            await s.until(lambda: not s.app.off)
            await s.press("enter")
            await s.until(lambda: not s.is_open)
        assert wires[0].decided == (1 if loses == "after" else 2)
        rows = await s.desk.store.audit(object=approval, action="decide", limit=10)
        assert [(row.who, row.after, row.host.partition("#")[0]) for row in rows] == [("mara", "approved", "desk")]


async def test_r10_what_was_typed_stays_while_the_database_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    wires: list[Wire] = []

    def cut(store: Any) -> Any:
        wires.append(Wire(store))
        return wires[0]

    async with seat(monkeypatch, store=cut, hold=600.0) as s:
        approval = await s.desk.refund()
        await s.open(approval)
        await s.ask("y")
        await s.type("480.00")
        wires[0].cut()
        await s.until(lambda: s.app.off)
        await s.press("enter")
        await s.pilot.pause()
        assert wires[0].decided == 0 and s.dialog.fields.amounts == ["480.00"] and s.dialog.stage == "approve"
        wires[0].mend()
        await s.until(lambda: not s.app.off)
        assert s.dialog.fields.amounts == ["480.00"]
        await s.press("enter")
        await s.until(lambda: not s.is_open)
        assert await s.status(approval) == "approved"


async def test_r12_the_audit_row_says_what_a_command_s_says(monkeypatch: pytest.MonkeyPatch) -> None:
    async with seat(monkeypatch) as s:
        here, there = await s.desk.refund(order="A-1"), await s.desk.refund(order="A-2")
        await s.open(here)
        await s.ask("n")
        await s.type("no photos")
        await s.press("enter")
        await s.until(lambda: not s.is_open)
        await s.desk.decisions("mara").decide(there, Answer("denied", note="no photos"))
        [mine], [other] = [await s.desk.store.audit(object=one, action="decide", limit=5) for one in (here, there)]
        same = ("who", "action", "before", "after", "note", "label")
        assert [getattr(mine, name) for name in same] == [getattr(other, name) for name in same]
        assert (mine.channel, other.channel) == ("tui", "cli")
