"""One answer of the model asks for three things at once: one of them waits for a person, the others do not."""

from ..proof import Check
from ..story import Story, TurnMissed
from ..story_model import Calls, Part, in_turn, played
from ..story_stage import Stage

TICKET, ORDER, OTHER, EMAIL = "T-0001", "#S10818", "#S10855", "sanne.verhulst@example.org"
CARD, CENTS, OTHER_CENTS = "card-10", 26_696, 4_547
NOTE = f"The drafting chair of {ORDER} is reported damaged, and {OTHER} is not wanted any more."


class SiblingCalls(Story):
    """A refund, a cancellation and a note, asked for in one answer."""

    name = "sibling-calls"
    about = "three calls at once: one waits for a person, the others are made meanwhile, each exactly once"

    async def play(self, stage: Stage) -> None:
        """See `Story.play`."""
        body = f"The drafting chair of {ORDER} is broken, I'd like a refund. And please cancel {OTHER}. Sanne"
        await stage.writes(TICKET, EMAIL, "Two things", body)
        async with stage.desk(llm=played({TICKET: _part()})):
            await stage.begin(TICKET)
            held = await stage.asked(TICKET, "issue_refund")
            await stage.until(lambda: self._others_done(stage), "the cancellation and the note are made meanwhile")
            await stage.tell_refunds(OTHER)
            stage.tale.tell("done", f'noted on {TICKET}: "{NOTE}"')
            if (await stage.row(held)).status != "pending":
                raise TurnMissed("the refund still waits", "it does not")
            stage.tale.tell("question", "still waits", "waits")
            await stage.decides(held, "approved", note="photo seen")
            await stage.over(TICKET)
        await stage.tell_refunds(ORDER)

    async def _others_done(self, stage: Stage) -> bool:
        sql = (
            "SELECT 1 FROM crm.sales_order o JOIN crm.activity a ON a.ticket_id = %s AND a.kind = 'note'"
            " WHERE o.order_id = %s AND o.status = 'cancelled'"
        )
        return bool(await stage.rows(sql, TICKET, OTHER))

    async def prove(self, stage: Stage) -> list[Check]:
        """See `Story.prove`."""
        notes = await stage.rows("SELECT 1 FROM crm.activity WHERE kind = 'note' AND body = %s", NOTE)
        return [
            await stage.refunded(ORDER, [CENTS]),
            await stage.refunded(OTHER, [OTHER_CENTS]),
            await stage.decided_once(TICKET, "issue_refund", "released"),
            Check("one note", len(notes) == 1, "" if len(notes) == 1 else f"there are {len(notes)}"),
            await stage.mails(TICKET, 1),
        ]


def _part() -> Part:
    refund = {"order_id": ORDER, "payment_method_id": CARD, "reason": "chair arrived damaged", "amount_cents": CENTS}
    siblings: Calls = [
        ("issue_refund", refund),
        ("cancel_order", {"order_id": OTHER}),
        ("add_note", {"ticket_id": TICKET, "text": NOTE}),
    ]
    reply = f"Hello Sanne, we have refunded the chair of {ORDER} and cancelled the other order."
    return Part(ORDER, in_turn([("get_order", {"order_id": OTHER})], siblings), reply)
