"""Personal data: what is found, what is not, how long it takes, and that it comes back."""

from collections.abc import Iterator
from time import thread_time

import pytest

from callboard.actors.guard.pii import Placeholders, detectors_of, find, unresolved
from callboard.actors.guard.profiles import PII_KINDS, BadProfile


def kinds(text: str) -> list[tuple[str, str]]:
    return [(one.kind, text[one.start : one.end]) for one in find(text)]


@pytest.mark.parametrize(
    "phone",
    [
        "+14155552671",
        "+1 415 555 2671",
        "(415) 555-2671",
        "415-555-2671",
        "415.555.2671",
        "+44 20 7946 0958",
        "+91 98765 43210",
        "020 7946 0958",
        "0044 20 7946 0958",
    ],
)
def test_da130_telephone_numbers_are_found(phone: str) -> None:
    assert kinds(f"Call {phone}, please.") == [("phone", phone)]


@pytest.mark.parametrize(
    "identifier",
    [
        "A-8891",
        "ORD-20240115-0001",
        "INV-2024-000123456",
        "#W2378156",
        "1234567890",
        "2024-01-15 10:30:00",
        "550e8400-e29b-41d4-a716-446655440000",
        "192.168.100.200",
        "1,234,567,890",
        "credit_card_9513926",
        "1732932000000000000",
    ],
)
def test_da130_business_identifiers_are_not(identifier: str) -> None:
    assert kinds(f"See {identifier} for it.") == []


@pytest.mark.parametrize("card", ["4111 1111 1111 1111", "4111111111111111", "5500-0000-0000-0004", "340000000000009"])
def test_da130_cards_need_their_checksum(card: str) -> None:
    assert kinds(f"card {card}.") == [("credit_card", card)]
    wrong = card[:-1] + str((int(card[-1]) + 1) % 10)
    assert ("credit_card", wrong) not in kinds(f"card {wrong}.")


def test_da130_ibans_need_theirs_and_end_where_words_begin() -> None:
    assert kinds("to DE89 3704 0044 0532 0130 00 please") == [("iban", "DE89 3704 0044 0532 0130 00")]
    assert kinds("to GB82WEST12345698765432") == [("iban", "GB82WEST12345698765432")]
    assert kinds("to GB83WEST12345698765432") == []


def test_addresses() -> None:
    assert kinds("<john.doe+x@mail.example.co.uk>, a@b.c1 and a@b") == [("email", "john.doe+x@mail.example.co.uk")]


@pytest.mark.parametrize(
    "text",
    [
        "a" * 200_000,
        "a@" * 100_000,
        "a.a@a." * 33_000,
        "4 " * 100_000,
        "+1 " * 66_000,
        "AA11 " * 40_000,
        "x@" + "-" * 200_000,
    ],
    ids=["a", "a@", "a.a@a.", "4 ", "+1 ", "AA11", "x@--"],
)
def test_da131_w30_200_kb_of_anything_take_well_under_a_second(text: str) -> None:
    began = thread_time()
    find(text)
    # A quarter of a second of this thread's own time; quadratic patterns take minutes.
    assert thread_time() - began < 10


def test_the_same_value_has_the_same_name_and_comes_back() -> None:
    hidden = Placeholders(detectors_of(PII_KINDS))
    first, _ = hidden.hide("Write to Ann@Home.example or bob@home.example, +44 20 7946 0958")
    second, found = hidden.hide("ann@home.example again, tel. +442079460958")
    assert first == "Write to <EMAIL_1> or <EMAIL_2>, <PHONE_1>"
    assert second == "<EMAIL_1> again, tel. <PHONE_1>"
    assert [name for _, name in found] == ["<EMAIL_1>", "<PHONE_1>"]
    assert hidden.restore("<EMAIL_2>, <email_1>, <EMAIL_3>") == "bob@home.example, Ann@Home.example, <EMAIL_3>"
    assert hidden.restore_values({"to": ["<EMAIL_2>"], "n": 1}) == {"to": ["bob@home.example"], "n": 1}


def test_text_cannot_name_a_value_that_it_does_not_know() -> None:
    hidden = Placeholders(detectors_of(("email",)))
    hidden.hide("a@home.example")
    shown, _ = hidden.hide("Send it to <EMAIL_1>, <email_1>")
    assert hidden.restore(shown) == shown
    kept, _ = hidden.hide("I send it to <EMAIL_1>", keep=True)
    assert hidden.restore(kept) == "I send it to a@home.example"


def test_what_stands_for_nothing_is_found() -> None:
    assert unresolved({"a": ["x", {"b": "to <EMAIL_9>"}]}) == "<EMAIL_9>"
    assert unresolved({"a": ["x < y", 5, None], "b": "<b>"}) is None


def test_kinds_of_ones_own_are_found_and_unknown_ones_are_refused() -> None:
    def badges(text: str) -> Iterator[tuple[int, int]]:
        at = text.find("BADGE")
        if at >= 0:
            yield at, at + 8

    hidden = Placeholders(detectors_of(("badge",), {"badge": badges}))
    assert hidden.hide("see BADGE123, a@home.example")[0] == "see <BADGE_1>, a@home.example"


@pytest.mark.parametrize("fault", ["raises", "beyond"])
def test_a_detector_that_fails_hides_everything(fault: str) -> None:
    def broken(text: str) -> Iterator[tuple[int, int]]:
        if fault == "raises":
            raise ZeroDivisionError
        yield 3, 10_000

    hidden = Placeholders(detectors_of(("badge",), {"badge": broken}))
    assert hidden.hide("see BADGE123")[0] == "<BADGE_1>"


def test_a_kind_that_nobody_finds_is_refused() -> None:
    with pytest.raises(BadProfile, match="no detector for personal data of kind 'badge'"):
        detectors_of(("badge",))
