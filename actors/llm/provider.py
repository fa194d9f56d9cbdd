"""A provider's limits, kept on this node: how many calls at once, how many a minute, and none while it is down.

    llm = Provider(OpenAICompatibleClient(…), name="openai", concurrency=16, requests_per_minute=500)

Every call passes three doors. The **breaker** is first: after several failures in a row it opens, and calls fail at
once for as long as it is open; then exactly one is let through to see (half-open), and its outcome closes or opens it
again. Then come a **slot**, of which there are `concurrency`, and the **rate**. Whoever waits there can be cancelled,
and waits `wait_seconds` at most. A Retry-After that one call is given holds for all.

What is turned away here raises `NotSent`: it cost nothing and counts as no attempt. All that is kept is in memory and
of this node alone; `nodes` divides what the provider allows by how many nodes share it.

Neighbours: wraps any `LLMClient`. Invariant: every slot and the probe are given back however the call ends.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from callboard.mailbox.errors import UsageError
from callboard.persistence.port import Port, RealPort, Signal

from .client import ChatMessage, LLMClient, LLMResponse, ModelError, ToolSpec, TransientModelError, classify

MINUTE = 60.0
BYTES_A_TOKEN = 4
SPREAD_SECONDS = 2.0
"""Those who wait for the same moment come back spread over this time."""

_DOWN = frozenset({"overload", "connect", "timeout"})
"""Kinds of errors that speak against the provider, rather than against the call or its rate."""


class NotSent(TransientModelError):
    """The call was turned away on this side: nothing was sent, and nothing was bought."""


@dataclass(frozen=True)
class Breaker:
    """When a provider counts as down."""

    failures: int = 5
    """So many failed calls in a row open it."""
    open_seconds: float = 30.0
    """For how long, at first; doubled whenever the probe fails."""
    cap_seconds: float = 60.0


class Provider(LLMClient):
    """A client behind its provider's limits. Retry-After of one call makes all of them wait."""

    def __init__(
        self,
        llm: LLMClient,
        *,
        name: str = "provider",
        concurrency: int = 16,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        breaker: Breaker | None = Breaker(),
        wait_seconds: float = 60.0,
        nodes: int = 1,
        port: Port | None = None,
    ) -> None:
        """`breaker` None: none. `wait_seconds`: how long a call waits for its turn before it is turned away.

        Raises:
            UsageError: a limit that lets nothing through.
        """
        for what, limit in (
            ("concurrency", concurrency),
            ("requests_per_minute", requests_per_minute),
            ("tokens_per_minute", tokens_per_minute),
            ("nodes", nodes),
        ):
            if limit is not None and not limit > 0:
                raise UsageError(f"a provider with {what}={limit} lets no call through; give a number above 0")
        self.llm = llm
        self.name = name
        self.wait_seconds = wait_seconds
        self.port = port
        self.slots = max(1, concurrency // nodes)
        """Calls at once, on this node."""
        self.under_way = 0
        """Calls that were let through and have not ended."""
        self._waiting: list[Signal] = []
        self._requests = _Rate(requests_per_minute, nodes)
        self._tokens = _Rate(tokens_per_minute, nodes)
        self._not_before = 0.0
        self._breaker = breaker
        self._failures = 0
        self._open_until = 0.0
        self._open_for = 0.0
        self._probing = False

    @property
    def is_open(self) -> bool:
        """Whether the breaker lets no ordinary call through."""
        return self._open_for > 0

    @property
    def model_name(self) -> str:
        """See `LLMClient.model_name`."""
        return self.llm.model_name

    @property
    def vendor(self) -> str:
        """See `LLMClient.vendor`."""
        return self.llm.vendor

    async def call(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system_prompt: str = ""
    ) -> LLMResponse:
        """See `LLMClient.call`.

        Raises:
            NotSent: the provider is down, or its limits left no room for the call in time.
        """
        return await self._through(messages, lambda: self.llm.call(messages, tools, system_prompt))

    async def stream(
        self,
        messages: Sequence[ChatMessage],
        tools: Sequence[ToolSpec],
        system_prompt: str,
        on_text: Callable[[str], None],
    ) -> LLMResponse:
        """See `LLMClient.stream`; raises as `call`."""
        return await self._through(messages, lambda: self.llm.stream(messages, tools, system_prompt, on_text))

    def worst_cost(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system_prompt: str) -> Decimal:
        """See `LLMClient.worst_cost`."""
        return self.llm.worst_cost(messages, tools, system_prompt)

    async def _through(
        self, messages: Sequence[ChatMessage], make: Callable[[], Awaitable[LLMResponse]]
    ) -> LLMResponse:
        port = self.port = self.port or RealPort()
        probe = self._pass_breaker(port)
        done = False
        try:
            await self._take_slot(port)
            try:
                tokens = _estimate(messages) if self._tokens.per_minute else 0
                await self._take_rate(tokens, port)
                answer = await make()
                self._tokens.give_back(tokens - answer.input_tokens - answer.output_tokens)
                done = True
                self._worked()
                return answer
            except NotSent:
                raise
            except Exception as error:
                done = True
                self._failed(error, port, probe=probe)
                raise
            finally:
                self._give_slot()
        finally:
            if probe:
                self._probing = False
                if not done:
                    self._open_until = port.monotonic()  # it told nothing: the next call is the probe

    # --- the breaker -------------------------------------------------------------------------------------------

    def _pass_breaker(self, port: Port) -> bool:
        """Whether this call is the probe.

        Raises:
            NotSent: the breaker is open.
        """
        if not self.is_open:
            return False
        left = self._open_until - port.monotonic()
        if left <= 0 and not self._probing:
            self._probing = True
            return True
        wait = max(left, 0.0) if left > 0 else self._open_for
        raise NotSent(
            f"{self.name} is down: {self._failures} calls in a row have failed; the next one is tried in {wait:.0f} s",
            wait + port.random() * SPREAD_SECONDS,
            kind="overload",
        )

    def _worked(self) -> None:
        self._failures = 0
        self._open_for = 0.0

    def _failed(self, error: Exception, port: Port, *, probe: bool) -> None:
        after = error.retry_after_seconds if isinstance(error, TransientModelError) else None
        if after is not None:
            self._not_before = max(self._not_before, port.monotonic() + after)
        if not _speaks_against_provider(error):
            if _answered(error):
                self._worked()
            return
        self._failures += 1
        rule = self._breaker
        if rule is None or (self._failures < rule.failures and not self.is_open):
            return
        if self.is_open and not probe:
            return  # one that was under way when it opened
        self._open_for = min(rule.cap_seconds, 2 * self._open_for if self.is_open else rule.open_seconds)
        self._open_until = max(port.monotonic() + self._open_for, self._not_before)

    # --- slots and rates ---------------------------------------------------------------------------------------

    async def _take_slot(self, port: Port) -> None:
        """First come, first served."""
        if self.under_way < self.slots and not self._waiting:
            self.under_way += 1
            return
        mine = Signal()
        self._waiting.append(mine)
        came = False
        try:
            came = await port.wait(mine, self.wait_seconds)
        finally:
            if mine in self._waiting:
                self._waiting.remove(mine)
            elif not came:
                self._give_slot()  # it was handed over just when the wait ended
        if not came:
            raise NotSent(
                f"{self.name} has {self.slots} calls under way here, which is its limit, and no one of them has ended "
                f"for {self.wait_seconds:g} s",
                port.random() * SPREAD_SECONDS,
                kind="rate_limit",
            )

    def _give_slot(self) -> None:
        if self._waiting:
            self._waiting.pop(0).set()  # the slot goes to them, so nobody can get in between
        else:
            self.under_way -= 1

    async def _take_rate(self, tokens: int, port: Port) -> None:
        now = port.monotonic()
        end = now + self.wait_seconds
        wait = max(self._not_before - now, self._requests.wait(1, now), self._tokens.wait(tokens, now))
        self._requests.take(1, now)
        self._tokens.take(tokens, now)
        sent = False
        try:
            while wait > 0:
                if now + wait > end:
                    raise NotSent(
                        f"{self.name} takes no call for another {wait:.0f} s",
                        wait + port.random() * SPREAD_SECONDS,
                        kind="rate_limit",
                    )
                await port.sleep(wait)
                now = port.monotonic()
                wait = self._not_before - now  # somebody may have been told to wait meanwhile
            sent = True
        finally:
            if not sent:
                self._requests.give_back(1)
                self._tokens.give_back(tokens)


class _Rate:
    """So much a minute: a bucket that fills steadily, and may be overdrawn by those who then wait."""

    def __init__(self, per_minute: float | None, nodes: int) -> None:
        self.per_minute = None if per_minute is None else per_minute / nodes
        self._left = self.per_minute or 0.0
        self._at: float | None = None

    def wait(self, amount: float, now: float) -> float:
        """How long until that much is there; what is more than a minute's is let through when the bucket is full."""
        if self.per_minute is None:
            return 0.0
        self._fill(now)
        return max(0.0, (min(amount, self.per_minute) - self._left) * MINUTE / self.per_minute)

    def take(self, amount: float, now: float) -> None:
        """Take it, now or in advance."""
        if self.per_minute is not None:
            self._fill(now)
            self._left -= amount

    def give_back(self, amount: float) -> None:
        """It was less (or, negative, more) than was taken. Of more, a minute's at most counts: providers count by the
        minute, and a number that only somebody says must not stop all calls for years."""
        if self.per_minute is not None:
            self._left = min(self.per_minute, self._left + max(amount, -self.per_minute))

    def _fill(self, now: float) -> None:
        if self.per_minute is not None and self._at is not None:
            self._left = min(self.per_minute, self._left + (now - self._at) * self.per_minute / MINUTE)
        self._at = now


def _speaks_against_provider(error: Exception) -> bool:
    if isinstance(error, ModelError):
        return isinstance(error, TransientModelError) and error.kind in _DOWN
    return classify(error) == "transient"


def _answered(error: Exception) -> bool:
    """Whether the provider is there, as it said something about this call."""
    return isinstance(error, ModelError)


def _estimate(messages: Sequence[ChatMessage]) -> int:
    return sum(len(message.content) for message in messages) // BYTES_A_TOKEN


def adopt(llm: LLMClient, port: Port) -> None:
    """Give a client the port that its times go by, where it needs one and has none."""
    if isinstance(llm, Provider) and llm.port is None:
        llm.port = port


def patience_seconds(llm: LLMClient) -> float:
    """How long a call may wait in this client before it is sent."""
    return 2 * llm.wait_seconds if isinstance(llm, Provider) else 0.0
