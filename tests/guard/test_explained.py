"""What standard and strict make of dates, of addresses that nobody wrote, and of secrets."""

from typing import Any

import pytest

from callboard.actors.agent.counting import Counted
from callboard.actors.agent.events import Provenance, RequestedCall
from callboard.actors.agent.facts import Facts
from callboard.actors.agent.suspicion import terms_of_values
from callboard.actors.agent.tool import Tool, tool
from callboard.actors.guard.dates import as_date, days, years
from callboard.actors.guard.profiles import PROFILES, Effect
from callboard.actors.guard.taint import Label, Source, Sources

CARD = "4237-4252-7456-2574"


def sources(trusted: str, untrusted: str = "") -> Sources:
    made = Sources()
    made.add(trusted, Source("goal", "trusted"))
    made.add(untrusted, Source("tool", "untrusted", "read#1"))
    return made


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("from january 11th to january 15th 2025", {(1, 11), (1, 15)}),
        ("from the 1st to the 5th of may 2024", {(5, 1), (5, 5)}),
        ("3 sept. and dec 24", {(9, 3), (12, 24)}),
        ("2025-02-28 10:00", {(2, 28)}),
        ("01/11/2025", {(1, 11), (11, 1)}),
        ("31.12.2025", {(12, 31)}),
        ("february 30, 2025-13-40, 4711 and 10.5", set()),
    ],
)
def test_days_are_found_however_they_are_written(text: str, expected: set[tuple[int, int]]) -> None:
    assert days(text) == expected


def test_years_and_whole_dates() -> None:
    assert years("2024, 12024, 1812 and 2199") == {2024, 2199}
    assert as_date("2024-02-30") is None and as_date("on 2024-02-28") is None
    assert str(as_date(" 2024-02-29 ")) == "2024-02-29"


def test_a_date_is_trusted_where_a_trusted_text_names_day_and_year() -> None:
    found = sources("a room from January 11th to 15th 2025", "come on May 1st 2024")
    assert [found.of_value(value).trust for value in ("2025-01-11", "2025-01-15")] == ["trusted"] * 2  # type: ignore[union-attr]
    other_year, theirs, nobodys = map(found.of_value, ("2031-01-11", "2024-05-01", "2025-03-03"))
    assert other_year is not None and (other_year.kind, other_year.origin) == ("novel", "a date")
    assert theirs is not None and (theirs.kind, theirs.trust) == ("tool", "untrusted"), "rewritten, and followed"
    assert nobodys is not None and (nobodys.kind, nobodys.origin) == ("novel", "a date")


@pytest.mark.parametrize("value", ["a@b.example", "https://b.example/x", "Write to a@b.example from now on, please"])
def test_an_address_that_nobody_wrote_is_told_from_another_new_value(value: str) -> None:
    found = sources("Pay Bob").of_value(value)
    assert found is not None and (found.kind, found.origin) == ("novel", "an address")
    plain = sources("Pay Bob").of_value("4711")
    assert plain is not None and (plain.kind, plain.origin) == ("novel", "")


def with_card(goal: str) -> Sources:
    made = sources(goal)
    labels: dict[str, Label] = {"card": "secret", "street": "secret", "email": "trusted"}
    value = {"card": CARD, "street": "Elm Street", "email": "a@b.example"}
    made.add_values(value, lambda path: labels.get(str(path[0]), "untrusted"), lambda path: f"who#1.{path[0]}")
    return made


@pytest.mark.parametrize("text", [CARD, CARD.replace("-", ""), f"Your card is {CARD}", "She lives in Elm Street now"])
def test_a_secret_is_seen_in_a_value_in_other_spacing_and_in_a_sentence(text: str) -> None:
    [one] = with_card("Book a room").explain({"body": text}, {})
    assert (one.source.kind, one.source.trust) == ("secret", "trusted")


def test_what_the_user_says_openly_is_no_secret_and_a_field_beside_one_is_none() -> None:
    found = with_card(f"Book with card {CARD}").explain({"body": f"My card is {CARD}", "to": "a@b.example"}, {})
    assert all(one.source.kind != "secret" for one in found)


def held(profile: str, effect: Effect, source: str, trust: Any, origin: str = "") -> bool:
    @tool(effect=effect)
    def act(x: str) -> None:
        """Act."""

    made: Tool = act
    call = RequestedCall("c1", "act", {"x": "y"}, provenance=[Provenance("x", source, trust, origin)])
    return bool(list(terms_of_values(call, made, Facts(PROFILES[profile], "r", counted=Counted()))))


@pytest.mark.parametrize(
    ("source", "origin", "standard", "strict"),
    [
        ("novel", "", ("money",), ("egress", "money")),
        ("novel", "a date", (), ("egress", "money")),
        ("novel", "an address", ("egress", "money"), ("egress", "money")),
        ("secret", "who#1.card", ("egress", "money"), ("egress", "money")),
        ("tool", "read#1", ("write", "egress", "money"), ("write", "egress", "money")),
    ],
)
def test_for_which_effects_a_value_asks(
    source: str, origin: str, standard: tuple[str, ...], strict: tuple[str, ...]
) -> None:
    trust = "trusted" if source == "secret" else "untrusted"
    effects: tuple[Effect, ...] = ("write", "egress", "money")
    assert tuple(one for one in effects if held("standard", one, source, trust, origin)) == standard
    assert tuple(one for one in effects if held("strict", one, source, trust, origin)) == strict
