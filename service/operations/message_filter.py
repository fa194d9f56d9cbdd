"""Filters of mailboxes and of the messages in one: what they can say, and the messages that fit.

What the store can look for (a text in bodies, a state, where a message comes from) it looks for; the rest is judged
here. Looking changes nothing.
"""

from functools import partial
from typing import Literal, cast, get_args

from ...mailbox.errors import UsageError
from ...persistence.operating import MailboxSummary, MessageSearch, MessageState
from .actors import MessageLine
from .filters import Field, Filter
from .mailboxes import Mailboxes

LOOKED_AT = 1_000
"""Messages that the store found, of which those are kept that fit."""

MAILBOX_FIELDS = (
    Field("address", "path", "whose mailbox"),
    Field("depth", "number", "messages in it"),
    Field("ready", "number"),
    Field("scheduled", "number"),
    Field("retrying", "number"),
    Field("held", "number"),
    Field("stashed", "number"),
    Field("oldest", "duration", "for how long its oldest waits"),
    Field("tries", "number", "the most that one of them has failed"),
)
MESSAGE_FIELDS = (
    Field("state", "word", "what it waits for", ("ready", "in turn", "scheduled", "retrying", "held", "stashed")),
    Field("type"),
    Field("from", "path", "who sent it"),
    Field("body", about="a text in it, as written"),
    Field("error", about="of its last try"),
    Field("tries", "number"),
    Field("age", "duration"),
)


def mailbox_value(box: MailboxSummary, name: str, now: float) -> object:
    """A mailbox's value of a field of MAILBOX_FIELDS."""
    match name:
        case "oldest":
            return now - box.oldest_at
        case "tries":
            return box.failures
        case _:
            return getattr(box, name)


def message_value(line: MessageLine, name: str, now: float) -> object:
    """A message's value of a field of MESSAGE_FIELDS; None of its body, which a list does not have."""
    values: dict[str, object] = {
        "state": line.state,
        "type": line.type,
        "from": line.sender,
        "error": line.last_error,
        "tries": line.attempt - 1,
        "age": now - line.sent_at,
    }
    return values.get(name)


async def messages_that_fit(mailboxes: Mailboxes, address: str, wish: Filter) -> tuple[list[MessageLine], bool]:
    """The messages in a mailbox that fit, in order of id, and whether these are all.

    Raises:
        UsageError: `body` is given as something else than one text.
    """
    search = MessageSearch(_text(wish), recipient=address, sender=wish.prefix("from"), state=_state(wish))
    lines, complete = await mailboxes.search(search, limit=LOOKED_AT)
    now, rest = await mailboxes.store.now(), wish.without("body")
    found = [line for line in lines if line.recipient == address and rest.fits(partial(message_value, line, now=now))]
    return found, complete


def _text(wish: Filter) -> str:
    terms = [term for term in wish.terms if term.field == "body"]
    if not terms:
        return ""
    text = terms[0].source.partition(":")[2].replace('"', "")
    if len(terms) > 1 or terms[0].negative or not text or "*" in text:
        raise UsageError(f'{terms[0].source[:40]!r}: body wants one text, as it is written there: body:"late parcel"')
    return text


def _state(wish: Filter) -> MessageState | Literal[""]:
    states = wish.pick("state")
    if len(states) == 1 and states[0] in get_args(MessageState):
        return cast("MessageState", states[0])
    return ""
