"""Mail that is sent, mail that comes back, mail that is tried again: and none holds up another."""

from collections import Counter
from typing import Any

import anyio
import pytest

from callboard.crm import ledger
from callboard.crm.casework import Casework
from callboard.crm.outbox import (
    FIRST_SECONDS,
    LONGEST_SECONDS,
    MAX_TRIES,
    Bounce,
    Mailer,
    SendWaiting,
    SentSome,
    wait_seconds,
)
from callboard.crm.tickets import make_tickets
from callboard.persistence.postgres.database import Database

from .hand_clock import call_context, take_clock

pytestmark = pytest.mark.anyio


class Relay:
    """A mail server that says what it is told to."""

    def __init__(self, says: dict[str, BaseException] | None = None) -> None:
        self.says = says or {}
        self.asked = Counter[str]()
        self.taken: list[str] = []

    async def __call__(self, key: str, recipient: str, body: str) -> None:
        self.asked[key] += 1
        if (error := self.says.get(key)) is not None:
            raise error
        self.taken.append(key)


@pytest.fixture
async def tickets(small_owner: Database) -> list[str]:
    return [case.ticket_id for case in await make_tickets(small_owner, 4, above_limit=0)]


async def write(desk: Database, *tickets: str) -> None:
    for ticket in tickets:
        assert (await Casework(desk).reply_to_customer(ticket, f"Hello {ticket}!", f"key-{ticket}"))["queued"]


async def look(desk: Database, relay: Relay) -> SentSome:
    said = await Mailer(desk, relay).send(SendWaiting(), call_context())
    assert isinstance(said, SentSome)
    return said


async def mail(owner: Database, ticket: str) -> dict[str, Any]:
    row = await owner.row("SELECT * FROM crm.outbox WHERE ticket_id = %s", [ticket])
    assert row is not None
    return row


async def ticket_row(owner: Database, ticket: str) -> dict[str, Any]:
    row = await owner.row("SELECT status, resolution, handed_over FROM crm.ticket WHERE ticket_id = %s", [ticket])
    assert row is not None
    return row


async def notes(owner: Database, ticket: str) -> list[str]:
    rows = await owner.rows("SELECT body FROM crm.activity WHERE kind = 'note' AND ticket_id = %s", [ticket])
    return [row["body"] for row in rows]


async def test_mail_that_bounces_is_marked_and_its_ticket_left_to_a_person_once(
    small: Database, small_owner: Database, tickets: list[str]
) -> None:
    bad, good = tickets[:2]
    await write(small, bad, good)
    await Casework(small).set_ticket(bad, "resolved", "Answered.", "set")
    relay = Relay({f"key-{bad}": Bounce("550 5.1.1 no such mailbox")})
    assert await look(small, relay) == SentSome(1, 1)
    assert relay.taken == [f"key-{good}"]
    returned = await mail(small_owner, bad)
    assert returned["sent_at"] is None and returned["bounced_at"] is not None
    assert "550 5.1.1" in returned["trouble"]
    row = await ticket_row(small_owner, bad)
    assert row["status"] == "escalated" and "550 5.1.1" in row["resolution"]
    assert len(await notes(small_owner, bad)) == 1
    for _ in range(3):
        assert await look(small, relay) == SentSome(0, 0)
    assert relay.asked[f"key-{bad}"] == 1
    assert len(await notes(small_owner, bad)) == 1
    assert (await ticket_row(small_owner, good))["handed_over"] == ""


async def test_a_run_that_is_still_at_work_cannot_close_a_ticket_whose_mail_came_back(
    small: Database, small_owner: Database, tickets: list[str]
) -> None:
    await write(small, tickets[0])
    await look(small, Relay({f"key-{tickets[0]}": Bounce("unknown")}))
    said = await Casework(small).set_ticket(tickets[0], "resolved", "Answered.", "set")
    assert said["code"] == "handed_over"
    assert (await ticket_row(small_owner, tickets[0]))["status"] == "escalated"


async def test_what_a_colleague_did_since_is_not_undone_by_a_bounce_that_is_told_again(
    small: Database, small_owner: Database, tickets: list[str]
) -> None:
    await write(small, tickets[0])
    relay = Relay({f"key-{tickets[0]}": Bounce("unknown")})
    await look(small, relay)
    await small_owner.execute("UPDATE crm.ticket SET status = 'resolved', handed_over = ''")
    await small_owner.execute("UPDATE crm.outbox SET bounced_at = NULL")  # as after a crash before it was marked
    await look(small, relay)
    assert (await ticket_row(small_owner, tickets[0])) == {
        "status": "resolved",
        "resolution": "The mail to " + (await mail(small_owner, tickets[0]))["recipient"] + " came back: unknown",
        "handed_over": "",
    }


async def test_a_failure_of_the_moment_is_tried_again_later_and_later_and_not_before(
    small: Database, small_owner: Database, tickets: list[str]
) -> None:
    passes: Any = await take_clock(small_owner)
    ticket = tickets[0]
    await write(small, ticket)
    relay = Relay({f"key-{ticket}": ConnectionError("451 try again")})
    waited = []
    for tries in range(1, 10):
        await look(small, relay)
        assert relay.asked[f"key-{ticket}"] == tries
        await passes(seconds=wait_seconds(tries) - 5)
        await look(small, relay)
        assert relay.asked[f"key-{ticket}"] == tries, "it was tried before its time"
        waited.append(wait_seconds(tries))
        await passes(seconds=5)
    assert waited == sorted(waited) and (waited[0], waited[-1]) == (FIRST_SECONDS, LONGEST_SECONDS)
    relay.says.clear()
    assert await look(small, relay) == SentSome(1, 0)
    assert (await mail(small_owner, ticket))["sent_at"] is not None
    assert await notes(small_owner, ticket) == []


async def test_a_mail_that_fails_for_days_counts_as_bounced(
    small: Database, small_owner: Database, tickets: list[str]
) -> None:
    await write(small, tickets[0])
    await small_owner.execute("UPDATE crm.outbox SET tries = %s", [MAX_TRIES - 1])
    assert await look(small, Relay({f"key-{tickets[0]}": OSError("no route")})) == SentSome(0, 1)
    assert (await ticket_row(small_owner, tickets[0]))["status"] == "escalated"
    assert "given up after" in (await mail(small_owner, tickets[0]))["trouble"]


async def test_a_mail_that_hangs_or_fails_holds_up_no_other(
    small: Database, small_owner: Database, tickets: list[str]
) -> None:
    await write(small, *tickets)
    others_sent = anyio.Event()
    relay = Relay({f"key-{tickets[1]}": Bounce("gone"), f"key-{tickets[2]}": ValueError("\x00 strange \ud800")})

    async def deliver(key: str, recipient: str, body: str) -> None:
        if key == f"key-{tickets[0]}":
            await others_sent.wait()
        await relay(key, recipient, body)
        if key == f"key-{tickets[3]}":
            others_sent.set()

    said = await Mailer(small, deliver).send(SendWaiting(), call_context())
    assert said == SentSome(2, 1)
    assert sorted(relay.taken) == [f"key-{tickets[0]}", f"key-{tickets[3]}"]
    assert (await mail(small_owner, tickets[2]))["tries"] == 1


async def test_a_mail_that_belongs_to_no_ticket_bounces_without_one(small: Database, small_owner: Database) -> None:
    await small.execute("INSERT INTO crm.outbox (idempotency_key, recipient, body) VALUES ('k', 'a@b.example', 'x')")
    assert await look(small, Relay({"k": Bounce("gone")})) == SentSome(0, 1)
    assert await ledger.duplicate_effects(small_owner) == []
