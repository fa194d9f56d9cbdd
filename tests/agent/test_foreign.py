"""However foreign code ends, it is an ordinary exception for whoever called it."""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator
from typing import Any

import anyio
import anyio.to_thread
import pytest

from callboard import InMemoryStore, Runtime, tool
from callboard.actors.agent.foreign import Gone, contained

from .stage import Stage, asks, results, says, script

pytestmark = pytest.mark.anyio


class Evil(BaseException):
    def __str__(self) -> str:
        raise RuntimeError("no words")


async def ends(kind: str) -> None:
    match kind:
        case "evil":
            raise Evil
        case "group":
            raise BaseExceptionGroup("all", [Evil(), ValueError("x")])
        case "exit":
            sys.exit(3)
        case "cancelled":
            raise asyncio.CancelledError
        case "huge":
            raise ValueError("x" * 5_000_000)


@pytest.mark.parametrize("kind", ["evil", "group", "exit", "cancelled"])
async def test_w05_what_is_no_exception_becomes_one(kind: str) -> None:
    with pytest.raises(Gone):
        await contained(ends(kind))


async def test_a_cancellation_from_outside_goes_through() -> None:
    with anyio.move_on_after(0) as scope:
        await contained(anyio.sleep_forever())
    assert scope.cancelled_caught


@pytest.mark.parametrize("kind", ["evil", "group", "huge"])
@pytest.mark.parametrize("blocking", [True, False])
async def test_w05_a_tool_that_raises_what_is_no_exception_ends_no_node(kind: str, blocking: bool) -> None:
    made: list[str] = []

    def act(kind: str) -> Any:
        """Act."""
        made.append(kind)
        return asyncio.run(ends(kind))

    async def act_async(kind: str) -> Any:
        """Act."""
        made.append(kind)
        await ends(kind)

    acting = tool(act if blocking else act_async, name="act", side_effect=True)
    llm = script(asks(("act", {"kind": kind})), says("ok"))
    async with Stage(llm, [acting]) as stage:
        run = await stage.begin()
        with anyio.fail_after(60):
            while (await stage.state(run)).status != "completed":
                await anyio.lowlevel.checkpoint()
        assert made == [kind]
        (said,) = results(llm.last_messages)
        assert said.startswith("Error: ")
        assert len(said) < 2_100


@pytest.mark.parametrize("kind", [GeneratorExit, KeyboardInterrupt, StopIteration])
async def test_w05_a_blocking_tool_that_raises_what_means_something_elsewhere_ends_no_node(
    kind: type[BaseException],
) -> None:
    @tool(side_effect=True)
    def act() -> None:
        """Act."""
        raise kind

    llm = script(asks(("act", {})), says("ok"))
    async with Runtime(InMemoryStore(), llm, [act]) as runtime:
        assert (await runtime.start("go")).state.status == "completed"
    assert results(llm.last_messages) == [f"Error: RuntimeError: act raised {kind.__name__}"]


@pytest.mark.parametrize("kind", ["exit", "cancelled", "evil"])
async def test_g5_a_predicate_that_raises_what_is_no_exception_closes_its_gate_and_ends_no_node(kind: str) -> None:
    def rule(arguments: dict[str, Any]) -> bool:
        match kind:
            case "exit":
                sys.exit(3)
            case "cancelled":
                raise asyncio.CancelledError
        raise Evil

    @tool(requires_approval=rule)
    async def act() -> None:
        """Act."""

    async with Runtime(InMemoryStore(), script(asks(("act", {})), says("ok")), [act]) as runtime:
        state = (await runtime.start("go")).state
    assert state.status == "awaiting_approval"
    assert state.pending_approval is not None
    assert state.pending_approval.reason.startswith("approval predicate failed: ")


@pytest.fixture
async def one_thread() -> AsyncIterator[None]:
    """There is one thread for blocking code."""
    limiter = anyio.to_thread.current_default_thread_limiter()
    before, limiter.total_tokens = limiter.total_tokens, 1
    yield
    limiter.total_tokens = before


async def test_g4_a_blocking_side_effect_that_no_thread_was_free_for_is_no_doubt_and_is_made_later(
    one_thread: None,
) -> None:
    go, paid = threading.Event(), list[int]()

    # Its time ends well within that of the second attempt to pay; on a busy machine, within that of a later one.
    @tool(timeout_seconds=3.0, attempts=1)
    def hang() -> None:
        """Hold the thread."""
        go.wait(30)

    @tool(side_effect=True, timeout_seconds=2.0, attempts=50)
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    llm = script(asks(("hang", {}), ("pay", {"amount": 5})), says("ok"))
    async with Runtime(InMemoryStore(), llm, [hang, pay], retry_base_delay_seconds=0.01) as runtime:
        state = (await runtime.start("go")).state
    go.set()
    assert (state.status, paid) == ("completed", [5])
    assert results(llm.last_messages) == ["Error: timed out after 3 s", '{"result":"paid"}']
