"""A budget is spent in the middle of a case: money has moved, and the customer knows nothing yet."""

from callboard.actors.agent.budget import Budget

from ..proof import Check
from ..story import Story
from ..story_stage import Stage

TICKET, ORDER, EMAIL = "T-0001", "#S11114", "kwame.oseibonsu@example.org"
CENTS = 6_364
BUDGET = Budget(max_iterations=7)
"""Enough to look everything up and to refund; not to answer."""
_NOTES = "SELECT body FROM crm.activity WHERE ticket_id = %s AND idempotency_key LIKE 'unfinished %%'"


class BudgetHandoff(Story):
    """The run says so in the commit that ends it; a person gets the ticket, with what was done so far."""

    name = "budget-handoff"
    about = "an agent's budget ends in the middle of a case: a person gets the ticket, with what was done so far"

    async def play(self, stage: Stage) -> None:
        """See `Story.play`."""
        body = f"Hello, my order {ORDER} came today and the rain cape is broken. I'd like a refund. Kwame"
        await stage.writes(TICKET, EMAIL, "Broken on arrival", body)
        async with stage.desk():
            await stage.begin(TICKET, budget=BUDGET)
            state = await stage.over(TICKET, "failed")
            await stage.tell_refunds(ORDER)
            stage.tale.tell("agent", f"must stop: {state.failure_detail}")
            await stage.until(lambda: stage.rows(_NOTES, TICKET), "the ticket is left to a person")
        await stage.tell_ticket(TICKET)
        for row in await stage.rows(_NOTES, TICKET):
            for line in row["body"].splitlines()[1:]:
                stage.tale.tell("note", line)

    async def prove(self, stage: Stage) -> list[Check]:
        """See `Story.prove`."""
        notes = [row["body"] for row in await stage.rows(_NOTES, TICKET)]
        tells = len(notes) == 1 and all(word in notes[0] for word in ("done: issue_refund", ORDER, str(CENTS)))
        [left] = await stage.rows("SELECT handed_over <> '' AS left FROM crm.ticket WHERE ticket_id = %s", TICKET)
        return [
            await stage.ticket_is(TICKET, "escalated"),
            Check("agents cannot close it any more", left["left"], ""),
            Check("one note, which tells of the refund", tells, "" if tells else f"{notes}"),
            await stage.refunded(ORDER, [CENTS]),
            await stage.mails(TICKET, 0),
        ]
