"""Runs from outside: start them, read them, decide for them, speak to them. What Runtime, CLI, TUI and HTTP share.

Everything here is a message or a read; none of it needs a node in this process.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from ...mailbox.address import child, key_of
from ...mailbox.envelope import Envelope
from ...mailbox.errors import Conflict, UsageError
from ...mailbox.lane import Lane
from ...mailbox.message import Message, decode_tagged, encode
from ...persistence.rows import ENDED, ActorRow
from ..client import Asked, Client
from ..snapshot import decode_state
from ..system import Resume
from . import record
from .budget import Budget, check
from .deciding import Deciding, NotAwaiting, RunNotFound
from .document import StateSnapshot, snapshot_of
from .events import Trust
from .forking import beginning, done_elsewhere, fork_state, past_of, unanswered
from .messages import AwaitRest, CancelRun, ForkRun, Rested, StartChild, StartRun, Tell
from .run import Run, RunSnapshot
from .state import Call, RunState, fold, spelled_out
from .transcript import Transcript

__all__ = ["NotAwaiting", "Recorded", "RunNotFound", "RunStands", "Runs", "StateSnapshot", "Verification"]

LOOK_FIRST_SECONDS, LOOK_CAP_SECONDS = 2.0, 60.0
"""Who waits for a run's rest looks by itself after so long, and then ever later: the run may stand still, or wait for
runs that wait for people, and then it does not answer."""
ASK_AGAIN_SECONDS = 600.0
"""After so long without an answer it asks anew. One question is enough, as it is kept with the run; this is for a
database that was set back."""
MAX_START_BYTES = 768 << 10
"""Of a run's beginning; leaves room for what its first event adds."""


class RunStands(Conflict):
    """The run's actor takes no messages: it was paused, is parked, or has failed; the message says why."""


class Recorded(msgspec.Struct, frozen=True):
    """An event, and when and where it was recorded."""

    seq: int
    at: float
    """Seconds since 1970, by the node's estimate of the store's clock."""
    node: int
    type: str
    event: Message


class Verification(msgspec.Struct, frozen=True):
    """Whether a run's snapshot is the fold of its journal, and where not."""

    ok: bool
    events: int
    differences: list[str]


class Runs(Deciding):
    """The runs of one pool, such as `/agents/run`."""

    def __init__(self, client: Client, pool: str) -> None:
        self.client = client
        self.store = client.store
        self.pool = pool

    def address(self, run_id: str) -> str:
        """Of a run."""
        parent, _, name = self.pool.rpartition("/")
        return child(parent, name, run_id)

    # --- starting and speaking ---------------------------------------------------------------------------------

    async def create(self, start: StartRun, run_id: str = "", *, client_id: str = "") -> str:
        """Record a run; whoever serves its shard begins it. Its id.

        Raises:
            Conflict: the id is taken by a run with another beginning.
            UsageError: nothing to do, too long to be kept, or a budget that allows no model call.
        """
        self._must_fit(start)
        run_id = run_id or self.client.port.token()
        await self.client.send(self.address(run_id), start, client_id=client_id or _client_id(run_id))
        return run_id

    async def start(self, start: StartRun, run_id: str, *, seconds: float = 3600.0) -> RunState:
        """`create` and `rest` in one, which asks less of the store. Raises as these do."""
        self._must_fit(start)
        beginning = await self.client.envelope(self.address(run_id), start)
        return await self.rest(run_id, seconds=seconds, after=(beginning, _client_id(run_id)))

    @staticmethod
    def _must_fit(start: StartRun) -> None:
        if not start.goal.strip():
            raise UsageError("a run needs a goal: say what the agent shall do")
        Runs._must_be_small(start)
        check(start.budget)

    @staticmethod
    def _must_be_small(beginning: Message) -> None:
        if (size := len(encode(beginning).encode())) > MAX_START_BYTES:
            raise UsageError(f"goal and system prompt take {size:,} bytes; {MAX_START_BYTES:,} are allowed")

    async def fork(
        self,
        run_id: str,
        at: int | None = None,
        *,
        new_id: str = "",
        say: str = "",
        note: str = "",
        by: str = "unknown",
        budget: Budget | None = None,
    ) -> str:
        """Record a new run that goes on from event `at` of this one (None: its last); its id. The run does not notice.

        `say` is what the fork's model reads next; `note` is for people. The fork's budget is that of the run unless
        given, and counts anew. Where the run has ended by that event, `say` is needed: there is nothing else to do.

        Raises:
            RunNotFound; UsageError: no such event, nothing to say to an ended run, or a budget that allows nothing.
            Conflict: the new id is taken.
        """
        origin = self.address(run_id)
        events = [recorded.event for recorded in await self.events(run_id)]
        at = len(events) if at is None else at
        state, kept = fork_state(events, at, run_id)
        if state.status in ("completed", "cancelled") and not say.strip():
            raise UsageError(
                f"run {run_id} is {state.status} at event {at}: say what its fork shall do, or fork at an earlier event"
            )
        budget = budget or state.own_budget or state.budget
        check(budget)
        elsewhere = await done_elsewhere(origin, events, at, self._messages)
        message = ForkRun(
            origin, at, kept, budget, unanswered(origin, events, at), elsewhere, by, note=note, say=say.strip()
        )
        self._must_be_small(message)
        new_id = new_id or self.client.port.token()
        await self.client.send(self.address(new_id), message, client_id=f"fork {new_id}")
        return new_id

    async def _messages(self, address: str) -> list[Message]:
        return [recorded.event for recorded in await self._events_at(address)]

    async def tell(
        self, run_id: str, text: str, *, by: str = "", trust: Trust = "trusted", client_id: str = ""
    ) -> None:
        """Say something to a live run. `trust`: whether it is safe to act upon, or was written by somebody outside.
        With a `client_id`, what is said again is said once.

        Raises:
            RunNotFound; Conflict: it has ended; a fork of it can be told.
        """
        await self._live(run_id, f"told anything; go on from its end: callboard fork {run_id} --say TEXT")
        await self.client.send(self.address(run_id), Tell(text, by, trust), client_id=client_id)

    async def cancel(self, run_id: str, *, by: str = "", reason: str = "") -> None:
        """Ask a run to begin nothing more and end; what runs is waited for.

        Raises:
            RunNotFound; Conflict: it has ended.
        """
        await self._live(run_id, "cancelled any more")
        await self.client.send(self.address(run_id), CancelRun(by, reason), lane=Lane.REPLY)

    async def _live(self, run_id: str, what: str) -> None:
        state = await self.state(run_id)
        if state.status == "not_started":
            raise RunNotFound(f"no run {run_id!r}; `callboard runs` lists them")
        if state.finished:
            raise Conflict(f"run {run_id} is {state.status} and cannot be {what}")

    async def rest(
        self, run_id: str, *, seconds: float = 3600.0, after: tuple[Envelope, str] | None = None
    ) -> RunState:
        """Wait until a run has ended, or waits for people only and all they have decided so far is acted upon.

        `after`: the message that begins it (with its client id), sent first.

        Raises:
            RunNotFound; RunStands: it takes no messages, and says why. TimeoutError: not within `seconds`.
        """
        end = self.client.port.monotonic() + seconds
        pause, patience = 0.005, LOOK_FIRST_SECONDS
        asked: Asked[Rested] | None = None
        ask_again_at = 0.0
        while True:
            if asked is None and after is None:
                state = await self.state(run_id)
                if state.finished:
                    return state
                if state.status == "not_started":
                    raise RunNotFound(f"no run {run_id!r}; `callboard runs` lists them")
                if await self._children_rest(state):
                    return state
            if asked is None:
                # In the normal lane: it must not overtake the message that starts the run.
                asked = await self.client.begin(self.address(run_id), AwaitRest(), lane=Lane.NORMAL, after=after)
                after, ask_again_at = None, self.client.port.monotonic() + ASK_AGAIN_SECONDS
            answer = await asked.answer(min(patience, max(0.001, end - self.client.port.monotonic())))
            state = await self.state(run_id)
            resting = state.status == "awaiting_approval" and not await self._decided_meanwhile(state)
            settled = resting or state.status == "provider_down"
            if state.finished or (settled and isinstance(answer, Rested)) or await self._children_rest(state):
                return state
            await self._must_move(run_id)
            if self.client.port.monotonic() >= end:
                raise TimeoutError(f"run {run_id} did not rest within {seconds:g} s: it is {state.status}")
            # A run whose agents wait for people is not at rest itself, so it does not answer.
            patience = min(2 * patience, LOOK_FIRST_SECONDS if _children(state) else LOOK_CAP_SECONDS)
            if answer is None and self.client.port.monotonic() < ask_again_at:
                continue  # the question stands: the run has it, or will
            asked = None
            await self.client.port.sleep(pause)
            pause = min(2 * pause, 0.5)

    async def at_rest(self, run_id: str) -> bool:
        """Whether a run has ended, waits for people only (or for a provider that is down), or stands still.

        A look: unlike `rest` it asks nobody, so somebody who only watches leaves no trace. What people have decided
        and the run has not acted upon yet is no rest.
        """
        row = await self.store.actor(self.address(run_id))
        if row is not None and row.status not in ("active", *ENDED):
            return True
        state = await self.state(run_id)
        if state.finished or state.status == "provider_down":
            return True
        if state.status == "awaiting_approval":
            return not await self._decided_meanwhile(state)
        return await self._children_rest(state)

    async def _children_rest(self, state: RunState) -> bool:
        """Whether all that a run waits for is people, or a provider that is down, in runs that it has called."""
        children = _children(state)
        if (
            not children
            or state.model_message
            or any(c.status == "running" and not c.child for c in state.pending.values())
        ):
            return False
        if await self._decided_meanwhile(state):
            return False
        for call in children:
            run = await self.state(key_of(call.child) or "")
            at_rest = run.status == "awaiting_approval" and not await self._decided_meanwhile(run)
            at_rest |= run.status == "provider_down"
            if not at_rest and not await self._children_rest(run):
                return False
        return True

    async def _decided_meanwhile(self, state: RunState) -> bool:
        """Whether somebody has decided on a call that the run still holds: the decision is on its way then."""
        rows = [await self.store.decision(call.decision) for call in state.pending_approvals]
        return any(row is not None and row.status != "pending" for row in rows)

    async def _must_move(self, run_id: str) -> None:
        row = await self.store.actor(self.address(run_id))
        if row is not None and row.status not in ("active", *ENDED) and not await self._is_told_to_go_on(run_id):
            raise RunStands(f"run {run_id} stands still, it is {row.status}: {row.reason or 'no reason given'}")

    async def _is_told_to_go_on(self, run_id: str) -> bool:
        waiting = [view.envelope for view in await self.store.peek(self.address(run_id), limit=1_000)]
        return any(one.lane == Lane.SYSTEM and one.type == Resume.__struct_config__.tag for one in waiting)

    # --- reading -----------------------------------------------------------------------------------------------

    async def state(self, run_id: str) -> RunState:
        """Where a run is; `not_started` where there is none, `running` at step 0 where it was recorded only."""
        known = await self._snapshot(run_id)
        if known is not None:
            return known
        for view in await self.store.peek(self.address(run_id), limit=10):
            match view.envelope.message() if view.envelope.type.startswith("run.") else None:
                case StartRun() as start:
                    return fold([record.started(start, self.address(run_id), view.sent_at, [])])
                case StartChild() as asked:
                    return fold([record.started(asked.start, self.address(run_id), view.sent_at, [])])
                case ForkRun() as forked:
                    return fold([record.forked(forked, self.address(run_id), view.sent_at, [])])
        # Neither begun nor waiting to begin: unless it began between the two looks.
        return await self._snapshot(run_id) or RunState()

    async def _snapshot(self, run_id: str) -> RunState | None:
        row = await self.store.actor(self.address(run_id))
        return _kept(row) if row is not None and row.state else None

    async def events(self, run_id: str) -> list[Recorded]:
        """A run's whole journal.

        Raises:
            RunNotFound: it has none.
        """
        found = await self._events_at(self.address(run_id))
        if not found and (await self.state(run_id)).status == "not_started":
            raise RunNotFound(f"no run {run_id!r}; `callboard runs` lists them")
        return found

    async def _events_at(self, address: str) -> "list[Recorded]":
        found: list[Recorded] = []
        # Goes on from the last number and not from how many there are: where one is lost, another would come twice.
        while page := await self.store.journal(address, after=found[-1].seq if found else 0):
            found += [Recorded(e.seq, e.at, e.node, e.type, decode_tagged(e.type, e.body)) for e in page]
        return found

    async def whole(self, run_id: str) -> "list[Message]":
        """A run's events; before those of a fork the ones that it goes on from.

        Raises:
            RunNotFound. PastLost: some of those are not there any more.
        """
        events = [recorded.event for recorded in await self.events(run_id)]
        return [event for part in await self._parts(events) for event in part]

    async def _parts(self, events: Sequence[Message]) -> Sequence[Sequence[Message]]:
        """The journal of a run, after those parts of others that it goes on from."""
        return [*await past_of(beginning(events), self._messages), events] if events else []

    async def list(self, *, limit: int = 100, after: str = "") -> list[tuple[str, dict[str, Any]]]:
        """(run id, summary) of runs, beyond the run id `after`."""
        beyond = self.address(after) if after else ""
        rows = await self.store.actors(kind="run", prefix=f"{self.pool}:", limit=limit, after=beyond)
        return [(key_of(row.address) or "", msgspec.json.decode(row.summary or "{}")) for row in rows]

    async def snapshot(self, run_id: str) -> StateSnapshot:
        """A run as one document.

        Raises:
            RunNotFound.
        """
        recorded = await self.events(run_id)
        events = [one.event for one in recorded]
        transcript = Transcript()
        for part in await self._parts(events):
            transcript.seq = 0
            transcript.feed(part)
        state = fold(events) if events else await self.state(run_id)
        saved_at = int((recorded[-1].at if recorded else await self.store.now()) * 1000)
        return snapshot_of(run_id, state, transcript, events, saved_at=saved_at)

    async def verify(self, run_id: str) -> Verification:
        """Fold the journal again and compare it with the snapshot.

        Raises:
            RunNotFound.
        """
        row = await self.store.actor(self.address(run_id))
        journal = await self.events(run_id)
        events = [recorded.event for recorded in journal]
        if row is None:
            raise RunNotFound(f"no run {run_id!r}; `callboard runs` lists them")
        if len(events) > row.events and await self._has_counted(run_id, journal[-1].seq):
            # It was at work between the two looks: what it has recorded since is no part of this snapshot.
            journal = [recorded for recorded in journal if recorded.seq <= row.events]
            events = [recorded.event for recorded in journal]
        kept, folded = spelled_out(_kept(row)), spelled_out(fold(events))
        if kept["tools"] is None:
            _leave_out_what_is_newer(kept, folded)
        _leave_out_released(kept, folded)
        wrong = [f"{key}: {kept[key]!r} kept, {folded[key]!r} folded" for key in folded if kept[key] != folded[key]]
        if len(events) != row.events:
            lost = sorted(set(range(1, row.events + 1)) - {recorded.seq for recorded in journal})
            which = f"; lost: {', '.join(map(str, lost[:8]))}{', …' if lost[8:] else ''}" if lost else ""
            wrong.append(f"events: {row.events} counted, {len(events)} in the journal{which}")
        return Verification(not wrong, len(events), wrong)

    async def _has_counted(self, run_id: str, seq: int) -> bool:
        row = await self.store.actor(self.address(run_id))
        return row is not None and row.events >= seq


def _client_id(run_id: str) -> str:
    return f"start {run_id}"


def _kept(row: ActorRow) -> RunState:
    snapshot: RunSnapshot = decode_state(Run, row.state_version, row.state)
    return snapshot.run


def _leave_out_what_is_newer(kept: dict[str, Any], folded: dict[str, Any]) -> None:
    """Of a run that an older release began: what that did not keep, though today's fold finds it in its journal."""
    for state in (kept, folded):
        for name in ("tools", "counted", "unreadable", "model_error"):
            state.pop(name)
    for number, call in kept["pending"].items():
        if call["question"] is None and number in folded["pending"]:
            folded["pending"][number]["question"] = None


def _leave_out_released(kept: dict[str, Any], folded: dict[str, Any]) -> None:
    """Of calls in doubt under a release that did not keep what had let them go."""
    for number, call in kept["pending"].items():
        if not call["released"] and number in folded["pending"]:
            folded["pending"][number]["released"] = ""


def _children(state: RunState) -> list[Call]:
    return [call for call in state.pending.values() if call.child]
