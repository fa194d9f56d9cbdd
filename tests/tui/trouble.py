"""A stage of troubled actors on any store, all through one real node: what the screens have to make sense of.

    async with trouble(store) as it:
        await it.everything()

An actor does as the first word of its message says (`Clerk.task`); `everything` brings about one of each trouble and
comes back when the rows show it. The node runs in the test's own event loop; leaving the context stops it.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import msgspec

from callboard.actors.actor import Actor, Worker, on
from callboard.actors.client import Client
from callboard.actors.context import Context, WorkerContext
from callboard.actors.directives import Park, Reject
from callboard.actors.node import Node, NodeSettings
from callboard.actors.retry import RetryPolicy
from callboard.actors.spec import Child, Supervisor, Tree
from callboard.actors.system import Cancel, Pause
from callboard.mailbox.envelope import DeadLetter, Envelope
from callboard.mailbox.lane import Lane
from callboard.mailbox.message import Message
from callboard.persistence.rows import ActorRow, MessageView
from callboard.persistence.store import Store

WAIT_SECONDS = 120.0
CLERK, MAILER, PRESS = "/office/clerk", "/office/mailer", "/office/press"
LONG = 60
"""Messages in the long mailbox."""


class Task(Message, tag="ticket.update"):
    """Do what `text` says; the other fields are there to be looked at."""

    text: str = ""
    order: str = ""
    password: str = ""


class Mail(Message, tag="email.send"):
    """To a mailer: it is refused by the far end, as often as it is tried."""

    text: str = ""
    to: str = ""


class Print(Message, tag="press.print"):
    """To the worker."""

    text: str = ""


class Done(msgspec.Struct):
    """What a clerk has done."""

    tasks: list[str] = []


class Clerk(Actor[Done], kind="clerk"):
    """ok, wait (until the gate opens), fail (tried again in some minutes), reject, park, later (put aside),
    hold (a call waits for `release`), call (the press), send KEY (a task to another clerk), mail KEY."""

    retry = RetryPolicy(max_failures=1_000, first_seconds=300.0, cap_seconds=600.0)

    def __init__(self, gate: anyio.Event) -> None:
        self.gate = gate

    @on(creates=True)
    async def task(self, message: Task, ctx: Context) -> None:
        word, _, rest = message.text.partition(" ")
        if word == "later":
            ctx.stash()
            return
        self.state.tasks.append(message.text)
        match word:
            case "wait":
                await self.gate.wait()
            case "fail":
                raise RuntimeError(rest or "upstream answered 503")
            case "reject":
                raise Reject(rest or "nobody wants this")
            case "park":
                raise Park(rest or "a person must look")
            case "hold":
                ctx.hold(PRESS, Print(rest))
            case "call":
                ctx.send(PRESS, Print(rest))
            case "send":
                ctx.send(f"{CLERK}:{rest}", Task("ok"))
            case "mail":
                ctx.send(f"{MAILER}:{rest}", Mail("550 5.1.1 mailbox unavailable", "press@chronicle.example"))


class Mailer(Actor[Done], kind="mailer"):
    """Fails three times within moments, and gives the message up."""

    retry = RetryPolicy(max_failures=3, first_seconds=0.01, cap_seconds=0.02)

    @on(creates=True)
    async def mail(self, message: Mail, ctx: Context) -> None:
        raise ConnectionError(message.text)


class Press(Worker, kind="press"):
    """A call waits until the gate opens; `reject` is refused."""

    def __init__(self, gate: anyio.Event) -> None:
        self.gate = gate

    def records_start(self, message: Message) -> bool:
        return True

    @on
    async def print_(self, message: Print, ctx: WorkerContext) -> None:
        if message.text.startswith("reject"):
            raise Reject("no paper")
        await self.gate.wait()


class Trouble:
    """The office on one store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.client = Client(store, number_seconds=600.0)
        self.gate = anyio.Event()
        """Set it, and whoever waits goes on."""
        self.node: Node | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """A node at work, for as long as this lasts."""
        children = (
            Child(Clerk, "clerk", pool=True, args=(self.gate,)),
            Child(Mailer, "mailer", pool=True),
            Child(Press, "press", args=(self.gate,)),
        )
        tree = Tree(Supervisor("office", children, max_restarts=1_000))
        self.node = Node(self.store, tree, settings=NodeSettings(label="office/1", drain_seconds=0.2))
        async with anyio.create_task_group() as group:
            group.start_soon(self.node.run)
            await self.node.ready.wait()
            try:
                yield
            finally:
                self.gate.set()
                self.node.stop()

    async def send(
        self,
        key: str,
        *tasks: Message | str,
        pool: str = CLERK,
        delay_seconds: float = 0.0,
        client_id: str = "",
        lane: Lane = Lane.NORMAL,
    ) -> list[int]:
        """Send to a clerk (or to an instance of another pool); the ids of the messages."""
        envelopes: list[Envelope] = []
        for task in tasks:
            message = Task(task) if isinstance(task, str) else task
            envelope = await self.client.envelope(f"{pool}:{key}", message, lane=lane)
            envelope.delay_seconds = delay_seconds
            envelopes.append(envelope)
        await self.store.send(envelopes, [client_id] if client_id else ())
        return [envelope.id for envelope in envelopes]

    # -- until the rows show it

    async def until(self, condition: Callable[[], Awaitable[object]]) -> None:
        """Come back when this is true."""
        with anyio.fail_after(WAIT_SECONDS):
            while not await condition():  # noqa: ASYNC110 - rows raise no event here
                await anyio.sleep(0.01)

    async def row(self, key: str, status: str = "active") -> ActorRow:
        """A clerk, once it has this status."""

        async def there() -> bool:
            row = await self.store.actor(f"{CLERK}:{key}")
            return row is not None and row.status == status

        await self.until(there)
        row = await self.store.actor(f"{CLERK}:{key}")
        assert row is not None
        return row

    async def view(self, key: str, state: str) -> MessageView:
        """The first message of a clerk that is in this state (held: of its calls), once there is one."""
        address, found = f"{CLERK}:{key}", list[MessageView]()

        async def there() -> bool:
            views = [*await self.store.peek(address), *await self.store.calls(address)]
            found[:] = [view for view in views if view.state == state]
            return bool(found)

        await self.until(there)
        return found[0]

    async def letters(self, count: int, key: str = "", pool: str = CLERK) -> list[DeadLetter]:
        """Dead letters (of one actor), newest first, once there are so many."""
        recipient, found = f"{pool}:{key}" if key else "", list[DeadLetter]()

        async def there() -> bool:
            found[:] = await self.store.dead_letters(recipient=recipient, limit=max(count, 100))
            return len(found) >= count

        await self.until(there)
        return found

    # -- troubles, each once the rows show it

    async def retrying(self, key: str = "retrying", error: str = "upstream answered 503") -> MessageView:
        """A task that failed and waits for its next try; one more is behind it."""
        await self.send(key, f"fail {error}", "ok")
        return await self.view(key, "retrying")

    async def rejected(self, key: str = "rejected", why: str = "nobody wants this") -> DeadLetter:
        """A dead letter that was refused at once."""
        before = len(await self.letters(0, key))
        await self.send(key, Task(f"reject {why}", "A-8891", "hunter2"))
        return (await self.letters(before + 1, key))[0]

    async def failed(self, key: str = "3", error: str = "550 5.1.1 mailbox unavailable") -> DeadLetter:
        """A dead letter whose three tries are used up."""
        before = len(await self.letters(0, key, MAILER))
        await self.send(key, Mail(error, "press@chronicle.example"), pool=MAILER)
        return (await self.letters(before + 1, key, MAILER))[0]

    async def refused_call(self, key: str = "caller") -> DeadLetter:
        """The dead letter of a call that the press refused."""
        await self.send(key, "call reject")
        found = list[DeadLetter]()

        async def there() -> bool:
            found[:] = [one for one in await self.store.dead_letters(limit=100) if one.envelope.recipient == PRESS]
            return bool(found)

        await self.until(there)
        return found[0]

    async def held(self, key: str = "held") -> MessageView:
        """A call that its clerk keeps back."""
        await self.send(key, "hold invoice")
        return await self.view(key, "held")

    async def scheduled(self, key: str = "scheduled", delay_seconds: float = 86_400.0) -> MessageView:
        """A task that is not due for a day."""
        await self.send(key, Task("ok", "A-1"), delay_seconds=delay_seconds)
        return await self.view(key, "scheduled")

    async def stashed(self, key: str = "stashed") -> MessageView:
        """A task that its clerk has put aside."""
        await self.send(key, "later tomorrow")
        return await self.view(key, "stashed")

    async def parked(self, key: str = "parked") -> ActorRow:
        """A clerk that stands still until a person has looked."""
        await self.send(key, "park the sum is odd", "ok")
        return await self.row(key, "parked")

    async def paused(self, key: str = "paused", waiting: int = 3) -> ActorRow:
        """A clerk that ann has paused, with tasks waiting."""
        await self._has_worked(key)
        await self.client.send(f"{CLERK}:{key}", Pause("ann", "the customer is on the phone"), lane=Lane.SYSTEM)
        row = await self.row(key, "paused")
        await self.send(key, *(Task("ok", f"A-{number}", "hunter2") for number in range(waiting)))
        return row

    async def _has_worked(self, key: str) -> None:
        """Have it handle a task: what comes next, on the system lane, would overtake one that waits."""
        [sent] = await self.send(key, "ok")

        async def handled() -> bool:
            return all(view.envelope.id != sent for view in await self.store.peek(f"{CLERK}:{key}"))

        await self.until(handled)
        await self.row(key)

    async def ended(self, key: str = "ended") -> ActorRow:
        """A clerk that was cancelled."""
        await self._has_worked(key)
        await self.client.send(f"{CLERK}:{key}", Cancel("ann", "no longer needed"), lane=Lane.SYSTEM)
        return await self.row(key, "cancelled")

    async def long(self, key: str = "long", waiting: int = LONG) -> None:
        """A clerk that is busy with one task, and many behind it."""
        await self.send(key, "wait", *(Task(f"ok {number}", f"A-{number}") for number in range(waiting)))

    async def calling(self, key: str = "calling") -> None:
        """A clerk whose call to the press has begun."""
        await self.send(key, "call invoice")

        async def begun() -> bool:
            return any(view.envelope.started for view in await self.store.calls(f"{CLERK}:{key}"))

        await self.until(begun)

    async def everything(self) -> None:
        """One of each."""
        await self.failed()
        await self.rejected()
        await self.retrying()
        await self.held()
        await self.scheduled()
        await self.stashed()
        await self.parked()
        await self.paused()
        await self.ended()
        await self.calling()
        await self.long()


@asynccontextmanager
async def trouble(store: Store) -> AsyncIterator[Trouble]:
    """The office on a store, with its node at work."""
    it = Trouble(store)
    async with it.open():
        yield it
