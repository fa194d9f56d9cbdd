"""Three answers to customers: one comes back, one cannot be delivered for a while, one just arrives."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from callboard.actors.spec import Child, Supervisor
from callboard.crm.outbox import Bounce, Mailer
from callboard.persistence.postgres.database import Database

from ..proof import Check
from ..story import Story
from ..story_stage import Stage

GONE, SLOW, GOOD = "T-0001", "T-0002", "T-0003"
WRITERS: Mapping[str, tuple[str, str, str]] = {
    GONE: ("tomas.quintela@example.org", "#S10781", "Tomás"),
    SLOW: ("yuki.tanabe@example.org", "#S11262", "Yuki"),
    GOOD: ("bram.kessler@example.org", "#S10559", "Bram"),
}
TRIES = 2
_MAIL = "SELECT sent_at, bounced_at, tries, trouble FROM crm.outbox WHERE ticket_id = %s"


class BouncedMail(Story):
    """What comes back is left to a person; what fails for a while is tried again; neither holds up the third."""

    name = "bounced-mail"
    about = "a mail comes back and its ticket is left to a person, once; another is tried again; none waits for them"

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        """By recipient: how often the mail server was."""

    async def play(self, stage: Stage) -> None:
        """See `Story.play`."""
        async with stage.desk(tree=self._with_server):
            for ticket, (email, order, name) in WRITERS.items():
                await stage.writes(ticket, email, "My order", f"Where is my order {order}? {name}")
                await stage.begin(ticket)
            for ticket in WRITERS:
                await stage.over(ticket)
            await stage.until(lambda: self._is(stage, GOOD, "sent_at"), "the third mail is sent")
            await stage.until(lambda: self._is(stage, GONE, "bounced_at"), "the first mail comes back")
            await stage.until(lambda: self._is(stage, SLOW, "tries"), "the second mail is tried")
            stage.tale.tell("mail", f"{GOOD}: sent; {GONE}: 550 no such mailbox; {SLOW}: 451 try again later")
            await stage.tell_ticket(GONE)
            for _ in range(TRIES):
                before = self.asked[WRITERS[SLOW][0]]
                await stage.passes(minutes=2)
                await stage.until(partial(self._more, before), "the second mail is tried again")
            await stage.until(lambda: self._is(stage, SLOW, "sent_at"), "the second mail is sent at last")
            stage.tale.tell("mail", f"{SLOW}: sent at its try {self.asked[WRITERS[SLOW][0]]}")

    def _with_server(self, supervisor: Supervisor, tables: Database) -> Supervisor:
        mailer = Child(Mailer, "mailer", args=(tables, self._deliver))
        children = (mailer if child.name == "mailer" else child for child in supervisor.children)
        return replace(supervisor, children=tuple(children))

    async def _deliver(self, key: str, recipient: str, body: str) -> None:
        self.asked[recipient] += 1
        if recipient == WRITERS[GONE][0]:
            raise Bounce("550 5.1.1 no such mailbox")
        if recipient == WRITERS[SLOW][0] and self.asked[recipient] <= TRIES:
            raise ConnectionError("451 4.7.1 try again later")

    async def _is(self, stage: Stage, ticket: str, column: str) -> Any:
        [mail] = await stage.rows(_MAIL, ticket)
        return mail[column]

    async def _more(self, before: int) -> bool:
        return self.asked[WRITERS[SLOW][0]] > before

    async def prove(self, stage: Stage) -> list[Check]:
        """See `Story.prove`."""
        found = {ticket: await stage.rows(_MAIL, ticket) for ticket in WRITERS}
        gone, slow, good = (rows[0] if len(rows) == 1 else {} for rows in found.values())
        notes = await stage.rows("SELECT 1 FROM crm.activity WHERE ticket_id = %s AND kind = 'note'", GONE)
        once = len(notes) == 1
        back = bool(gone.get("bounced_at")) and not gone.get("sent_at")
        again = bool(slow.get("sent_at")) and slow.get("tries") == TRIES
        straight = bool(good.get("sent_at")) and good.get("tries") == 0
        return [
            Check(f"the mail of {GONE} counts as bounced, not as sent", back, ""),
            Check(f"one note on {GONE} says so", once, "" if once else f"there are {len(notes)}"),
            await stage.ticket_is(GONE, "escalated"),
            Check(f"the mail of {SLOW} was sent after {TRIES} failed tries", again, "" if again else f"{slow}"),
            Check(f"the mail of {GOOD} was sent at once", straight, "" if straight else f"{good}"),
        ]
