"""A refund above the limit: the agent asks, a person approves, it is paid once."""

from ..proof import Check
from ..story import Story
from ..story_stage import Stage

TICKET, ORDER, EMAIL = "T-0001", "#S11114", "kwame.oseibonsu@example.org"
CENTS = 24_950


class RefundApproved(Story):
    """The plainest story of all."""

    name = "refund-approved"
    about = "a refund above the limit waits for a person, who approves it"

    async def play(self, stage: Stage) -> None:
        """See `Story.play`."""
        body = f"Hello, my order {ORDER} came today and the drafting chair is broken. I'd like a refund. Kwame"
        await stage.writes(TICKET, EMAIL, "Broken on arrival", body)
        async with stage.desk():
            await stage.begin(TICKET)
            held = await stage.asked(TICKET, "issue_refund")
            await stage.decides(held, "approved", note="photo seen")
            await stage.over(TICKET)
        await stage.tell_refunds(ORDER)
        await stage.tell_mail(TICKET)

    async def prove(self, stage: Stage) -> list[Check]:
        """See `Story.prove`."""
        return [
            await stage.refunded(ORDER, [CENTS]),
            await stage.ticket_is(TICKET, "resolved"),
            await stage.mails(TICKET, 1),
        ]
