"""The rows of a table: whatever is put in, taken away or put elsewhere, the list never moves under the cursor."""

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from callboard.tui.table_rows import CAP, Row, Rows
from callboard.tui.text import line

KEYS = st.lists(st.integers(0, 60).map(str), unique=True, max_size=40)


def row(key: str, text: str = "") -> Row:
    return Row(key, (line(text or key),))


class RowsOfAList(RuleBasedStateMachine):
    """A list that changes, seen through a window that is looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = Rows()

    def hold(self, keys: list[str], *, start: bool = True, end: bool = True) -> None:
        """Show these, and check that the cursor stays where it is."""
        before, key, line_ = list(self.rows.index), self.rows.key, self.rows.at - self.rows.top
        self.rows.replace([row(one) for one in keys], start=start, end=end)
        if not keys:
            assert self.rows.key == ""
            return
        if key in keys:
            assert self.rows.key == key
        elif left := [one for one in before[before.index(key) :] if one in keys] if key else []:
            assert self.rows.key == left[0], "the next one that is left has the cursor's place"
        assert self.rows.at - self.rows.top == min(line_, self.rows.at), "it is on its line of the screen"

    @initialize(keys=KEYS, lines=st.integers(1, 12))
    def opened(self, keys: list[str], lines: int) -> None:
        self.rows.resize(lines)
        self.hold(keys)

    @rule(keys=KEYS, start=st.booleans(), end=st.booleans())
    def shown_another_window(self, keys: list[str], start: bool, end: bool) -> None:
        self.hold(keys, start=start, end=end)

    @rule(data=st.data())
    def one_inserted(self, data: st.DataObject) -> None:
        keys = list(self.rows.index)
        keys.insert(data.draw(st.integers(0, len(keys))), data.draw(st.integers(100, 10_000).map(str)))
        self.hold(list(dict.fromkeys(keys)))

    @rule(data=st.data())
    def some_deleted(self, data: st.DataObject) -> None:
        if self.rows.held:
            gone = data.draw(st.sets(st.sampled_from(sorted(self.rows.index))))
            self.hold([key for key in self.rows.index if key not in gone])

    @rule(data=st.data())
    def sorted_otherwise(self, data: st.DataObject) -> None:
        self.hold(data.draw(st.permutations(list(self.rows.index))))

    @rule(keys=KEYS, below=st.booleans(), more=st.booleans())
    def page_put_to_an_end(self, keys: list[str], below: bool, more: bool) -> None:
        key, line_ = self.rows.key, self.rows.at - self.rows.top
        before = list(self.rows.index)
        self.rows.extend([row(one) for one in keys], below=below, more=more)
        fresh = [one for one in keys if one not in before]
        assert list(self.rows.index) == ([*before, *fresh] if below else [*fresh, *before])
        assert not key or self.rows.key == key
        assert not key or self.rows.at - self.rows.top == line_

    @rule(by=st.integers(-50, 50))
    def moved(self, by: int) -> None:
        at = self.rows.at
        self.rows.go(at + by)
        assert self.rows.at == max(0, min(at + by, len(self.rows.held) - 1))

    @rule(top=st.integers(-5, 50))
    def scrolled(self, top: int) -> None:
        self.rows.scroll(top)

    @rule(lines=st.integers(1, 12))
    def resized(self, lines: int) -> None:
        key = self.rows.key
        self.rows.resize(lines)
        assert self.rows.key == key

    @invariant()
    def the_cursor_is_in_sight(self) -> None:
        assert not self.rows.held or self.rows.at in self.rows.in_sight
        assert self.rows.top >= 0

    @invariant()
    def keys_are_found_where_they_are(self) -> None:
        assert self.rows.index == {one.key: number for number, one in enumerate(self.rows.held)}

    @invariant()
    def what_is_in_sight_is_not_unseen(self) -> None:
        sight = self.rows.in_sight
        for unseen, beyond in (
            (self.rows.unseen_above, range(sight.start)),
            (self.rows.unseen_below, range(sight.stop, 10**6)),
        ):
            assert all(self.rows.index[key] in beyond for key in unseen)


TestR4TheCursorSticksToItsKeyA16 = RowsOfAList.TestCase
TestR4TheCursorSticksToItsKeyA16.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)


def held(count: int, *, lines: int = 10, first: int = 0) -> Rows:
    rows = Rows()
    rows.resize(lines)
    rows.replace([row(str(number)) for number in range(first, first + count)], start=True, end=True)
    return rows


def test_d7_rows_above_come_in_out_of_sight_even_where_all_would_fit() -> None:
    rows = held(3)
    rows.replace([row(key) for key in ("new", "newer", "0", "1", "2")], start=True, end=True)
    assert (rows.key, rows.at - rows.top) == ("0", 0)
    assert rows.unseen_above == {"new", "newer"}
    rows.go(1)
    assert (rows.top, rows.unseen_above) == (1, {"new"}), "what has come to sight has been seen"
    rows.go(0)
    assert not rows.unseen_above


def test_r3_rows_below_are_counted_until_they_are_seen() -> None:
    rows = held(12)
    rows.replace([row(str(number)) for number in range(15)], start=True, end=True)
    assert rows.unseen_below == {"12", "13", "14"}
    rows.replace([row(str(number)) for number in range(14)], start=True, end=True)
    assert rows.unseen_below == {"12", "13"}, "what has gone again is not waited for"
    rows.go(12)
    assert rows.unseen_below == {"13"}


def test_what_lies_beyond_an_edge_that_is_no_end_is_not_new() -> None:
    rows = Rows()
    rows.resize(5)
    rows.replace([row(str(number)) for number in range(10, 20)], start=False, end=False)
    rows.replace([row(str(number)) for number in range(30)], start=True, end=True)
    assert not rows.unseen_above | rows.unseen_below
    rows.extend([row("x")], below=True, more=False)
    assert not rows.unseen_below, "a page is no news"


def test_another_list_is_not_new() -> None:
    rows = held(20)
    rows.replace([row(f"other{number}") for number in range(20)], start=True, end=True)
    assert not rows.unseen_above | rows.unseen_below


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(1, 400)), max_size=20))
def test_no_more_than_the_cap_is_held_and_what_went_can_be_wanted_again(pages: list[tuple[bool, int]]) -> None:
    rows, low, high = held(100, first=10**6), 10**6, 10**6 + 100
    for below, size in pages:
        numbers = range(high, high + size) if below else range(low - size, low)
        rows.go(len(rows.held) - 1 if below else 0)
        key = rows.key
        rows.extend([row(str(number)) for number in numbers], below=below, more=False)
        keys = [int(one.key) for one in rows.held]
        low, high = keys[0], keys[-1] + 1
        assert len(keys) <= CAP
        assert rows.key == key
        assert keys == list(range(low, high)), "there is no hole"
        assert rows.end if below else rows.start
    total = 100 + sum(size for _, size in pages)
    assert total <= CAP or not (rows.start and rows.end)


def test_only_rows_that_differ_are_told_of() -> None:
    rows = held(5)
    assert rows.change([row("1"), row("2", "changed"), row("gone")]) == [2]
    before = list(rows.held)
    rows.replace([row("0"), row("1"), row("2", "again")], start=True, end=True)
    assert rows.held[0] is before[0]
    assert rows.held[2] is not before[2]
