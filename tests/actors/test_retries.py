"""The ladder of a failing message: when it is tried again, when it is given up, and what its error says of that."""

import pytest

from callboard.actors.context import Context
from callboard.actors.directives import Directive, Fatal, Park, Reject, Transient, directive_of
from callboard.actors.retry import RetryPolicy
from callboard.actors.testing import TestKit
from tests.actors.world import Note, Probe, tree

pytestmark = pytest.mark.anyio

ONE = "/t/p:1"
OTHER = "/t/p:other"


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
