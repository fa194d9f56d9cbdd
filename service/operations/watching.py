"""What a screen watches: windows of lists, the supervision tree, the line of what needs attention, and news.

Each look is one or two statements whose cost does not grow with what there is; what would grow (counting all actors) is
done seldom, and told again meanwhile. Neighbours: `glancing` has the words, `rolling` makes a tree out of counts.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from decimal import Decimal
from typing import Any, Literal

import msgspec

from ...mailbox.errors import StoreUnavailable, UsageError
from ...persistence.rows import ActorStatus, Decision, Member, declared_sums
from ...persistence.store import Store
from ...persistence.watching import PRESSING, STATUSES, Glance, Pending, Tally
from ...persistence.whispers import Hearing
from .glancing import ATTENTION, STATUSES_OF, WORDS, ActorGlance, Word, glance_of
from .money import sums_in
from .rolling import TreeNode, rolled_up
from .runs import Operations
from .views import RunLine, RunWindow, RunWish, moment

__all__ = [
    "ActorGlance", "ActorWindow", "AttentionLine", "RunLine", "RunWindow", "Sum", "TreeNode", "Watching", "Word",
]  # fmt: skip

PAGE = 500
"""Actors that are looked at in one go where a word has to be looked for among them."""
LOOKED_AT = 5_000
"""And in all, for one window."""
ASKED_FOR_ONE_BY_ONE = 5
"""Decisions whose arguments are not known yet; of more, all are read at once."""

LEAST_SECONDS = 1.0
MOST_SECONDS = 300.0
SHARE = 0.02
"""How much of the time may go into counting all actors: where that takes 10 ms it is done each LEAST_SECONDS, where it
takes half a second each 25 s; and at least each MOST_SECONDS."""
AT_ONCE_SECONDS = 0.25
"""Counting that takes longer is left to those who look at the tree; the line of each second has the last numbers."""
FAILED_SECONDS = 120.0
"""For so long nobody counts again, where counting took too long to come to an end."""


class ActorWindow(msgspec.Struct, frozen=True):
    """A window of a list of actors."""

    items: list[ActorGlance]
    attention: int = 0
    """So many, from the start, are there for attention; the others are in order of address."""
    start: bool = True
    """There is nothing before."""
    end: bool = True
    """There is nothing after."""
    reached: str = ""
    """Where a search for a word gave up: the address to go on from (or back from); "" where it did not."""
    looked: int = 0
    """So many actors were looked at for it, those that need attention not counted."""


class Sum(msgspec.Struct, frozen=True):
    """Money of one currency that waits to be decided on."""

    currency: str
    """"" for sums whose arguments do not say it."""
    value: Decimal

    @property
    def shown(self) -> str:
        """As people read it: `1276.40 EUR`."""
        return f"{self.value:f} {self.currency}".rstrip()


class AttentionLine(msgspec.Struct, frozen=True):
    """What needs somebody, in one line. Counts of what waits go no further than 10,000."""

    at: float
    """By the store's clock."""
    to_decide: int = 0
    sums: list[Sum] = []
    """Of what is to be decided, the greatest first; of the 500 oldest."""
    unsummed: int = 0
    """So many to decide are not in `sums`."""
    oldest_at: float = 0.0
    """Since when somebody is waited for; 0.0 for nobody."""
    next_expiry_at: float = 0.0
    dead: int = 0
    escalated: int = 0
    retrying: int = 0
    """Messages that failed and are tried again."""
    failed: int = 0
    running: int = 0
    """Active actors with something to do; as of `counted_at`, as the next two."""
    idle: int = 0
    total: int = 0
    nodes: list[Member] = []
    parked: int = 0
    paused: int = 0
    held: int = 0
    """Approved calls in their release hold."""
    counted_at: float = 0.0
    """When all actors were counted; 0.0: they could not be, yet."""


class Watching:
    """Watching one store, as one principal. Keep it: it remembers what it has counted."""

    def __init__(self, operations: Operations) -> None:
        self.operations = operations
        self.store = operations.store
        self._port = operations.port
        self._sums: dict[str, list[Sum]] = {}
        self._counts: list[Tally] = []
        self._counted_at = 0.0
        self._count_again_at = self._count_seconds = 0.0
        self._counting = False

    # --- actors ------------------------------------------------------------------------------------------------------

    async def actors(
        self,
        *,
        prefix: str = "",
        kind: str = "",
        words: Sequence[Word] = (),
        order: Literal["attention", "address"] = "attention",
        after: str = "",
        before: str = "",
        last: bool = False,
        limit: int = 100,
    ) -> ActorWindow:
        """A window: the first actors, those beyond `after`, those before `before`, or the last ones.

        In order of attention, those that need somebody stand in front of the first window, all of them (500 at most),
        and in no other; `after` and `before` are addresses of the others. Only there, and where words of attention are
        asked for, are those that do not exist yet because their first message fails, waits for a node, or was given up
        (`kind` is "").

        Raises:
            UsageError: more than one place was given, or no number of rows.
        """
        self.operations.require("read")
        if sum((bool(after), bool(before), last)) > 1 or limit < 1:
            raise UsageError("a window begins after an address, before one, or is the last; and has a row at least")
        now = await self.store.now()
        attended = order == "attention" or any(word in ATTENTION for word in words)
        pressing = await self.store.pressing() if attended else []
        front = await self._front(pressing, now, prefix, kind, words)
        walk = _Walk(prefix=prefix, kind=kind, words=words, after=after, before=before, last=last, without=pressing)
        rest, more, reached, looked = await self._rest(walk, limit, now)
        if order == "address":
            window = _by_address(walk, front, rest, limit, more=more, reached=reached)
            return msgspec.structs.replace(window, looked=looked)
        # What stands in front belongs to the first window; going back, to the one that comes upon the beginning.
        first = not more if walk.backward else not after
        return ActorWindow(
            [*front, *rest] if first else rest,
            attention=len(front) if first else 0,
            start=first,
            end=last if walk.backward else not more,
            reached=reached,
            looked=looked,
        )

    async def _front(
        self, pressing: Sequence[str], now: float, prefix: str, kind: str, words: Sequence[Word]
    ) -> list[ActorGlance]:
        place = {address: number for number, address in enumerate(pressing)}
        wanted = [one for one in pressing if one.startswith(prefix)]
        rows = await self.store.glances(wanted) if wanted else []
        found = [glance_of(row, now) for row in rows if kind in ("", row.row.kind)]
        # One that needs nobody any more, as of this very moment, waits for the next look to take its place.
        found = [one for one in found if one.word in ATTENTION and (not words or one.word in words)]
        return sorted(found, key=lambda one: (WORDS.index(one.word), place[one.address]))

    async def _rest(self, walk: "_Walk", limit: int, now: float) -> tuple[list[ActorGlance], bool, str, int]:
        """A window's rows in order of address; whether there are more in its direction; where it gave up; and how many
        it looked at."""
        if walk.words and not walk.statuses:
            return [], False, "", 0
        found: list[ActorGlance] = []
        seen, page = 0, limit + 1 if not walk.words else max(PAGE, limit + 1)
        while True:
            rows = await _page(self.store, walk, page)
            for place, row in enumerate(reversed(rows) if walk.backward else rows):
                one = glance_of(row, now)
                if walk.words and one.word not in walk.words:
                    continue
                if len(found) == limit:
                    return found[::-1] if walk.backward else found, True, "", seen + place
                found.append(one)
            seen += len(rows)
            if len(rows) < page or seen >= LOOKED_AT:
                break
            walk.go_on(rows)
        gave_up = walk.edge(rows) if len(rows) == page else ""
        return found[::-1] if walk.backward else found, bool(gave_up), gave_up, seen

    async def glances(self, addresses: Sequence[str]) -> dict[str, ActorGlance]:
        """These actors as they are now; those that are gone are left out."""
        self.operations.require("read")
        if not addresses:
            return {}
        now = await self.store.now()
        return {row.row.address: glance_of(row, now) for row in await self.store.glances(addresses)}

    async def trends(self, addresses: Sequence[str]) -> dict[str, list[int]]:
        """How deep these mailboxes were at the ends of eight steps of the last ten minutes, oldest first."""
        self.operations.require("read")
        return await self.store.trends(addresses) if addresses else {}

    # --- everything --------------------------------------------------------------------------------------------------

    async def tree(self) -> TreeNode:
        """Supervisors and pools, with how many actors are below each and what those are at. Counts are as of the last
        counting; what needs attention is as of now."""
        self.operations.require("read")
        await self._count(patient=True)
        now = await self.store.now()
        pressing = await self.store.glances(await self.store.pressing())
        return rolled_up(self._counts, [glance_of(row, now) for row in pressing])

    async def attention(self) -> AttentionLine:
        """What needs somebody, and how many there are of all."""
        self.operations.require("read")
        await self._count(patient=False)
        alarms = await self.store.alarms()
        active = sum(one.actors for one in self._counts if one.status == "active")
        busy = sum(one.busy for one in self._counts)
        return AttentionLine(
            at=alarms.at,
            to_decide=alarms.to_decide,
            sums=await self._sums_of(alarms.pending),
            unsummed=alarms.to_decide - len(alarms.pending),
            oldest_at=min((one.requested_at for one in alarms.pending), default=0.0),
            next_expiry_at=min((one.expires_at for one in alarms.pending if one.expires_at), default=0.0),
            dead=alarms.dead,
            escalated=alarms.escalated,
            retrying=alarms.failing,
            failed=alarms.failed,
            running=busy,
            idle=max(0, active - busy),
            total=sum(one.actors for one in self._counts),
            nodes=alarms.members,
            parked=alarms.parked,
            paused=alarms.paused,
            held=alarms.held,
            counted_at=self._counted_at,
        )

    async def _count(self, *, patient: bool) -> None:
        """Count all actors, unless that was done lately for what it takes (SHARE). Who is not `patient` waits for it
        only where it is done at once, or was not done for long."""
        begun = self._port.monotonic()
        late_seconds = 0.0 if patient or self._count_seconds <= AT_ONCE_SECONDS else MOST_SECONDS
        if self._counting or (self._count_again_at and begun < self._count_again_at + late_seconds):
            return
        self._counting = True
        try:
            self._counts = await self.store.tallies()
            self._counted_at = await self.store.now()
            self._count_seconds = self._port.monotonic() - begun
            wait_seconds = min(MOST_SECONDS, max(LEAST_SECONDS, self._count_seconds / SHARE))
        except StoreUnavailable:
            # Too many to be counted in time, or nobody answers; then whoever asks finds out by what it asks next.
            wait_seconds = FAILED_SECONDS
        finally:
            self._counting = False
        self._count_again_at = self._port.monotonic() + wait_seconds

    async def _sums_of(self, pending: Sequence[Pending]) -> list[Sum]:
        """What is to be decided, by currency. Arguments of a decision never change, so they are read once."""
        ids = [one.id for one in pending]
        self._sums = {one: self._sums[one] for one in ids if one in self._sums}
        missing = [one for one in ids if one not in self._sums]
        if len(missing) > ASKED_FOR_ONE_BY_ONE:
            rows = await self.store.decisions(status="pending", limit=len(ids) + ASKED_FOR_ONE_BY_ONE)
        else:
            rows = [row for one in missing if (row := await self.store.decision(one)) is not None]
        self._sums |= {row.id: _sums_in(row) for row in rows if row.id in missing}
        totals: dict[str, Decimal] = {}
        for known in self._sums.values():
            for one in known:
                totals[one.currency] = totals.get(one.currency, Decimal(0)) + one.value
        return sorted((Sum(*each) for each in totals.items()), key=lambda each: (-each.value, each.currency))

    # --- runs --------------------------------------------------------------------------------------------------------

    async def runs(
        self, wish: RunWish | None = None, *, after: str = "", before: str = "", last: bool = False, limit: int = 100
    ) -> RunWindow:
        """A window of the runs that fit `wish`, newest first; `after` and `before` are cursors of a window. See
        `Operations.run_window`."""
        return await self.operations.run_window(wish, after=after, before=before, last=last, limit=limit)

    # --- news --------------------------------------------------------------------------------------------------------

    def changes(self) -> AbstractAsyncContextManager[Hearing]:
        """Hear that a decision, a dead letter, an actor's status or a node has changed; see `WatchingStore.changes`.
        Never promised: whoever listens also looks by itself.

        Raises:
            NotAllowed; StoreUnavailable.
        """
        self.operations.require("read")
        return self.store.changes()


class _Walk:
    """Where a window is read, page by page."""

    def __init__(
        self,
        *,
        prefix: str,
        kind: str,
        words: Sequence[Word],
        after: str,
        before: str,
        last: bool,
        without: Sequence[str],
    ) -> None:
        self.prefix, self.kind, self.words, self.without = prefix, kind, words, without
        self.statuses = _statuses(words, more=len(without) >= PRESSING)
        self.after, self.before, self.last = after, before, last
        self.backward = bool(before) or last
        self.begin = (after, before)

    def edge(self, rows: Sequence[Glance]) -> str:
        """Where these rows end, in the direction of the walk."""
        return rows[0 if self.backward else -1].row.address

    def go_on(self, rows: Sequence[Glance]) -> None:
        """From the end of these rows."""
        if self.backward:
            self.before, self.last = self.edge(rows), False
        else:
            self.after = self.edge(rows)


async def _page(store: Store, walk: _Walk, limit: int) -> list[Glance]:
    """The next rows of a walk, in order of address."""
    return await store.window(
        prefix=walk.prefix, kind=walk.kind, statuses=walk.statuses, after=walk.after, before=walk.before,
        last=walk.last, without=walk.without, limit=limit,
    )  # fmt: skip


def window_document(window: ActorWindow) -> dict[str, Any]:
    """`callboard.glances/1`."""
    items = [
        {**msgspec.to_builtins(one), "oldest_at": moment(one.oldest_at), "created_at": moment(one.created_at)}
        for one in window.items
    ]
    return {
        "schema": "callboard.glances/1",
        "complete": window.start and window.end,
        "attention": window.attention,
        "items": items,
    }


def _statuses(words: Sequence[Word], *, more: bool) -> list[ActorStatus]:
    """What status actors with one of these words can have, besides those that stand in front; `more`: there may be
    some that have no room there."""
    wanted = [word for word in words if more or word not in ATTENTION]
    return list(dict.fromkeys(status for word in wanted for status in STATUSES_OF.get(word, STATUSES)))


def _by_address(
    walk: _Walk, front: Sequence[ActorGlance], rest: Sequence[ActorGlance], limit: int, *, more: bool, reached: str
) -> ActorWindow:
    """A window in plain order of address, of those that need attention and of all others."""
    begin, end = walk.begin
    if reached:
        begin, end = (reached, end) if walk.backward else (begin, reached)
    within = [one for one in front if begin < one.address and (not end or one.address < end)]
    items = sorted([*within, *rest], key=lambda one: one.address)
    more = more or len(items) > limit
    items = items[max(0, len(items) - limit) :] if walk.backward else items[:limit]
    if walk.backward:
        return ActorWindow(items, start=not more, end=not end, reached=reached)
    return ActorWindow(items, start=not begin, end=not more, reached=reached)


def _sums_in(row: Decision) -> list[Sum]:
    values: Mapping[str, object] = msgspec.json.decode(row.arguments)
    return [Sum(one.currency, one.value) for one in sums_in(values, declared_sums(row.provenance))]
