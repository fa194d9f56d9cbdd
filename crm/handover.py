"""Leaving a ticket to a person: what the desk's own machinery does when agents cannot go on, or must not.

A mail came back, an account could not be closed, a run has ended without an answer: the ticket becomes `escalated`, a
note says why, and from then on agents cannot set it (`casework`): a run that is still at work could else close what
somebody has to look at. A person who takes the ticket up sets `crm.ticket.handed_over` back to "".
"""

from callboard.crm.answers import MAX_TEXT_CHARACTERS
from callboard.persistence.postgres.database import Session

_NOTE = """
INSERT INTO crm.activity (ticket_id, kind, body, trust, idempotency_key)
VALUES (%(ticket)s, 'note', %(body)s, 'untrusted', %(key)s) ON CONFLICT (idempotency_key) DO NOTHING
"""
_HAND_OVER = """
UPDATE crm.ticket SET status = 'escalated', resolution = %(why)s, handed_over = %(why)s, updated_at = crm.clock()
WHERE ticket_id = %(ticket)s
"""


async def hand_over(session: Session, ticket_id: str, why: str, key: str, *, note: str = "") -> bool:
    """Leave a ticket to a person, in the caller's transaction; whether this is the first time under `key`.

    `why`: one sentence; `note`: more than that, for the colleague. Once under a key: when it is said again, what the
    colleague has done since stays. Where there is no such ticket, nothing happens.
    """
    if await session.row("SELECT 1 FROM crm.ticket WHERE ticket_id = %s FOR UPDATE", (ticket_id,)) is None:
        return False
    said = {"ticket": ticket_id, "why": kept(why), "body": kept(note or why), "key": key}
    if not await session.execute(_NOTE, said):
        return False
    await session.execute(_HAND_OVER, said)
    return True


def kept(text: str) -> str:
    """Of a text from anywhere, what a column of the desk can hold."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode()[:MAX_TEXT_CHARACTERS]
