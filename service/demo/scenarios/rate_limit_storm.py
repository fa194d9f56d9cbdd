"""The model's provider answers 429 to everybody, in the middle of the day's billing, and says when to come back."""

from collections.abc import Sequence

import msgspec

from callboard.actors.llm.client import ChatMessage, LLMClient, LLMResponse, ToolSpec, TransientModelError
from callboard.crm import ledger
from callboard.crm.model import DeskModel
from callboard.crm.roles import role_of
from callboard.crm.tickets import make_tickets
from callboard.persistence.store import Store

from ..proof import Check, named
from ..story import Story
from ..story_stage import Stage

TICKETS, SEED = 8, 5
MINUTES = 60
"""For how long nobody is answered."""
_ENDED = ("completed", "failed", "cancelled")


class Told(msgspec.Struct):
    """A conversation that was told to come back."""

    until: float
    """When, in seconds since 1970 by the clock of the database."""
    early: bool = False
    answered: bool = False


class Provider(LLMClient):
    """The desk's offline model at a provider whose storm begins with the first question of a billing agent."""

    def __init__(self, store: Store) -> None:
        self.told: dict[str, Told] = {}
        self._store = store
        self._model = DeskModel()
        self._until = 0.0

    async def call(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system_prompt: str = ""
    ) -> LLMResponse:
        """As `DeskModel`.

        Raises:
            TransientModelError: 429, with the time after which to come back.
        """
        now, conversation = await self._store.now(), _conversation(messages, system_prompt)
        if not self._until and role_of(system_prompt) == "billing":
            self._until = now + MINUTES * 60
        known = self.told.get(conversation)
        if known is not None and now < known.until:
            known.early = True
        if now < self._until:
            self.told[conversation] = Told(now + MINUTES * 60, early=known is not None and known.early)
            raise TransientModelError("429 Too Many Requests", retry_after_seconds=MINUTES * 60.0, kind="rate_limit")
        if known is not None:
            known.answered = True
        return await self._model.call(messages, tools, system_prompt)


class RateLimitStorm(Story):
    """Every conversation waits in the database for as long as it was told, also while the desk is shut in between."""

    name = "rate-limit-storm"
    about = (
        "the model's provider sends everybody away for an hour: nobody asks too early, nothing is lost or done twice"
    )
    scripted = True

    def __init__(self) -> None:
        self.told: dict[str, Told] = {}

    async def play(self, stage: Stage) -> None:
        """See `Story.play`."""
        tickets = [case.ticket_id for case in await make_tickets(stage.owner, TICKETS, seed=SEED, above_limit=0)]
        stage.tale.tell("customers", f"{TICKETS} tickets: {tickets[0]} to {tickets[-1]}")
        provider = Provider(stage.store)
        self.told = provider.told
        async with stage.desk(llm=provider):
            for ticket in tickets:
                await stage.begin(ticket)
            await stage.until(lambda: self._all_wait(stage), "every run that is not over was sent away")
            stage.tale.tell("provider", f"429 to {len(self.told)} conversations: come back in {MINUTES} minutes")
        stage.tale.tell("desk", "is shut, and opened again before the hour is over")
        await stage.passes(minutes=MINUTES - 10)
        async with stage.desk(llm=provider):
            await stage.passes(minutes=15)
            await stage.until(lambda: self._all_over(stage), "every run ends")
        stage.tale.tell("desk", f"all {TICKETS} tickets are answered")
        paid = await ledger.refunds(stage.owner)
        stage.tale.tell("done", f"{len(paid)} payments back, each under a key of its own")

    async def _all_wait(self, stage: Stage) -> bool:
        """Whether every run is over, was sent away, or waits for one that was."""
        runs = dict(await stage.runs.list(limit=1_000))
        states = [one.get("status") in (*_ENDED, "provider_down") or one.get("waits_for") for one in runs.values()]
        return bool(self.told) and len(states) >= TICKETS and all(states)

    async def _all_over(self, stage: Stage) -> bool:
        return all(one.get("status") in _ENDED for _, one in await stage.runs.list(limit=1_000))

    async def prove(self, stage: Stage) -> list[Check]:
        """See `Story.prove`."""
        early = [one for one in self.told.values() if one.early]
        lost = [one for one in self.told.values() if not one.answered]
        outcomes = await ledger.outcomes(stage.owner)
        wrong = [f"{one.ticket_id} is {one.status}" for one in outcomes if not one.right]
        attempts = [
            f"{one.idempotency_key}: {one.attempts}" for one in await ledger.attempts(stage.owner) if _again(one)
        ]
        return [
            Check("somebody was sent away, and nobody came back too early", bool(self.told) and not early, ""),
            Check("everybody came back and was answered", not lost, f"{len(lost)} were not" if lost else ""),
            Check("every ticket ended as it should", not wrong and len(outcomes) == TICKETS, named(wrong)),
            Check("every payment was tried once", not attempts, named(attempts)),
        ]


def _again(one: ledger.Attempts) -> bool:
    return one.attempts != 1


def _conversation(messages: Sequence[ChatMessage], system_prompt: str) -> str:
    """What a provider sees of a question: the same whoever asks it again."""
    said = [(message.role, message.content, message.tool_call_id) for message in messages]
    return msgspec.json.encode((system_prompt, said)).decode()
