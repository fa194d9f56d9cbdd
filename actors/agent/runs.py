"""Runs from outside: start them, read them, decide for them, speak to them. What Runtime, CLI, TUI and HTTP share.

Everything here is a message or a read; none of it needs a node in this process.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from ...mailbox.address import child, key_of
from ...mailbox.envelope import Envelope
from ...mailbox.errors import Conflict, NotFound, UsageError
from ...mailbox.lane import Lane
from ...mailbox.message import Message, decode_tagged, encode
from ...persistence.rows import ENDED, ActorRow, Decision, Verdict
from ..client import Client
from ..snapshot import decode_state
from . import record
from .budget import check
from .digest import decision_id
from .events import ToolCallCompleted
from .messages import AwaitRest, CancelRun, Rested, StartRun, Tell
from .run import Run, RunSnapshot
from .state import Call, RunState, fold
from .text import MAX_SAID_CHARS, row_text
from .transcript import Transcript

MAX_START_BYTES = 768 << 10
"""Of a run's beginning; leaves room for what its first event adds."""


class RunNotFound(NotFound, ValueError):
    """There is no run of that id."""


class NotAwaiting(Conflict, ValueError):
    """The run does not wait for a decision, or for several and the call must be named."""


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


class PendingToolCall(msgspec.Struct, frozen=True):
    """The call that a paused run waits on, with what its siblings have answered meanwhile."""

    tool: str
    arguments: dict[str, Any]
    call: int
    tool_call_id: str
    reason: str
    digest: str
    executed_sibling_results: dict[int, dict[str, Any]]


class StateSnapshot(msgspec.Struct, frozen=True):
    """A run as one document: enough to show it, or to go on with it elsewhere."""

    run_id: str
    context: dict[str, Any]
    messages: list[Any]
    sdk_state: dict[str, Any]
    pending: PendingToolCall | None
    saved_at: int
    """Milliseconds since 1970."""


class Verification(msgspec.Struct, frozen=True):
    """Whether a run's snapshot is the fold of its journal, and where not."""

    ok: bool
    events: int
    differences: list[str]


class Runs:
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
        if (size := len(encode(start).encode())) > MAX_START_BYTES:
            raise UsageError(f"goal and system prompt take {size:,} bytes; {MAX_START_BYTES:,} are allowed")
        check(start.budget)

    async def tell(self, run_id: str, text: str, *, by: str = "") -> None:
        """Say something to a live run.

        Raises:
            RunNotFound; Conflict: it has ended.
        """
        await self._live(run_id, "told anything")
        await self.client.send(self.address(run_id), Tell(text, by))

    async def cancel(self, run_id: str, *, by: str = "", reason: str = "") -> None:
        """Ask a run to begin nothing more and end; what runs is waited for.

        Raises:
            RunNotFound; Conflict: it has ended.
        """
        await self._live(run_id, "cancelled")
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
        pause, patience = 0.005, 2.0
        while True:
            if after is None:
                state = await self.state(run_id)
                if state.finished:
                    return state
                if state.status == "not_started":
                    raise RunNotFound(f"no run {run_id!r}; `callboard runs` lists them")
            wait = min(patience, max(0.001, end - self.client.port.monotonic()))
            answer, after = await self._await_rest(run_id, wait, after), None
            state = await self.state(run_id)
            settled = state.status == "awaiting_approval" and not await self._decided_meanwhile(state)
            if state.finished or (settled and isinstance(answer, Rested)):
                return state
            await self._must_move(run_id)
            if self.client.port.monotonic() >= end:
                raise TimeoutError(f"run {run_id} did not rest within {seconds:g} s: it is {state.status}")
            patience = min(2 * patience, 60.0)
            await self.client.port.sleep(pause)
            pause = min(2 * pause, 0.5)

    async def _await_rest(self, run_id: str, seconds: float, after: tuple[Envelope, str] | None) -> Message | None:
        try:
            # In the normal lane: it must not overtake the message that starts the run.
            return await self.client.ask(
                self.address(run_id), AwaitRest(), seconds=seconds, lane=Lane.NORMAL, after=after
            )
        except TimeoutError:
            return None

    async def _decided_meanwhile(self, state: RunState) -> bool:
        """Whether somebody has decided on a call that the run still holds: the decision is on its way then."""
        rows = [await self.store.decision(call.decision) for call in state.pending_approvals]
        return any(row is not None and row.status != "pending" for row in rows)

    async def _must_move(self, run_id: str) -> None:
        row = await self.store.actor(self.address(run_id))
        if row is not None and row.status not in ("active", *ENDED):
            raise RunStands(f"run {run_id} stands still, it is {row.status}: {row.reason or 'no reason given'}")

    # --- reading -----------------------------------------------------------------------------------------------

    async def state(self, run_id: str) -> RunState:
        """Where a run is; `not_started` where there is none, `running` at step 0 where it was recorded only."""
        known = await self._snapshot(run_id)
        if known is not None:
            return known
        for view in await self.store.peek(self.address(run_id), limit=10):
            if view.envelope.type == "run.start":
                start = view.envelope.message()
                assert isinstance(start, StartRun)
                return fold([record.started(start, run_id, view.sent_at, [])])
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
        found: list[Recorded] = []
        while page := await self.store.journal(self.address(run_id), after=len(found)):
            found += [Recorded(e.seq, e.at, e.node, e.type, decode_tagged(e.type, e.body)) for e in page]
        if not found and (await self.state(run_id)).status == "not_started":
            raise RunNotFound(f"no run {run_id!r}; `callboard runs` lists them")
        return found

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
        events = [recorded.event for recorded in await self.events(run_id)]
        state, transcript = fold(events), Transcript()
        transcript.feed(events)
        waits = state.pending_approval
        pending = None if waits is None else _pending(waits, events)
        usage = {"input_tokens": state.input_tokens, "output_tokens": state.output_tokens}
        context = {
            "status": state.status,
            "step": state.step,
            "tool_calls": state.tool_calls,
            "budget": msgspec.to_builtins(state.budget),
            "usage": {**usage, "cost_usd": str(state.total_cost_usd)},
            "session": {"requested_by": state.requested_by, "model": state.model},
        }
        now = int(await self.store.now() * 1000)
        messages = [msgspec.to_builtins(message) for message in transcript.messages]
        return StateSnapshot(run_id, context, messages, {}, pending, now)

    async def verify(self, run_id: str) -> Verification:
        """Fold the journal again and compare it with the snapshot.

        Raises:
            RunNotFound.
        """
        row = await self.store.actor(self.address(run_id))
        events = [recorded.event for recorded in await self.events(run_id)]
        if row is None:
            raise RunNotFound(f"no run {run_id!r}; `callboard runs` lists them")
        kept = msgspec.to_builtins(_kept(row))
        folded = msgspec.to_builtins(fold(events))
        wrong = [f"{key}: {kept[key]!r} kept, {folded[key]!r} folded" for key in folded if kept[key] != folded[key]]
        if len(events) != row.events:
            wrong.append(f"events: {row.events} counted, {len(events)} in the journal")
        return Verification(not wrong, len(events), wrong)

    # --- deciding ----------------------------------------------------------------------------------------------

    async def decide(
        self,
        run_id: str,
        status: Any,
        by: str,
        *,
        call: int | None = None,
        digest: str = "",
        note: str = "",
        hold_seconds: float = 0.0,
    ) -> Decision:
        """Decide the one call that a run waits for; `call` names it where there are several.

        Raises:
            RunNotFound, NotAwaiting; AlreadyDecided, Conflict: as `Store.decide`.
        """
        if not by.strip():
            raise UsageError("a decision needs the name of who decides")
        waiting = await self._waiting(run_id, call)
        note = row_text(note, MAX_SAID_CHARS)
        verdict = Verdict(waiting.id, status, digest or waiting.digest, row_text(by), note, hold_seconds)
        return await self.client.decide(verdict)

    async def _waiting(self, run_id: str, call: int | None) -> Decision:
        address = self.address(run_id)
        rows = await self.store.decisions(status="pending", run=address, limit=1000)
        pending = [row for row in rows if call is None or row.call == str(call)]
        if len(pending) > 1:
            names = ", ".join(f"{row.call} ({row.tool})" for row in pending)
            raise NotAwaiting(f"run {run_id} waits for {len(pending)} decisions: name one of the calls {names}")
        if pending:
            return pending[0]
        state = await self.state(run_id)
        if state.status == "not_started":
            raise RunNotFound(f"no such run: {run_id}; `callboard runs` lists them")
        waits = [one.decision for one in state.pending.values() if one.decision and call in (None, one.call)]
        for decision in [*waits, *([] if call is None else [decision_id(run_id, call)])]:
            decided = await self.store.decision(decision)
            if decided is not None:
                return decided  # deciding it again says who was first
        raise NotAwaiting(f"run {run_id} is not awaiting approval (status={state.status})")


def _client_id(run_id: str) -> str:
    return f"start {run_id}"


def _kept(row: ActorRow) -> RunState:
    snapshot: RunSnapshot = decode_state(Run, row.state_version, row.state)
    return snapshot.run


def _pending(waits: Call, events: Sequence[Message]) -> PendingToolCall:
    done = [e for e in events if isinstance(e, ToolCallCompleted) and e.step == waits.step]
    siblings = {event.call: event.result for event in done}
    return PendingToolCall(
        waits.tool, waits.arguments, waits.call, waits.tool_call_id, waits.reason, waits.digest, siblings
    )
