"""Closing an account takes two people, and then three steps: all of them are taken, or none."""

from dataclasses import replace
from typing import Any

from callboard.actors.spec import Child, Supervisor
from callboard.persistence.postgres.database import Database

from ..proof import Check
from ..story import Story
from ..story_records import write_order
from ..story_stage import Stage

FIRST, SECOND = "T-0001", "T-0002"
ACCOUNT, EMAIL, CARD = "noor.haddadi", "noor.haddadi@example.org", "card-03"
ORDER, CENTS = "#S90001", 2_990
TOOL, WAITS, PEOPLE = "offboard_account", "waiting", 2
_SAGAS = "SELECT offboarding_id, state, why FROM crm.offboarding WHERE account_id = %s ORDER BY offboarding_id"
_STEPS = """
SELECT s.step, s.state FROM crm.offboarding_step s JOIN crm.offboarding o USING (offboarding_id)
WHERE o.offboarding_id = %s ORDER BY s.at, s.step
"""
_BEFORE = "SELECT before->'subscriptions' AS found FROM crm.offboarding_step WHERE step = 'cancel_subscriptions'"
_SUBSCRIPTIONS = "SELECT subscription_id, status FROM crm.subscription WHERE account_id = %s ORDER BY subscription_id"


class Offboarding(Story):
    """The last step is refused, since an order was made meanwhile; the second time nothing is in the way."""

    name = "offboarding"
    about = "two people let an account be closed; the last step fails, all is put back; later it goes through"

    async def play(self, stage: Stage) -> None:
        """See `Story.play`."""
        await stage.writes(FIRST, EMAIL, "Goodbye", "Please close my account. Noor")
        async with stage.desk(tree=_every_hour):
            await self._ask_and_approve(stage, FIRST)
            await write_order(stage.owner, ORDER, CARD, [("Bicycle Lamp", CENTS)])
            await stage.owner.execute("UPDATE crm.sales_order SET status = 'processed' WHERE order_id = %s", (ORDER,))
            stage.tale.tell("customer", f"orders a bicycle lamp meanwhile: {ORDER}")
            await stage.passes(hours=1)
            await self._tell_end(stage, "undone")
            await stage.tell_ticket(FIRST)
            await stage.owner.execute("UPDATE crm.sales_order SET status = 'delivered' WHERE order_id = %s", (ORDER,))
            await stage.writes(SECOND, EMAIL, "Again", "The lamp is here. Now close my account, please. Noor")
            await self._ask_and_approve(stage, SECOND)
            await stage.passes(hours=1)
            await self._tell_end(stage, "done")

    async def _ask_and_approve(self, stage: Stage, ticket: str) -> None:
        await stage.begin(ticket)
        held = await stage.asked(ticket, TOOL)
        for person, note in (("dana", "she asked on the phone too"), ("erik", "nothing is owed")):
            await stage.decides(held, "approved", person, note)
        await stage.over(ticket)

    async def _tell_end(self, stage: Stage, state: str) -> None:
        async def ended() -> list[dict[str, Any]]:
            return [saga for saga in (await stage.rows(_SAGAS, ACCOUNT))[-1:] if saga["state"] in ("done", "undone")]

        [last] = await stage.until(ended, f"the closing ends as {state}")
        steps = [f"{one['step']} {one['state']}" for one in await stage.rows(_STEPS, last["offboarding_id"])]
        why = f" ({last['why']})" if last["why"] else ""
        found = [f"{one['subscription_id']} {one['status']}" for one in await stage.rows(_SUBSCRIPTIONS, ACCOUNT)]
        [account] = await stage.rows("SELECT status FROM crm.account WHERE account_id = %s", ACCOUNT)
        now = f"the account is {account['status']}; {', '.join(found)}"
        stage.tale.tell("closing", f"{last['state']}{why}: {', '.join(steps)}; now {now}")

    async def prove(self, stage: Stage) -> list[Check]:
        """See `Story.prove`."""
        sagas = await stage.rows(_SAGAS, ACCOUNT)
        steps = [
            {one["step"]: one["state"] for one in await stage.rows(_STEPS, saga["offboarding_id"])} for saga in sagas
        ]
        before = [row["found"] for row in await stage.rows(f"{_BEFORE} ORDER BY offboarding_id")]
        live = [one for one in await stage.rows(_SUBSCRIPTIONS, ACCOUNT) if one["status"] != "cancelled"]
        exports = await stage.rows("SELECT content <> '{}' AS there FROM crm.contact_export ORDER BY export_id")
        back = {"cancel_subscriptions": "compensated", "export": "compensated", "close": "failed"}
        ended = [one["state"] for one in sagas] == ["undone", "done"]
        notes = await stage.rows(
            "SELECT 1 FROM crm.activity WHERE ticket_id = %s AND idempotency_key LIKE 'offboarding %%'", FIRST
        )
        return [
            Check("the first closing was undone, the second one done", ended, "" if ended else f"{sagas}"),
            _check("what the first had done was taken back", [back], steps[:1]),
            _check("the second took each step", [dict.fromkeys(back, "done")], steps[1:]),
            Check("the second found the subscriptions as the first did", _same(before), ""),
            _check("no subscription goes on", [], live),
            _check("the first export is withdrawn, the second is there", [False, True], [e["there"] for e in exports]),
            await stage.ticket_is(FIRST, "escalated"),
            _check(f"one note on {FIRST} says why", 1, len(notes)),
            *[await self._let_go(stage, ticket) for ticket in (FIRST, SECOND)],
        ]

    async def _let_go(self, stage: Stage, ticket: str) -> Check:
        sql = "SELECT signatures FROM callboard.decision WHERE tool = %s AND run LIKE %s AND status = 'released'"
        rows = await stage.rows(sql, TOOL, f"%:{ticket}%")
        people = {word for row in rows for word in ("dana", "erik") if f'"{word}"' in row["signatures"]}
        return _check(f"two people let {ticket} go", PEOPLE, len(people))


def _every_hour(supervisor: Supervisor, tables: Database) -> Supervisor:
    """The desk closes accounts every hour, so that something can happen in between."""
    children = (
        replace(child, args=("/crm/offboarder", 3_600.0))
        if isinstance(child, Child) and child.name == "offboarding"
        else child
        for child in supervisor.children
    )
    return replace(supervisor, children=tuple(children))


def _same(found: list[Any]) -> bool:
    return len(found) == PEOPLE and found[0] == found[1] and bool(found[0])


def _check(name: str, expected: object, found: object) -> Check:
    return Check(name, found == expected, "" if found == expected else f"it is {found}")
