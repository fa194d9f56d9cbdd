"""Deciding under attack: whoever asks, is slow, or presses keys at the wrong moment gets no other yes than is meant."""

from typing import Any

import msgspec
import pytest

from callboard.mailbox.errors import Conflict, StoreUnavailable
from callboard.service.operations.decisions import Answer
from callboard.service.operations.money import sums_in
from callboard.service.operations.principal import Principal
from callboard.service.operations.together import together
from callboard.tui.decide import strip
from callboard.tui.decide.edit import NotThatType, read_value
from callboard.tui.decide.sheet import narrow, wide
from callboard.tui.decide.subject import Leaf, Subject, differences
from callboard.tui.decide.warnings import warnings_of
from callboard.tui.dialog import Dialog
from callboard.tui.frame_hold import Holds
from callboard.tui.palette import commands

from .conftest import Line
from .desk import desk
from .seat import SMALL, seat

pytestmark = pytest.mark.anyio


class Slow(Line):
    """A connection on which decisions take as long as the test wants, and are carried out all the same."""

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.late = False
        self.sent: list[Any] = []

    async def decide(self, *given: Any) -> Any:
        if not self.late:
            return await self.__getattr__("decide")(*given)
        self.sent.append(given)
        raise StoreUnavailable("the connection was lost")

    async def land(self) -> None:
        """What was sent reaches the database now."""
        await self._store.decide(*self.sent[0])


def slow(wires: list[Slow]) -> Any:
    """A store's connection as `Slow`."""

    def made(store: Any) -> Any:
        wires.append(Slow(store))
        return wires[0]

    return made


async def test_an_answer_that_lands_after_it_was_said_not_to_have_arrived_is_known_as_ones_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wires: list[Slow] = []
    async with seat(monkeypatch, store=slow(wires), hold=600.0) as s:
        approval = await s.desk.refund()
        await s.open(approval)
        await s.ask("y")
        await s.type("480.00")
        wires[0].late = True
        await s.press("enter")
        await s.until(lambda: s.is_open and s.dialog.stage == "approve" and "did not arrive" in s.text())
        await wires[0].land()
        await s.until(lambda: not s.is_open)
        assert await s.status(approval) == "approved"
        await s.until(lambda: s.app.holds.at(s.app.now()))


async def test_an_answer_that_lands_while_something_is_read_is_taken_and_ends_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wires: list[Slow] = []
    async with seat(monkeypatch, store=slow(wires), hold=600.0) as s:
        approval = await s.desk.refund()
        await s.open(approval)
        await s.ask("y")
        await s.type("480.00")
        wires[0].late = True
        dialog = s.dialog
        await s.press("enter")
        await s.until(lambda: dialog.stage == "approve" and "did not arrive" in s.text())
        await s.press("escape")
        await s.until(lambda: dialog.stage == "look")
        await s.press("t")
        await s.until(lambda: not s.is_open)
        await wires[0].land()
        await s.until(lambda: dialog._finished is not None)
        await s.press("escape")
        await s.until(lambda: not isinstance(s.app.screen, Dialog))
        assert await s.status(approval) == "approved"


async def test_leaving_while_it_is_not_known_what_became_of_an_answer_ends_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wires: list[Slow] = []
    async with seat(monkeypatch, store=slow(wires), hold=600.0) as s:
        approval = await s.desk.refund()
        await s.open(approval)
        await s.ask("y")
        await s.type("480.00")
        wires[0].late = True
        wires[0].hang()
        await s.press("enter")
        await s.until(lambda: s.is_open and s.dialog.stage == "unknown" and wires[0].inside.get("audit"))
        await s.press("escape")
        await s.until(lambda: not s.is_open)
        wires[0].mend()
        await s.until(lambda: not wires[0].inside["audit"])
        await s.pilot.pause()
        assert await s.status(approval) == "pending"


@pytest.mark.parametrize("size", [SMALL, (60, 15)])
async def test_r5_a_long_request_is_not_taken_as_seen_because_the_one_before_was_read_to_its_end(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with seat(monkeypatch, size=size) as s:
        one = await s.desk.refund(order="A-1", memo="word " * 600)
        two = await s.desk.refund(order="A-2", memo="more " * 600)
        await s.open(one, [one, two])
        await s.press("G")
        await s.until(lambda: not s.dialog.unseen)
        await s.press("right_square_bracket")
        await s.until(lambda: s.dialog.subject.view.id == two)
        s.dialog.see()
        assert s.dialog.unseen
        for _ in range(5):
            await s.pilot.pause()
        assert s.dialog.unseen and s.dialog.body.scroll_offset.y == 0
        await s.press("y")
        assert s.dialog.stage == "look"


async def test_r5_what_somebody_made_longer_is_not_taken_as_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    async with seat(monkeypatch, size=SMALL) as s:
        one = await s.desk.refund(order="A-1", memo="word " * 600)
        await s.open(one)
        await s.press("G")
        await s.until(lambda: not s.dialog.unseen)
        await s.desk.decisions().edit(one, {"memo": "more " * 600}, Answer("approved"), seconds=120.0)
        await s.until(lambda: s.dialog.subject.view.id != one and s.dialog.stage == "look")
        for _ in range(5):
            await s.pilot.pause()
        assert s.dialog.unseen


async def test_a_check_that_fails_after_the_look_is_not_overlooked_for_a_note() -> None:
    async with desk() as d:
        d.delivered_days["A-9"] = 41
        approval = await d.refund("30.00", order="A-9")
        [view] = await d.decisions().list()
        before = msgspec.structs.replace(view, checks=[])  # as it was shown before its checks had answered
        plan = together([before], Principal("mara", "tui", "desk"))
        [(given, answer)] = plan.approvals("a note about something else", "k")
        with pytest.raises(Conflict, match="in_time"):
            await d.decisions("mara").decide(given, answer)
        assert (await d.row(approval)).status == "pending"


async def test_what_is_negative_hides_nothing_in_a_total() -> None:
    async with desk() as d:
        await d.refund("20.00", order="A-1")
        await d.refund("-20.00", order="A-2")
        plan = together(await d.decisions().list(), Principal("mara", "tui", "desk"))
        assert [one.why for one in plan.left_out] == ["a negative sum"]
        assert [one.text for one in plan.totals] == ["20.00"]


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_what_json_cannot_say_is_no_changed_value(text: str) -> None:
    for value in (4.5, None, [1.0], {"a": 1}):
        with pytest.raises(NotThatType):
            read_value(Leaf("amount", value), text)
    with pytest.raises(NotThatType):
        read_value(Leaf("amounts", [1.0]), f"[{text}]")


async def _subject(d: Any, arguments: Any) -> Subject:
    await d.mail()
    [view] = await d.decisions().list()
    view = msgspec.structs.replace(view, arguments=arguments, money=sums_in(arguments))
    return Subject(view, d.decisions().demand(view))


def _text(sheet: Any) -> str:
    return "\n".join("".join(part.text for part in one) for one in sheet.lines)


async def test_r5_an_argument_without_a_name_is_shown() -> None:
    async with desk() as d:
        subject = await _subject(d, {"": "pay everything"})
        for arrange in (narrow, wide):
            shown = _text(arrange(subject, 100, str))
            assert "pay everything" in shown


async def test_r5_arguments_whose_names_look_like_a_path_are_told_apart() -> None:
    async with desk() as d:
        subject = await _subject(d, {"a.amount": 1, "a": {"amount": 2}})
        after = msgspec.structs.replace(subject.view, arguments={"a.amount": 9, "a": {"amount": 2}})
        assert differences(subject.view, after) == [('["a.amount"]', "1", "9")]


async def test_r7_names_of_arguments_are_looked_at_like_their_values() -> None:
    async with desk() as d:
        subject = await _subject(d, {"am\u200bount": 1, "p\u0430yee": "x"})
        told = " ".join(warnings_of(subject.view))
        assert "hidden character" in told and "mixes alphabets" in told


async def test_r2_the_palette_does_not_offer_the_key_that_finishes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async with seat(monkeypatch) as s:
        await s.open(await s.desk.mail())
        await s.ask("y")
        found = commands(s.app.screen, off=False, screens=())
        assert not [one for one in found if "second_key" in one.action]


async def test_u_takes_back_what_is_shown_or_nothing() -> None:
    async with desk(hold_seconds=600.0) as d:
        one, two = await d.refund(order="A-1"), await d.refund(order="A-2")
        views = [await d.decisions("mara").decide(each, Answer("approved", ("480.00",))) for each in (one, two)]
        holds = Holds("mara")
        holds.look(views)
        now = views[0].decided_at + 1
        holds.line(now, 200)
        assert holds.shown == two
        holds.look([views[0], msgspec.structs.replace(views[1], release_at=now + 0.5)])
        wanted = holds.wanted(now + 1)
        assert wanted is None or wanted.id == two


async def test_esc_and_quit_work_while_the_database_hangs_after_n(monkeypatch: pytest.MonkeyPatch) -> None:
    wires: list[Line] = []

    def made(store: Any) -> Any:
        wires.append(Line(store))
        return wires[0]

    async with seat(monkeypatch, store=made) as s:
        one, two = await s.desk.refund(order="A-1"), await s.desk.refund(order="A-2")
        await s.open(one, [one, two])
        wires[0].hang()
        for key, done in (
            ("n", lambda: s.dialog.stage == "deny"),
            ("escape", lambda: s.dialog.stage == "look"),
            ("right_square_bracket", lambda: s.dialog.stepping),
            ("y", lambda: True),
            ("escape", lambda: not s.is_open),
        ):
            s.key(key)
            await s.until(done)
        wires[0].mend()


async def test_a_call_of_hundreds_of_sums_leaves_the_keys_where_they_are() -> None:
    async with desk() as d:
        subject = await _subject(d, {"lines": [{"price": number} for number in range(300)]})
        told = ["".join(part.text for part in one) for one in strip.looking(subject, 0, "")]
        assert "300 sums" in told[0] and "approve…" not in " ".join(told) and "deny…" in told[1]
        assert len(strip.looking(subject, 0, "")) == 2
