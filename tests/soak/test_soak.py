"""A tenth of `make soak`, and some seconds of `make chaos`: real daemons, a real PostgreSQL, and all of it counted."""

import pytest

from callboard.bench import daemons, readiness, soak, storm


@pytest.fixture(autouse=True)
def beside_much_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """What /readyz may take to tell, how long a database is away, and how long all may take to begin and to end, on a
    machine that is busy with other tests."""
    monkeypatch.setattr(readiness, "ANSWER_SECONDS", 30.0)
    monkeypatch.setattr(readiness, "ENDING_SECONDS", 10.0)
    monkeypatch.setattr(readiness, "OUTAGE_SECONDS", 14.0)
    monkeypatch.setattr(readiness, "WELL_SECONDS", 30.0)
    monkeypatch.setattr(readiness, "SLACK_SECONDS", 2.0)
    monkeypatch.setattr(storm, "MIN_DOWN_SECONDS", 18.0)
    monkeypatch.setattr(storm, "MAX_DOWN_SECONDS", 20.0)
    monkeypatch.setattr(daemons, "READY_SECONDS", 300.0)
    monkeypatch.setattr(daemons, "END_SECONDS", 120.0)
    monkeypatch.setattr(soak, "REST_SECONDS", 400.0)
    monkeypatch.setattr(soak, "GONE_SECONDS", 120.0)
    # What is asked to end does so when all is done; before that only where it takes for ever.
    monkeypatch.setenv("CALLBOARD_DRAIN_SECONDS", "60")


@pytest.mark.timeout(900)
def test_a_tenth_of_the_soak_leaves_an_exact_ledger_and_charges_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    # Nobody is frozen here; a node that is silent for a moment, and taken over while it drains, would not end with 0.
    monkeypatch.setenv("CALLBOARD_LEASE_SECONDS", "10")
    report = soak.run(soak.Sizes(minutes=0.5, seed=20), quiet=True)
    assert report.ok, "\n".join(soak.told(report))
    sigterms = report.deeds["sigterm daemon"] + report.deeds["sigterm node"]
    kills = report.deeds["kill daemon"] + report.deeds["kill node"]
    assert (sigterms, kills, report.deeds["restart database"]) == (5, 5, 1), report.deeds
    assert report.ledger.expected == 2 * report.runs > 0
    assert report.readyz.ready_lives >= 2 and report.readyz.seen_ending > 0 and report.readyz.seen_outages > 0


@pytest.mark.timeout(900)
def test_nodes_that_are_frozen_past_their_lease_and_cut_off_leave_an_exact_ledger(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CALLBOARD_LEASE_SECONDS", "6")
    monkeypatch.setattr(storm, "MIN_FROZEN_SECONDS", 9.0)
    monkeypatch.setattr(storm, "MAX_FROZEN_SECONDS", 11.0)
    report = soak.run(soak.Sizes("chaos", minutes=0.15, seed=20), quiet=True)
    assert report.ok, "\n".join(soak.told(report))
    assert set(report.deeds) == {"kill node", "freeze node", "cut connections", "restart database"}
