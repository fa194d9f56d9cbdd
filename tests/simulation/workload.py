"""What people outside ask of the simulated world, by the seed, and what must have come of it in the end.

Clients insist: a send whose answer was lost is sent again under the same client id, and must count once.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
import msgspec

from callboard.actors.agent.messages import StartRun
from callboard.actors.agent.runs import Runs
from callboard.actors.client import Client
from callboard.actors.supervisor_state import SupervisorState
from callboard.actors.system import AskFailed, Cancel, Kill, Pause, Resume
from callboard.mailbox.address import shard_of
from callboard.mailbox.errors import AlreadyDecided, StoreUnavailable
from callboard.mailbox.lane import Lane
from callboard.mailbox.message import Message
from callboard.persistence.rows import Verdict

from . import buyers, family, peers, talkers, tickers, victims
from .outside import WORLD
from .port import SimulatedPort
from .profile import Profile
from .store import SimulatedStore
from .tree import RUNS

T = TypeVar("T")
Step = Callable[[str, Client, dict[int, int]], Awaitable[None]]

CLIENTS = 2
TRUTH_SECONDS = 3.0
"""After the storm: when whatever a frozen or dead process was doing has surely happened or not."""
BUYS = ("plain", "plain", "recorded", "stumbles", "gated", "gated", "expires", "withdrawn")


class Plan(msgspec.Struct):
    """What was asked for."""

    tokens: list[tuple[str, int, int]] = []
    """(name, fuel, first peer)."""
    relays: list[peers.Relay] = []
    buys: dict[str, int] = {}
    """How many, by buyer."""
    bad: list[str] = []
    """Ways in which messages are bad."""
    runs: list[str] = []
    verdicts: dict[str, list[str]] = {}
    """Of each decision, who was told that his verdict counts."""
    questions: list[str] = []
    notes: dict[int, dict[str, int]] = {}
    """How many notes each client has sent to each helper."""
    done: int = 0
    """Clients that have said what they had to say."""
    finished: bool = False
    """All have, and the last one has tidied up."""


class Workload:
    """Drives the clients of one run."""

    def __init__(self, store: SimulatedStore, chance: random.Random, profile: Profile, parts: list[str]) -> None:
        self.store = store
        self.chance = chance
        self.profile = profile
        self.talks = "talk" in parts
        self.families = [part for part in parts if part in family.FAMILIES]
        steps: dict[str, list[Step]] = {
            "peers": [self._token, self._token, self._relay, self._pause],
            "shop": [self._buy] * 2,
            "clock": [self._timer] * 2,
            "talk": [self._say, self._say, self._say, self._ask],
        }
        self.steps = [step for part in parts for step in steps.get(part, [])] + [self._order] * len(self.families)
        self.plan = Plan()
        self.clients = [Client(store, SimulatedPort(store.loop, chance)) for _ in range(CLIENTS)]
        self.over = False

    async def run(self, seconds: float) -> None:
        """Do it all within about `seconds`."""
        async with anyio.create_task_group() as group:
            for number, client in enumerate(self.clients):
                group.start_soon(self._talk, f"client{number}", client, seconds)
                group.start_soon(self._decide, f"client{number}", client)

    async def _insist(self, action: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return await action()
            except StoreUnavailable:
                await asyncio.sleep(0.05)

    async def _send(self, client: Client, to: str, message: Message, name: str, lane: Lane = Lane.NORMAL) -> None:
        await self._insist(lambda: client.send(to, message, client_id=name, lane=lane))
        if self.chance.random() < 0.2:
            other = self.chance.choice(self.clients)
            accepted = await self._insist(lambda: other.send(to, message, client_id=name, lane=lane))
            if accepted:
                self.store.history.wrong.append(f"S6: {name} was accepted twice")

    async def _talk(self, name: str, client: Client, seconds: float) -> None:
        chance, numbers = self.chance, dict.fromkeys(range(peers.PEERS), 0)
        count = chance.choice(self.profile.steps)
        for step in range(count):
            await asyncio.sleep(chance.random() * 2 * seconds / count)
            if self.steps:
                await chance.choice(self.steps)(f"{name}.{step}", client, numbers)
            if chance.random() < self.profile.poison:
                await self._poison(f"{name}.{step}", client)
        if name == "client0":
            for run in range(self.profile.agents):
                await self._start_run(f"r{run}", client)
        self.plan.done += 1
        if self.plan.done == len(self.clients) and self.talks:
            await self._finish(client)
        self.plan.finished = self.plan.done == len(self.clients)

    async def _token(self, name: str, client: Client, numbers: dict[int, int]) -> None:
        at, fuel = self.chance.randrange(peers.PEERS), self.chance.randrange(6)
        how: peers.How = self.chance.choice(("", "", "", "waits", "bug", "transient"))
        numbers[at] += 1
        self.plan.tokens.append((name, fuel, at))
        token = peers.Token(name, fuel, name.partition(".")[0], numbers[at], how)
        await self._send(client, peers.peer(at), token, name)

    async def _relay(self, name: str, client: Client, _numbers: dict[int, int]) -> None:
        at, target = self.chance.sample(range(peers.PEERS), 2)
        relay = peers.Relay(name, self.chance.randrange(3, 8), target)
        self.plan.relays.append(relay)
        await self._send(client, peers.peer(at), relay, name)

    async def _pause(self, name: str, client: Client, _numbers: dict[int, int]) -> None:
        """Pause a peer and resume it: it may come late with all it does, and must not miss anything."""
        to = peers.peer(self.chance.randrange(peers.PEERS))
        if await self._insist(lambda: self.store.actor(to)) is not None:
            await self._send(client, to, Pause("people", "simulated"), name, Lane.SYSTEM)
            await asyncio.sleep(0.3 * self.chance.random())
            await self._send(client, to, Resume("people"), f"{name}-resume", Lane.SYSTEM)

    async def _ask(self, name: str, client: Client, _numbers: dict[int, int]) -> None:
        """Ask a helper from outside, and not insist: what comes of it is an answer, or nothing in time."""
        kind = self.chance.choice(("now", "later", "never", "stashed"))
        to = talkers.helper(self.chance.randrange(talkers.HELPERS))
        try:
            answer = await client.ask(to, talkers.Question(kind), seconds=0.4)
        except (TimeoutError, StoreUnavailable):
            return
        if kind == "never" or answer != talkers.Reply(kind):
            why = f": {answer.why}" if isinstance(answer, AskFailed) else ""
            self.store.history.wrong.append(f"I6: {name} asked for {kind!r} and was told {answer}{why}")

    async def _buy(self, name: str, client: Client, _numbers: dict[int, int]) -> None:
        address = buyers.buyer(self.chance.randrange(buyers.BUYERS))
        how = self.chance.choice(BUYS)
        seconds = self.chance.choice((0.0, 0.01, 0.3))
        if self.chance.random() < 0.05:
            how, seconds = self.chance.choice(("plain", "recorded")), 4.0
        self.plan.buys[address] = self.plan.buys.get(address, 0) + 1
        await self._send(client, address, buyers.Buy(name, how, seconds), name)

    async def _timer(self, name: str, client: Client, _numbers: dict[int, int]) -> None:
        to = tickers.ticker(self.chance.randrange(tickers.TICKERS))
        if self.chance.random() < 0.3:
            begin = tickers.Begin(self.chance.choice((0.05, 0.11)), self.chance.randrange(2, 8))
            await self._send(client, to, begin, name)
            return
        timer = f"t{self.chance.randrange(3)}"
        seconds = self.chance.random() * 0.5
        await self._send(client, to, tickers.Set(timer, seconds), name)
        if self.chance.random() < 0.5:
            await asyncio.sleep(seconds * (0.8 + 0.4 * self.chance.random()))
            await self._send(client, to, tickers.Clear(timer), f"{name}-clear")

    async def _say(self, name: str, client: Client, _numbers: dict[int, int]) -> None:
        chance, helper = self.chance, self.chance.randrange(talkers.HELPERS)
        match chance.choice(("wonder", "wonder", "note", "note", "door", "follow", "end")):
            case "wonder":
                wonder = talkers.Wonder(name, helper, chance.choice(talkers.KINDS))
                self.plan.questions.append(name)
                await self._send(client, talkers.asker(chance.randrange(talkers.ASKERS)), wonder, name)
            case "note":
                origin = name.partition(".")[0]
                notes = self.plan.notes.setdefault(helper, {})
                notes[origin] = notes.get(origin, 0) + 1
                await self._send(client, talkers.helper(helper), talkers.Note(origin, notes[origin]), name)
            case "door":
                await self._send(client, talkers.helper(helper), talkers.Door(chance.random() < 0.5), name)
            case "follow":
                follow = talkers.Follow(chance.randrange(talkers.MAYFLIES))
                await self._send(client, talkers.asker(chance.randrange(talkers.ASKERS)), follow, name)
            case _:
                await self._end(chance.randrange(talkers.MAYFLIES), name, client)

    async def _end(self, number: int, name: str, client: Client) -> None:
        to = talkers.mayfly(number)
        if self.chance.random() < 0.4:
            await self._send(client, to, Cancel("people", "simulated"), name, Lane.SYSTEM)
        else:
            seconds = self.chance.choice((0.0, 0.05, 0.5))
            await self._send(client, to, talkers.End(seconds, self.chance.choice(("completed", "cancelled"))), name)

    async def _finish(self, client: Client) -> None:
        """Open all doors and end all mayflies."""
        for number in range(talkers.HELPERS):
            await self._send(client, talkers.helper(number), talkers.Door(True), f"open {number}")
        for number in range(talkers.MAYFLIES):
            await self._send(client, talkers.mayfly(number), talkers.End(), f"end {number}")

    async def _order(self, name: str, client: Client, _numbers: dict[int, int]) -> None:
        what = self.chance.choice(("", "crash", "crash", "end", "kill", "kill all"))
        to = f"/w/{self.chance.choice(self.families)}"
        if what != "kill all":
            to = f"{to}/{self.chance.choice('abc')}"
        if what.startswith("kill"):
            if not self._is_up():
                return  # a tree that is killed while it boots stays down, as it should
            await self._send(client, to, Kill("people", "simulated"), name, Lane.SYSTEM)
        elif await self._insist(lambda: self.store.actor(to)) is not None:
            await self._send(client, to, family.Order(what), name)

    def _is_up(self) -> bool:
        row = self.store.tables.actors.get((shard_of("/w"), "/w"))
        return row is not None and msgspec.msgpack.decode(row.state, type=SupervisorState).job is None

    async def _poison(self, name: str, client: Client) -> None:
        how = self.chance.choice(victims.KINDS)
        # What stays where it is blocks its lane: each has a victim of its own, apart from the others'.
        to = victims.victim(self.chance.randrange(victims.VICTIMS))
        to = f"{to}-{name}" if how in ("park", "unknown") else to
        envelope = await self._insist(lambda: client.envelope(to, victims.Bad(how)))
        if how == "unreadable":
            envelope.body = '{"type":"sim.bad","how":7}'
        if how == "unknown":
            envelope.type = "sim.of_the_future"
        self.plan.bad.append(how)
        await self._insist(lambda: self.store.send([envelope], [f"{name}-bad"]))

    async def _start_run(self, run: str, client: Client) -> None:
        self.plan.runs.append(run)
        await self._insist(lambda: Runs(client, RUNS).create(StartRun(f"refund order {run}"), run))

    # --- deciding ----------------------------------------------------------------------------------------------

    async def _decide(self, name: str, client: Client) -> None:
        """Decide what waits for a decision, in a race with the other clients."""
        chance = self.chance
        while not self.over:
            await asyncio.sleep(0.2 + 0.5 * chance.random())
            for decision in await self._insist(lambda: self.store.decisions(status="pending")):
                if decision.expires_seconds and chance.random() < 0.5:
                    continue
                status = chance.choice(("approved", "approved", "denied"))
                if decision.kind == "in-doubt":
                    if self.store.loop.now < self.profile.storm_seconds + TRUTH_SECONDS:
                        continue  # whoever began it may still be about to do it
                    status = "approved" if WORLD.effects.get(f"post {_order_of(decision.arguments)}") else "denied"
                hold = chance.choice((0.0, 0.0, 0.1))
                verdict = Verdict(decision.id, status, decision.digest, name, hold_seconds=hold)  # type: ignore[arg-type]
                try:
                    await client.decide(verdict)
                except AlreadyDecided:
                    continue
                except StoreUnavailable:
                    break
                self.plan.verdicts.setdefault(decision.id, []).append(f"{status} by {name}")


def _order_of(arguments: str) -> str:
    return str(msgspec.json.decode(arguments)["order"])
