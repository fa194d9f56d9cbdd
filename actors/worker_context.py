"""What one call of a worker may do beside its own I/O: read journals, and ask the actor that made it.

Nothing that it does is part of a turn. Its outcome is what it returns (`pool`); a call that has to have things on
record before it ends says them to its caller (`ask`), and the caller's turn records them.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from ..mailbox.envelope import Envelope
from ..mailbox.errors import UsageError
from ..mailbox.message import Message
from ..mailbox.request import Request
from ..persistence.port import Port
from .tracing import NO_SPAN, Span

R = TypeVar("R", bound=Message)


class WorkerContext:
    """One call of a worker."""

    __slots__ = ("_ask", "_journal", "envelope", "node", "port", "span", "whisper")

    def __init__(
        self,
        envelope: Envelope,
        node: int,
        port: Port,
        journal: Callable[..., Awaitable[Any]],
        ask: Callable[..., Awaitable[Any]] | None = None,
    ) -> None:
        self.envelope = envelope
        self.node = node
        """Number of the node it runs on."""
        self.port = port
        self.span: Span = NO_SPAN
        self.whisper: Callable[[str, str], Awaitable[None]] | None = None
        """Where its node lets workers say what they do while they do it (topic, text); None: nobody shall hear."""
        self._journal = journal
        self._ask = ask

    @property
    def caller(self) -> str:
        """Address of the actor that asked."""
        return self.envelope.sender

    @property
    def attempt(self) -> int:
        """How often this call failed before, plus one."""
        return self.envelope.failures + 1

    @property
    def in_doubt(self) -> bool:
        """Whether an earlier attempt may have had its effect: its start is on record and its outcome is not."""
        return self.envelope.started

    async def journal(self, address: str, after: int = 0) -> Any:
        """The events of an actor beyond `after`."""
        return await self._journal(address, after=after)

    async def ask(self, request: Request[R], *, seconds: float) -> R | Message:
        """Ask the actor that made this call, while the call goes on; its answer, or an `AskFailed`.

        For a call that lasts and has things on record before it ends. What it says is a message like any other, also
        from a node that has lost the actor meanwhile: whoever takes it must be able to tell an earlier attempt.

        Raises:
            TimeoutError: no answer within `seconds`; the request may still be handled.
            UsageError: this node has nothing to ask with.
        """
        if self._ask is None:
            raise UsageError(f"a call of {self.caller} wants to ask it something, and this node cannot ask")
        answer: R | Message = await self._ask(self.caller, request, seconds=seconds)
        return answer
