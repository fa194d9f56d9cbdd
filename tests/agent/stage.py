"""A stage for agent tests: runs on the memory store, time driven by hand, nodes that can be killed.

Leaving the stage checks, for every run on it, what must always hold: the state is the fold of the journal, every prefix
folds, and nothing was lost without a word.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, TypeVar

import anyio
import anyio.abc

from callboard import Budget, FunctionLLM, InMemoryStore, LLMClient, LLMResponse, Node, RunState, Runtime, Tool
from callboard.actors.agent.state import fold
from callboard.actors.llm.client import ChatMessage, ToolSpec
from callboard.actors.testing import ManualPort
from callboard.mailbox.message import Message
from callboard.persistence.rows import Decision

E = TypeVar("E", bound=Message)

Answer = LLMResponse | BaseException | Callable[[Sequence[ChatMessage]], LLMResponse]


def says(text: str, **usage: Any) -> LLMResponse:
    """A final answer."""
    return LLMResponse(text, **usage)


def asks(*calls: tuple[str, Mapping[str, Any]], **usage: Any) -> LLMResponse:
    """A turn that asks for these calls; their ids are c1, c2, …"""
    wanted = [{"id": f"c{n}", "name": name, "arguments": args} for n, (name, args) in enumerate(calls, 1)]
    return LLMResponse("", wanted, **usage)


def script(*answers: Answer) -> FunctionLLM:
    """A model that answers by how often it has answered already, so that every run gets the whole script.

    An exception is raised at every attempt; a function is given the messages.
    """

    def answer(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system: str) -> LLMResponse:
        given = answers[sum(message.role == "assistant" for message in messages)]
        if isinstance(given, BaseException):
            raise given
        return given if isinstance(given, LLMResponse) else given(messages)

    return FunctionLLM(answer)


def attempts(*outcomes: LLMResponse | BaseException) -> FunctionLLM:
    """A model whose n-th call, of all runs together, has the n-th outcome; the last one repeats."""
    made: list[None] = []

    def answer(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system: str) -> LLMResponse:
        made.append(None)
        outcome = outcomes[min(len(made), len(outcomes)) - 1]
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    return FunctionLLM(answer)


def results(messages: Sequence[ChatMessage]) -> list[str]:
    """What tool messages say, in order."""
    return [message.content for message in messages if message.role == "tool"]


class Stage:
    """Runs of one runtime, by hand-driven time."""

    def __init__(self, llm: LLMClient, tools: Sequence[Tool] = (), *, nodes: int = 1, **options: Any) -> None:
        self.port = ManualPort()
        self.store = InMemoryStore(self.port)
        self.runtime = self.beside(llm, tools, **options)
        self.runs = self.runtime.runs
        self.nodes: list[Node] = []
        self._scopes: dict[Node, anyio.CancelScope] = {}
        self._count = nodes
        self._group: anyio.abc.TaskGroup | None = None
        self.checked = True
        """Whether to look, when leaving, at what must always hold."""

    def beside(self, llm: LLMClient, tools: Sequence[Tool] = (), **options: Any) -> Runtime:
        """Another runtime on the same store: a later deploy, or another machine."""
        return Runtime(self.store, llm, tools, port=self.port, **options)

    async def __aenter__(self) -> Self:
        self._group = await anyio.create_task_group().__aenter__()
        for _ in range(self._count):
            await self.add_node()
        return self

    async def __aexit__(self, *error: Any) -> bool | None:
        assert self._group is not None
        try:
            if error[0] is None and self.checked:
                await self.check()
        finally:
            self._group.cancel_scope.cancel()
            await self._group.__aexit__(None, None, None)
        return None

    async def add_node(self, runtime: Runtime | None = None) -> Node:
        """One more process."""
        assert self._group is not None
        runtime = runtime or self.runtime
        node = Node(self.store, runtime.tree, self.port, runtime.settings)
        self._scopes[node] = anyio.CancelScope()
        self.nodes.append(node)
        self._group.start_soon(self._host, node)
        await self.settle()
        return node

    async def _host(self, node: Node) -> None:
        with self._scopes[node]:
            await node.run()

    async def kill(self, node: Node | None = None) -> None:
        """The process is gone at once, with all it had in hand."""
        victim = node or self.nodes[-1]
        assert victim.life is not None
        victim.life.session.crash()  # type: ignore[attr-defined]
        self._scopes[victim].cancel()
        self.nodes.remove(victim)
        await self.settle()

    async def settle(self) -> None:
        """Until nothing more happens unless time passes."""
        await self.port.settle()

    async def advance(self, seconds: float) -> None:
        """Let time pass."""
        await self.port.advance(seconds)

    # --- runs --------------------------------------------------------------------------------------------------

    async def begin(self, goal: str = "go", **options: Any) -> str:
        """Create a run and let it go as far as it goes by itself; its id."""
        run = await self.runtime.create(goal, **options)
        await self.settle()
        return run

    async def state(self, run: str) -> RunState:
        return await self.runs.state(run)

    async def events(self, run: str) -> list[Message]:
        return [recorded.event for recorded in await self.runs.events(run)]

    async def of(self, run: str, kind: type[E]) -> list[E]:
        """Events of one kind."""
        return [event for event in await self.events(run) if isinstance(event, kind)]

    async def kinds(self, run: str) -> list[str]:
        """Names of the events' classes."""
        return [type(event).__name__ for event in await self.events(run)]

    async def decisions(self, run: str) -> list[Decision]:
        return await self.store.decisions(run=self.runs.address(run))

    async def approve(self, run: str, by: str = "ann", **options: Any) -> Decision:
        decided = await self.runtime.approve(run, by, **options)
        await self.settle()
        return decided

    async def deny(self, run: str, reason: str = "no", by: str = "ann", **options: Any) -> Decision:
        decided = await self.runtime.deny(run, by, reason, **options)
        await self.settle()
        return decided

    async def check(self) -> None:
        """What must always hold."""
        for run, _ in await self.runs.list(limit=10_000):
            await verified(self.runtime, run)
        assert await self.store.dead_letters() == []


async def verified(runtime: Runtime, run: str) -> None:
    """A run's state is the fold of its journal, and so is every earlier one."""
    verification = await runtime.verify(run)
    assert verification.ok, verification.differences
    events = [recorded.event for recorded in await runtime.events(run)]
    for count in range(len(events) + 1):
        part = fold(events[:count])
        assert part.finished == (count == len(events) and (await runtime.state(run)).finished)


def budget(**limits: Any) -> Budget:
    """A budget with these limits and no others."""
    unlimited: dict[str, Any] = {"max_iterations": None, "max_tokens": None, "max_cost_usd": None}
    return Budget(**{**unlimited, **limits})
