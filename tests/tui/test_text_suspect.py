"""What the decide dialog warns of in an argument: what nobody sees, and what looks like something else."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.tui.text_suspect import suspicions

from .test_text import ANY, assert_safe


@pytest.mark.parametrize(
    "text",
    [
        "",
        "item damaged, photos on ticket",
        "Müller & Söhne",
        "a\tb\nc",
        "日本語 カタカナ ひらがな B2B",
        "Привет мир",
        "❤\ufe0f 480.00 €",
    ],
)
def test_nothing_is_said_of_honest_text(text: str) -> None:
    assert suspicions(text) == []


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        ("\u202e00.084\u202c", "holds 2 hidden characters, shown as \\u202e, \\u202c"),
        ("a\u200bb", "holds 1 hidden character, shown as \\u200b"),
        ("x\ufe0f", "holds 1 hidden character, shown as \\ufe0f"),
        ("❤\U000e0101", "holds 1 hidden character, shown as \\U000e0101"),
        ("N\u043erdlicht GmbH", "mixes alphabets in “N\u043erdlicht” (Cyrillic \u043e)"),
        ("\u0410\u0441\u0435 Ltd", "has “\u0410\u0441\u0435”, which looks Latin and is Cyrillic"),
        ("Cust\uff4fmer", "mixes alphabets in “Cust\uff4fmer” (Fullwidth \uff4f)"),
        ("48\uff10.00", "holds digits of another script (fullwidth digit zero)"),
        (
            "\u05d0\u05d1 480",
            "is written from right to left in parts; some terminals turn what is beside it around",
        ),
    ],
)  # fmt: skip
def test_r7_what_is_hidden_or_looks_like_something_else_is_said(text: str, warned: str) -> None:
    assert suspicions(text) == [warned]


@settings(deadline=None)
@given(ANY | st.text(alphabet="aоα٣\u202eא\U0001d400"))
def test_r7_the_warning_itself_is_safe(text: str) -> None:
    for one in suspicions(text):
        assert_safe(one)
