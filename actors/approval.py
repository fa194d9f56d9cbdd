"""The approval actor: turns what people decided into messages to the runs that wait.

The decision row is the arbiter: whoever decides changes it by compare-and-set, and the same
transaction puts `Decided` into this actor's mailbox, so a decision can be recorded while no node runs, and a second one
is refused with the name of the first decider. This actor waits out the release hold, in which an approver can take it
back, and then tells the run. The run moves the row on (approved → released, pending → expired) in the turn that acts.

A hold is known by the id of the `Decided` that began it. Its end is a compare-and-set on the row in the very turn that
tells the run: it ends only if nobody has taken that approval back, and from then on nobody can. So a timer that fires
late releases nothing that was taken back, whatever has been decided since.
All it remembers is which approvals are in their hold.
"""

from typing import Any, Literal

import msgspec

from ..mailbox.lane import Lane
from ..mailbox.message import Message
from ..persistence.unit import Move
from .actor import Actor, on
from .context import Context


class ExpiryWanted(Message, tag="approval.expiry_wanted"):
    """Run to approval actor: tell me when this decision has expired."""

    decision: str
    call: str
    digest: str
    after_seconds: float


class Withdrawn(Message, tag="approval.withdrawn"):
    """Run to approval actor: nobody waits for this decision any more."""

    decision: str


class Decided(Message, tag="approval.decided"):
    """Store to approval actor, with the decision's own commit."""

    decision: str
    run: str
    call: str
    digest: str
    status: Literal["approved", "denied", "expired"]
    by: str
    note: str = ""
    hold_seconds: float = 0.0


class TakenBack(Message, tag="approval.taken_back"):
    """Store to approval actor, with the commit that makes an approval pending again."""

    decision: str
    run: str
    call: str
    digest: str
    hold_id: int
    """The hold that it ends: id of the `Decided` that began it."""
    by: str
    note: str = ""
    left_seconds: float = 0.0
    """How long people still have; 0: for ever."""


class EditWanted(Message, tag="approval.edit_wanted"):
    """Store to approval actor, with the commit that supersedes a decision: the same call with other arguments."""

    decision: str
    run: str
    call: str
    digest: str
    arguments: dict[str, Any]
    by: str
    note: str = ""


class HoldOver(Message, tag="approval.hold_over"):
    """Timer: the release hold of an approval has passed."""

    decided: Decided
    hold_id: int = 0
    """0: of a hold that an older release began, and that could not be taken back."""


class ExpiryDue(Message, tag="approval.expiry_due"):
    """Timer: a decision that nobody made in time."""

    run: str
    decision: str
    call: str
    digest: str


class Release(Message, tag="approval.release"):
    """Approval actor to run: this call, with these arguments, may go."""

    decision: str
    call: str
    digest: str
    by: str
    note: str = ""


class Denied(Message, tag="approval.denied"):
    """Approval actor to run: this call never goes."""

    decision: str
    call: str
    digest: str
    by: str
    reason: str


class Expired(Message, tag="approval.expired"):
    """Approval actor to run: nobody decided in time; the run makes sure of it by moving the row."""

    decision: str
    call: str
    digest: str


class Edited(Message, tag="approval.edited"):
    """Approval actor to run: a person wants this call with these arguments; the question is to be asked anew."""

    decision: str
    call: str
    digest: str
    """Of what was shown to them."""
    arguments: dict[str, Any]
    by: str
    note: str = ""


class Recalled(Message, tag="approval.recalled"):
    """Approval actor to run, for its journal: an approval was taken back before it came to anything."""

    decision: str
    call: str
    digest: str
    by: str
    note: str = ""


MANY_HOLDS = 500
"""Decisions in their release hold at once, beyond which their timers are loose ones."""


MANY_RECALLED = 500
"""Holds that were taken back before they were heard of; of more, the oldest are forgotten. The row knows anyway."""


class ApprovalsState(msgspec.Struct):
    """What the approval actor must not forget."""

    holding: list[str] = []
    """Decisions in a hold that an older release began."""
    holds: dict[int, str] = {}
    """Decisions that are approved and in their release hold, by the id of the hold."""
    recalled: list[int] = []
    """Holds that were taken back, and whose beginning has not come yet: two people's messages come in any order."""


class Approvals(Actor[ApprovalsState], kind="approvals"):
    """Tells runs what was decided.

    What comes first may create it: a run's first gate may be quicker than the tree, which is brought up elsewhere.
    """

    @on(creates=True)
    def expiry_wanted(self, message: ExpiryWanted, ctx: Context) -> None:
        due = ExpiryDue(ctx.sender, message.decision, message.call, message.digest)
        self._expire_in(message.after_seconds, due, ctx)

    @on
    def expiry_due(self, message: ExpiryDue, ctx: Context) -> None:
        if message.decision in self.state.holding or message.decision in self.state.holds.values():
            return  # it was decided in time; the run would try in vain to expire it until the hold is over
        # The normal lane: a Release that is on its way (reply lane) is handled before it and makes it moot.
        ctx.send(message.run, Expired(message.decision, message.call, message.digest))

    @on(creates=True)
    def decided(self, message: Decided, ctx: Context) -> None:
        if ctx.envelope.id in self.state.recalled:
            self.state.recalled.remove(ctx.envelope.id)
            return
        ctx.cancel_timer(f"expiry:{message.decision}")
        self._end_holds(message.decision, ctx)
        if message.status == "approved" and message.hold_seconds > 0:
            hold = ctx.envelope.id
            self.state.holds[hold] = message.decision
            # Loose where there are very many, which cannot be cancelled; one that comes too late finds no hold.
            many = len(self.state.holds) > MANY_HOLDS
            over = HoldOver(message, hold)
            ctx.schedule(_timer(message.decision, hold), message.hold_seconds, over, loose=many)
        else:
            self._tell(message, ctx)

    @on
    def hold_over(self, message: HoldOver, ctx: Context) -> None:
        decision = message.decided.decision
        if message.hold_id:
            if self.state.holds.pop(message.hold_id, None) is None:
                return
            # Should somebody have taken it back in this very moment, this turn is not taken, and is done again after
            # their message, which came with their commit and goes first.
            ctx.move_decision(Move(decision, "approved", "approved", hold_id=message.hold_id))
        self.state.holding = [one for one in self.state.holding if one != decision]
        self._tell(message.decided, ctx)

    @on(creates=True)
    def taken_back(self, message: TakenBack, ctx: Context) -> None:
        if self.state.holds.pop(message.hold_id, None) is None:
            self.state.recalled = [*self.state.recalled, message.hold_id][-MANY_RECALLED:]
        ctx.cancel_timer(_timer(message.decision, message.hold_id))
        if message.left_seconds:
            due = ExpiryDue(message.run, message.decision, message.call, message.digest)
            self._expire_in(message.left_seconds, due, ctx)
        told = Recalled(message.decision, message.call, message.digest, message.by, message.note)
        ctx.send(message.run, told, lane=Lane.REPLY)

    @on(creates=True)
    def edit_wanted(self, message: EditWanted, ctx: Context) -> None:
        ctx.cancel_timer(f"expiry:{message.decision}")
        told = Edited(message.decision, message.call, message.digest, message.arguments, message.by, message.note)
        ctx.send(message.run, told, lane=Lane.REPLY)

    @on
    def withdrawn(self, message: Withdrawn, ctx: Context) -> None:
        ctx.cancel_timer(f"expiry:{message.decision}")
        self._end_holds(message.decision, ctx)

    @staticmethod
    def _expire_in(seconds: float, due: ExpiryDue, ctx: Context) -> None:
        # Loose: there may be any number of them, and one that comes too late moves no row that was decided.
        ctx.schedule(f"expiry:{due.decision}", seconds, due, loose=True)

    def _end_holds(self, decision: str, ctx: Context) -> None:
        self.state.holding = [one for one in self.state.holding if one != decision]
        ctx.cancel_timer(f"hold:{decision}")
        for hold in [hold for hold, held in self.state.holds.items() if held == decision]:
            del self.state.holds[hold]
            ctx.cancel_timer(_timer(decision, hold))

    def _tell(self, decided: Decided, ctx: Context) -> None:
        answer: Message
        if decided.status == "approved":
            answer = Release(decided.decision, decided.call, decided.digest, decided.by, decided.note)
        else:
            answer = Denied(decided.decision, decided.call, decided.digest, decided.by, decided.note)
        ctx.send(decided.run, answer, lane=Lane.REPLY)


def _timer(decision: str, hold: int) -> str:
    return f"hold:{decision}:{hold}"
