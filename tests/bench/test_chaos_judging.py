"""What a chaos run judges by: its schedule, its findings, its times; each of them can say no."""

from collections import Counter
from pathlib import Path

import msgspec
import pytest

from bench.__main__ import main
from callboard.bench import chaos, chaos_proofs
from callboard.bench.chaos import ChaosReport
from callboard.bench.chaos_load import Races
from callboard.bench.chaos_proofs import NUMBERS, Findings, Refunds, asked, changed, invariants, judge, refunds_of
from callboard.bench.chaos_storm import CALM_SECONDS, FROZEN_SECONDS, PER_MINUTE, schedule
from callboard.bench.chaos_table import told
from callboard.bench.failover import Failovers, Kill, Spread, histogram
from callboard.bench.failover import judge as judge_times
from callboard.crm.ledger import Refund, TicketOutcome
from callboard.mailbox.errors import AlreadyDecided, Conflict, StoreUnavailable
from callboard.persistence.postgres.invariants import Breach

GOOD = Findings(
    tickets=3,
    unfinished=[],
    refunds=Refunds(expected=2, made=2),
    duplicates=[],
    policy=[],
    wrong_tickets=[],
    broken=[],
    dead=[],
    unproved=[],
    changed_after_end=[],
    charged=[],
    won_twice=[],
    refused=[],
    ended=[],
    undrained=[],
)


def test_ten_minutes_are_598_kills_and_ten_kinds_of_other_deeds() -> None:
    kills, blows = schedule(1, 600, kill_every=1)
    assert len(kills) == 598 and kills[:2] == [1.0, 2.0]
    done = Counter(blow.deed for blow in blows)
    assert set(done) == set(PER_MINUTE) and len(done) == 10
    assert done["freeze node"] == 40 and done["full disk"] == done["kill -9 database"] == 5


def test_a_seed_is_a_schedule() -> None:
    first = schedule(7, 60, kill_every=2)
    assert first == schedule(7, 60, kill_every=2) != schedule(8, 60, kill_every=2)
    kills, blows = first
    assert [blow.at_seconds for blow in blows] == sorted(blow.at_seconds for blow in blows)
    assert all(0 <= blow.at_seconds < 60 - CALM_SECONDS and 0 <= blow.who < 1 for blow in blows)
    assert kills[-1] <= 60 - CALM_SECONDS


def test_who_is_frozen_is_frozen_for_longer_than_a_lease() -> None:
    assert FROZEN_SECONDS[0] > chaos.LEASE_SECONDS
    _, blows = schedule(3, 60, kill_every=0, deeds=frozenset({"freeze node"}), often=3.0)
    assert len(blows) == 12 and all(blow.seconds > chaos.LEASE_SECONDS for blow in blows)


def test_what_is_as_it_should_be_is_accepted() -> None:
    assert all(check.ok for check in judge(GOOD))
    assert set(invariants(GOOD)) == set(NUMBERS) and set(invariants(GOOD).values()) == {"holds"}


@pytest.mark.parametrize(
    ("spoiled", "name"),
    [
        ({"unfinished": ["1 of 3 tickets did not end"]}, "every ticket came to its end"),
        ({"refunds": Refunds(2, 3, twice=["T-0001"])}, "each refund exactly once"),
        ({"refunds": Refunds(2, 1, missing=["T-0001"])}, "each refund exactly once"),
        ({"refunds": Refunds(2, 2, missing=["T-0001"], foreign=["T-0009"])}, "each refund exactly once"),
        ({"refunds": Refunds(2, 1)}, "each refund exactly once"),
        ({"policy": ["a refund above the limit without approval"]}, "nothing without the approval it needs"),
        ({"wrong_tickets": ["T-0001 is open"]}, "every ticket decided rightly"),
        ({"won_twice": ["d1: dana, eli"]}, "of people who decide at once, one wins"),
        ({"refused": ["1 times Conflict"]}, "of people who decide at once, one wins"),
        ({"dead": ["/crm/tool: failed"]}, "no dead letter"),
        ({"unproved": ["T-0001"]}, "every run is the fold of its journal"),
        ({"ended": ["n1.2 with 70"]}, "no node ended by itself"),
        ({"undrained": ["n1.2 with 143"]}, "nodes that were asked to end did so with 0"),
        ({"left": [4711]}, "no process is left"),
        ({"tickets": 0}, "there was something to do"),
    ],
)
def test_whatever_is_wrong_is_found(spoiled: dict[str, object], name: str) -> None:
    checks = judge(msgspec.structs.replace(GOOD, **spoiled))
    assert [check.name for check in checks if not check.ok] == [name]


@pytest.mark.parametrize("number", NUMBERS)
def test_each_invariant_that_is_broken_is_named(number: str) -> None:
    broken = msgspec.structs.replace(GOOD, broken=[Breach("some_query", "/a", "because", number)])
    said = invariants(broken)
    assert [one for one, what in said.items() if what != "holds"] == [number]
    [check] = [check for check in judge(broken) if not check.ok]
    assert number in check.detail and "/a" in check.detail


@pytest.mark.parametrize(
    ("spoiled", "number"),
    [
        ({"duplicates": ["one key, several mails"]}, "I8"),
        ({"changed_after_end": ["/a was (1, 2), and is (1, 3)"]}, "I10"),
        ({"charged": ["/crm/desk/agent:T-0001 model.answered: 1"]}, "I12"),
    ],
)
def test_what_only_two_looks_or_the_outside_show_is_named_too(spoiled: dict[str, object], number: str) -> None:
    said = invariants(msgspec.structs.replace(GOOD, **spoiled))
    assert [one for one, what in said.items() if what != "holds"] == [number]


def test_there_is_a_question_for_every_invariant() -> None:
    assert set(NUMBERS) <= asked(), "none is said to hold that nobody has asked about"


def outcome(ticket: str, expected_cents: int) -> TicketOutcome:
    return TicketOutcome(ticket, "damaged", "#1", "resolved", "resolved", 0, expected_cents, None, None, 1, 1)


def refund(ticket: str | None, key: str) -> Refund:
    return Refund(1, "#1", ticket, "card", 900, "USD", "refund", key)


def test_a_refund_that_is_missing_made_twice_or_made_for_nobody_is_found() -> None:
    outcomes = [outcome("T-1", 900), outcome("T-2", 900), outcome("T-3", 0)]
    exact = refunds_of(outcomes, [refund("T-1", "a"), refund("T-2", "b")], 3, 1)
    assert exact.exact and (exact.attempts, exact.repeated) == (3, 1)
    wrong = refunds_of(outcomes, [refund("T-1", "a"), refund("T-1", "b"), refund("T-3", "c"), refund(None, "d")], 4, 0)
    assert (wrong.twice, wrong.missing, wrong.foreign) == (["T-1"], ["T-2"], ["T-3", "order #1"]) and not wrong.exact


def test_an_actor_that_changed_after_its_end_is_found_and_a_new_incarnation_is_not_it() -> None:
    before = {"/a": (1, 4), "/b": (1, 4), "/c": (1, 4), "/d": (1, 4)}
    assert changed(before, {"/a": (1, 4), "/b": (1, 5), "/c": (2, 9)}) == ["/b was (1, 4), and is (1, 5)"]


def test_two_winners_a_winner_who_is_not_on_record_and_odd_answers_are_found() -> None:
    won = {"d1": ["dana"], "d2": ["dana", "eli"], "d3": ["eli"]}
    found = chaos_proofs.won_twice(won, {"d1": "dana", "d2": "dana", "d3": "finn"})
    assert [text.partition(":")[0] for text in found] == ["d2", "d3"]
    races = Races()
    for error in (AlreadyDecided("late"), StoreUnavailable("away"), Conflict("what?")):
        races.note("d1", "dana", error)
    assert (races.late, races.unheard, dict(races.other)) == (1, 1, {"Conflict: what?": 1})


def test_a_take_over_is_timed_from_the_kill_and_apart_where_something_else_went_on() -> None:
    kills = [Kill(10.0, 1, [5, 6]), Kill(20.0, 2, [5]), Kill(30.0, 3, [7], "restart database"), Kill(40.0, 4, [8])]
    ends = {1: [9.0, 10.05], 2: [20.2], 3: [33.0]}
    turns = [(5, 1, 9.9), (6, 1, 10.01), (5, 2, 10.3), (6, 2, 10.2), (5, 4, 20.5), (7, 4, 33.1)]
    found = judge_times(kills, ends, turns)
    assert (found.kills, found.never) == (4, 1)
    assert (found.taken_over.count, found.taken_over.most_ms) == (2, 200.0)
    assert (found.at_work.count, found.at_work.most_ms) == (2, 500.0)
    assert (found.taken_over_in_trouble.count, found.taken_over_in_trouble.most_ms) == (1, 3000.0)


def test_the_histogram_counts_each_time_once() -> None:
    assert histogram([0.010, 0.011, 0.2, 9.0]) == {"<= 10 ms": 1, "<= 20 ms": 1, "<= 250 ms": 1, "> 5000 ms": 1}
    assert Spread.of([]).count == 0


def report(*, fenced: bool, found: Findings = GOOD) -> ChaosReport:
    none = Spread.of([])
    checks = judge(found)
    return ChaosReport(
        seed=1, seconds=1.0, nodes=2, kill_every=1.0, fenced=fenced, took_seconds=2.0, cores=2, load_average=1.0,
        injected={"kill node": 1}, missed={}, skipped={"full disk": "no mount"}, starved=0, lives=3, tickets=3,
        statuses={}, races={"held": 1, "won": 1, "late": 2, "unheard": 0}, refunds=found.refunds,
        failover=Failovers(1, Spread.of([0.03]), none, none, 0), charged=0, invariants=invariants(found),
        checks=checks, ok=all(check.ok for check in checks),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("fenced", "found", "code"),
    [
        (True, GOOD, 0),
        (True, msgspec.structs.replace(GOOD, dead=["/a: x"]), 1),
        (False, msgspec.structs.replace(GOOD, broken=[Breach("stale_turns", "3", "late", "I4")]), 1),
        (False, GOOD, 3),
    ],
)
def test_the_exit_code_is_one_where_anything_is_not_true_and_a_control_that_finds_nothing_is_no_success(
    fenced: bool,
    found: Findings,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(chaos, "run", lambda sizes: report(fenced=sizes.fenced, found=found))
    file = tmp_path / "chaos.json"
    arguments = ["chaos", "--json", "--seconds", "1", "--out", str(file)]
    assert main([*arguments, *([] if fenced else ["--no-fence"])]) == code
    assert msgspec.json.decode(file.read_bytes(), type=ChaosReport).ok is (code in (0, 3))


def test_the_table_says_what_was_skipped_and_what_is_broken() -> None:
    broken = msgspec.structs.replace(GOOD, broken=[Breach("stale_turns", "3", "late", "I4")])
    text = "\n".join(told(report(fenced=False, found=broken)))
    assert "full disk" in text and "skipped: no mount" in text and "✗ I4 stale_turns" in text
    assert "negative control" in text and "NOT all of it holds" in text and "<= 30 ms" in text


def test_the_recorded_run_is_of_the_present_shape_and_the_ledger_and_the_invariants_held() -> None:
    recorded = Path(__file__).resolve().parents[2] / "bench" / "results" / "chaos.json"
    found = msgspec.json.decode(recorded.read_bytes(), type=ChaosReport)
    assert found.fenced and found.refunds.exact
    # That run's people wrote no note where one is wanted, and were refused: see docs/CHAOS.md.
    assert {check.name for check in found.checks if not check.ok} <= {"of people who decide at once, one wins"}
    assert (found.seconds, found.kill_every) == (600.0, 1.0)
    assert {deed for deed in PER_MINUTE if deed not in found.skipped} <= found.injected.keys()
    assert set(found.invariants.values()) == {"holds"}
