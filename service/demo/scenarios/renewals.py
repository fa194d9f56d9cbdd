"""Two subscriptions renew in sixty days. What is due in a month is a timer in the database, the desk open or shut."""

import msgspec

from ..proof import Check
from ..story import Story
from ..story_stage import Stage

TICKET = "T-0001"
KEEPS, PAUSES = "SUB-1001", "SUB-1005"
OWNER, OTHER = "noor.haddadi@example.org", "greta.almqvist@example.org"
BOTH = 2
_IN_SIXTY_DAYS = """
UPDATE crm.subscription SET renews = subscription_id = ANY(%(which)s),
    paid_until = CASE WHEN subscription_id = ANY(%(which)s) THEN crm.clock() + interval '60 days' ELSE paid_until END
"""
_MAILS = "SELECT recipient, body FROM crm.outbox WHERE ticket_id IS NULL ORDER BY outbox_id"
_NOTICES = """
SELECT subscription_id, number, round(extract(epoch FROM renews_at - created_at) / 86400)::integer AS days_before
FROM crm.renewal_notice ORDER BY created_at
"""


class Renewals(Story):
    """One owner hears of it twice, the other pauses in time and hears nothing."""

    name = "renewals"
    about = "a mail 30 days before a subscription renews and one 7 days before; none to who has paused theirs"

    async def play(self, stage: Stage) -> None:
        """See `Story.play`."""
        await stage.owner.execute(_IN_SIXTY_DAYS, {"which": [KEEPS, PAUSES]})
        async with stage.desk():
            await stage.until(lambda: self._timers(stage, 0), "the daily look is set")
            await stage.passes(minutes=2)
            await stage.until(lambda: self._timers(stage, BOTH), "a timer for each of the two")
            stage.tale.tell("desk", f"{KEEPS} and {PAUSES} renew in 60 days: two timers are set, 30 days ahead")
            await stage.writes(TICKET, OTHER, "A break", f"Please pause my subscription {PAUSES}. Greta")
            await stage.begin(TICKET)
            await stage.over(TICKET)
            await stage.tell_ticket(TICKET)
        stage.tale.tell("desk", "is shut for a month")
        await stage.passes(days=31)
        async with stage.desk():
            await stage.until(lambda: self._told(stage, 1), "a mail to the owner of the one that renews")
            await stage.until(lambda: self._skipped(stage), "the other timer fires, and finds that it has paused")
            stage.tale.tell("desk", f"the timer of {PAUSES} fires too: it is paused, so there is nothing to announce")
            await stage.passes(days=23)
            await stage.until(lambda: self._told(stage, BOTH), "a second mail, as nothing happened")
            await stage.passes(days=5)
        for mail in await stage.rows(_MAILS):
            stage.tale.tell("mail", f'to {mail["recipient"]}: "{mail["body"]}"')

    async def _timers(self, stage: Stage, count: int) -> bool:
        return len(await stage.store.timers("/crm/renewals")) == count + 1  # and the one of the daily look

    async def _told(self, stage: Stage, count: int) -> bool:
        return len(await stage.rows(_MAILS)) >= count

    async def _skipped(self, stage: Stage) -> bool:
        row = await stage.store.actor("/crm/renewals")
        return row is not None and msgspec.json.decode(row.summary or "{}").get("skipped", 0) > 0

    async def prove(self, stage: Stage) -> list[Check]:
        """See `Story.prove`."""
        notices = [tuple(row.values()) for row in await stage.rows(_NOTICES)]
        numbers = [(name, number) for name, number, _ in notices] == [(KEEPS, 1), (KEEPS, BOTH)]
        days = [day for _, _, day in notices]
        in_time = len(days) == BOTH and 28 <= days[0] <= 30 and 4 <= days[1] <= 7
        mails = [row["recipient"] for row in await stage.rows(_MAILS)]
        [paused] = await stage.rows("SELECT status FROM crm.subscription WHERE subscription_id = %s", PAUSES)
        return [
            Check(f"two notices of {KEEPS}, none of {PAUSES}", numbers, "" if numbers else f"{notices}"),
            Check("each in its time, and none before it", in_time, "" if in_time else f"days before: {days}"),
            Check("both to the owner alone", mails == [OWNER, OWNER], "" if mails == [OWNER, OWNER] else f"{mails}"),
            Check(f"{PAUSES} is paused", paused["status"] == "paused", paused["status"]),
        ]
