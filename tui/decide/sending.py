"""How an answer is sent: once, with a key of its own by which it is asked for when nothing was heard.

The part of the decision dialog that speaks to the store. Whatever goes wrong, what was typed stays, and nothing is sent
a second time unless the person in front does it, knowing that the first did not arrive.
"""

from collections.abc import Sequence
from typing import ClassVar, Literal

import anyio
from textual import work
from textual.widgets import Input

from callboard.mailbox.errors import AlreadyDecided, CallboardError, Conflict, NotFound, StoreUnavailable
from callboard.service.operations.decisions import Answer
from callboard.service.operations.demands import failed_checks
from callboard.service.operations.views import ApprovalView

from ..text import Line
from . import strip
from .doing import Doing
from .fields import Fields

Stage = Literal["look", "approve", "deny", "sending", "unknown", "over"]


class Sending(Doing):
    """Sends what was typed."""

    answer_seconds: ClassVar[float] = 5.0
    """A database that takes longer for an answer is asked what became of it."""
    first_pause_seconds: ClassVar[float] = 0.5
    CAP_PAUSE_SECONDS: ClassVar[float] = 15.0

    stage: Stage
    note: list[Line]
    key: str

    @property
    def fields(self) -> Fields:
        """What is typed."""
        return self.query_one(Fields)

    def show_foot(self) -> None:
        """Say what keys do now."""
        raise AttributeError("see DecideDialog")

    @property
    def is_there(self) -> bool:
        """Whether it was not left meanwhile."""
        return self.is_attached and bool(self.query(Fields))

    def look_again(self) -> None:
        """See whether the request is still what is shown."""
        raise AttributeError("see DecideDialog")

    async def signed(self, view: ApprovalView) -> None:
        """It is approved, and waits for others."""
        raise AttributeError("see DecideDialog")

    def send(self, status: Literal["approved", "denied"]) -> None:
        """Send the answer, once."""
        view, demand = self.subject.view, self.subject.demand
        sums = zip(demand.repeat, self.fields.amounts, strict=False)
        amounts = tuple(text for one, text in sums if not one.word)
        self.key = f"dec_{self.gateway.port.token()[:8]}"
        seen = tuple(failed_checks(view))
        answer = Answer(status, amounts, view.digest, self.fields.note.strip(), key=self.key, seen_failed=seen)
        before, self.stage, self.note = self.stage, "sending", []
        self.fields.disabled = True  # what was sent is what stands there
        self.show_foot()
        self._deliver(view, answer, before)

    @work(group="send")
    async def _deliver(self, view: ApprovalView, answer: Answer, before: Stage) -> None:
        try:
            with anyio.fail_after(self.answer_seconds):
                decided = await self.gateway.decisions.decide(view.id, answer)
        except (StoreUnavailable, TimeoutError):
            await self._find_out(view, answer, before)
        except (AlreadyDecided, Conflict, NotFound):
            await self._first_was_another(before)
        except CallboardError as error:
            self._type_on(before, [strip.refused(error)])
        else:
            await self.decided(decided)

    async def _first_was_another(self, before: Stage) -> None:
        self._type_on(before)  # what is read now says who or what was first, and that the input was not sent
        self.look_again()

    def _type_on(self, before: Stage, note: Sequence[Line] = ()) -> None:
        """It was not sent after all: what was typed is still there."""
        if not self.is_there:
            return
        self.stage, self.note = before, list(note)
        self.fields.disabled = False
        for field in self.fields.query(Input):
            field.focus()
            break
        self.show_foot()

    async def is_own(self, view: ApprovalView) -> bool:
        """Whether what became of it is the last answer that was sent here: one can land after it was asked for, and
        was not there."""
        mine = bool(self.key) and view.decided_by == self.gateway.principal.name
        return mine and await self.gateway.decisions.arrived(view.id, self.key)

    async def decided(self, view: ApprovalView) -> None:
        """The answer that was sent here was recorded."""
        if view.status == "pending" and self.is_there:
            await self.signed(view)
            return
        if view.can_take_back:
            self.frame.held(view)
        self.finish(view)

    async def _find_out(self, view: ApprovalView, answer: Answer, before: Stage) -> None:
        """Ask what became of an answer, until that is known. It is never sent again by itself."""
        self.stage, pause = "unknown", self.first_pause_seconds
        self.show_foot()
        while self.is_attached:
            await self.gateway.port.sleep(pause)
            pause = min(2 * pause, self.CAP_PAUSE_SECONDS)
            try:
                arrived = await self.gateway.decisions.arrived(view.id, answer.key)
                now, _ = await self.gateway.decisions.now_of(view.id)
            except (StoreUnavailable, TimeoutError):
                continue
            if arrived:
                await self.decided(now)
                return
            self._type_on(before, [strip.not_arrived()])
            self.look_again()
            return
