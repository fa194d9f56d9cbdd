"""What the soak judges by: its schedule, its ledger and its rules for /readyz; each of them can say no."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from callboard.bench.payments import Payments
from callboard.bench.readiness import (
    ENDING_SECONDS,
    OUTAGE_SECONDS,
    WELL_SECONDS,
    Answer,
    Facts,
    Outage,
    Readiness,
    judge,
)
from callboard.bench.soak import SoakReport
from callboard.bench.storm import schedule

NEVER = float("inf")
UP = [(2.0, "up 1"), (3.0, "up 2")]


def test_five_minutes_are_50_sigterms_50_kills_and_5_restarts() -> None:
    done = Counter(blow.deed for blow in schedule(1, 5, daemons=2, nodes=2))
    assert done["sigterm daemon"] + done["sigterm node"] == 50
    assert done["kill daemon"] + done["kill node"] == 50
    assert done["restart database"] == 5


def test_a_seed_is_a_schedule() -> None:
    first = schedule(7, 0.5, daemons=2, nodes=2)
    assert first == schedule(7, 0.5, daemons=2, nodes=2)
    assert first != schedule(8, 0.5, daemons=2, nodes=2)
    assert [blow.at_seconds for blow in first] == sorted(blow.at_seconds for blow in first)
    assert {blow.daemon for blow in first} == {0, 1} and {blow.place for blow in first} == {1, 2}
    assert all(0 <= blow.at_seconds < 30 for blow in first)


@pytest.fixture
def payments(tmp_path: Path) -> Payments:
    made = Payments(tmp_path / "payments.db")
    made.create()
    return made


def test_a_key_pays_once_and_an_attempt_that_is_repeated_is_counted(payments: Payments) -> None:
    assert not payments.pay("refund:1", 900, "k1")
    assert payments.pay("refund:1", 900, "k1")
    books = payments.books(["refund:1"])
    assert books.exact and (books.paid, books.attempts, books.repeated) == (1, 2, 1)
    assert payments.find("k1") == "refund:1" and payments.find("k2") is None


def test_an_item_paid_under_two_keys_or_never_or_unasked_is_found(payments: Payments) -> None:
    payments.pay("refund:1", 900, "k1")
    payments.pay("refund:1", 900, "k2")
    payments.pay("refund:3", 900, "k3")
    books = payments.books(["refund:1", "refund:2"])
    assert not books.exact
    assert (books.twice, books.missing, books.foreign) == (["refund:1"], ["refund:2"], ["refund:3"])


def judged(
    answers: Sequence[tuple[float, int]],
    *,
    first_ready: float = 2.0,
    asked_to_end: float = NEVER,
    over: float = NEVER,
    troubles: Sequence[tuple[float, str]] = UP,
    outages: Sequence[Outage] = (),
) -> Readiness:
    found = Readiness()
    facts = Facts(0.0, first_ready, asked_to_end, over, list(troubles))
    judge([Answer(at, at + 0.01, code) for at, code in answers], facts, outages, found)
    return found


def test_readyz_through_a_whole_life_is_right() -> None:
    outage = Outage(50.0, 60.0)
    answers = [(1.0, 503), (2.5, 200), (30.0, 200), (50.1, 200), (56.0, 503), (61.0, 503), (75.0, 200), (80.1, 503)]
    found = judged(answers, asked_to_end=80.0, over=81.0, outages=[outage])
    assert found.wrong == []
    assert (found.transitions, found.ready_lives, found.seen_ending, found.seen_outages) == (4, 1, 1, 1)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ((1.0, 200), "no node served yet"),
        ((30.0, 503), "though all has been well"),
        ((30.0, 0), "though all has been well"),
        ((30.0, 500), "no answer of /readyz"),
        ((50.0 + OUTAGE_SECONDS + 0.1, 200), "after the database went"),
        ((80.0 + ENDING_SECONDS + 0.1, 200), "after it was asked to end"),
    ],
)
def test_each_wrong_answer_of_readyz_is_found(answer: tuple[float, int], problem: str) -> None:
    found = judged([answer], asked_to_end=80.0, over=95.0, outages=[Outage(50.0, 60.0)])
    assert len(found.wrong) == 1 and problem in found.wrong[0]


def test_what_is_asked_of_a_daemon_that_was_killed_is_not_judged() -> None:
    assert judged([(30.0, 0)], over=29.0).answers == 0


def test_a_daemon_that_has_lost_one_of_its_nodes_stays_ready() -> None:
    troubles = [*UP, (30.0, "down 1")]
    assert judged([(30.1, 200), (31.0, 200)], troubles=troubles).wrong == []
    assert judged([(31.0, 503)], troubles=troubles).wrong != []


def test_a_daemon_without_a_node_may_say_503_until_one_has_served_for_a_while() -> None:
    troubles = [*UP, (30.0, "down 1"), (30.0, "down 2"), (33.0, "up 1")]
    assert judged([(30.1, 200), (31.0, 503), (33.1, 503), (34.0, 200)], troubles=troubles).wrong == []
    assert judged([(33.0 + WELL_SECONDS + 0.1, 503)], troubles=troubles).wrong != []


def test_the_recorded_storm_is_of_the_present_shape_and_all_of_it_held() -> None:
    recorded = Path(__file__).resolve().parents[2] / "bench" / "results" / "soak.json"
    report = msgspec.json.decode(recorded.read_bytes(), type=SoakReport)
    assert report.ok and report.minutes == 5.0 and report.ledger.exact
