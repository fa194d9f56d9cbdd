"""The order in which the memory store keeps its mailboxes, against a sorted list."""

from bisect import bisect_right

import hypothesis.strategies as st
from hypothesis import HealthCheck, given, settings

from callboard.persistence.memory.ordered import Ordered


@settings(deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(st.sampled_from(["add", "add", "remove", "first"]), st.integers(0, 300)), max_size=400))
def test_ordered_is_a_sorted_set(program: list[tuple[str, int]]) -> None:
    ordered: Ordered[tuple[int, int]] = Ordered()
    model: list[tuple[int, int]] = []
    for what, number in program:
        key = (number % 3, number)
        if what == "add" and key not in model:
            ordered.add(key)
            model = sorted([*model, key])
        elif what == "remove" and key in model:
            ordered.remove(key)
            model.remove(key)
        elif what == "first" and model:
            ordered.remove(model.pop(0))
        assert list(ordered) == model
        assert len(ordered) == len(model)
        assert ordered.first(3) == model[:3]
        assert list(ordered.after(key)) == model[bisect_right(model, key) :]


def test_ordered_forgets_what_was_taken_from_its_front() -> None:
    ordered: Ordered[tuple[int, int]] = Ordered()
    for n in range(100_000):
        ordered.add((2, n))
        if n >= 10:
            ordered.remove((2, n - 10))
    assert ordered.first(20) == [(2, n) for n in range(99_990, 100_000)]
    assert len(ordered._keys) < 200, "memory does not grow with what has passed through"
