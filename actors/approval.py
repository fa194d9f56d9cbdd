"""The approval actor: turns what people decided into messages to the runs that wait.

The decision row is the arbiter: whoever decides changes it by compare-and-set, and the same
transaction puts `Decided` into this actor's mailbox, so a decision can be recorded while no node runs, and a second one
is refused with the name of the first decider. This actor waits out the release hold, in which an approver can take it
back, and then tells the run. The run moves the row on (approved → released, pending → expired) in the turn that acts.
All it remembers is which approvals are in their hold.
"""

from typing import Literal

import msgspec

from ..mailbox.lane import Lane
from ..mailbox.message import Message
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


class HoldOver(Message, tag="approval.hold_over"):
    """Timer: the release hold of an approval has passed."""

    decided: Decided


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


MANY_HOLDS = 500
"""Decisions in their release hold at once, beyond which their timers are loose ones."""


class ApprovalsState(msgspec.Struct):
    """What the approval actor must not forget."""

    holding: list[str] = []
    """Decisions that are approved and in their release hold."""


class Approvals(Actor[ApprovalsState], kind="approvals"):
    """Tells runs what was decided.

    What comes first may create it: a run's first gate may be quicker than the tree, which is brought up elsewhere.
    """

    @on(creates=True)
    def expiry_wanted(self, message: ExpiryWanted, ctx: Context) -> None:
        due = ExpiryDue(ctx.sender, message.decision, message.call, message.digest)
        # Loose: there may be any number of them, and one that comes too late moves no row that was decided.
        ctx.schedule(f"expiry:{message.decision}", message.after_seconds, due, loose=True)

    @on
    def expiry_due(self, message: ExpiryDue, ctx: Context) -> None:
        if message.decision in self.state.holding:
            return  # it was decided in time; the run would try in vain to expire it until the hold is over
        # The normal lane: a Release that is on its way (reply lane) is handled before it and makes it moot.
        ctx.send(message.run, Expired(message.decision, message.call, message.digest))

    @on(creates=True)
    def decided(self, message: Decided, ctx: Context) -> None:
        ctx.cancel_timer(f"expiry:{message.decision}")
        ctx.cancel_timer(f"hold:{message.decision}")  # a decision taken back while it was held
        if message.status == "approved" and message.hold_seconds > 0:
            self.state.holding.append(message.decision)
            # Loose only where there are very many: one that was taken back must not be released by a late message.
            many = len(self.state.holding) > MANY_HOLDS
            ctx.schedule(f"hold:{message.decision}", message.hold_seconds, HoldOver(message), loose=many)
        else:
            self._tell(message, ctx)

    @on
    def hold_over(self, message: HoldOver, ctx: Context) -> None:
        self._release_hold(message.decided.decision)
        self._tell(message.decided, ctx)

    @on
    def withdrawn(self, message: Withdrawn, ctx: Context) -> None:
        ctx.cancel_timer(f"expiry:{message.decision}")
        ctx.cancel_timer(f"hold:{message.decision}")
        self._release_hold(message.decision)

    def _release_hold(self, decision: str) -> None:
        self.state.holding = [one for one in self.state.holding if one != decision]

    def _tell(self, decided: Decided, ctx: Context) -> None:
        answer: Message
        if decided.status == "approved":
            answer = Release(decided.decision, decided.call, decided.digest, decided.by, decided.note)
        else:
            answer = Denied(decided.decision, decided.call, decided.digest, decided.by, decided.note)
        ctx.send(decided.run, answer, lane=Lane.REPLY)
