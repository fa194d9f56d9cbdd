"""Two agents work on one order at the same time: a chargeback by the bank, and a mail of the customer."""

from collections.abc import Sequence
from typing import Any

import anyio

from callboard.crm.transcript import Call

from ..proof import Check
from ..story import Story, TurnMissed
from ..story_model import Calls, Part, played
from ..story_stage import Stage

MAIL, CHARGEBACK = "T-0001", "T-0002"
ORDER, CARD, EMAIL = "#S11114", "card-06", "kwame.oseibonsu@example.org"
CENTS = 6_364
BOTH = 2


class TwoAgents(Story):
    """Both have read the order before either pays: the second is told that it has changed, and reads it again."""

    name = "two-agents"
    about = "two agents are about to refund the same thing: the second is told to read again, and pays nothing"
    scripted = True

    def __init__(self) -> None:
        self.refused: list[Call] = []
        """Refunds that came second."""
        self._read = 0
        self._both = anyio.Event()

    async def play(self, stage: Stage) -> None:
        """See `Story.play`."""
        body = f"Hello, my order {ORDER} came today and the rain cape is broken. I'd like a refund. Kwame"
        await stage.writes(MAIL, EMAIL, "Broken on arrival", body)
        await stage.writes(CHARGEBACK, EMAIL, "Chargeback", f"My bank claims back the rain cape of {ORDER}. Kwame")
        part = Part(ORDER, self._move, f"Hello Kwame, the rain cape of order {ORDER} is refunded.")
        async with stage.desk(llm=played({MAIL: part, CHARGEBACK: part})):
            await stage.begin(MAIL)
            await stage.begin(CHARGEBACK)
            await stage.over(MAIL)
            await stage.over(CHARGEBACK)
        if not self.refused:
            raise TurnMissed("the second refund is refused, as the order has changed since it was read", "it was made")
        stage.tale.tell(
            "agents", f"both read order {ORDER}: nothing is refunded; both want to pay {CENTS / 100:.2f} USD"
        )
        await stage.tell_refunds(ORDER)
        stage.tale.tell("the other", f"is refused: {self.refused[0].error}")
        stage.tale.tell("the other", "reads the order again, finds it refunded, and pays nothing")

    async def _move(self, calls: Sequence[Call]) -> Calls:
        """What a careful agent does next: pay under the version that was read, and read again when told to."""
        last, order = calls[-1], _last_read(calls)
        if last.refusal_code == "changed":
            self.refused.append(last)
            return [("get_order", {"order_id": ORDER})]
        if last.name == "issue_refund" or order["refunded_cents"]:
            return ()
        await self._wait_for_the_other()
        refund = {"order_id": ORDER, "amount_cents": CENTS, "payment_method_id": CARD, "reason": "rain cape damaged"}
        return [("issue_refund", {**refund, "order_version": order["version"]})]

    async def _wait_for_the_other(self) -> None:
        self._read += 1
        if self._read >= BOTH:
            self._both.set()
        await self._both.wait()

    async def prove(self, stage: Stage) -> list[Check]:
        """See `Story.prove`."""
        tried = await stage.rows("SELECT count(DISTINCT idempotency_key) AS found FROM crm.attempt")
        ok = tried[0]["found"] == BOTH
        return [
            Check("two refunds were tried", ok, "" if ok else f"it was {tried[0]['found']}"),
            await stage.refunded(ORDER, [CENTS]),
            await stage.mails(MAIL, 1),
            await stage.mails(CHARGEBACK, 1),
        ]


def _last_read(calls: Sequence[Call]) -> dict[str, Any]:
    return next(dict(call.result) for call in reversed(calls) if call.name == "get_order")
