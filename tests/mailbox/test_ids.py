"""The id clock: unique, ascending, whatever the wall clock does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.mailbox.ids import EPOCH_MS, NUMBERS, IdClock, milliseconds_of

NOW = 1_800_000_000.0


class Hand:
    """A wall clock that is set by hand."""

    def __init__(self, now: float = NOW) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def test_ids_go_up_while_the_clock_stands_still() -> None:
    clock = IdClock(7, Hand())
    made = [clock.next() for _ in range(5_000)]  # more than the 1,024 that fit one millisecond
    assert made == sorted(set(made))


def test_ids_run_ahead_of_the_clock_when_a_millisecond_is_full() -> None:
    hand = Hand()
    clock = IdClock(7, hand)
    made = [clock.next() for _ in range(1_025)]
    assert milliseconds_of(made[1_023]) == int(NOW * 1000)
    assert milliseconds_of(made[1_024]) == int(NOW * 1000) + 1
    hand.now += 0.0005
    assert clock.next() > made[-1]
    hand.now += 1.0
    assert milliseconds_of(clock.next()) == int(hand.now * 1000)


def test_ids_go_up_when_the_clock_steps_back() -> None:
    hand = Hand()
    clock = IdClock(7, hand)
    first = clock.next()
    hand.now -= 3_600.0
    second = clock.next()
    assert second > first
    assert milliseconds_of(second) == int(NOW * 1000)


def test_ids_go_up_when_the_clock_is_before_the_epoch() -> None:
    clock = IdClock(7, Hand(0.0))
    made = [clock.next() for _ in range(3)]
    assert made == sorted(set(made))
    assert made[0] > 0


def test_ids_tell_when_they_were_made() -> None:
    assert milliseconds_of(IdClock(3, Hand(NOW)).next()) == int(NOW * 1000)
    assert milliseconds_of(0) == EPOCH_MS


def test_ids_of_different_numbers_never_meet() -> None:
    hand = Hand()
    clocks = [IdClock(number, hand) for number in (0, 1, 1023, 1024, NUMBERS - 1)]
    made = [clock.next() for clock in clocks for _ in range(3_000)]
    assert len(set(made)) == len(made)


def test_ids_go_past_what_was_seen() -> None:
    hand = Hand()
    fast, slow = IdClock(9, Hand(NOW + 60)), IdClock(2, hand)
    seen = fast.next()
    assert slow.next() < seen
    slow.advance(seen)
    assert slow.next() > seen
    slow.advance(5)
    assert slow.next() > seen


def test_ids_go_past_an_id_of_the_same_millisecond_and_a_greater_number() -> None:
    low, high = IdClock(1, Hand()), IdClock(4_000, Hand())
    seen = high.next()
    low.next()
    low.advance(seen)
    assert low.next() > seen


@pytest.mark.parametrize("number", [-1, NUMBERS])
def test_ids_of_a_number_out_of_range_are_refused(number: int) -> None:
    with pytest.raises(ValueError, match=str(number)):
        IdClock(number, Hand())


def test_ids_fit_a_bigint_until_2093() -> None:
    assert IdClock(NUMBERS - 1, Hand(3_900_000_000.0)).next() < 1 << 63


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("next"), st.floats(NOW - 10, NOW + 10)),
            st.tuples(st.just("advance"), st.integers(0, 1 << 62)),
        ),
        max_size=60,
    )
)
def test_ids_are_always_above_all_made_and_seen(steps: list[tuple[str, float]]) -> None:
    hand = Hand()
    clock = IdClock(5, hand)
    highest = 0
    for kind, value in steps:
        if kind == "next":
            hand.now = value
            made = clock.next()
            assert made > highest
            highest = made
        else:
            clock.advance(int(value))
            highest = max(highest, int(value))
