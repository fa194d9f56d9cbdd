"""What a story is: something that happens at the desk, told in a dozen lines, and what must be true when it is over."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from callboard.actors.llm.choice import client_from
from callboard.actors.llm.client import LLMClient
from callboard.actors.llm.errors import BadClientSettings
from callboard.mailbox.errors import CallboardError, UsageError

from .proof import Check

if TYPE_CHECKING:
    from .story_stage import Stage


@dataclass(frozen=True)
class RealModel:
    """A real model that plays the agents, by its name for people and other processes (`actors.llm.choice`)."""

    name: str
    client: LLMClient

    @classmethod
    def named(cls, spec: str) -> RealModel:
        """The model of this name, with keys and addresses from the environment.

        Raises:
            UsageError: there is none, or something is missing.
        """
        try:
            return cls(spec, client_from(spec, environ=os.environ))
        except BadClientSettings as error:
            raise UsageError(f"--model: {error}") from None


class TurnMissed(CallboardError):
    """The story did not take the turn that it is about: what was expected, and what is."""

    def __init__(self, expected: str, found: str) -> None:
        super().__init__(f"expected: {expected}; found: {found}")
        self.expected = expected
        self.found = found


class Story(ABC):
    """One story. A new instance is made for each performance, so what `play` learns may be kept on it for `prove`."""

    name: ClassVar[str]
    """As it is asked for: `refund-approved`."""
    about: ClassVar[str]
    """What happens, in one line for people who have never seen the desk."""
    scripted: ClassVar[bool] = False
    """The agent's part is written out, because it is one that no rule-abiding model plays: a real model cannot take
    it."""
    dead_letters: ClassVar[bool] = False
    """Dead letters are part of it, and no loss."""

    @abstractmethod
    async def play(self, stage: Stage) -> None:
        """Let it happen, and tell it.

        Raises:
            TurnMissed: it went another way.
        """

    @abstractmethod
    async def prove(self, stage: Stage) -> list[Check]:
        """What must be true at its end, looked up in the tables. Not asked of a performance with a real model, whose
        story may rightly go otherwise; what must hold with any model is in `story_proof`."""
