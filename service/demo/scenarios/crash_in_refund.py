"""A node is killed between paying a refund and recording it: another goes on, and pays nothing."""

from ..proof import Check, find_interrupted
from ..story import Story
from ..story_nodes import open_nodes
from ..story_stage import Stage

TICKET, ORDER, EMAIL = "T-0001", "#S11114", "kwame.oseibonsu@example.org"
CENTS = 6_364


class CrashInRefund(Story):
    """Two real processes, and a real kill -9 at the worst moment that there is."""

    name = "crash-in-refund"
    about = "a node gets a kill -9 between paying a refund and recording it: another goes on, it is paid once"

    def __init__(self) -> None:
        self.key = ""
        """The idempotency key of the refund."""
        self.killed_at = 0.0

    async def play(self, stage: Stage) -> None:
        """See `Story.play`."""
        body = f"Hello, my order {ORDER} came today and the rain cape is broken. I'd like a refund. Kwame"
        await stage.writes(TICKET, EMAIL, "Broken on arrival", body)
        async with open_nodes(stage) as nodes:
            stage.tale.tell("nodes", f"{len(nodes.nodes)} processes serve the desk")
            await stage.begin(TICKET)
            self.key = await nodes.kill_in_refund(TICKET)
            self.killed_at = await stage.store.now()
            await stage.over(TICKET)
        stage.tale.tell("nodes", "the other one takes the ticket over, and finds in the ledger that it is paid")
        await stage.tell_refunds(ORDER)
        await stage.tell_mail(TICKET)

    async def prove(self, stage: Stage) -> list[Check]:
        """See `Story.prove`."""
        runs = [run_id for run_id, _ in await stage.runs.list(limit=100)]
        cut = await find_interrupted(stage.runs, runs, self.key, self.killed_at)
        recovered = cut is not None and cut.recovered is not None and cut.recovered.recovered
        return [
            await stage.refunded(ORDER, [CENTS]),
            Check("the outcome was recorded by another node, as found", recovered, "" if recovered else "it was not"),
            await stage.ticket_is(TICKET, "resolved"),
            await stage.mails(TICKET, 1),
        ]
