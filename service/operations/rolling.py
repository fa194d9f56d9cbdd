"""The supervision tree out of counts: supervisors, pools and single actors, each with how many are below it.

Never an instance: a pool of a million is one line. Everything beneath an instance counts for its pool. The counts may
be some seconds old; actors that need attention are known as of now, and are taken out of whatever they were counted as.
Those among them that do not exist yet (their first message fails, say) were not counted, and come on top.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from ...persistence.watching import Tally, place_of
from .glancing import WORDS, ActorGlance, Word

ROOT = "/"
MAX_CHILDREN = 200
"""Of one node; what more there are is one line together."""

_OF_STATUS: dict[str, Word] = {
    "failed": "FAILED", "escalated": "ESCALATED", "parked": "PARKED", "paused": "PAUSED", "stopped": "STOPPED",
    "completed": "COMPLETED", "cancelled": "CANCELLED",
}  # fmt: skip


class TreeNode(msgspec.Struct, frozen=True):
    """A supervisor, a pool, or an actor of its own, and what is below it."""

    address: str
    """Without keys; "/" for the root."""
    name: str
    total: int = 0
    """Actors here and below."""
    words: dict[Word, int] = {}
    """What those are at, in the order of attention; an active one without messages counts as IDLE."""
    supervisor: bool = False
    children: list["TreeNode"] = []
    """By name."""
    pool: bool = False
    """Whether it stands for many, told apart by a key."""


class _Place:
    """A node while it is counted."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.words: dict[Word, int] = {}
        self.supervisor = self.pool = False
        self.children: dict[str, _Place] = {}

    def add(self, word: Word, amount: int) -> None:
        self.words[word] = self.words.get(word, 0) + amount

    def move(self, word: Word) -> None:
        """One of these is at that, whatever it was counted as."""
        self.add(word, 1)
        counted = (one for one in ("IDLE", "RUNNING", *reversed(WORDS)) if one != word)
        less = next((one for one in counted if self.words.get(one, 0) > 0), None)
        if less is not None:
            self.words[less] -= 1


def rolled_up(tallies: Iterable[Tally], attention: Sequence[ActorGlance]) -> TreeNode:
    """The tree of all that was counted."""
    from ...actors.supervisor import SupervisorActor  # a screen is drawn before anything is counted

    root = _Place(ROOT)
    for tally in tallies:
        place = _found(root, tally.place)
        place.supervisor = place.supervisor or (tally.kind == SupervisorActor.kind and not tally.keyed)
        place.pool = place.pool or tally.keyed
        if tally.status == "active":
            place.add("RUNNING", tally.busy)
            place.add("IDLE", tally.actors - tally.busy)
        else:
            place.add(_OF_STATUS[tally.status], tally.actors)
    for word, one in ((glance.word, glance) for glance in attention):
        name, keyed = place_of(one.address)
        place = _found(root, name)
        if not one.kind:
            place.pool = place.pool or keyed
            place.add(word, 1)
        elif word not in ("FAILED", "ESCALATED", "PARKED", "PAUSED") or not place.words.get(word):
            place.move(word)
    return _node(root)


def _found(root: _Place, address: str) -> _Place:
    place, path = root, ""
    for name in address.split("/")[1:]:
        path = f"{path}/{name}"
        place = place.children.setdefault(name, _Place(path))
    return place


def _node(place: _Place) -> TreeNode:
    children = [_node(child) for _, child in sorted(place.children.items())]
    if len(children) > MAX_CHILDREN:
        rest = children[MAX_CHILDREN - 1 :]
        more = TreeNode(
            place.address, f"{len(rest)} more", sum(one.total for one in rest), _sum([one.words for one in rest])
        )
        children = [*children[: MAX_CHILDREN - 1], more]
    words = _sum([place.words, *(child.words for child in children)])
    return TreeNode(
        place.address,
        "root" if place.address == ROOT else place.address.rpartition("/")[2],
        sum(words.values()),
        words,
        place.supervisor or place.address == ROOT,
        children,
        place.pool,
    )


def _sum(many: Sequence[dict[Word, int]]) -> dict[Word, int]:
    found = {word: sum(words.get(word, 0) for words in many) for word in WORDS}
    return {word: amount for word, amount in found.items() if amount > 0}


def tree_document(root: TreeNode) -> dict[str, Any]:
    """`callboard.tree/1`."""
    return {"schema": "callboard.tree/1", "root": msgspec.to_builtins(root)}
