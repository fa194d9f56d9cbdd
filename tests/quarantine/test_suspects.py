"""A message with two losses is tried alone; what becomes of it, of its actor and of its neighbours."""

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from callboard.actors.actor import Worker, on
from callboard.actors.blame import SIZE, BlameFile, Running, read, tell_lost
from callboard.actors.context import Context, WorkerContext
from callboard.actors.quarantine import (
    AGAIN_SECONDS,
    CALLS_AT_ONCE,
    Died,
    Overran,
    Raised,
    Said,
    Survived,
    Trial,
    Undecided,
    Verdict,
)
from callboard.actors.spec import Child
from callboard.actors.system import AskFailed, HandlerLost, Kill, Start
from callboard.actors.testing import ScriptedQuarantine, TestKit
from callboard.mailbox.envelope import Envelope
from callboard.mailbox.lane import Lane
from callboard.mailbox.message import Message, wire
from callboard.persistence.rows import ActorRow
from tests.actors.family import Trace, do, group, status
from tests.actors.world import Answer, Call, Note, Probe, Tool, Tools, answers, notes, tree

pytestmark = pytest.mark.anyio

ONE = "/t/p:1"
HOW = "it exited with code 3"


async def lose(kit: TestKit, envelope: Envelope, times: int = 2) -> None:
    """So many processes ended while a handler of this message ran."""
    for number in range(times):
        lost = Running(envelope.id, envelope.shard, envelope.recipient)
        await tell_lost(kit.client, [lost], HOW, f"process {envelope.id} {number}")


async def put(kit: TestKit, text: str, to: str = ONE, *, losses: int = 0) -> Envelope:
    """A note in a mailbox, with what it has cost so far, while no node runs."""
    envelope = await kit.client.envelope(to, Note(text))
    await kit.store.send([envelope])
    await lose(kit, envelope, losses)
    return envelope


def says(verdict: Verdict) -> Callable[[Trial], Verdict]:
    return lambda trial: verdict


async def row_of(kit: TestKit, address: str = ONE) -> ActorRow:
    row = await kit.row(address)
    assert row is not None
    return row


# --- an actor's messages -------------------------------------------------------------------------------------------


async def test_g6_a_message_that_ends_its_process_alone_is_a_dead_letter_and_its_actor_goes_on() -> None:
    quarantine = ScriptedQuarantine(says(Died(HOW)))
    async with TestKit(tree(), nodes=0, quarantine=quarantine) as kit:
        await put(kit, "before")
        culprit = await put(kit, "culprit", losses=2)
        await put(kit, "after")
        await kit.join()
        assert await notes(kit, ONE) == ["before", "after"]
        (letter,) = await kit.store.dead_letters()
        assert (letter.envelope.id, letter.reason) == (culprit.id, "worker_lost")
        assert HOW in letter.detail
        assert letter.envelope.losses == 2 and letter.envelope.failures == 0
        row = await row_of(kit)
        assert (row.status, row.version) == ("active", 2), "the end of a message is no failure of its actor"
        (trial,) = quarantine.tried
        assert trial.row is not None and trial.row.version == 1, "it was tried as its actor was then"


async def test_g8_a_message_that_comes_through_is_handled_once_and_its_losses_are_forgotten() -> None:
    async with TestKit(tree(), nodes=0, quarantine=(quarantine := ScriptedQuarantine())) as kit:
        await put(kit, "innocent", losses=3)
        await kit.join()
        assert await notes(kit, ONE) == ["innocent"]
        assert await kit.store.dead_letters() == []
        assert len(quarantine.tried) == 1 and quarantine.tried[0].row is None


async def test_g8_what_came_through_and_fails_here_is_a_failure_like_any_other() -> None:
    async def script(_probe: Probe, _note: Note, ctx: Context) -> None:
        if ctx.attempt == 1:
            raise RuntimeError("a bug")

    quarantine = ScriptedQuarantine(says(Raised("RuntimeError: a bug")))
    async with TestKit(tree(script), nodes=0, quarantine=quarantine) as kit:
        await put(kit, "innocent", losses=2)
        await kit.join()
        await kit.advance(seconds=10)
        assert await notes(kit, ONE) == ["innocent"]
        assert len(quarantine.tried) == 1, "its losses were forgotten, on disk too"


async def test_one_loss_is_no_suspicion() -> None:
    async with TestKit(tree(), nodes=0, quarantine=(quarantine := ScriptedQuarantine())) as kit:
        await put(kit, "once", losses=1)
        await kit.join()
        assert await notes(kit, ONE) == ["once"]
        assert quarantine.tried == []


async def test_g8_a_trial_that_was_killed_from_outside_charges_nothing_and_is_held_again() -> None:
    verdicts: list[Verdict] = [*([Undecided("it was ended by SIGKILL")] * 5), Survived()]
    quarantine = ScriptedQuarantine(lambda trial: verdicts.pop(0))
    async with TestKit(tree(), nodes=0, quarantine=quarantine) as kit:
        await put(kit, "innocent", losses=2)
        await put(kit, "next")
        await kit.join()
        assert await notes(kit, ONE) == [], "its lane waits with it"
        await kit.advance(seconds=5 * AGAIN_SECONDS)
        assert await notes(kit, ONE) == ["innocent", "next"]
        assert len(quarantine.tried) == 6
        assert {trial.envelope.failures for trial in quarantine.tried} == {0}
        assert await kit.store.dead_letters() == []


async def test_a_trial_that_takes_too_long_is_a_turn_over_its_limit() -> None:
    quarantine = ScriptedQuarantine(says(Overran(300.0)))
    async with TestKit(tree(), nodes=0, quarantine=quarantine) as kit:
        await put(kit, "endless", losses=2)
        await kit.join()
        await kit.advance(minutes=10)
        (letter,) = await kit.store.dead_letters()
        assert letter.reason == "failed" and letter.envelope.timeouts == len(quarantine.tried) == 3
        assert await notes(kit, ONE) == [], "it was never run where it would stop everything"


async def test_an_asker_is_told_when_what_he_asked_is_lost() -> None:
    quarantine = ScriptedQuarantine(says(Died(HOW)))
    async with TestKit(tree(), nodes=0, quarantine=quarantine) as kit:
        envelope = await kit.client.envelope(ONE, Note("asked"), reply_to="/sys/client:me")
        await kit.store.send([envelope])
        await lose(kit, envelope)
        await kit.join()
        (answer,) = await kit.store.receive("/sys/client:me", seconds=0, port=kit.port)
        failed = answer.message()
        assert isinstance(failed, AskFailed) and failed.why == "target-failed"


async def test_other_actors_go_on_while_one_message_is_tried() -> None:
    held = anyio.Event()

    class Slow(ScriptedQuarantine):
        async def try_message(self, trial: Trial) -> Verdict:
            await held.wait()
            return Survived()

    async with TestKit(tree(), nodes=0, quarantine=Slow()) as kit:
        await put(kit, "suspect", losses=2)
        await put(kit, "behind it")
        await put(kit, "neighbour", "/t/p:2")
        await kit.join()
        assert (await notes(kit, ONE), await notes(kit, "/t/p:2")) == ([], ["neighbour"])
        held.set()
        await kit.settle()
        assert await notes(kit, ONE) == ["suspect", "behind it"]


async def test_a_trial_is_interrupted_like_a_turn_that_waits() -> None:
    ended: list[str] = []

    class Endless(ScriptedQuarantine):
        async def try_message(self, trial: Trial) -> Verdict:
            self.tried.append(trial)
            try:
                await anyio.sleep_forever()
            finally:
                ended.append("stopped")
            return Survived()

    async with TestKit(tree(), nodes=0, quarantine=(quarantine := Endless())) as kit:
        await put(kit, "first", "/t/p:1")
        await put(kit, "suspect", losses=2)
        await kit.join()
        assert len(quarantine.tried) == 1
        await kit.client.send(ONE, Kill("jo"), lane=Lane.SYSTEM)
        await kit.settle()
        assert ended == ["stopped"]
        await kit.advance(minutes=5)
        assert len(quarantine.tried) == 2, "restarted, the actor has its message tried anew"
        assert quarantine.tried[1].envelope.losses == 2 and quarantine.tried[1].envelope.failures == 0


async def test_a_start_that_ends_its_process_is_a_failure_of_the_actor_which_is_started_again() -> None:
    trace = Trace()
    quarantine = ScriptedQuarantine(says(Died(HOW)))
    async with TestKit(group(trace), nodes=0, quarantine=quarantine) as kit:
        node = await kit.join()
        trace.slow["a"] = 1e6
        await do(kit, "/t/a", "crash")
        await kit.advance(seconds=5)
        (view,) = await kit.store.waiting(wire(Start).name)
        await kit.crash(node)
        await lose(kit, view.envelope)
        trace.slow.clear()
        await kit.join()
        await kit.advance(minutes=3)
        assert [trial.envelope.id for trial in quarantine.tried] == [view.envelope.id]
        assert "worker_lost" in [letter.reason for letter in await kit.store.dead_letters()]
        assert [await status(kit, f"/t/{name}") for name in "abc"] == ["active"] * 3


async def test_a_node_without_quarantine_handles_suspects_as_any_other_message() -> None:
    async with TestKit(tree(), nodes=0) as kit:
        await put(kit, "suspect", losses=2)
        await kit.join()
        assert await notes(kit, ONE) == ["suspect"]


# --- charges -------------------------------------------------------------------------------------------------------


async def test_a_loss_of_a_message_that_is_gone_charges_nobody_and_leaves_nothing() -> None:
    async with TestKit(tree(), quarantine=(quarantine := ScriptedQuarantine())) as kit:
        envelope = await kit.client.envelope(ONE, Note("done"))
        await kit.store.send([envelope])
        await kit.settle()
        await lose(kit, envelope)
        await kit.settle()
        await kit.send(ONE, Note("next"))
        assert await notes(kit, ONE) == ["done", "next"]
        assert await kit.store.dead_letters() == []
        assert await kit.store.peek(ONE) == [], "the notices are done with"
        assert (await row_of(kit)).version == 2, "and are no turns of anybody"
        assert quarantine.tried == []


async def test_the_same_death_said_twice_charges_once() -> None:
    async with TestKit(tree(), nodes=0, quarantine=(quarantine := ScriptedQuarantine())) as kit:
        envelope = await put(kit, "note", losses=1)
        await lose(kit, envelope, 1)
        await kit.join()
        assert await notes(kit, ONE) == ["note"]
        assert quarantine.tried == []


async def test_charges_are_on_disk_before_the_message_has_ended_anything_again() -> None:
    began: list[str] = []

    async def script(_probe: Probe, note: Note, ctx: Context) -> None:
        began.append(note.text)
        await ctx.port.sleep(60)

    async with TestKit(tree(script), nodes=0, quarantine=(quarantine := ScriptedQuarantine(says(Died(HOW))))) as kit:
        envelope = await put(kit, "note", losses=1)
        first = await kit.join()
        assert began == ["note"]
        assert [view.envelope.losses for view in await kit.store.peek(ONE)] == [1]
        await kit.crash(first)
        lost = Running(envelope.id, envelope.shard, envelope.recipient)
        await tell_lost(kit.client, [lost], HOW, "another process")
        await kit.join()
        await kit.advance(seconds=60)
        assert began == ["note"] and len(quarantine.tried) == 1
        assert [letter.reason for letter in await kit.store.dead_letters()] == ["worker_lost"]


# --- calls of workers ----------------------------------------------------------------------------------------------


def caller(tool: type[Worker], body: Any) -> Any:
    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        if note.text != "no call":
            ctx.send("/t/tool", Call(note.text))

    return tree(script, Child(tool, "tool", args=(body,)))


async def lost_call(kit: TestKit, times: int = 2) -> Envelope:
    """A call that was made by an actor and has cost so many processes."""
    node = await kit.join()
    await kit.client.send(ONE, Note("call"))
    await kit.settle()
    (view,) = await kit.store.waiting(wire(Call).name)
    await kit.crash(node)
    await lose(kit, view.envelope, times)
    return view.envelope


class World:
    """Where the calls that a node makes itself have their effect; it never answers."""

    def __init__(self) -> None:
        self.calls: list[bool] = []

    async def body(self, _call: Call, ctx: WorkerContext) -> Message | None:
        self.calls.append(ctx.in_doubt)
        await ctx.port.sleep(1e6)
        return None


async def test_g4_a_suspect_call_is_made_in_quarantine_and_its_answer_counts() -> None:
    world = World()
    reply = Said.of(Answer("from there"))
    quarantine = ScriptedQuarantine(says(Survived(reply)))
    async with TestKit(caller(Tool, world.body), nodes=0, quarantine=quarantine) as kit:
        call = await lost_call(kit)
        await kit.join()
        await kit.advance(seconds=40)
        assert await answers(kit, ONE) == ["from there"]
        assert world.calls == [False], "this node has made it once, before its losses, and never again"
        (trial,) = quarantine.tried
        assert trial.envelope.id == call.id and trial.row is None
        assert [turn.outcome for turn in await kit.store.turns("/t/tool") if turn.id == call.id] == ["done"]


async def test_g6_a_call_that_ends_its_process_alone_is_a_dead_letter_and_its_caller_is_told() -> None:
    quarantine = ScriptedQuarantine(says(Died("it was ended by SIGSEGV")))
    async with TestKit(caller(Tool, World().body), nodes=0, quarantine=quarantine) as kit:
        call = await lost_call(kit)
        await kit.join()
        await kit.advance(seconds=40)
        assert await answers(kit, ONE) == ["failed: target-failed"]
        (letter,) = await kit.store.dead_letters()
        assert (letter.envelope.id, letter.reason) == (call.id, "worker_lost")
        assert "SIGSEGV" in letter.detail


async def test_what_a_call_raises_in_quarantine_is_its_failure() -> None:
    verdicts: list[Verdict] = [Raised("ValueError: no"), Raised("wait", "transient", 3.0), Raised("never", "reject")]
    quarantine = ScriptedQuarantine(lambda trial: verdicts.pop(0))
    world = World()
    async with TestKit(caller(Tool, world.body), nodes=0, quarantine=quarantine) as kit:
        await lost_call(kit)
        await kit.join()
        await kit.advance(seconds=40)
        assert len(quarantine.tried) == 1, "it came through: it is no suspect any more"
        assert world.calls == [False, False], "so the next attempt is made here"


async def test_g4_a_trial_that_told_nothing_leaves_the_doubt_of_a_crash() -> None:
    verdicts: list[Verdict] = [Undecided("it was ended by SIGKILL"), Survived(Said.of(Answer("reconciled")))]
    doubts: list[bool] = []

    def verdict(trial: Trial) -> Verdict:
        doubts.append(trial.envelope.started)
        return verdicts.pop(0)

    async def body(_call: Call, _ctx: WorkerContext) -> Message | None:
        raise AssertionError("never here")

    async with TestKit(caller(Tools, body), nodes=0, quarantine=ScriptedQuarantine(verdict)) as kit:
        # Its losses come with it: its start was never recorded.
        source = await kit.client.envelope(ONE, Note("no call"))
        await kit.store.send([source])
        call = await kit.client.envelope("/t/tool", Call("x"), reply_to=ONE)
        call.shard, call.sender = source.shard, ONE
        await kit.store.send([call])
        await lose(kit, call)
        await kit.join()
        await kit.advance(seconds=AGAIN_SECONDS)
        assert doubts == [False, True]
        assert await kit.store.waiting(wire(Call).name) == []


async def test_suspect_calls_take_few_seats_and_the_others_go_on() -> None:
    held = anyio.Event()

    class Slow(ScriptedQuarantine):
        async def try_message(self, trial: Trial) -> Verdict:
            self.tried.append(trial)
            await held.wait()
            return Survived(Said.of(Answer(f"tried {trial.envelope.id}")))

    class Narrow(Tool, kind="quarantine-test-narrow"):
        concurrency = CALLS_AT_ONCE + 1

    async def body(call: Call, _ctx: WorkerContext) -> Message | None:
        return Answer(call.text)

    quarantine = Slow()
    async with TestKit(caller(Narrow, body), nodes=0, quarantine=quarantine) as kit:
        await put(kit, "made here")
        shard = (await kit.client.envelope(ONE, Note())).shard
        for number in range(2 * CALLS_AT_ONCE):
            call = await kit.client.envelope("/t/tool", Call(str(number)), reply_to=ONE)
            call.shard, call.sender = shard, ONE
            await kit.store.send([call])
            await lose(kit, call)
        await kit.join()
        assert await answers(kit, ONE) == ["made here"]
        assert len(quarantine.tried) == CALLS_AT_ONCE
        held.set()
        await kit.settle()
        assert len(await answers(kit, ONE)) == 2 * CALLS_AT_ONCE + 1


# --- what is written down ------------------------------------------------------------------------------------------


def watch(kit: TestKit) -> Callable[[], list[tuple[int, str]]]:
    """Let the kit's only node write down what runs; reads it."""
    memory = bytearray(SIZE)
    file = BlameFile(memory, 1)
    life = kit.nodes[0].life
    assert life is not None
    life.pump.blame = file
    for pool in life.pools.values():
        pool.blame = file

    def running() -> list[tuple[int, str]]:
        report = read(bytes(memory), 1)
        assert report is not None
        return sorted((one.message, one.address) for one in report.running)

    return running


async def test_rule_7_handlers_stand_in_the_file_from_their_beginning_to_their_end() -> None:
    seen: dict[str, list[tuple[int, str]]] = {}

    async def script(_probe: Probe, note: Note, ctx: Context) -> None:
        seen[f"{note.text} begins"] = running()
        if note.text == "waits":
            await ctx.port.sleep(5)
        if note.text == "fails":
            raise RuntimeError("a bug")

    async with TestKit(tree(script)) as kit:
        running = watch(kit)
        sent = []
        for number, text in ((1, "waits"), (2, "ends"), (3, "fails")):
            sent.append(await kit.client.envelope(f"/t/p:{number}", Note(text)))
            await kit.store.send(sent[-1:])
            await kit.settle()
        waits, ends, _ = sent
        assert seen["waits begins"] == [(waits.id, "/t/p:1")]
        assert seen["ends begins"] == [(waits.id, "/t/p:1"), (ends.id, "/t/p:2")]
        assert running() == [(waits.id, "/t/p:1")], "what has ended, well or not, runs no more"
        await kit.advance(seconds=5)
        assert running() == []


async def test_rule_7_a_turn_that_does_not_wait_stands_in_the_file_too() -> None:
    seen: list[list[tuple[int, str]]] = []

    def script(_probe: Probe, _note: Note, _ctx: Context) -> None:
        seen.append(running())

    async with TestKit(tree(script)) as kit:
        running = watch(kit)
        envelope = await kit.client.envelope(ONE, Note("x"))
        await kit.store.send([envelope])
        await kit.settle()
        assert seen == [[(envelope.id, ONE)]]
        assert running() == []


async def test_rule_7_a_call_stands_in_the_file_and_so_does_a_turn_that_takes_its_answer_at_once() -> None:
    seen: list[list[tuple[int, str]]] = []

    class Watched(Probe, kind="quarantine-test-watched"):
        @on
        def answered(self, message: Answer | AskFailed, ctx: Context) -> None:
            seen.append(running())
            self.state.answers.append("")

    async def body(_call: Call, ctx: WorkerContext) -> Message | None:
        seen.append(running())
        await ctx.port.sleep(5)
        return Answer("yes")

    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        call.append(ctx.send("/t/tool", Call(note.text)))

    call: list[int] = []
    async with TestKit(tree(script, Child(Tool, "tool", args=(body,)), actor=Watched)) as kit:
        running = watch(kit)
        await kit.send(ONE, Note("x"))
        assert running() == [(call[0], "/t/tool")]
        await kit.advance(seconds=5)
        assert seen == [[(call[0], "/t/tool")]] * 2, "the answer is not on disk: it is the call that is charged"
        assert running() == []


async def test_rule_7_a_message_on_trial_does_not_run_here() -> None:
    seen: list[Any] = []

    def verdict(_trial: Trial) -> Verdict:
        seen.append(running())
        return Survived()

    async with TestKit(tree(), quarantine=ScriptedQuarantine(verdict)) as kit:
        running = watch(kit)
        envelope = await kit.client.envelope(ONE, Note("x"))
        lost = Running(envelope.id, envelope.shard, envelope.recipient)
        notices = []
        for _ in range(2):
            notice = await kit.client.envelope(ONE, HandlerLost(lost.message, HOW), lane=0)  # type: ignore[arg-type]
            notices.append(notice)
        await kit.store.send([*notices, envelope])
        await kit.settle()
        assert seen == [[]]
        assert await notes(kit, ONE) == ["x"]
