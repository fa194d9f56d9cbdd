"""Words of an answer while the model writes it, for people who watch. Lossy, and never the truth.

The truth is `LLMCallCompleted`: pieces may be missing, and after a failed attempt the words come anew under the next
`attempt`. The model worker gathers what comes and whispers it about ten times a second (`persistence.whispers`); slow
or missing watchers cost it nothing, and what it could not say in time is dropped.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol, TypeVar

import anyio
import msgspec

from ...persistence.port import Port
from ...persistence.store import Store
from ..client import Client
from .foreign import contained
from .state import RunState

log = logging.getLogger(__name__)

T = TypeVar("T")

Say = Callable[[str, str], Awaitable[None]]
"""`Store.whisper`: (topic, text)."""

BATCH_SECONDS = 0.1
MAX_BATCH_CHARS = 4_000
"""Of one whisper; a model that writes faster than that is cut in what is watched, not in what it answers."""
LAST_WORDS_SECONDS = 1.0
LOOK_SECONDS = 1.0
"""How often a watcher looks whether the run has ended."""


class Delta(msgspec.Struct, frozen=True):
    """A piece of an answer."""

    step: int
    attempt: int
    number: int
    """Of this piece in its attempt, from 1: where one is skipped, pieces were lost."""
    text: str


def topic_of(address: str) -> str:
    """What a run's words are whispered about."""
    return f"run {address}"


class Teller:
    """Whispers the words of one attempt."""

    def __init__(self, say: Say, address: str, step: int, attempt: int) -> None:
        self._say = say
        self._topic = topic_of(address)
        self._step = step
        self._attempt = attempt
        self._number = 0
        self._gathered: list[str] = []
        self._chars = 0

    def hear(self, text: str) -> None:
        """A piece came from the model. Never waits, never fails."""
        if self._chars < MAX_BATCH_CHARS:
            piece = text[: MAX_BATCH_CHARS - self._chars]
            self._gathered.append(piece)
            self._chars += len(piece)

    async def tell(self) -> None:
        """Whisper what was gathered."""
        if not self._gathered:
            return
        text, self._gathered, self._chars = "".join(self._gathered), [], 0
        for start in range(0, len(text), 1_000):  # escaped as JSON, a thousand characters always fit one whisper
            self._number += 1
            delta = Delta(self._step, self._attempt, self._number, text[start : start + 1_000])
            encoded = msgspec.json.encode(msgspec.structs.replace(delta, text=_well_formed(delta.text))).decode()
            try:
                await self._say(self._topic, encoded)
            except Exception as error:  # noqa: BLE001 - whatever a store raises: no answer is lost for a whisper
                log.warning("what a model writes cannot be watched: %s", error)
                return

    async def tell_for_ever(self, port: Port) -> None:
        """Whisper about ten times a second, until cancelled."""
        while True:
            await port.sleep(BATCH_SECONDS)
            await self.tell()


async def told(teller: Teller, work: Awaitable[T], port: Port) -> T:
    """Do `work`, which lets `teller` hear; its result, or what it raises."""
    failure: Exception | None = None
    result: list[T] = []
    async with anyio.create_task_group() as group:
        port.spawn(group, teller.tell_for_ever, port, name="whispers of an answer")
        try:
            result.append(await contained(work))
        except Exception as error:  # noqa: BLE001 - raised again below, outside of the group that would wrap it
            failure = error
        group.cancel_scope.cancel()
    if failure is not None:
        raise failure
    await _last_words(teller, port)
    return result[0]


async def _last_words(teller: Teller, port: Port) -> None:
    try:
        with port.deadline(LAST_WORDS_SECONDS):
            await teller.tell()
    except TimeoutError:
        return  # nobody is owed them


class Watched(Protocol):
    """Where runs are (`Runs`)."""

    store: Store
    client: Client

    def address(self, run_id: str) -> str:
        """Of a run."""
        ...

    async def state(self, run_id: str) -> RunState:
        """Where a run is."""
        ...


async def watch(runs: Watched, run_id: str) -> AsyncIterator[Delta]:
    """The words of a run's answers as they are written, from now on, until it has ended."""
    async with runs.store.overhear(topic_of(runs.address(run_id))) as ear:
        while True:
            text = await ear.next(LOOK_SECONDS, runs.client.port)
            if text is not None:
                delta = _read(text)
                if delta is not None:
                    yield delta
            elif (await runs.state(run_id)).finished:
                return


def _read(text: str) -> Delta | None:
    try:
        return msgspec.json.decode(text, type=Delta)
    except msgspec.MsgspecError:
        return None  # anybody may whisper


def _well_formed(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
