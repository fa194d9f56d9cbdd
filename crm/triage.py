"""Which queue a ticket belongs into, by the words that are in it: a second look at texts that `reading` finds unclear.

`reading` goes by plain words and takes the first that fits. Here each wish has a wider list of words that count for
it, and the wish with the clear majority wins; where none has it, a person reads the ticket. Pure functions of text.
"""

import re
from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from callboard.crm.reading import Wish

Queue = Literal["support", "billing", "retention", "knowledge", "person"]

QUEUE_OF: Final[Mapping[Wish, Queue]] = {
    "refund_damaged": "billing",
    "exchange": "billing",
    "cancel": "billing",
    "close_account": "billing",
    "change_email": "billing",
    "subscription": "retention",
    "status": "support",
    "question": "knowledge",
    "unclear": "person",
}
NEEDED: Final = 2
"""So many words have to speak for a wish, and for no other as many."""

_WORDS: Final[Mapping[Wish, str]] = {
    "refund_damaged": r"dent|scratch\w*|bent|snapped|defect\w*|refund\w*|money back|leak\w*|crushed|useless|unusable",
    "exchange": r"too (?:small|large|big|long|short|tight)|wrong (?:size|colou?r)|instead|trade|replace\w*|fit|fits",
    "cancel": r"do(?:n't| not) want|no longer (?:need|want)|by mistake|accident\w*|undo|withdraw\w*|never mind",
    "close_account": r"account|forget me|erase|my data|leave you|goodbye|shut down|all you (?:have|know)",
    "change_email": r"e-?mail|mailbox|inbox|address|moved|changed|update|use .{1,40} from now on",
    "subscription": r"monthly|every month|plan|free delivery|repair service|paying each|paused?|renew\w*|period",
    "status": r"waiting|wait|parcel|arrive\w*|deliver\w*|late|still|shipped|received|heard|days|weeks",
    "question": r"how|what|which|can|could|do|does|may|possible|allowed|policy|rules",
}


class Label(msgspec.Struct, frozen=True):
    """What triage says of a ticket."""

    queue: Queue
    wish: str
    """One of `reading.WISHES`; a model may say anything."""


def label_of(text: str) -> Label:
    """The queue of a text, and the wish that it was put there for."""
    scores = {wish: _score(text, wish) for wish in _WORDS}
    best = max(scores, key=lambda wish: scores[wish])
    rest = max(score for wish, score in scores.items() if wish != best)
    return label("unclear" if scores[best] < NEEDED or scores[best] <= rest else best)


def label(wish: Wish) -> Label:
    """The label of a wish that is known."""
    return Label(QUEUE_OF[wish], wish)


def _score(text: str, wish: Wish) -> int:
    """How many different words of a text speak for a wish."""
    found = re.findall(rf"(?<!\w)(?:{_WORDS[wish]})(?!\w)", text, re.IGNORECASE)
    return len({" ".join(word.lower().split()) for word in found})
