"""Nodes of a memory store: who is a member, who owns which shard, who holds its lock.

The lock stands for what the session-level lock is in a database: held from joining on, free at once when the process
has died or left. Invariant: a node's epoch changes only when it is superseded, and a shard has at most one owner.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

from ...mailbox.address import SHARDS
from ...mailbox.errors import Conflict
from ..port import Signal
from ..rows import Member
from ..store import NodeInfo, Wake

NODE_NUMBERS = range(1, 1024)
"""0 is left out: it means "from outside" in the rows."""

REUSE_SECONDS = 600.0
"""A number is used again when all are used up, the one first whose node ended longest ago, but not within this time:
what is feared is a clock that stepped back, and ids at that distance still differ."""


class Node:
    """One node's row, its lock, and what it was woken for."""

    def __init__(self, number: int, epoch: int, info: NodeInfo, beat: float) -> None:
        self.number = number
        self.epoch = epoch
        self.info = info
        self.beat = beat
        self.joined_at = beat
        self.ended_at = 0.0
        self.status: Literal["up", "draining", "left", "dead"] = "up"
        self.locked = True
        self.lock_changed: list[Signal] = []
        self.woken = Signal()
        self._shards: set[int] | None = set()
        self._members_changed = False

    @property
    def serves(self) -> bool:
        """Whether it may own and commit."""
        return self.status in ("up", "draining")

    def set_lock(self, locked: bool) -> None:
        """Take or free the lock, and tell those who watch it."""
        self.locked = locked
        for signal in self.lock_changed:
            signal.set()

    def poke(self, wake: Wake) -> None:
        """Note a reason to wake, and wake."""
        if wake.shards is None:
            self._shards = None
        elif self._shards is not None:
            self._shards |= wake.shards
        self._members_changed = self._members_changed or wake.members_changed
        self.woken.set()

    def take_wake(self) -> Wake:
        """All reasons since the last call."""
        wake = Wake(None if self._shards is None else frozenset(self._shards), self._members_changed)
        self._shards, self._members_changed = set(), False
        return wake


class Cluster:
    """All nodes and the owners of shards."""

    def __init__(self) -> None:
        self.nodes: dict[int, Node] = {}
        self.owners: dict[int, int] = {}

    def join(self, info: NodeInfo, now: float) -> Node:
        """Register a node under a number that nobody uses, if possible one that nobody has used.

        Raises:
            Conflict: no number is free.
        """
        number = next((number for number in NODE_NUMBERS if number not in self.nodes), None)
        if number is None:
            number = self._longest_unused(now)
        known = self.nodes.get(number)
        node = self.nodes[number] = Node(number, 1 if known is None else known.epoch + 1, info, now)
        return node

    def _longest_unused(self, now: float) -> int:
        ended = [
            (node.ended_at, node.number)
            for node in self.nodes.values()
            if not node.serves and now - node.ended_at > REUSE_SECONDS and not self.owned(node.number)
        ]
        if not ended:
            raise Conflict(f"all {len(NODE_NUMBERS)} node numbers are in use or were minutes ago; wait for one")
        return min(ended)[1]

    def owned(self, number: int) -> set[int]:
        """The shards of a node."""
        return {shard for shard, owner in self.owners.items() if owner == number}

    def claim(self, number: int, shards: Sequence[int] | None) -> set[int]:
        """Give a node the shards without a serving owner; which those were."""
        wanted = range(SHARDS) if shards is None else [shard for shard in shards if 0 <= shard < SHARDS]
        taken = set()
        for shard in wanted:
            owner = self.owners.get(shard)
            if owner is None or not self.nodes[owner].serves:
                self.owners[shard] = number
                taken.add(shard)
        return taken

    def give(self, number: int, shards: Iterable[int], to: int | None) -> set[int]:
        """Move shards that a node owns to another serving node, or to nobody; which those were."""
        mine = {shard for shard in shards if self.owners.get(shard) == number}
        target = None if to is None else self.nodes.get(to)
        for shard in mine:
            if target is not None and target.serves:
                self.owners[shard] = target.number
            else:
                del self.owners[shard]
        return mine

    def leave(self, node: Node, now: float) -> None:
        """A node goes in good order: its shards belong to nobody."""
        self.give(node.number, self.owned(node.number), None)
        node.status, node.ended_at = "left", now
        node.set_lock(False)

    def supersede(self, node: Node, by: int, now: float) -> set[int]:
        """Raise a node's epoch, end its connections, and move its shards to another node."""
        node.epoch += 1
        node.status, node.ended_at = "dead", now
        node.set_lock(False)
        node.woken.set()
        shards = self.owned(node.number)
        self.owners.update(dict.fromkeys(shards, by))
        return shards

    def members(self, now: float) -> list[Member]:
        """All nodes that serve or still own shards, by number."""
        counts = Counter(self.owners.values())
        return [
            Member(
                number=node.number,
                epoch=node.epoch,
                boot=node.info.boot,
                status=node.status,
                beat_age_seconds=max(0.0, now - node.beat),
                shards=counts.get(node.number, 0),
                label=node.info.label,
                guest=node.info.guest,
                capabilities=node.info.capabilities,
                joined_at=node.joined_at,
            )
            for _, node in sorted(self.nodes.items())
            if node.serves or node.number in counts
        ]
