"""The lane queue: first in, first out in each lane, and a back-off blocks its own lane only."""

import hypothesis.strategies as st
from hypothesis import given

from callboard.mailbox.envelope import Envelope
from callboard.mailbox.lane import Lane
from callboard.mailbox.queue import LaneQueue


def envelope(identifier: int, lane: int = Lane.NORMAL, delay_seconds: float = 0.0) -> Envelope:
    return Envelope(identifier, 0, "/a", "/b", int(lane), "note", 1, "{}", delay_seconds=delay_seconds)


def take(queue: LaneQueue, now: float = 0.0, lanes: int = 3) -> int | None:
    found = queue.take(now, lanes)
    return None if found is None else found.id


def test_queue_lanes_go_first_then_order_of_arrival() -> None:
    queue = LaneQueue()
    for identifier, lane in ((1, 2), (2, 2), (3, 1), (4, 0), (5, 1), (6, 0)):
        queue.put(envelope(identifier, lane), 0.0)
    assert [take(queue) for _ in range(7)] == [4, 6, 3, 5, 1, 2, None]


def test_queue_back_off_blocks_its_own_lane_only() -> None:
    queue = LaneQueue()
    for identifier, lane in ((1, 2), (2, 2), (3, 1)):
        queue.put(envelope(identifier, lane), 0.0)
    assert take(queue) == 3
    first = queue.take(0.0)
    assert first is not None
    first.delay_seconds = 10.0
    queue.put_back(first, 0.0)
    queue.put(envelope(4, Lane.REPLY), 5.0)
    assert take(queue, 5.0) == 4
    assert take(queue, 9.9) is None
    assert queue.next_due() == 10.0
    assert take(queue, 10.0) == 1
    assert take(queue, 10.0) == 2


def test_queue_a_message_put_with_a_delay_waits_and_holds_up_its_lane() -> None:
    queue = LaneQueue()
    queue.put(envelope(1, delay_seconds=5.0), 100.0)
    queue.put(envelope(2), 100.0)
    assert take(queue, 104.0) is None
    assert take(queue, 105.0) == 1
    assert take(queue, 105.0) == 2


def test_queue_the_delay_of_a_message_behind_runs_from_when_it_was_put() -> None:
    queue = LaneQueue()
    queue.put(envelope(1), 0.0)
    queue.put(envelope(2, delay_seconds=10.0), 0.0)
    assert take(queue, 8.0) == 1
    assert take(queue, 9.9) is None
    assert take(queue, 10.0) == 2


def test_queue_takes_only_from_the_lanes_asked_for() -> None:
    queue = LaneQueue()
    queue.put(envelope(1, Lane.NORMAL), 0.0)
    assert take(queue, lanes=1) is None
    assert queue.next_due(lanes=1) is None
    queue.put(envelope(2, Lane.SYSTEM), 0.0)
    assert take(queue, lanes=1) == 2
    assert take(queue) == 1


def test_queue_counts_and_drains() -> None:
    queue = LaneQueue()
    assert len(queue) == 0
    assert queue.next_due() is None
    for identifier, lane in ((1, 2), (2, 1)):
        queue.put(envelope(identifier, lane, delay_seconds=50.0), 0.0)
    assert len(queue) == 2
    assert [e.id for e in queue.drain()] == [2, 1]
    assert len(queue) == 0
    assert queue.next_due() is None
    queue.put(envelope(3), 1.0)
    assert take(queue, 1.0) == 3, "a drained queue has forgotten its back-off"


class Waiting:
    """One message of the model below."""

    def __init__(self, identifier: int, lane: int, due: float) -> None:
        self.id = identifier
        self.lane = lane
        self.due = due


steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 2), st.sampled_from([0.0, 0.0, 3.0])),
        st.tuples(st.just("take"), st.integers(1, 3), st.just(0.0)),
        st.tuples(st.just("fail"), st.integers(1, 3), st.sampled_from([0.0, 2.0])),
        st.tuples(st.just("wait"), st.just(0), st.sampled_from([0.5, 1.0, 4.0])),
    ),
    max_size=60,
)


@given(steps)
def test_queue_is_first_in_first_out_in_each_lane_whatever_happens(program: list[tuple[str, int, float]]) -> None:
    queue, now, made = LaneQueue(), 0.0, 0
    model: list[list[Waiting]] = [[], [], []]
    for what, number, seconds in program:
        if what == "put":
            made += 1
            queue.put(envelope(made, number, seconds), now)
            model[number].append(Waiting(made, number, now + seconds))
        elif what == "wait":
            now += seconds
        else:
            expected = next((lane[0] for lane in model[:number] if lane and lane[0].due <= now), None)
            found = queue.take(now, number)
            assert (found and found.id) == (expected and expected.id)
            if found is None or expected is None:
                continue
            if what == "take":
                model[expected.lane].pop(0)
            else:
                found.delay_seconds = seconds
                queue.put_back(found, now)
                expected.due = now + seconds
        assert len(queue) == sum(map(len, model))
        dues = [lane[0].due for lane in model if lane]
        assert (queue.next_due() is None) == (not dues)
