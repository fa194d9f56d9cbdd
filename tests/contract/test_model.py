"""Random turns, sends and reads against a model of a mailbox so small that one sees that it is right.

The model is a dict of messages; a mailbox is what is not held in it, sorted by lane and id. Whatever Hypothesis makes
the nodes do, each store must accept and refuse the same units as the model and show the same mailboxes.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, ExitStack
from typing import Any

import hypothesis.strategies as st
import pytest
from anyio.from_thread import start_blocking_portal
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from callboard.mailbox.address import shard_of
from callboard.mailbox.envelope import Envelope
from callboard.mailbox.errors import Conflict
from callboard.persistence.store import Session, Store
from callboard.persistence.unit import Retry, Unit
from tests.contract.build import actor, message
from tests.contract.world import MemoryWorld, World
from tests.contract.world_postgres import postgres_world

# The same in each example (its store is empty), so that a failing one can be replayed: two of them share a shard.
ADDRESSES = ["/a/b:1", "/a/b:1/c:1", "/a/b:2", "/a/b"]

picks = st.lists(st.integers(0, 30), max_size=3)
lanes = st.integers(0, 2)
outgoing = st.lists(st.tuples(st.integers(0, 3), lanes), max_size=3)


class Known:
    """What the model knows of a message."""

    def __init__(self, envelope: Envelope, held: bool) -> None:
        self.envelope = envelope
        self.held = held
        self.failures = 0


class Mailboxes(RuleBasedStateMachine):
    """Drives one store; `open_world` gives the world of an example."""

    open_world: Callable[[], AbstractAsyncContextManager[World]]

    def __init__(self) -> None:
        super().__init__()
        self.versions = dict.fromkeys(ADDRESSES, 0)
        self.messages: dict[tuple[int, int], Known] = {}
        self.client_ids: dict[tuple[str, str], str] = {}
        self.stack = ExitStack()
        self.portal = self.stack.enter_context(start_blocking_portal())
        world = self.stack.enter_context(self.portal.wrap_async_context_manager(type(self).open_world()))
        self.store: Store = world.store
        self.node: Session = self.stack.enter_context(self.portal.wrap_async_context_manager(world.join()))

    def teardown(self) -> None:
        self.stack.close()

    def run(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        async def call() -> Any:
            return await function(*args, **options)

        return self.portal.call(call)

    # -- the model

    def mailbox(self, address: str) -> list[Envelope]:
        """What waits for an address, in order."""
        mine = [k.envelope for k in self.messages.values() if k.envelope.recipient == address and not k.held]
        return sorted(mine, key=lambda e: (e.lane, e.id))

    def choose(self, shard: int, numbers: list[int], held: bool) -> list[int]:
        """Ids of this shard, mostly in the right state; 30 is one that does not exist."""
        here = sorted(identifier for (s, identifier) in self.messages if s == shard)
        right = [identifier for identifier in here if self.messages[shard, identifier].held is held]
        pool = {n: (here if n % 10 == 9 else right) for n in numbers}
        return list({pool[n][n % len(pool[n])] if n < 30 and pool[n] else n for n in numbers if n == 30 or pool[n]})

    def fits(self, unit: Unit) -> bool:
        """Whether the store must take a unit."""
        touched = [*unit.acks, *unit.releases, *unit.drops, *(r.id for r in unit.retries)]
        in_state = all(
            (unit.shard, identifier) in self.messages and self.messages[unit.shard, identifier].held is held
            for held, identifiers in (
                (False, [*unit.acks, *(r.id for r in unit.retries)]),
                (True, [*unit.releases, *unit.drops]),
            )
            for identifier in identifiers
        )
        version_fits = unit.actor is None or self.versions[unit.actor.address] == unit.expected
        return in_state and version_fits and len(touched) == len(set(touched))

    def apply(self, unit: Unit) -> None:
        if unit.actor is not None:
            self.versions[unit.actor.address] = unit.actor.version
        for identifier in (*unit.acks, *unit.drops):
            del self.messages[unit.shard, identifier]
        for identifier in unit.releases:
            self.messages[unit.shard, identifier].held = False
        for retry in unit.retries:
            self.messages[unit.shard, retry.id].failures = retry.failures
        for envelope in unit.sends:
            self.messages[envelope.shard, envelope.id] = Known(envelope, held=False)
        for envelope in unit.holds:
            self.messages[envelope.shard, envelope.id] = Known(envelope, held=True)

    # -- what is done

    @rule(
        who=st.integers(0, 3), stale=st.sampled_from([0, 0, 0, 1]), acks=picks, releases=picks, drops=picks,
        retries=picks, sends=outgoing, holds=st.lists(lanes, max_size=2),
    )  # fmt: skip
    def a_turn(
        self, *, who: int, stale: int, acks: list[int], releases: list[int], drops: list[int], retries: list[int],
        sends: list[tuple[int, int]], holds: list[int],
    ) -> None:  # fmt: skip
        address = ADDRESSES[who]
        shard = shard_of(address)
        expected = self.versions[address] + stale
        acknowledged = self.choose(shard, acks, held=False)
        released = self.choose(shard, releases, held=True)
        unit = Unit(
            shard=shard,
            actor=actor(address, expected + 1),
            expected=expected,
            acks=acknowledged,
            releases=released,
            drops=[i for i in self.choose(shard, drops, held=True) if i not in released],
            retries=[
                Retry(identifier, 100.0, 1, self.versions[address] + 1, "failed")
                for identifier in self.choose(shard, retries, held=False)
                if identifier not in acknowledged
            ],
            sends=[message(ADDRESSES[to], lane=lane) for to, lane in sends],
            holds=[message(address, lane=lane) for lane in holds],
        )
        beside = Unit(shard=shard, sends=[message(address)])
        fits = self.fits(unit)
        result = self.run(self.node.commit, [unit, beside])
        assert set(result.rejected) == (set() if fits else {0})
        if fits:
            self.apply(unit)
        self.apply(beside)

    @rule(who=st.integers(0, 3), client_id=st.sampled_from(["", "c1", "c2"]), body=st.sampled_from(["{}", "[]"]))
    def a_message_from_outside(self, who: int, client_id: str, body: str) -> None:
        envelope = message(ADDRESSES[who], body=body)
        key = (envelope.recipient, client_id)
        known = self.client_ids.get(key) if client_id else None
        if known is not None and known != body:
            with pytest.raises(Conflict):
                self.run(self.store.send, [envelope], [client_id])
            return
        assert self.run(self.store.send, [envelope], [client_id]) == [known is None]
        if known is None:
            self.client_ids[key] = body
            self.messages[envelope.shard, envelope.id] = Known(envelope, held=False)

    @rule(per_actor=st.integers(1, 4), limit=st.integers(1, 9))
    def reading_in_pages(self, per_actor: int, limit: int) -> None:
        window = min(per_actor, limit)
        shards = sorted({shard_of(address) for address in ADDRESSES})
        seen: dict[str, list[int]] = {}
        cursor = ""
        while True:
            page, cursor = self.run(self.node.ready, shards, per_actor=per_actor, limit=limit, beyond=cursor)
            assert len(page) <= limit
            for envelope in page:
                seen.setdefault(envelope.recipient, []).append(envelope.id)
            if not cursor:
                break
        assert seen == {
            address: [e.id for e in self.mailbox(address)][:window] for address in ADDRESSES if self.mailbox(address)
        }

    @invariant()
    def the_store_shows_what_the_model_says(self) -> None:
        found, held = self.run(self.look)
        for address in ADDRESSES:
            assert [envelope.id for envelope in found[address]] == [e.id for e in self.mailbox(address)]
            for envelope in found[address]:
                known = self.messages[envelope.shard, envelope.id]
                assert (envelope.failures, envelope.body) == (known.failures, known.envelope.body)
                assert (envelope.delay_seconds > 0) == (known.failures > 0)
        assert held == {identifier for (_, identifier), known in self.messages.items() if known.held}

    async def look(self) -> tuple[dict[str, list[Envelope]], set[int]]:
        found = {a: await self.node.mailbox(shard_of(a), a, limit=1_000) for a in ADDRESSES}
        views = [view for a in ADDRESSES for view in await self.store.peek(a, limit=1_000)]
        return found, {view.envelope.id for view in views if view.state == "held"}


def drive(open_world: Callable[[], AbstractAsyncContextManager[World]], *, examples: int, steps: int) -> None:
    machine = type("Machine", (Mailboxes,), {"open_world": staticmethod(open_world)})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_model_memory() -> None:
    drive(MemoryWorld.open, examples=50, steps=20)


def test_model_postgres(dsn: str) -> None:
    drive(lambda: postgres_world(dsn), examples=6, steps=15)
