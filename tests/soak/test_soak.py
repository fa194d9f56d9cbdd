"""A tenth of `make soak`, and some seconds of `make chaos`: real daemons, a real PostgreSQL, and all of it counted."""

import pytest

from callboard.bench import soak


@pytest.mark.timeout(300)
def test_a_tenth_of_the_soak_leaves_an_exact_ledger_and_charges_nobody() -> None:
    report = soak.run(soak.Sizes(minutes=0.5, seed=20), quiet=True)
    assert report.ok, "\n".join(soak.told(report))
    sigterms = report.deeds["sigterm daemon"] + report.deeds["sigterm node"]
    kills = report.deeds["kill daemon"] + report.deeds["kill node"]
    assert (sigterms, kills, report.deeds["restart database"]) == (5, 5, 1), report.deeds
    assert report.ledger.expected == 2 * report.runs > 0
    assert report.readyz.ready_lives >= 2 and report.readyz.seen_ending > 0 and report.readyz.seen_outages > 0


@pytest.mark.timeout(300)
def test_nodes_that_are_frozen_past_their_lease_and_cut_off_leave_an_exact_ledger() -> None:
    report = soak.run(soak.Sizes("chaos", minutes=0.15, seed=20), quiet=True)
    assert report.ok, "\n".join(soak.told(report))
    assert set(report.deeds) == {"kill node", "freeze node", "cut connections", "restart database"}
