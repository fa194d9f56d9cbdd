"""What it takes to approve a call: the tiers, what is repeated, who may not, and the least hold of a screen."""

from decimal import Decimal
from typing import Any

import msgspec
import pytest

from callboard.persistence.rows import Decision
from callboard.service.operations.demands import Demand, demand_of
from callboard.service.operations.money import read_typed
from callboard.service.operations.principal import Channel, Principal
from callboard.service.operations.views import ApprovalView, approval_view


def view(arguments: dict[str, Any], **more: Any) -> ApprovalView:
    written = msgspec.json.encode(arguments).decode()
    row = Decision("d.1", "/a/run:1", "1", 1, "/a/approvals", "approval", "pay", written, "0" * 64, "why")
    checks = more.pop("checks", None)
    for name, value in more.items():
        setattr(row, name, value)
    if checks is not None:
        row.checks = msgspec.json.encode(checks).decode()
    return approval_view(row, "1")


def demand(one: ApprovalView, channel: Channel = "cli", name: str = "mara") -> Demand:
    return demand_of(one, Principal(name, channel))


@pytest.mark.parametrize(
    ("arguments", "more", "tier"),
    [
        ({"to": "ann"}, {"risk": "low"}, "low"),
        ({"to": "ann"}, {"risk": "medium"}, "low"),
        ({"amount": "12.00"}, {"risk": "low"}, "money"),
        ({"amount": "480,00"}, {"risk": "low"}, "high"),
        ({"amount": "12.00"}, {"risk": "high"}, "high"),
        ({"to": "ann"}, {"risk": "high"}, "high"),
        ({"amount": "12.00"}, {"risk": "low", "checks": [{"check": "a", "ok": False}]}, "high"),
        ({"amount": "12.00"}, {"risk": "low", "checks": [{"check": "a", "ok": True}]}, "money"),
        ({"amount": "12.00"}, {"risk": "never"}, "never"),
    ],
)
def test_the_tier_follows_from_the_risk_the_sums_and_the_checks(
    arguments: dict[str, Any], more: dict[str, Any], tier: str
) -> None:
    assert demand(view(arguments, **more)).tier == tier


def test_every_sum_is_repeated_and_high_risk_says_why() -> None:
    one = demand(view({"amount": "480.00", "currency": "EUR", "fee": 3}, risk="high"))
    assert [(each.field, each.text, each.currency) for each in one.repeat] == [
        ("amount", "480.00", "EUR"),
        ("fee", "3", "EUR"),
    ]
    assert one.missing([], "") == "type amount" and one.missing(["480.00", "4"], "x") == "that is not fee"
    assert one.missing(["480,00", "3"], " ") == "say why in the note" and one.missing(["480.00", "3.00"], "x") == ""


def test_without_a_sum_high_risk_has_the_tool_s_name_typed() -> None:
    one = demand(view({"to": "ann"}, risk="high"))
    assert [(each.text, each.word) for each in one.repeat] == [("pay", True)]
    assert one.missing(["Pay"], "x") == "that is not pay" and one.missing(["pay"], "x") == ""


def test_a_sum_that_cannot_be_read_is_repeated_letter_by_letter() -> None:
    one = demand(view({"amount": "480 000,0"}, risk="low"))
    assert one.missing(["480000.0"], "x") == "that is not the amount" and one.missing(["480 000,0"], "x") == ""


@pytest.mark.parametrize(("tier", "least"), [("medium", 10.0), ("high", 60.0)])
def test_a_screen_holds_money_for_a_while_and_a_command_as_long_as_policy_says(tier: str, least: float) -> None:
    one = view({"amount": "12.00"}, risk=tier)
    assert (demand(one, "tui").hold_seconds, demand(one).hold_seconds) == (least, 0.0)
    longer = view({"amount": "12.00"}, risk=tier, hold_seconds=600.0)
    assert (demand(longer, "tui").hold_seconds, demand(longer).hold_seconds) == (600.0, 600.0)


def test_who_may_not_approve_hears_why() -> None:
    own = view({"amount": "1.00"}, requested_by="mara", not_requester=True, policy="four eyes")
    assert demand(own).refused == "own" and "you started this run; policy four eyes" in demand(own).why
    assert demand(own, name="ana").refused == ""
    signatures = msgspec.json.encode([{"by": "mara", "label": "", "at": 1.0, "note": ""}]).decode()
    signed = view({"amount": "1.00"}, needed=2, signatures=signatures)
    assert demand(signed).refused == "signed" and demand(signed).missing(["1.00"], "x") == demand(signed).why
    looker = demand_of(view({"amount": "1.00"}), Principal("mara", "tui", scopes=frozenset({"read"})))
    assert looker.refused == "rights"
    assert demand(view({"amount": "1.00"}, risk="never")).refused == "never"


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        ("480.00", "480.00"), ("480,00", "480.00"), ("480", "480"), (" 480.00 ", "480.00"), ("1,900.00", "1900.00"),
        ("1.900,00", "1900.00"), ("-5,00", "-5.00"), ("1900,00", "1900.00"),
    ],
)  # fmt: skip
def test_a_sum_may_be_typed_as_people_write_it(typed: str, value: str) -> None:
    assert read_typed(typed) == Decimal(value)


@pytest.mark.parametrize(
    "typed",
    ["480,0", "480,000", "1,900", "480.00 USD", "€480.00", "1,90.00", "12,34,567.00", "1.900.00", "4 80", "", "nan"],
)
def test_what_could_be_read_in_two_ways_or_is_none_is_no_sum(typed: str) -> None:
    assert read_typed(typed) is None
