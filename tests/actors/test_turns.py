"""A turn happens wholly and once, or not at all; what a handler raises decides what becomes of its message."""

from typing import Annotated, Any

import anyio
import msgspec
import pytest

from callboard.actors.actor import Actor, Stateless, on
from callboard.actors.cells import CAPABLE_NODE_SECONDS
from callboard.actors.context import Context, Event
from callboard.actors.directives import Directive, Fatal, Park, Reject, Transient, directive_of
from callboard.actors.retry import RetryPolicy
from callboard.actors.spec import Child, Supervisor
from callboard.actors.system import Pause, Resume
from callboard.actors.testing import TestKit
from callboard.mailbox.address import shard_of
from callboard.mailbox.errors import StoreUnavailable
from callboard.mailbox.lane import Lane
from callboard.mailbox.message import Message
from callboard.persistence.rows import ActorRow
from callboard.persistence.store import NodeInfo
from callboard.persistence.unit import Unit
from tests.actors.world import SETTINGS, Answer, Note, Notes, Once, Probe, notes, send_all, tree

pytestmark = pytest.mark.anyio

ONE = "/t/p:1"
OTHER = "/t/p:other"


def failing(times: dict[str, int], error: BaseException) -> Any:
    """A script that raises `error` the first so many times for a text."""

    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        if ctx.address == ONE:
            ctx.send(OTHER, Note(f"from {note.text}"))
        if times.get(note.text, 0) > 0:
            times[note.text] -= 1
            raise error

    return script


# --- G1 --------------------------------------------------------------------------------------------------------------


async def test_g1_a_failed_turn_leaves_nothing_and_its_retry_sees_the_old_state() -> None:
    async with TestKit(tree(failing({"a": 1}, RuntimeError("bug")))) as kit:
        await kit.send(ONE, Note("first"))
        await kit.send(ONE, Note("a"))
        assert await notes(kit, ONE) == ["first"]
        assert "from a" not in await notes(kit, OTHER)
        await kit.advance(seconds=1)
        assert await notes(kit, ONE) == ["first", "a"]


async def test_g1_a_failed_turn_in_the_same_batch_as_a_good_one_undoes_only_itself() -> None:
    def script(_probe: Probe, note: Note, _ctx: Context) -> None:
        if note.text == "bad":
            raise Reject("no")

    async with TestKit(tree(script)) as kit:
        await send_all(kit, ONE, ["a", "bad", "b"])
        await kit.settle()
        assert await notes(kit, ONE) == ["a", "b"]
        assert [letter.reason for letter in await kit.store.dead_letters()] == ["rejected"]


@pytest.mark.parametrize("nth", range(1, 6))
async def test_g1_a_commit_whose_answer_is_lost_counts_once(nth: int) -> None:
    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        if ctx.address == ONE:
            ctx.send(OTHER, Note(note.text))

    async with TestKit(tree(script)) as kit:
        commits = 0

        def lost(_number: int) -> bool:
            nonlocal commits
            commits += 1
            return commits == nth

        kit.store.lost_answer = lost
        for text in "abc":
            await kit.send(ONE, Note(text))
        await kit.advance(seconds=5)
        assert commits >= nth
        assert await notes(kit, ONE) == ["a", "b", "c"]
        assert await notes(kit, OTHER) == ["a", "b", "c"]
        assert await kit.store.dead_letters() == []
        assert [turn.outcome for turn in await kit.store.turns(ONE)] == ["done"] * 3


async def test_g1_every_answer_lost_for_a_while_still_counts_once() -> None:
    async with TestKit(tree()) as kit:
        lost = iter([True] * 7)
        kit.store.lost_answer = lambda _number: next(lost, False)
        await send_all(kit, ONE, list("abcdef"))
        await kit.advance(seconds=20)
        assert await notes(kit, ONE) == list("abcdef")


async def test_g1_a_unit_that_was_left_out_is_read_again_and_done_on_the_new_state() -> None:
    async with TestKit(tree()) as kit:
        await kit.send(ONE, Note("a"))
        shard = shard_of(ONE)
        row = kit.store.tables.actors[shard, ONE]
        # Behind the node's back, as after a take-over that it has not heard of yet.
        state = msgspec.msgpack.encode(Notes(["behind"]))
        kit.store.tables.actors[shard, ONE] = msgspec.structs.replace(row, state=state, version=row.version + 1)
        await kit.send(ONE, Note("b"))
        assert await notes(kit, ONE) == ["behind", "b"]


async def test_g1_a_unit_that_is_left_out_for_long_does_not_spin() -> None:
    async with TestKit(tree()) as kit:
        tries = 0
        commit = kit.session(kit.nodes[0]).commit

        async def refuse(units: Any) -> Any:
            nonlocal tries
            result = await commit([unit for unit in units if unit.actor is None or unit.actor.address != ONE])
            for index, unit in enumerate(units):
                if unit.actor is not None and unit.actor.address == ONE:
                    tries += 1
                    result.rejected[index] = "somebody else's"
            return result

        kit.session(kit.nodes[0]).commit = refuse  # type: ignore[method-assign]
        await kit.send(ONE, Note("a"))
        await kit.advance(seconds=30)
        assert 3 < tries < 15
        kit.session(kit.nodes[0]).commit = commit  # type: ignore[method-assign]
        await kit.advance(seconds=31)
        assert await notes(kit, ONE) == ["a"]


# --- the retry ladder ------------------------------------------------------------------------------------------------


async def attempts(error: BaseException, seconds: int, *, restart: str = "permanent") -> tuple[list[float], TestKit]:
    """When the handler was tried, in seconds from the first attempt."""
    at: list[float] = []

    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        if note.text == "x":
            at.append(ctx.port.monotonic())
            raise error

    kit = TestKit(tree(script))
    async with kit:
        await kit.send(ONE, Note("first"))
        await kit.send(ONE, Note("x"))
        await kit.advance(seconds=seconds)
    return [when - at[0] for when in at], kit


async def test_a_bug_is_tried_five_times_with_growing_waits_and_is_then_a_dead_letter_and_one_failure() -> None:
    at, kit = await attempts(RuntimeError("bug"), 60)
    assert at == pytest.approx([0, 1, 3, 7, 15])
    (letter,) = await kit.store.dead_letters()
    assert (letter.reason, letter.envelope.failures, letter.envelope.deliveries) == ("failed", 5, 5)
    assert "RuntimeError: bug" in letter.detail
    assert [turn.type for turn in await kit.store.turns("/t")].count("sys.child_failed") == 1
    row = await kit.row(ONE)
    assert row is not None and (row.status, row.incarnation) == ("active", 2), "its supervisor restarted it"


async def test_transient_waits_longer_each_time_and_is_never_given_up() -> None:
    at, kit = await attempts(Transient("the world"), 400)
    assert at[:8] == pytest.approx([0, 1, 3, 7, 15, 31, 63, 123])
    assert await kit.store.dead_letters() == []
    (view,) = await kit.store.peek(ONE)
    assert view.envelope.failures == 0 and "the world" in view.envelope.last_error


async def test_transient_after_overrides_the_wait_and_charge_counts() -> None:
    at, kit = await attempts(Transient("later", after_seconds=3, charge=True), 30)
    assert at[:4] == pytest.approx([0, 3, 6, 9])
    (view,) = await kit.store.peek(ONE)
    assert view.envelope.failures == len(at)


async def test_fatal_is_a_dead_letter_and_a_failure_at_once() -> None:
    at, kit = await attempts(Fatal("broken"), 5)
    assert at == [0]
    assert [letter.reason for letter in await kit.store.dead_letters()] == ["failed"]
    row = await kit.row(ONE)
    assert row is not None and row.incarnation == 2


async def test_reject_is_a_dead_letter_and_no_failure() -> None:
    at, kit = await attempts(Reject("bad message"), 5)
    assert at == [0]
    assert [letter.reason for letter in await kit.store.dead_letters()] == ["rejected"]
    row = await kit.row(ONE)
    assert row is not None and (row.incarnation, row.status) == (1, "active")


def test_the_waits_are_bounded_and_jitter_spreads_them() -> None:
    policy = RetryPolicy()
    assert [policy.delay_seconds(n, 0.5) for n in (0, 1, 2, 3, 7, 8, 10_000)] == [1, 1, 2, 4, 60, 60, 60]
    assert policy.delay_seconds(1, 0.0) == pytest.approx(0.8)
    assert policy.delay_seconds(1, 0.999999) == pytest.approx(1.2, abs=1e-5)


def caused(error: Exception, cause: BaseException) -> Exception:
    try:
        raise error from cause
    except Exception as raised:  # noqa: BLE001
        return raised


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (RuntimeError("bug"), None),
        (Transient("t"), Transient),
        (caused(RuntimeError("wrapped"), Transient("t")), Transient),
        (caused(Transient("t"), ValueError("the occasion")), Transient),
        (caused(RuntimeError("twice"), caused(ValueError("wrapped"), Park("p"))), Park),
        (caused(Transient("outer"), Fatal("inner")), Fatal),
        (ExceptionGroup("g", [Transient("t"), Reject("r")]), Reject),
        (ExceptionGroup("g", [Transient("t"), ValueError("bug")]), None),
        (ExceptionGroup("g", [Park("p"), ValueError("bug")]), Park),
        (ExceptionGroup("g", [ExceptionGroup("h", [Fatal("f")]), Park("p")]), Fatal),
        (ExceptionGroup("g", [ExceptionGroup("h", [Transient("t"), ValueError("bug")])]), None),
        (ExceptionGroup("g", [caused(ValueError("wrapped"), Transient("t"))]), Transient),
        (caused(RuntimeError("wrapped"), ExceptionGroup("g", [Transient("t"), ValueError("bug")])), None),
    ],
)
def test_the_most_severe_directive_is_found_through_causes_and_groups(
    error: Exception, expected: type[Directive] | None
) -> None:
    assert type(directive_of(error)) is (expected or type(None))


# --- standing still --------------------------------------------------------------------------------------------------


async def test_park_keeps_the_message_first_in_line_until_resumed() -> None:
    asleep = True

    def script(_probe: Probe, note: Note, _ctx: Context) -> None:
        if note.text == "x" and asleep:
            raise Park("a person must look")

    async with TestKit(tree(script)) as kit:
        await kit.send(ONE, Note("a"))
        await send_all(kit, ONE, ["x", "b"])
        await kit.advance(minutes=2)
        row = await kit.row(ONE)
        assert row is not None and (row.status, row.reason) == ("parked", "a person must look")
        assert await notes(kit, ONE) == ["a"]
        assert [view.envelope.failures for view in await kit.store.peek(ONE)] == [0, 0]
        asleep = False
        await kit.client.send(ONE, Resume(), lane=Lane.SYSTEM)
        await kit.settle()
        assert await notes(kit, ONE) == ["a", "x", "b"]


async def test_park_on_the_message_that_would_create_the_actor_parks_and_does_not_spin() -> None:
    asleep = True
    tries = 0

    def script(_probe: Probe, _note: Note, _ctx: Context) -> None:
        nonlocal tries
        tries += 1
        if asleep:
            raise Park("not yet")

    async with TestKit(tree(script)) as kit:
        with anyio.fail_after(5):
            await kit.send(ONE, Note("a"))
        await kit.advance(seconds=10)
        assert tries == 1
        row = await kit.row(ONE)
        assert row is not None and row.status == "parked"
        asleep = False
        await kit.client.send(ONE, Resume(), lane=Lane.SYSTEM)
        await kit.settle()
        assert await notes(kit, ONE) == ["a"]
        row = await kit.row(ONE)
        assert row is not None and row.incarnation == 1


async def test_park_on_a_system_message_does_not_spin_and_can_be_resumed() -> None:
    def script(_probe: Probe, note: Note, _ctx: Context) -> None:
        if note.text == "x":
            raise Park("in the system lane")

    async with TestKit(tree(script)) as kit:
        await kit.send(ONE, Note("a"))
        with anyio.fail_after(5):
            await kit.client.send(ONE, Note("x"), lane=Lane.SYSTEM)
            await kit.settle()
        row = await kit.row(ONE)
        assert row is not None and row.status == "parked"
        assert [letter.reason for letter in await kit.store.dead_letters()] == ["rejected"]
        await kit.client.send(ONE, Resume(), lane=Lane.SYSTEM)
        await kit.send(ONE, Note("b"))
        assert await notes(kit, ONE) == ["a", "b"]


async def test_a_reason_that_no_column_takes_is_cleaned() -> None:
    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        if note.text == "park":
            raise Park("nul \0 and half \ud800")
        raise Reject("nul \0")

    async with TestKit(tree(script)) as kit:
        with anyio.fail_after(5):
            await send_all(kit, ONE, ["reject", "park"])
            await kit.settle()
        row = await kit.row(ONE)
        assert row is not None and row.reason == "nul  and half ?"


async def test_a_paused_actor_takes_nothing_until_resumed_and_says_who_paused_it() -> None:
    async with TestKit(tree()) as kit:
        await kit.send(ONE, Note("a"))
        await kit.client.send(ONE, Pause("jo", "looking"), lane=Lane.SYSTEM)
        await kit.send(ONE, Note("b"))
        row = await kit.row(ONE)
        assert row is not None and (row.status, row.reason) == ("paused", "paused by jo: looking")
        assert await notes(kit, ONE) == ["a"]
        await kit.client.send(ONE, Resume(), lane=Lane.SYSTEM)
        await kit.settle()
        assert await notes(kit, ONE) == ["a", "b"]


# --- what cannot be read ---------------------------------------------------------------------------------------------


async def test_an_unknown_type_waits_uncharged_and_holds_up_its_lane_only() -> None:
    async with TestKit(tree()) as kit:
        await kit.send(ONE, Note("a"))
        envelope = await kit.client.envelope(ONE, Note("new"))
        envelope.type = "engine_test.from_the_future"
        await kit.store.send([envelope])
        await send_all(kit, ONE, ["behind"])
        await kit.client.send(ONE, Note("urgent"), lane=Lane.REPLY)
        await kit.advance(seconds=10 * CAPABLE_NODE_SECONDS)
        assert await notes(kit, ONE) == ["a", "urgent"]
        views = await kit.store.peek(ONE)
        assert [(view.envelope.failures, view.envelope.deliveries) for view in views] == [(0, 0), (0, 0)]
        assert await kit.store.dead_letters() == []


async def test_a_newer_version_of_a_known_type_waits_too() -> None:
    async with TestKit(tree()) as kit:
        envelope = await kit.client.envelope(ONE, Note("new"))
        envelope.version = 2
        await kit.store.send([envelope])
        await kit.advance(minutes=1)
        assert await kit.row(ONE) is None
        assert len(await kit.store.peek(ONE)) == 1


class Older(msgspec.Struct):
    notes: int = 7


async def test_unreadable_state_parks_is_never_overwritten_and_goes_on_by_itself_when_it_can_be_read() -> None:
    async with TestKit(tree(), settings=SETTINGS) as kit:
        await kit.send(ONE, Note("a"))
        shard = shard_of(ONE)
        good = kit.store.tables.actors[shard, ONE].state
        bad = msgspec.msgpack.encode(Older())
        kit.store.tables.actors[shard, ONE].state = bad
        await kit.crash(kit.nodes[0])
        node = await kit.join()
        await kit.advance(seconds=5)
        await send_all(kit, ONE, ["b", "c"])
        await kit.advance(seconds=30)
        row = await kit.row(ONE)
        assert row is not None and row.status == "parked" and row.reason.startswith("schema:")
        assert row.state == bad
        version = row.version
        await kit.client.send(ONE, Pause(), lane=Lane.SYSTEM)
        await kit.advance(seconds=30)
        row = await kit.row(ONE)
        assert row is not None and row.state == bad and row.version <= version + 1
        assert [view.envelope.failures for view in await kit.store.peek(ONE)] == [0, 0]
        kit.store.tables.actors[shard, ONE].state = good  # a version that can read it
        await kit.crash(node)
        await kit.join()
        await kit.advance(seconds=5)
        assert await notes(kit, ONE) == ["a", "b", "c"]
        row = await kit.row(ONE)
        assert row is not None and row.status == "active"


class Positive(msgspec.Struct):
    n: Annotated[int, msgspec.Meta(ge=0)] = 0


class Counter(Actor[Positive], kind="engine-test-counter"):
    @on(creates=True)
    def note(self, message: Note, ctx: Context) -> None:
        self.state.n += int(message.text)
        if message.text == "0":
            raise RuntimeError("bug")


async def test_a_state_that_is_written_but_cannot_be_read_parks_its_actor_and_nobody_else() -> None:
    spec = Supervisor("t", (Child(Counter, "c", pool=True), Child(Probe, "p", pool=True)))
    async with TestKit(spec) as kit:
        for text in ("1", "-5", "0"):
            await kit.client.send("/t/c:1", Note(text))
        await kit.advance(seconds=60)
        row = await kit.row("/t/c:1")
        assert row is not None and (row.status, row.reason[:7]) == ("parked", "schema:")
        await kit.send(ONE, Note("alive"))
        assert await notes(kit, ONE) == ["alive"]


class Needy(msgspec.Struct):
    must: int


class Unmakeable(Actor[Needy], kind="engine-test-unmakeable"):
    @on(creates=True)
    def note(self, message: Note, ctx: Context) -> None: ...


async def test_an_actor_that_cannot_be_made_fails_its_messages_and_nobody_else() -> None:
    spec = Supervisor(
        "t",
        (Child(Unmakeable, "u", pool=True), Child(Probe, "q", pool=True, args=(1, 2, 3)), Child(Probe, "p", pool=True)),
    )
    async with TestKit(spec) as kit:
        await kit.client.send("/t/u:1", Note())
        await kit.client.send("/t/q:1", Note())
        await kit.advance(seconds=60)
        letters = {letter.envelope.recipient: letter for letter in await kit.store.dead_letters()}
        assert {address: letter.reason for address, letter in letters.items()} == {
            "/t/u:1": "failed",
            "/t/q:1": "failed",
        }
        await kit.send(ONE, Note("alive"))
        assert await notes(kit, ONE) == ["alive"]


class Bad(Actor[Notes], kind="engine-test-bad-summary"):
    @on(creates=True)
    def note(self, message: Note, ctx: Context) -> None:
        self.state.notes.append(message.text)

    def summary(self) -> dict[str, Any]:
        if "x" in self.state.notes:
            raise RuntimeError("no summary")
        return {"bad": object()} if "y" in self.state.notes else {"notes": len(self.state.notes)}


async def test_a_summary_that_fails_is_the_turns_own_fault() -> None:
    spec = Supervisor("t", (Child(Bad, "b", pool=True), Child(Probe, "p", pool=True)), max_restarts=9)
    async with TestKit(spec) as kit:
        for text in ("a", "x", "y", "b"):
            await kit.client.send("/t/b:1", Note(text))
        await kit.advance(seconds=60)
        assert await notes(kit, "/t/b:1") == ["a", "b"]
        row = await kit.row("/t/b:1")
        assert row is not None and row.summary == '{"notes":2}'
        assert [letter.reason for letter in await kit.store.dead_letters()] == ["failed", "failed"]
        await kit.send(ONE, Note("alive"))
        assert await notes(kit, ONE) == ["alive"]


# --- turns that wait -------------------------------------------------------------------------------------------------


async def test_a_turn_over_its_limit_is_cut_off_and_counts_as_a_bug() -> None:
    stuck = True
    cut: list[float] = []

    async def wait(ctx: Context) -> None:
        try:
            await ctx.port.sleep(1e6 if stuck else 5)
        except BaseException:
            cut.append(ctx.port.monotonic())
            raise

    def script(_probe: Probe, _note: Note, ctx: Context) -> Any:
        return wait(ctx)

    async with TestKit(tree(script)) as kit:
        await kit.send(ONE, Note("a"))
        await kit.advance(seconds=299)
        assert cut == []
        await kit.advance(seconds=1.5)
        assert len(cut) == 1
        (view,) = await kit.store.peek(ONE)
        assert (view.envelope.failures, view.state) == (1, "retrying") and "TimeoutError" in view.envelope.last_error
        stuck = False
        await kit.advance(seconds=10)
        assert await notes(kit, ONE) == ["a"]


async def test_turns_of_one_actor_never_overlap_and_others_go_on_meanwhile() -> None:
    running: list[str] = []
    overlaps: list[str] = []

    async def wait(note: Note, ctx: Context) -> None:
        if ctx.address in running:
            overlaps.append(note.text)
        running.append(ctx.address)
        await ctx.port.sleep(2)
        running.remove(ctx.address)

    def script(_probe: Probe, note: Note, ctx: Context) -> Any:
        return wait(note, ctx)

    async with TestKit(tree(script)) as kit:
        await send_all(kit, ONE, ["a", "b", "c"])
        await send_all(kit, OTHER, ["x"])
        await kit.advance(seconds=2.1)
        assert await notes(kit, ONE) == ["a"]
        assert await notes(kit, OTHER) == ["x"]
        await kit.advance(seconds=5)
        assert await notes(kit, ONE) == ["a", "b", "c"]
        assert overlaps == []


async def test_a_handler_that_fails_after_a_wait_is_undone_as_well() -> None:
    first = True

    async def wait(ctx: Context) -> None:
        nonlocal first
        await ctx.port.sleep(1)
        if first:
            first = False
            raise RuntimeError("bug")

    def script(_probe: Probe, _note: Note, ctx: Context) -> Any:
        return wait(ctx)

    async with TestKit(tree(script)) as kit:
        await kit.send(ONE, Note("a"))
        await kit.advance(seconds=10)
        assert await notes(kit, ONE) == ["a"]


# --- being started ---------------------------------------------------------------------------------------------------


class Began(Event, tag="engine_test.began"):
    incarnation: int


class Starting(Actor[Stateless], kind="engine-test-starting"):
    def on_start(self, ctx: Context) -> None:
        ctx.record(Began(ctx.incarnation))

    @on(creates=True)
    def note(self, message: Note, ctx: Context) -> None:
        ctx.reply(Answer(message.text))
        if message.text == "fatal":
            raise Fatal("on purpose")


async def test_on_start_runs_once_in_each_incarnation() -> None:
    spec = Supervisor("t", (Child(Starting, "s", pool=True), Child(Starting, "one")), max_restarts=9)
    async with TestKit(spec) as kit:
        for address in ("/t/s:1", "/t/one"):
            for text in ("a", "b", "fatal", "c"):
                await kit.send(address, Note(text))
            events = await kit.store.journal(address)
            assert [msgspec.json.decode(event.body)["incarnation"] for event in events] == [1, 2]
            assert [event.seq for event in events] == [1, 2]


async def test_an_event_and_a_message_of_a_failed_turn_are_not_numbered() -> None:
    calls = 0

    def script(_probe: Probe, note: Note, ctx: Context) -> None:
        nonlocal calls
        if ctx.address != ONE:
            return
        calls += 1
        ctx.record(Began(calls))
        ctx.send(OTHER, Note("x"))
        if calls == 2:
            raise RuntimeError("bug")

    async with TestKit(tree(script)) as kit:
        await send_all(kit, ONE, ["a", "b", "c"])
        await kit.advance(seconds=3)
        assert [event.seq for event in await kit.store.journal(ONE)] == [1, 2, 3]
        turns = [turn for turn in await kit.store.turns(OTHER) if turn.sender == ONE]
        assert [turn.sender_seq for turn in turns] == [1, 2, 3]


async def test_a_node_that_finds_no_store_to_join_says_so() -> None:
    kit = TestKit(tree())
    kit.store.down = True
    with pytest.raises(ExceptionGroup) as raised:
        async with kit:
            pass
    assert raised.group_contains(StoreUnavailable)


async def test_once_means_one_attempt() -> None:
    async with TestKit(tree(failing({"a": 9}, RuntimeError("bug")), actor=Once)) as kit:
        await kit.send(ONE, Note("first"))
        await kit.send(ONE, Note("a"))
        assert [letter.envelope.failures for letter in await kit.store.dead_letters()] == [1]


class _Unused(Message, tag="engine_test.unused"):
    """Known to the process, handled by nobody."""


async def test_g6_a_known_message_without_a_handler_is_rejected() -> None:
    async with TestKit(tree()) as kit:
        await kit.send(ONE, Note("a"))
        await kit.send(ONE, _Unused())
        assert [letter.reason for letter in await kit.store.dead_letters()] == ["rejected"]


async def test_two_nodes_never_disagree_about_a_row_they_both_hold() -> None:
    """The version check is the last line: here a second session writes with the same version."""
    async with TestKit(tree()) as kit:
        await kit.send(ONE, Note("a"))
        row = await kit.row(ONE)
        assert row is not None
        async with kit.store.join(NodeInfo("other"), kit.port) as other:
            stale = ActorRow(row.shard, row.address, row.kind, version=row.version, state=row.state)
            result = await other.commit([Unit(row.shard, actor=stale, expected=row.version - 1)])
            assert list(result.rejected) == [0]
