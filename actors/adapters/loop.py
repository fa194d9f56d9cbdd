"""Somebody's own loop, made durable: `step` for what the code does itself, `call` for tools with their gates.

    @durable_loop(tools=[issue_refund])
    async def my_agent(run: Loop, goal: str) -> str:
        messages = [user(goal)]
        while True:
            answer = await run.step("model", llm.call, messages, specs)
            if not answer.tool_calls:
                return answer.content
            messages += [said(answer), *await run.answers(answer.tool_calls)]

Each `step` and `call` has a number, given where it is written, and its outcome is on record before the code goes on.
After a crash the code runs again from its beginning, and what has an outcome is not done again: it is answered from the
journal. So between its steps the code must do the same every time (docs/ADAPTERS.md).
"""

import logging
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, overload

import anyio
import anyio.lowlevel

from ...mailbox import codec
from ...mailbox.errors import UsageError
from ..agent.result import MAX_BYTES, normalise
from ..agent.tool import Tool
from ..llm.client import ChatMessage, LLMResponse, ToolCall
from .loop_attempt import Attempt, Diverged, Ended, OverLimit, Suspended
from .loop_errors import CallFailed, error_of
from .loop_messages import OnDoubt, WantedCall
from .loop_replay import Outcome
from .loop_step import Step, perform, within
from .loop_values import bound_in, decode_value, digest_of, refuse_coroutine

log = logging.getLogger(__name__)

MAX_REFUSED: Final = 20
"""How often code is told that its attempt is over before that is worth a warning."""
QUIET_TURNS: Final = 5
"""How often the event loop goes round before code that waits for people counts as standing still."""


@dataclass(frozen=True)
class Code:
    """A loop that can be hosted: its function, and the tools that it may call."""

    name: str
    function: "Callable[[Loop, str], Awaitable[Any]]"
    tools: tuple[Tool, ...] = ()
    keyed: bool = False
    """Its steps have keys of their own and no positions, so it need not come to all of them again."""


Body = Callable[["Loop", str], Awaitable[Any]]


@overload
def durable_loop(function: Body, /) -> Code: ...
@overload
def durable_loop(*, tools: Sequence[Tool] = (), name: str = "") -> Callable[[Body], Code]: ...


def durable_loop(function: Body | None = None, /, *, tools: Sequence[Tool] = (), name: str = "") -> Any:
    """Make an async function of (run, goal) a loop that `LoopRuntime` can host."""

    def make(body: Body) -> Code:
        return Code(name or getattr(body, "__name__", "loop"), body, tuple(tools))

    return make if function is None else make(function)


class Asked(Awaitable[Any]):
    """A step or a call that has its number; awaited, it is done. Afterwards, awaiting it again gives the same."""

    def __init__(self, key: str, work: Callable[[], Coroutine[Any, Any, Any]], call: WantedCall | None = None) -> None:
        self.key = key
        self.call = call
        self._work = work
        self._turns = anyio.Lock()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._once().__await__()

    async def _once(self) -> Any:
        async with self._turns:  # whoever comes second finds the outcome on record
            return await self._work()


class Loop:
    """What the code of a hosted run has in hand."""

    def __init__(self, attempt: Attempt, code: Code) -> None:
        self.attempt = attempt
        self._code = code
        self._count = 0
        self._heard = 0
        self._busy = 0
        self._calling = 0
        self._quiet = anyio.Event()
        self._waits: set[int] = set()
        self._seen: set[str] = set()
        self._refused = 0
        self.ended: Ended | None = None
        """How the attempt has ended, once it has: whatever the code does then, it does not count."""

    @property
    def id(self) -> str:
        """The run's id."""
        return self.attempt.replay.run_id

    @property
    def goal(self) -> str:
        """What the run was started with."""
        return self.attempt.replay.goal

    @property
    def requested_by(self) -> str:
        """Who asked for the run."""
        return self.attempt.replay.requested_by

    # --- steps -------------------------------------------------------------------------------------------------

    def step(
        self,
        name: str,
        function: Callable[..., Any],
        *args: Any,
        returns: Any = None,
        side_effect: bool = False,
        on_doubt: OnDoubt | None = None,
        reconcile: Callable[..., Any] | None = None,
        attempts: int = 3,
        timeout: float | None = None,
        key: str = "",
        **kwargs: Any,
    ) -> Asked:
        """Do `function(*args, **kwargs)` once, or give what it gave; awaited, the recorded result.

        A step is done again where a crash came before its result was on record. Where that would do harm, say
        `side_effect`: then its start is on record first, and one that was begun without an outcome is in doubt. A
        function that takes `idempotency_key` gets the same one every time, and is done again; `reconcile` (called with
        the same arguments) is asked for the result, None meaning that it did not happen; else a person is asked.
        `on_doubt` says which of these instead.

        `returns` is the type of a result that is no plain JSON (a dataclass, a Struct); models' answers come back as
        they are. Transient errors are tried again, `attempts` times in all, each for `timeout` seconds at most.

        Raises:
            What the function raises: built-in exceptions and model errors as themselves, others as StepError.
        """
        refuse_coroutine(name, function)
        step = Step(name, function, args, kwargs, returns, side_effect, on_doubt, reconcile, attempts, timeout)
        place = self._place(key)
        digest = self._as_recorded(place, digest_of(*bound_in(function, args, kwargs)), digest_of(args, kwargs))
        return Asked(place, lambda: self._step(place, digest, step))

    async def _step(self, key: str, digest: str, step: Step) -> Any:
        await self._refuse_when_over()
        outcome = self._known(key, step.name, digest)
        if outcome is None:
            with self._at_work(calls=int(step.side_effect)):
                waits = await perform(self.attempt, key, digest, step)
            if waits:
                await self._suspend(waits)
            outcome = self.attempt.replay.outcomes[key]
        if outcome.came in ("answered", "settled"):
            return decode_value(outcome.value, outcome.form, step.returns if outcome.came == "answered" else None)
        raise error_of(outcome)

    # --- calls -------------------------------------------------------------------------------------------------

    def call(self, tool: str | Tool, /, *, call_id: str = "", key: str = "", **arguments: Any) -> Asked:
        """Call a tool, by its gate and its own rules about doubt and retries; awaited, its result.

        A call that needs a person is held, and the code ends here without a trace: once somebody has decided, it runs
        again and comes back to this place.

        Raises:
            CallDenied: a person said no. CallFailed: it came to nothing, for another reason.
        """
        name = tool if isinstance(tool, str) else tool.name
        plain = normalise(arguments, MAX_BYTES)
        place = self._place(key)
        wanted = WantedCall(place, name, plain, digest_of((), plain), call_id)
        return Asked(place, lambda: self._call(wanted), wanted)

    async def _call(self, wanted: WantedCall) -> Any:
        return self._given((await self.outcomes([wanted]))[0])

    async def outcomes(self, wanted: Sequence[WantedCall]) -> list[Outcome]:
        """The outcomes of calls, in order. All that may go, go first."""
        waits = await self._ask(wanted)
        if waits:
            await self._suspend(waits)
        return [self.attempt.replay.outcomes[call.key] for call in wanted]

    async def outcome_or_wait(self, wanted: WantedCall) -> Outcome | None:
        """The outcome of a call, or None where it waits for a person: `go_on` then ends the attempt."""
        self._waits.update(await self._ask([wanted]))
        return self.attempt.replay.outcomes.get(wanted.key)

    async def go_on(self) -> None:
        """Here the code cannot go on if calls wait that `outcome_or_wait` has asked for.

        Raises:
            Suspended: some do.
        """
        if self.ended is not None:
            raise self.ended
        if self._waits:
            await self._suspend([])

    async def _ask(self, wanted: Sequence[WantedCall]) -> list[int]:
        """Have calls made that have no outcome yet; the numbers of those that wait for a person."""
        await self._refuse_when_over()
        once = {call.key: call for call in wanted}.values()  # one that is given twice is made once
        new = [call for call in once if self._known(call.key, call.tool, call.digest, asked=True) is None]
        if not new:
            return []
        with self._at_work(calls=1):
            return await self.attempt.calls(new)

    @staticmethod
    def _given(outcome: Outcome) -> Any:
        if outcome.came in ("answered", "settled"):
            return outcome.value
        raise error_of(outcome)

    async def gather(self, *asked: Asked) -> list[Any]:
        """Do several side by side; their results in order.

        Those that may go are done before those that need a person are waited for.

        Raises:
            The first error, in order, once all are done.
        """
        results: dict[int, Any] = {}
        calls = [(place, one.call) for place, one in enumerate(asked) if one.call is not None]

        async def together() -> None:
            outcomes = await self.outcomes([call for _, call in calls])
            results.update(zip((place for place, _ in calls), outcomes, strict=True))

        async def alone(place: int, one: Asked) -> None:
            try:
                results[place] = await one
            except Exception as error:  # noqa: BLE001 - raised below, in the order of the code
                results[place] = error

        try:
            async with anyio.create_task_group() as group:
                if calls:
                    group.start_soon(together)
                for place, one in enumerate(asked):
                    if one.call is None:
                        group.start_soon(alone, place, one)
        except BaseExceptionGroup:
            if self.ended is not None:
                raise self.ended from None
            raise
        found = [results[place] for place in range(len(asked))]
        given = [self._settled(one) for one in found]
        for one in given:
            if isinstance(one, Exception):
                raise one
        return given

    @staticmethod
    def _settled(found: Any) -> Any:
        if not isinstance(found, Outcome):
            return found
        return found.value if found.came in ("answered", "settled") else error_of(found)

    async def answers(self, calls: Sequence[ToolCall]) -> list[ChatMessage]:
        """Make the calls that a model asked for; the messages that answer it, in order, errors included."""
        asked = [self.call(call.name, call_id=call.id, **call.arguments) for call in calls]
        outcomes = await self.outcomes([one.call for one in asked if one.call is not None])
        return [
            ChatMessage("tool", _text_of(outcome), tool_name=call.name, tool_call_id=call.id)
            for call, outcome in zip(calls, outcomes, strict=True)
        ]

    async def remember(self, messages: Sequence[Any] = (), sdk_state: Any = None) -> None:
        """Put the conversation so far, and a library's own state, into the run's snapshot. Nobody looks into it."""
        await self.step(SNAPSHOT, _same, {"messages": list(messages), "sdk_state": sdk_state})

    def told(self) -> Asked:
        """What was said to the run (`runtime.tell`) since this was asked last; awaited, the texts, oldest first."""
        place = self._place("")
        return Asked(place, lambda: self._told(place))

    async def _told(self, key: str) -> list[str]:
        news: list[str] = await self._step(key, digest_of((), {}), Step(TOLD, self._news, (), {}))
        self._heard += len(news)
        return news

    async def _news(self) -> list[str]:
        await self.attempt.catch_up()
        return self.attempt.replay.told[self._heard :]

    # --- for both ----------------------------------------------------------------------------------------------

    def _place(self, key: str) -> str:
        if outer := within.get(None):
            # Answered from the journal the outer step does nothing, and all that comes after would be elsewhere.
            raise UsageError(f"a step inside of step {outer!r}: make it a step beside it, one after the other")
        if key and not self._code.keyed:
            raise UsageError("only a graph's steps have keys; a loop's have positions")
        if not key:
            self._count += 1
            key = str(self._count)
        return key

    def _as_recorded(self, key: str, digest: str, former: str) -> str:
        """`digest`, or `former` where that is on record: older runs did not count what a `partial` holds."""
        was = self.attempt.replay.outcomes.get(key) or self.attempt.replay.called.get(key)
        return former if was is not None and was.digest == former else digest

    async def _refuse_when_over(self) -> None:
        """Code may catch what ends it, and try again for ever: the event loop turns all the same, and ever more slowly.

        Raises:
            Ended: the attempt is over.
        """
        if self.ended is None:
            return
        self._refused += 1
        if self._refused == MAX_REFUSED:
            log.warning(
                "the code of run %s does not end: it catches everything (a bare `except:`), also what ends it", self.id
            )
        await anyio.lowlevel.checkpoint()
        if self._refused > MAX_REFUSED:
            await self.attempt.port.sleep(min(1.0, self._refused / 1_000))
        raise self.ended

    def _known(self, key: str, name: str, digest: str, *, asked: bool = False) -> Outcome | None:
        """What is on record for this place.

        Raises:
            Ended: the attempt is over; or nothing new may begin; or the code is not what it was.
        """
        if self.ended is not None:
            raise self.ended
        self._seen.add(key)
        replay = self.attempt.replay
        was = replay.outcomes.get(key) or replay.called.get(key)
        if was is not None and (was.name, was.digest) != (name, digest):
            other = f"{name!r}" if was.name != name else f"{name!r} with other arguments"
            raise self._end(Diverged(f"at position {key} it did {was.name!r} before, and now asks for {other}"))
        if key not in replay.outcomes and self.attempt.over and not (asked and key in replay.called):
            raise self._end(OverLimit(self.attempt.over))
        return replay.outcomes.get(key)

    def finished(self) -> None:
        """The code has returned: has it come to all that it did before?

        Raises:
            Diverged: it has not.
        """
        replay = self.attempt.replay
        left = [key for key in {**replay.outcomes, **replay.called} if key not in self._seen]
        if left and not self._code.keyed:
            first = min(left, key=int)
            name = (replay.outcomes.get(first) or replay.called[first]).name
            raise self._end(Diverged(f"it returned without {name!r}, which it did before at position {first}"))

    def _end(self, ended: Ended) -> Ended:
        self.ended = self.ended or ended
        return self.ended

    @contextmanager
    def _at_work(self, calls: int = 0) -> Generator[None]:
        if calls and not self._calling:
            self.attempt.step += 1  # what is asked for while others are under way is of their batch
        self._calling += calls
        self._busy += 1
        try:
            yield
        except Ended as ended:
            self._end(ended)
            raise
        finally:
            self._calling -= calls
            self._busy -= 1
            if not self._busy:
                self._quiet.set()

    async def _suspend(self, waits: list[int]) -> None:
        """End the attempt, once nothing else of the code is at work: what may be done meanwhile is done."""
        self._waits.update(waits)
        turns = 0
        while turns < QUIET_TURNS and self.ended is None:
            turns += 1
            if self._busy:
                turns = 0
                self._quiet = anyio.Event()
                await self._quiet.wait()
            await anyio.lowlevel.checkpoint()
        raise self._end(Suspended(sorted(self._waits)))


SNAPSHOT = "callboard.snapshot"
"""Name of the steps that are there for the snapshot."""


TOLD = "callboard.told"
"""Name of the steps that take in what was said to the run."""


async def _same(value: Any) -> Any:
    return value


def _text_of(outcome: Outcome) -> str:
    if outcome.came in ("answered", "settled"):
        return codec.encode(outcome.value)
    error = error_of(outcome)
    return f"Error: {error if isinstance(error, CallFailed) else outcome.error}"


def user(text: str) -> ChatMessage:
    """A message of the user."""
    return ChatMessage("user", text)


def said(answer: LLMResponse) -> ChatMessage:
    """A model's answer, as the next call of it needs it."""
    return ChatMessage("assistant", answer.content, answer.tool_calls)
