"""The grammar of filters: what fits, what is refused and how, and that narrowing never leaves out a row that fits."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.service.operations.filters import MAX_CHARS, Field, Filter, FilterError, completed, parse

STATES = ("NEEDS YOU", "DEAD", "RETRY", "RECOVERING", "IDLE")
FIELDS = (
    Field("state", "word", "what it does", STATES),
    Field("address", "path"),
    Field("tool"),
    Field("amount", "money"),
    Field("left", "duration"),
)
ROW: dict[str, Any] = {
    "state": "NEEDS YOU",
    "address": "/desk/refund:8841",
    "tool": "refund.issue",
    "amount": [Decimal("480.00"), Decimal("3.10")],
    "left": 1_500.0,
}


def fits(text: str, row: dict[str, Any] = ROW) -> bool:
    return parse(text, FIELDS).fits(row.get)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "state:needs",
        "state:needs_you",
        'state:"needs you"',
        "state:dead,needs",
        "state:NEEDS-YOU",
        "-state:idle",
        "tool:refund",
        "tool:Refund.*",
        "tool:*.issue",
        "tool=refund.issue",
        "amount>100",
        "amount>=480",
        "amount:480",
        "amount<10",
        "left<30m",
        "left>20m",
        "left<1h30m",
        "address:/desk/*",
        "address:/desk",
        "address:8841",
        "/desk/ref",
        "refund",
        "REFUND 8841",
        '"refund:8841"',
        "-payout",
        "state:needs amount>100 tool:refund.* left<30m -tool:payout.*",
    ],
)
def test_a_row_fits_what_is_true_of_it(text: str) -> None:
    assert fits(text)


@pytest.mark.parametrize(
    "text",
    [
        "state:dead",
        "-state:needs",
        "tool=refund",
        "tool:*.send",
        'tool:"refund.*"',
        "amount>480",
        "left<25m",
        "left<10s",
        "address=/desk",
        "address:/refund",
        "/refund",
        "payout",
        "-refund",
        "state:needs payout",
    ],
)
def test_a_row_does_not_fit_what_is_not(text: str) -> None:
    assert not fits(text)


def test_a_row_without_the_value_fits_no_word_about_it_but_its_negation() -> None:
    assert not fits("left<30m", {})
    assert fits("-left<30m", {})
    assert not fits("amount>1", {"amount": float("nan")})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("stat:dead", ["'stat:dead'", "did you mean state?", "state, address, tool, amount, left"]),
        ("state:deed", ["'state:deed'", "did you mean dead?", "needs_you, dead, retry"]),
        ("state:", ["state wants a value", "one of needs_you"]),
        ("state>dead", ["write state:value"]),
        ("amount>lots", ["amount wants a number", "480.00"]),
        ("amount>1e99999999", ["amount wants a number"]),
        ("left<30", ["30m"]),
        ("left:30m", ["left>30m or left<30m"]),
        ('tool:"late', ["a quote is not closed"]),
        ("-", ["nothing to look for"]),
        ("refund:8841", ["there is no field 'refund'", "in quotes it is looked for as text"]),
        ("x" * (MAX_CHARS + 1), [str(MAX_CHARS)]),
    ],
)
def test_what_means_nothing_is_refused_with_the_word_the_fields_and_a_way_out(text: str, words: list[str]) -> None:
    with pytest.raises(FilterError) as refusal:
        parse(text, FIELDS)
    for word in words:
        assert word in str(refusal.value)


def test_a_store_can_narrow_by_what_the_filter_names() -> None:
    found = parse("state:dead,re -state:recovering address:/desk/ amount>100 amount<=500 left<30m", FIELDS)
    assert found.pick("state") == ("DEAD", "RETRY")
    assert found.prefix("address") == "/desk/"
    assert found.bounds("amount") == (100, 500)
    assert found.bounds("left") == (None, 1_800.0)
    assert found.without("state", "left").chips == ("address:/desk/", "amount>100", "amount<=500")
    empty = parse("", FIELDS)
    assert (empty.pick("state"), empty.prefix("address"), empty.bounds("amount")) == ((), "", (None, None))
    assert parse("address=/desk/a", FIELDS).pick("address") == ("/desk/a",)


def test_many_stars_take_no_longer_than_the_text() -> None:
    pattern = "tool:" + "*a" * 200 + "*b"
    assert not fits(pattern, {"tool": "a" * 4_096})


def test_a_word_is_continued_to_a_field_and_to_a_choice() -> None:
    assert completed("st", FIELDS) == "state:"
    assert completed("state:ne", FIELDS) == "state:needs_you"
    assert completed("left<1h -state:dead,re", FIELDS) == "left<1h -state:dead,retry"
    assert completed("zz", FIELDS) == "zz"


SMALL = st.text(alphabet='ab*:,"-<>=/ \\s1m', max_size=30)


@settings(deadline=None)
@given(st.text(max_size=60) | SMALL)
def test_any_text_is_a_filter_or_is_refused_in_words(text: str) -> None:
    try:
        found = parse(text, FIELDS)
    except FilterError:
        return  # any other error fails the test
    found.fits(ROW.get)
    again = parse(" ".join(found.chips), FIELDS)
    assert again == found


@settings(deadline=None)
@given(SMALL, st.sampled_from(["", "x"]))
def test_quoted_text_is_looked_for_letter_by_letter(text: str, more: str) -> None:
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    if not text.strip():
        return
    found = parse(f'tool:"{quoted}"', FIELDS)
    assert found.fits({"tool": f"{more}{text}{more}"}.get)
    assert not found.fits({"tool": "z"}.get)


WORDS = st.sampled_from(
    ["state:re", "-state:dead", "state:dead,idle", "address:/a", "/a/b", "address:/a*b", "address=/a", "amount>5",
     "amount<=9", "-amount>7", "left<1m", "left>=30s", "amount:5,8"]
)  # fmt: skip
ROWS = st.fixed_dictionaries(
    {
        "state": st.sampled_from(STATES),
        "address": st.sampled_from(["/a", "/a/b", "/ab", "/c"]),
        "amount": st.integers(0, 12),
        "left": st.floats(0, 120),
    }
)


@settings(deadline=None)
@given(st.lists(WORDS, max_size=4), st.lists(ROWS, max_size=6))
def test_narrowing_never_leaves_out_a_row_that_fits(words: list[str], rows: list[dict[str, Any]]) -> None:
    found: Filter = parse(" ".join(words), FIELDS)
    for row in rows:
        if not found.fits(row.get):
            continue
        assert not found.pick("state") or row["state"] in found.pick("state")
        assert not found.pick("address") or row["address"] in found.pick("address")
        assert row["address"].startswith(found.prefix("address"))
        for name in ("amount", "left"):
            low, high = found.bounds(name)
            assert low is None or row[name] >= low
            assert high is None or row[name] <= high
