"""Whispers: words about a topic for whoever overhears it at this very moment. Kept nowhere, promised to nobody.

They carry what is nice to see and not needed to be right: tokens of a model's answer while it is written. What matters
is in the journal. So a store may drop any of them, and nothing waits for whoever listens: an `Ear` is bounded, and what
comes while it is full is dropped, and counted.
"""

from collections import deque
from typing import Protocol

from .port import Port, Signal

MAX_WHISPER_BYTES = 6_000
"""Of one text, as UTF-8; what is longer is whispered in parts. Below PostgreSQL's limit of 8,000 for a notification."""
EAR_WHISPERS = 512
"""So many wait for one who is slow to listen."""


class Hearing(Protocol):
    """Where a listener takes what it overhears."""

    async def next(self, seconds: float, port: Port) -> str | None:
        """The next whisper; None when there is none within `seconds`."""
        ...


class Ear:
    """What one listener has heard and not taken yet."""

    def __init__(self) -> None:
        self.missed = 0
        """Whispers that were dropped because nobody took those before."""
        self._heard: deque[str] = deque()
        self._news = Signal()

    def hear(self, text: str) -> None:
        """There is a whisper."""
        if len(self._heard) >= EAR_WHISPERS:
            self.missed += 1
            return
        self._heard.append(text)
        self._news.set()

    async def next(self, seconds: float, port: Port) -> str | None:
        """The next whisper; None when there is none within `seconds`."""
        while not self._heard:
            if not await port.wait(self._news, seconds):
                return None
        return self._heard.popleft()


class Whispers:
    """Whispers within one process."""

    def __init__(self) -> None:
        self._ears: dict[str, list[Ear]] = {}

    @property
    def topics(self) -> frozenset[str]:
        """What somebody listens to."""
        return frozenset(self._ears)

    def whisper(self, topic: str, text: str) -> None:
        """To all that listen here."""
        ears = self._ears.get(topic, ())
        for part in parts_of(text) if ears else ():
            for ear in ears:
                ear.hear(part)

    def listen(self, topic: str) -> Ear:
        """Hear what is whispered from now on, until `leave`."""
        ear = Ear()
        self._ears.setdefault(topic, []).append(ear)
        return ear

    def leave(self, topic: str, ear: Ear) -> None:
        """Hear no more."""
        ears = self._ears[topic]
        ears.remove(ear)
        if not ears:
            del self._ears[topic]


def parts_of(text: str, limit_bytes: int = MAX_WHISPER_BYTES) -> list[str]:
    """`text` in parts that are short enough, no character cut in two."""
    step = limit_bytes // 4  # no character takes more than four bytes
    rest = text.encode("utf-8", "replace").decode()
    if len(rest.encode()) <= limit_bytes:
        return [rest] if rest else []
    return [rest[start : start + step] for start in range(0, len(rest), step)]
