"""Words of an answer while it is written: seen by watchers, and never needed."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from callboard import InMemoryStore, LLMClient, LLMResponse, PostgresStore, Runtime, create_schema
from callboard.actors.agent import streaming
from callboard.actors.agent.streaming import Delta, topic_of
from callboard.actors.llm.client import ChatMessage, ToolSpec, TransientModelError
from callboard.persistence.port import RealPort
from callboard.persistence.postgres import whispers as speaking
from callboard.persistence.store import Store
from callboard.persistence.whispers import EAR_WHISPERS, Whispers, parts_of

from .stage import Stage

pytestmark = pytest.mark.anyio


class Writer(LLMClient):
    """Writes these pieces, one whenever it is let."""

    def __init__(self, *pieces: str, fails_once: bool = False) -> None:
        self.pieces = pieces
        self.gate = anyio.Semaphore(0)
        self.began = anyio.Event()
        self.fails = fails_once

    async def call(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system_prompt: str = ""
    ) -> LLMResponse:
        return LLMResponse("".join(self.pieces))

    async def stream(
        self,
        messages: Sequence[ChatMessage],
        tools: Sequence[ToolSpec],
        system_prompt: str,
        on_text: Callable[[str], None],
    ) -> LLMResponse:
        self.began.set()
        for piece in self.pieces:
            await self.gate.acquire()
            on_text(piece)
        if self.fails:
            self.fails = False
            raise TransientModelError("cut off")
        return LLMResponse("".join(self.pieces))

    def write(self, pieces: int = 1) -> None:
        for _ in range(pieces):
            self.gate.release()


@asynccontextmanager
async def watching(stage: Stage, run: str) -> AsyncIterator[list[Delta]]:
    heard: list[Delta] = []
    async with anyio.create_task_group() as group:

        async def listen() -> None:
            async for delta in stage.runtime.watch(run):
                heard.append(delta)  # noqa: PERF401 - looked at while it grows

        group.start_soon(listen)
        await stage.settle()
        yield heard
        group.cancel_scope.cancel()


async def test_words_come_while_they_are_written_about_ten_times_a_second() -> None:
    writer = Writer("He", "l", "lo", " you")
    async with Stage(writer, stream=True) as stage:
        run = await stage.begin()
        async with watching(stage, run) as heard:
            writer.write(3)
            await stage.advance(0.11)
            assert heard == [Delta(1, 1, 1, "Hello")]
            assert (await stage.state(run)).status == "running"
            writer.write()
            await stage.settle()
            assert [delta.text for delta in heard] == ["Hello", " you"]
        assert (await stage.state(run)).final_answer == "Hello you"


async def test_watching_ends_with_the_run() -> None:
    writer = Writer("a")
    async with Stage(writer, stream=True) as stage:
        run = await stage.begin()
        writer.write()
        await stage.settle()
        heard = []
        async with anyio.create_task_group() as group:

            async def listen() -> None:
                heard.append([delta async for delta in stage.runtime.watch(run)])

            group.start_soon(listen)
            await stage.advance(2)
        assert heard == [[]]


async def test_words_of_a_failed_attempt_come_anew_under_the_next() -> None:
    writer = Writer("a", "b", fails_once=True)
    async with Stage(writer, stream=True) as stage:
        run = await stage.begin()
        async with watching(stage, run) as heard:
            writer.write()
            await stage.advance(0.2)
            writer.write()
            await stage.advance(5)
            writer.write(2)
            await stage.advance(1)
            assert [(delta.attempt, delta.text) for delta in heard] == [(1, "a"), (2, "ab")]
        assert (await stage.state(run)).final_answer == "ab"


async def test_nobody_has_to_listen_and_what_cannot_be_said_stops_nothing() -> None:
    writer = Writer(*["x" * 9_000] * 5)
    async with Stage(writer, stream=True) as stage:
        run = await stage.begin()
        writer.write(5)
        await stage.advance(1)
        assert (await stage.state(run)).final_answer == "x" * 45_000


@pytest.mark.parametrize("trouble", ["hangs", "fails"])
async def test_a_store_that_cannot_whisper_stops_no_answer(trouble: str) -> None:
    writer = Writer("a")
    stage = Stage(writer)

    async def whisper(topic: str, text: str) -> None:
        if trouble == "fails":
            raise AssertionError("a whisper that fails")
        await stage.port.sleep(1e9)

    stage.store.whisper = whisper  # type: ignore[method-assign]
    stage.runtime = stage.beside(writer, stream=True)
    stage.runs = stage.runtime.runs
    async with stage:
        run = await stage.begin()
        writer.write()
        await stage.advance(3)
        assert (await stage.state(run)).final_answer == "a"


async def test_without_stream_nothing_is_whispered() -> None:
    writer = Writer("a")
    async with Stage(writer) as stage:
        run = await stage.begin()
        assert not writer.began.is_set()
        assert (await stage.state(run)).final_answer == "a"


def test_a_slow_listener_is_bounded_and_knows_that_it_missed_something() -> None:
    whispers = Whispers()
    ear = whispers.listen("t")
    for number in range(EAR_WHISPERS + 10):
        whispers.whisper("t", str(number))
    assert ear.missed == 10
    whispers.leave("t", ear)
    assert whispers.topics == frozenset()


def test_long_texts_go_in_parts_and_no_character_is_cut() -> None:
    text = "aé€😀\ud800" * 5_000
    parts = parts_of(text)
    assert "".join(parts) == text.replace("\ud800", "?")
    assert all(len(part.encode()) <= 6_000 for part in parts)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said gets through on a busy machine too, where a second may be over before a session is opened."""
    monkeypatch.setattr(speaking, "SPEAK_SECONDS", 60.0)
    monkeypatch.setattr(streaming, "LAST_WORDS_SECONDS", 60.0)


@asynccontextmanager
async def two_processes(kind: str, dsn: str) -> AsyncIterator[tuple[Store, Store]]:
    """Two stores over one database; in memory there is only one."""
    if kind == "memory":
        store = InMemoryStore()
        yield store, store
        return
    await create_schema(dsn)
    async with PostgresStore(dsn) as one, PostgresStore(dsn) as other:
        yield one, other


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("kind", ["memory", "postgres"])
async def test_a_whisper_reaches_other_processes_that_overhear_its_topic(kind: str, dsn: str) -> None:
    async with two_processes(kind, dsn) as (one, other), other.overhear("t") as ear, other.overhear("u") as deaf:
        await one.whisper("t", "hello 'you'; \\ ü")
        await one.whisper("t", "x" * 7_000)
        port = RealPort()
        heard = [await ear.next(60, port) for _ in range(6)]
        assert heard[0] == "hello 'you'; \\ ü"
        assert "".join(part or "" for part in heard[1:]) == "x" * 7_000
        assert await deaf.next(0.05, port) is None


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("kind", ["memory", "postgres"])
async def test_a_run_on_one_process_is_watched_from_another(kind: str, dsn: str) -> None:
    writer = Writer(*"abc")
    async with two_processes(kind, dsn) as (one, other), Runtime(one, writer, stream=True) as worker:
        watcher = Runtime(other, writer)
        run = await worker.create("go")
        heard: list[str] = []

        async def listen() -> None:
            async for delta in watcher.watch(run):
                heard.append(delta.text)
                writer.write()

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(listen)
                await writer.began.wait()
                while not heard:  # until the watcher listens, what is said is lost
                    await one.whisper(topic_of(worker.runs.address(run)), '{"step":1,"attempt":1,"number":0,"text":""}')
                    await anyio.lowlevel.checkpoint()
            assert "".join(heard) == "abc"
            assert (await worker.resume(run)).final_answer == "abc"


@pytest.mark.usefixtures("patient")
async def test_whispers_survive_their_session_being_cut(dsn: str) -> None:
    import psycopg

    async with two_processes("postgres", dsn) as (one, other), other.overhear("t") as ear:
        await one.whisper("t", "a")
        port = RealPort()
        assert await ear.next(60, port) == "a"
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
            # And waits until they have ended: until then they would speak, and listen.
            cut = "select pg_terminate_backend(pid, 60000) from pg_stat_activity where application_name = %s"
            await connection.execute(cut, ("callboard whispers",))
            await connection.execute(cut, ("callboard watcher",))
        await one.whisper("t", "lost")  # raises nothing
        assert await ear.next(0.05, port) is None  # opens a session again
        said: list[Any] = []
        with anyio.fail_after(60):
            while not said or said[-1] is None:
                await one.whisper("t", "b")
                said.append(await ear.next(0.2, port))
        assert said[-1] == "b"
