"""Random lives against a model so small that one sees that it is right, on each store and on both at once.

Whatever Hypothesis makes the nodes do, each store must take and refuse the same units as the model, and show the same
rows. The examples are always the same ones, so that a build fails for what was changed and not by chance.
"""

from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AsyncExitStack, closing
from typing import Any

import anyio
import hypothesis.strategies as st
from anyio.from_thread import BlockingPortal, start_blocking_portal
from anyio.streams.memory import MemoryObjectReceiveStream
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from callboard.mailbox.address import shard_of
from callboard.mailbox.envelope import Envelope
from callboard.mailbox.errors import CallboardError, StaleEpoch, StoreUnavailable
from callboard.persistence.rows import ActorRow
from callboard.persistence.store import Session
from callboard.persistence.unit import Fire, Move, Retry, Unit
from tests.contract.build import actor, dead, decision, event, message, next_id, timer, turn, verdict
from tests.contract.model import Model
from tests.contract.world import LEASE_SECONDS, MemoryWorld, World
from tests.contract.world_postgres import PostgresWorld, postgres_world

ADDRESSES = ["/a/b:1", "/a/b:1/c:1", "/a/b:2", "/a/b"]
"""Two of them share a shard."""
TOOL = "/a/tool"
CLIENT = "/sys/client:1024-1"
SHARDS = sorted({shard_of(address) for address in ADDRESSES})
KEYS = ["k1", "k2"]
LONG_SECONDS = 1_500.0
"""Half as long again as what time moves by, so that no step depends on how long a test runs."""

Opener = Callable[[], AbstractAsyncContextManager[World]]


class Side:
    """One store with two nodes, used by one example after the other."""

    def __init__(self, world: World, stack: AsyncExitStack) -> None:
        self.world = world
        self.stack = stack
        self.nodes: list[Session] = []

    async def begin(self) -> None:
        """Nothing is there; the first node owns all shards."""
        if isinstance(self.world, PostgresWorld):
            await self.world.empty()
        elif isinstance(self.world, MemoryWorld):
            self.world = MemoryWorld()
            self.nodes = []
        while len(self.nodes) < 2:
            await self.join()
        await self.nodes[1].give(range(256), None)
        await self.nodes[0].claim()

    async def join(self) -> None:
        """A new node."""
        boot = f"boot-{next_id()}"
        self.nodes.append(await self.stack.enter_async_context(self.world.join(boot)))

    async def supersede(self) -> bool:
        """The second node takes over the first, which then can do nothing; whether that is so."""
        victim, heir = self.nodes
        await self.world.outlast_leases()
        member = next(member for member in await heir.members() if member.number == victim.number)
        taken = await heir.take_over(member, by="lease")
        refused = await self._is_refused(victim, lambda: victim.commit([Unit(0, sends=[message(ADDRESSES[0])])]))
        refused &= await self._is_refused(victim, lambda: victim.publish_full([(s, ADDRESSES[0]) for s in SHARDS], []))
        await victim.leave()
        self.nodes.remove(victim)
        await self.join()
        return taken == set(range(256)) and refused

    @staticmethod
    async def _is_refused(session: Session, call: Callable[[], Awaitable[object]]) -> bool:
        try:
            await call()
        except StaleEpoch:
            return True
        except StoreUnavailable:  # its connections were ended: it learns why when it has new ones
            try:
                await session.reconnect()
            except StaleEpoch:
                return True
        return False


Call = Callable[[Side], Awaitable[Any]]


class Lives(RuleBasedStateMachine):
    """Drives the model and the stores."""

    stage: "Stage"

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.generation = 0
        self.each(lambda side: side.begin())
        self.model.owners = dict.fromkeys(range(256), 0)

    def each(self, call: Call) -> list[Any]:
        """What each store says, or the class of the error that it raises."""
        return self.stage.each(call)

    def expect(self, wanted: object, call: Call) -> None:
        """Every store says what the model says."""
        for found in self.each(call):
            assert found == wanted

    # -- turns

    @rule(data=st.data(), who=st.lists(st.integers(0, 3), min_size=1, max_size=4))
    def some_turns(self, data: st.DataObject, who: list[int]) -> None:
        for number in who:
            self._turn(data, ADDRESSES[number])

    def _turn(self, data: st.DataObject, address: str) -> None:
        stale = int(_seldom(data, "stale"))
        shard = shard_of(address)
        before = self.model.actors.get(address) or actor(address, 0)
        row = actor(address, before.version + 1 + stale, events=before.events, bonds=f'{{"n":{before.version}}}')
        unit = Unit(shard, row, before.version + stale)
        self._handle(data, unit, address)
        unit.unstash = data.draw(st.booleans(), "unstash")
        unit.sends = self._sends(data, shard)
        row.events += data.draw(st.integers(0, 2), "events")
        unit.events = [event(seq, address) for seq in range(before.events + 1, row.events + 1)]
        self._gate(data, unit)
        self._clocks(data, unit, address)
        self.commit(unit)

    @rule(data=st.data(), shard=st.sampled_from(SHARDS))
    def a_call_of_a_worker(self, data: st.DataObject, shard: int) -> None:
        unit = Unit(shard, sends=self._sends(data, shard))
        unit.acks = self._some(data, "acks", self.model.ids(shard, held=False, recipient=TOOL))
        self._note(unit, 0)
        unit.charges = self._some(data, "charges", self.model.ids(shard, held=False))
        unit.withdraws = self._some(data, "withdraws", [*self.model.ids(shard, held=True), 404])
        unit.retries = self._retries(data, shard, unit.acks)
        self.commit(unit)

    @rule(data=st.data(), periods=st.sampled_from([1, 1, 2, 3, 0]))
    def a_timer_fires(self, data: st.DataObject, periods: int) -> None:
        off = int(_seldom(data, "off"))
        address, key = data.draw(st.sampled_from(sorted(self.model.timers) or [(ADDRESSES[0], "none")]), "timer")
        known = self.model.timers.get((address, key))
        if known is not None and data.draw(st.booleans(), "wait"):
            self._pass(4_000.0)
        generation = 1 if known is None else known.timer.generation
        fire = Fire(address, key, generation + off, periods)
        self.commit(Unit(shard_of(address), fires=[fire], sends=[message(address)]))

    def commit(self, unit: Unit) -> None:
        """One unit that may be refused, and one beside it that may not."""
        beside = Unit(unit.shard, sends=[message(ADDRESSES[0])])
        fits = self.model.fits(unit)

        async def write(side: Side) -> set[int]:
            return set((await side.nodes[0].commit([unit, beside])).rejected)

        self.expect(set() if fits else {0}, write)
        if fits:
            self.model.apply(unit)
        self.model.apply(beside)

    def _some(self, data: st.DataObject, label: str, fitting: list[int], other: Sequence[int] = ()) -> list[int]:
        """Up to two of what fits, and once in a while one that does not."""
        found: list[int] = []
        if fitting:
            found = data.draw(st.lists(st.sampled_from(fitting), max_size=2, unique=True), label)
        if other and _seldom(data, f"wrong {label}"):
            found.append(other[0])
        return found

    def _handle(self, data: st.DataObject, unit: Unit, address: str) -> None:
        shard = unit.shard
        mine = self.model.ids(shard, held=False, recipient=address)
        held = self.model.ids(shard, held=True)
        assert unit.actor is not None
        unit.acks = self._some(data, "acks", mine, [*held, 404])
        unit.stashes = self._some(data, "stashes", [i for i in mine if i not in unit.acks], [*held, 404])
        kept = [*unit.acks, *unit.stashes]
        self._note(unit, unit.actor.version)
        unit.turns += [
            turn(self.model.messages[shard, i].envelope, unit.actor.version, "stashed")
            for i in unit.stashes
            if (shard, i) in self.model.messages
        ]
        unit.retries = self._retries(data, shard, kept)
        unit.releases = self._some(data, "releases", held, mine)
        unit.drops = self._some(data, "drops", [i for i in held if i not in unit.releases], mine)
        gives_up: bool = data.draw(st.booleans(), "give up")
        if unit.acks and gives_up:
            letter = self.model.messages.get((shard, unit.acks[0]))
            unit.dead = [] if letter is None else [dead(letter.envelope)]

    def _note(self, unit: Unit, version: int) -> None:
        places = [(unit.shard, identifier) for identifier in unit.acks]
        unit.turns = [turn(self.model.messages[p].envelope, version) for p in places if p in self.model.messages]

    def _retries(self, data: st.DataObject, shard: int, but: Sequence[int]) -> list[Retry]:
        found = [i for i in self.model.ids(shard, held=False) if i not in but]
        retries = []
        for identifier in self._some(data, "retries", found, [404]):
            known = self.model.messages.get((shard, identifier))
            more = data.draw(st.tuples(*[st.integers(0, 1)] * 4), "failures, deliveries, losses, timeouts")
            counts = (0, 0, 0, 0)
            if known is not None:
                e = known.envelope
                counts = (e.failures + more[0], e.deliveries + more[1], e.losses + more[2], e.timeouts + more[3])
            delay, started = data.draw(st.sampled_from([0.0, LONG_SECONDS])), data.draw(st.booleans(), "started")
            retries.append(Retry(identifier, delay, counts[1], counts[0], "it broke", started, counts[2], counts[3]))
        return retries

    def _sends(self, data: st.DataObject, shard: int) -> list[Envelope]:
        to = data.draw(st.lists(st.sampled_from([*ADDRESSES, TOOL, CLIENT]), max_size=2), "sends")
        lane, headers = (
            data.draw(st.integers(0, 2), "lane"),
            data.draw(st.sampled_from(["", '{"missed":1}']), "headers"),
        )
        return [
            message(a, lane=lane, headers=headers, shard=shard if a == TOOL else shard_of(a), sender_seq=n)
            for n, a in enumerate(to)
        ]

    def _gate(self, data: st.DataObject, unit: Unit) -> None:
        unit.holds = [message(TOOL, shard=unit.shard) for _ in range(data.draw(st.integers(0, 1), "holds"))]
        expires = data.draw(st.sampled_from([0.0, LONG_SECONDS]), "expires")
        unit.decisions = [decision(f"d{held.id}", held.id, expires_seconds=expires) for held in unit.holds]
        if self.model.decisions and data.draw(st.integers(0, 3), "move") == 3:
            known = data.draw(st.sampled_from(sorted(self.model.decisions)), "decision")
            before = data.draw(st.sampled_from(["approved", "pending"]), "before")
            unit.moves = [Move(known, before, "released", must=data.draw(st.booleans(), "must"))]  # type: ignore[arg-type]

    def _clocks(self, data: st.DataObject, unit: Unit, address: str) -> None:
        for key in data.draw(st.lists(st.sampled_from(KEYS), max_size=1), "timers"):
            self.generation += 1
            delay, period = data.draw(st.sampled_from([(0.0, 0.0), (0.0, 1_000.0), (LONG_SECONDS, 1_000.0)]), "delay")
            new = timer(key, delay, address=address, generation=self.generation, period_seconds=period)
            unit.timers = [*unit.timers, new]
        unit.timers_cancelled = data.draw(st.lists(st.sampled_from(KEYS), max_size=1), "cancelled")

    # -- from outside

    @rule(data=st.data())
    def somebody_outside_acts(self, data: st.DataObject) -> None:
        what = data.draw(st.sampled_from(["send", "look", "decide", "decide"]), "what")
        if what == "send":
            drawn = st.tuples(st.integers(0, 3), st.sampled_from(["", "c1", "c2"]), st.sampled_from(["{}", "[]"]))
            self._send(*data.draw(drawn, "message"))
        elif what == "look":
            self._look_for_answers()
        else:
            self._decide(data, data.draw(st.sampled_from(["approved", "approved", "denied", "expired"]), "status"))

    def _send(self, who: int, client_id: str, body: str) -> None:
        envelope = message(ADDRESSES[who], body=body, headers='{"deadline":9.0}')
        ids = [client_id] if client_id else []
        self.expect(self.model.send(envelope, client_id), lambda side: side.world.store.send([envelope], ids))

    def _look_for_answers(self) -> None:
        async def receive(side: Side) -> list[int]:
            found = await side.world.store.receive(CLIENT, seconds=0.0, port=side.world.port)
            return [envelope.id for envelope in found]

        self.expect(self.model.receive(CLIENT), receive)

    def _decide(self, data: st.DataObject, status: str) -> None:
        off = _seldom(data, "off")
        identifier = data.draw(st.sampled_from(sorted(self.model.decisions) or ["none"]), "decision")
        wanted = verdict(identifier, status=status, digest=("d" if not off else "e") * 64)
        notice = message(ADDRESSES[3])

        async def decide(side: Side) -> str:
            return (await side.world.store.decide(wanted, notice)).status

        self.expect(self.model.decide(wanted, notice), decide)

    # -- nodes and time

    @rule(seconds=st.sampled_from([1_000.0, 2_000.0, 4_000.0]))
    def time_passes(self, seconds: float) -> None:
        self._pass(seconds)

    def _pass(self, seconds: float) -> None:
        self.each(lambda side: side.world.pass_time(seconds))
        self.model.now += seconds

    @rule(data=st.data(), shard=st.sampled_from(SHARDS), by=st.integers(0, 1))
    def nodes_agree(self, data: st.DataObject, shard: int, by: int) -> None:
        what = data.draw(st.sampled_from(["give", "claim", "tell", "tell", "tell", "supersede"]), "what")
        if what == "give":
            self._give(shard, data.draw(st.sampled_from([0, 1, None]), "to"), by)
        elif what == "claim":
            self._claim(by)
        elif what == "tell":
            self._tell(data.draw(st.sampled_from(ADDRESSES), "whose"), by, data.draw(st.booleans(), "is full"))
        elif _seldom(data, "luck"):
            self._supersede()

    def _give(self, shard: int, to: int | None, giver: int) -> None:
        async def give(side: Side) -> None:
            await side.nodes[giver].give([shard], None if to is None else side.nodes[to].number)

        self.expect(None, give)
        if self.model.owners.get(shard) == giver:
            if to is None:
                del self.model.owners[shard]
            else:
                self.model.owners[shard] = to

    def _claim(self, by: int) -> None:
        free = set(range(256)) - self.model.owners.keys()
        self.expect(free, lambda side: side.nodes[by].claim())
        self.model.owners |= dict.fromkeys(free, by)

    def _tell(self, address: str, by: int, is_full: bool) -> None:
        place = [(shard_of(address), address)]
        told: tuple[list[Any], list[Any]] = (place, []) if is_full else ([], place)
        self.expect(None, lambda side: side.nodes[by].publish_full(*told))
        if self.model.owners.get(shard_of(address)) == by:
            (self.model.full.add if is_full else self.model.full.discard)(address)

    def _supersede(self) -> None:
        # All shards go first, so that whoever they belong to afterwards is known.
        self.each(lambda side: side.nodes[1].give(range(256), None))
        self.each(lambda side: side.nodes[0].claim())
        self.expect(True, lambda side: side.supersede())
        self.model.owners = dict.fromkeys(range(256), 0)
        self.model.now += LEASE_SECONDS + 1

    # -- what is seen

    @rule(per_actor=st.integers(1, 4), limit=st.integers(1, 9))
    def reading_in_pages(self, per_actor: int, limit: int) -> None:
        window = min(per_actor, limit)

        async def read(side: Side) -> dict[str, list[int]]:
            seen: dict[str, list[int]] = {}
            cursor = ""
            while True:
                page, cursor = await side.nodes[0].ready(SHARDS, per_actor=per_actor, limit=limit, beyond=cursor)
                assert len(page) <= limit
                for envelope in page:
                    place = f"{envelope.recipient} {envelope.shard}"
                    seen.setdefault(place, []).append(envelope.id)
                if not cursor:
                    return seen

        wanted: dict[str, list[int]] = {}
        for shard in SHARDS:
            for address in (*ADDRESSES, TOOL):
                found = [m.envelope.id for m in self.model.waiting(address) if m.envelope.shard == shard]
                if found:
                    wanted[f"{address} {shard}"] = found[:window]
        self.expect(wanted, read)

    @invariant()
    def mailboxes_are_as_the_model_says(self) -> None:
        async def look(side: Side) -> dict[str, list[int]]:
            page, _ = await side.nodes[1].ready(SHARDS, per_actor=1_000, limit=10_000)
            return {a: [e.id for e in page if e.recipient == a] for a in ADDRESSES}

        self.expect({a: [m.envelope.id for m in self.model.waiting(a)] for a in ADDRESSES}, look)

    def teardown(self) -> None:
        self.expect(self._views(), _views)
        self.expect(self._rows(), _rows)
        backlogs = {a: sum(m.envelope.recipient == a for m in self.model.messages.values()) for a in ADDRESSES}
        self.expect(backlogs, _backlogs)
        owned = [{s for s, owner in self.model.owners.items() if owner == number} for number in (0, 1)]
        self.expect(owned, _owned)
        self.expect(self.model.full, lambda side: side.nodes[1].full())

    def _views(self) -> dict[int, Any]:
        found = {}
        for m in self.model.messages.values():
            if m.envelope.recipient != CLIENT:
                failing = 0.0 if m.failing_since is None else self.model.now - m.failing_since
                found[m.envelope.id] = (self.model.state(m), _told(m.envelope), round(failing / 1_000))
        return found

    def _rows(self) -> dict[str, Any]:
        model = self.model
        return {
            "actors": sorted(model.actors.values(), key=lambda row: row.address),
            "turns": sorted((t.id, t.version, t.outcome) for t in model.turns),
            "events": sorted((e.address, e.seq, e.body) for e in model.events),
            "timers": sorted(
                (d.timer.address, d.timer.key, d.timer.generation, round((d.due - model.now) / 500))
                for d in model.timers.values()
            ),
            "dead": sorted((letter.envelope.id, letter.reason, _told(letter.envelope)) for letter in model.dead),
            "decisions": sorted((d.id, d.status, d.decided_by) for d in model.decisions.values()),
        }


def _seldom(data: st.DataObject, label: str) -> bool:
    return data.draw(st.sampled_from([False] * 11 + [True]), label)


def _told(e: Envelope) -> tuple[object, ...]:
    return (
        e.recipient, e.lane, e.body, e.headers, e.deliveries, e.failures, e.losses, e.timeouts, e.started, e.last_error,
    )  # fmt: skip


async def _views(side: Side) -> dict[int, Any]:
    views = [view for a in (*ADDRESSES, TOOL) for view in await side.world.store.peek(a, limit=1_000)]
    return {v.envelope.id: (v.state, _told(v.envelope), round(v.envelope.failing_seconds / 1_000)) for v in views}


async def _rows(side: Side) -> dict[str, Any]:
    store, node = side.world.store, side.nodes[1]
    actors: list[ActorRow] = await store.actors()
    turns = [t for a in (*ADDRESSES, TOOL) for t in await store.turns(a)]
    events = [e for a in ADDRESSES for e in await node.journal(a)]
    timers = await node.due(SHARDS, within_seconds=1e6, limit=1_000)
    return {
        "actors": actors,
        "turns": sorted((t.id, t.version, t.outcome) for t in turns),
        "events": sorted((e.address, e.seq, e.body) for e in events),
        "timers": sorted((t.address, t.key, t.generation, round(t.delay_seconds / 500)) for t in timers),
        "dead": sorted((x.envelope.id, x.reason, _told(x.envelope)) for x in await store.dead_letters(limit=1_000)),
        "decisions": sorted((d.id, d.status, d.decided_by) for d in await store.decisions(limit=1_000)),
    }


async def _backlogs(side: Side) -> dict[str, int]:
    return {a: await side.nodes[1].backlog(shard_of(a), a, limit=1_000) for a in ADDRESSES}


async def _owned(side: Side) -> list[set[int]]:
    return [await node.owned() for node in side.nodes]


class Stage:
    """The stores in one task of their own, because what a task has entered it must leave itself."""

    def __init__(self, portal: BlockingPortal, openers: Sequence[Opener]) -> None:
        self._portal = portal
        self._calls, inbox = anyio.create_memory_object_stream[tuple[Call, Future[Any]]](1)
        self._served = portal.start_task_soon(self._serve, inbox, openers)

    async def _serve(
        self, inbox: MemoryObjectReceiveStream[tuple[Call, Future[Any]]], openers: Sequence[Opener]
    ) -> None:
        async with inbox, AsyncExitStack() as stack:
            sides = [Side(await stack.enter_async_context(opener()), stack) for opener in openers]
            async for call, answer in inbox:
                try:
                    answer.set_result([await self._ask(call, side) for side in sides])
                except BaseException as error:
                    answer.set_exception(error)
                    raise

    @staticmethod
    async def _ask(call: Call, side: Side) -> Any:
        try:
            return await call(side)
        except CallboardError as error:
            return type(error)

    def each(self, call: Call) -> list[Any]:
        """What each store says, or the class of the error that it raises."""
        answer: Future[Any] = Future()
        self._portal.call(self._calls.send, (call, answer))
        found: list[Any] = answer.result(timeout=120)
        return found

    def close(self) -> None:
        """The stores are closed."""
        self._portal.call(self._calls.aclose)
        self._served.result(timeout=120)


def drive(openers: Sequence[Opener], *, examples: int, steps: int) -> None:
    """Run the machine against these stores."""
    with start_blocking_portal() as portal, closing(Stage(portal, openers)) as stage:
        machine = type("Machine", (Lives,), {"stage": stage})
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=examples,
                stateful_step_count=steps,
                deadline=None,
                database=None,
                derandomize=True,
                suppress_health_check=list(HealthCheck),
            ),
        )


def test_model_memory() -> None:
    drive([MemoryWorld.open], examples=40, steps=15)


def test_model_postgres(dsn: str) -> None:
    drive([lambda: postgres_world(dsn), MemoryWorld.open], examples=25, steps=8)
