"""Nobody decides in time, and that means no: the deadline of an approval passes."""

from dataclasses import replace

from callboard.actors.agent.policy_data import policies_from
from callboard.crm.app import DESK_RULES

from ..proof import Check
from ..question import ticket_of
from ..story import Story, TurnMissed
from ..story_stage import Stage

TICKET, ORDER, EMAIL = "T-0001", "#S10818", "sanne.verhulst@example.org"
HOURS = 24
IN_A_DAY = policies_from(
    [
        {
            "tool": "issue_refund",
            "name": "refunds.within-a-day",
            "when": [{"field": "amount_cents", "above": 10_000}],
            "reason": f"a refund above 100.00 USD is decided within {HOURS} hours, or it is not made",
            "expires_seconds": HOURS * 3_600,
        }
    ]
)


class RefundExpired(Story):
    """A day passes by hand-driven time, on the database's own clock."""

    name = "refund-expired"
    about = f"nobody decides for {HOURS} hours: that means no, and a late yes comes to nothing"

    async def play(self, stage: Stage) -> None:
        """See `Story.play`."""
        body = f"Hello, inside the parcel of {ORDER} the drafting chair was cracked. I'd like a refund. Thanks, Sanne"
        await stage.writes(TICKET, EMAIL, f"Damaged item in {ORDER}", body)
        async with stage.desk(rules=replace(DESK_RULES, policies=IN_A_DAY)):
            await stage.begin(TICKET)
            held = await stage.asked(TICKET, "issue_refund")
            await stage.passes(hours=HOURS - 1)
            if [one.id for one in await stage.questions(TICKET)] != [held.id]:
                raise TurnMissed(f"the question waits for {HOURS - 1} hours", "it waits no more")
            stage.tale.tell("question", "still waits", "waits")
            await stage.passes(hours=2)

            async def expired() -> bool:
                return (await stage.row(held)).status == "expired"

            await stage.until(expired, f"the question about {ticket_of(held)} expires after {HOURS} hours")
            stage.tale.tell("question", "has expired: nobody decided, which means no", "waits")
            await stage.comes_too_late(held)
            await stage.over(TICKET)
        await stage.tell_mail(TICKET)

    async def prove(self, stage: Stage) -> list[Check]:
        """See `Story.prove`."""
        return [
            await stage.refunded(ORDER, []),
            await stage.decided_once(TICKET, "issue_refund", "expired"),
            await stage.ticket_is(TICKET, "rejected"),
            await stage.mails(TICKET, 1),
        ]
