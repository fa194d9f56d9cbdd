"""The door: nothing that came through it moves a cursor, hides or turns, and what it lays out fits to the cell."""

import re
import unicodedata
from decimal import Decimal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from callboard.tui.text import (
    Line,
    Piece,
    Role,
    block,
    budget,
    cells,
    content,
    count,
    cut,
    duration,
    fit,
    grid,
    line,
    lines,
    lit,
    money,
    piece,
    plain,
    spark,
    wrapped,
)

HOSTILE = "\x1b\x07\x08\r\n\t\x9b\u202e\u2066\u200b\u200d\ufe0f\u034f\u2800\ue000\U000e0041\u0301\u1161"
ANY = st.text() | st.text(alphabet=HOSTILE + "a0 €語😀❤")
ROLES: list[Role] = ["", "dim", "bad"]
LINES = st.lists(st.tuples(ANY, st.sampled_from(ROLES))).map(lambda it: line(*(piece(*one) for one in it)))


def text_of(one: Line) -> str:
    return "".join(text for text, _ in one)


def assert_safe(text: str) -> None:
    for number, character in enumerate(text):
        assert unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}, repr(text)
        assert not 0xFE00 <= ord(character) <= 0xFE0F
        if not cell_len(character):
            assert number, "a mark at the beginning stands on what is before it on the screen"


@settings(deadline=None)
@given(ANY)
@example("a" + "\u0301" * 40)
@example("\u202e00.084")
@example("x\U000e0101y\ufe00")
def test_d4_nothing_that_came_through_the_door_moves_hides_or_turns(text: str) -> None:
    shown = piece(text).text
    assert_safe(shown)
    assert plain(text) == shown == content(text).plain
    for one in lines(text):
        assert_safe(text_of(one))
    assert not re.search("[^\\W\\d_][\u0300-\u036f]{4}", shown), "marks are stacked over other lines"


@settings(deadline=None)
@given(ANY)
def test_d4_what_is_harmless_comes_through_as_it_is_and_nothing_goes_silently(text: str) -> None:
    shown = piece(text).text
    if text.isascii() and text.isprintable():
        assert shown == text
    for character in text:
        if unicodedata.category(character)[0] in "LNPS" and cell_len(character):
            assert character in shown or f"{ord(character):x}" in shown


def test_d4_markup_is_text() -> None:
    shown = content("[red]x[/red] [@click=app.quit]y[/]")
    assert shown.plain == "[red]x[/red] [@click=app.quit]y[/]"
    assert not shown.spans


def test_a_heart_is_a_heart() -> None:
    assert piece("❤\ufe0f ok").text == "❤ ok"
    assert piece("日本語 é").text == "日本語 é"


@settings(deadline=None)
@given(LINES, st.integers(0, 40), st.booleans())
def test_what_is_fitted_takes_exactly_its_cells(one: Line, width: int, right: bool) -> None:
    assert cells(cut(one, width)) <= width
    assert cells(fit(one, width, right=right)) == width
    assert cells(one) == cell_len(text_of(one))
    if cells(one) <= width:
        assert cut(one, width) == one
        assert text_of(fit(one, width, right=right)).strip(" ") == text_of(one).strip(" ")
    elif width:
        assert text_of(cut(one, width)).endswith("…")


@settings(deadline=None)
@given(LINES, st.integers(0, 40), st.integers(0, 60))
@example(line("aaa bbb"), 3, 0)
@example(line("a bbbbbbbbb"), 10, 4)
@example(line("語" * 9), 3, 1)
def test_d5_wrapping_shows_all_of_it_within_the_width(one: Line, width: int, hang: int) -> None:
    shown = wrapped(one, width, hang=hang)
    assert all(cells(part) <= max(width, 2) for part in shown) or shown == [one]
    indent = min(hang, max(width, 2) - 2)
    rest = text_of(one)
    for number, part in enumerate(shown):
        text = text_of(part)
        assert not number or text.startswith(" " * indent)
        text = text[indent:] if number else text
        if not rest.startswith(text) or (number and not text and rest):
            rest = rest.removeprefix(" ")
        assert rest.startswith(text), (shown, rest)
        rest = rest[len(text) :]
        if number < len(shown) - 1 and rest.startswith(" ") and not text_of(shown[number + 1])[indent:].startswith(" "):
            rest = rest[1:]  # for which the end of the line stands
    assert rest in {"", " "}


def test_wrapping_breaks_between_words_and_keeps_their_roles() -> None:
    one = line("item damaged, ", piece("photos on ticket", "bad"))
    assert [text_of(part) for part in wrapped(one, 16, hang=2)] == ["item damaged, ", "  photos on ", "  ticket"]
    assert wrapped(one, 16)[1] == (Piece("photos on ticket", "bad"),)


@settings(deadline=None)
@given(st.lists(st.tuples(ANY, LINES), max_size=4), st.integers(8, 60))
def test_d5_a_grid_shows_all_of_each_value_under_itself(pairs: list[tuple[str, Line]], width: int) -> None:
    shown = grid(pairs, width)
    assert all(cells(one) <= width for one in shown)
    letters = "".join(text_of(one) for one in shown).replace(" ", "")
    for _, value in pairs:
        for word in text_of(value).split(" "):
            assert all(letter in letters for letter in word)


def test_a_grid_aligns_its_values() -> None:
    shown = [text_of(one) for one in grid([("policy", line("v7")), ("to", line("one two three"))], 16)]
    assert shown == ["policy  v7", "to      one two ", "        three"]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "·"),
        (float("nan"), "·"),
        (-3, "·"),
        (0.0841, "84ms"),
        (9.9, "9s"),
        (44, "44s"),
        (724, "12m 04s"),
        (5400, "1h 30m"),
        (3 * 86_400 + 4 * 3600, "3d 4h"),
        (86_400 * 10.5, "10d"),
        (float("inf"), "9999d"),
    ],
)
def test_a_duration_is_said_in_two_units_that_matter(seconds: float, said: str) -> None:
    assert duration(seconds) == said
    assert len(said) <= 7


@settings(deadline=None)
@given(st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**9), max_value=10**9))
def test_r8_money_is_never_rounded(value: Decimal) -> None:
    said = money(value, "EUR")
    assert Decimal(said.replace("€", "").replace(",", "")) == value


def test_r8_money_has_its_currency_and_is_not_shortened() -> None:
    assert money(Decimal("1276.40"), "EUR") == "€1,276.40"
    assert money(Decimal("-3.50"), "usd") == "-$3.50"
    assert money(Decimal("12.00"), "CHF") == "CHF 12.00"
    assert money(Decimal("480.00")) == "480.00"


def test_all_sparks_share_one_scale() -> None:
    assert spark([0, 1, 2, 4, 8, 16, 32, 64, 128, 10**9]) == " ▁▂▃▄▅▆▇██"
    assert count(0) == "·"
    assert count(10_412) == "10,412"


@settings(deadline=None)
@given(st.none() | st.floats(), st.integers(1, 12))
def test_a_budget_takes_the_same_cells_whatever_is_spent(share: float | None, width: int) -> None:
    assert cells(budget(share, width)) == width + 5


def test_a_budget_says_what_is_spent() -> None:
    assert text_of(budget(0.2)) == "━╌╌╌╌  20%"
    assert budget(0.88)[0] == Piece("━━━━", "bad")
    assert text_of(budget(None)).strip() == ""


def test_a_block_is_one_line_below_the_other() -> None:
    assert block([line("a"), line(piece("b\n", "bad"))]).plain == "a\nb\\n"


def test_what_is_sought_is_lit_wherever_it_stands() -> None:
    one = line("Refund of a re", piece("fund", "bad"))
    assert lit(one, "REFUND") == (
        Piece("Refund", "cursor"), Piece(" of a ", ""), Piece("refund", "cursor"),
    )  # fmt: skip
    assert lit(one, "none") == lit(one, "") == one
