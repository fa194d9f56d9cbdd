"""Some seconds of `make chaos`: real processes, a real PostgreSQL; and its negative control, which must be caught."""

import pytest

from callboard.bench import chaos, chaos_nodes, chaos_table
from callboard.bench.chaos import Sizes
from callboard.bench.chaos_storm import Deed

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(autouse=True)
def beside_much_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long all may take to begin and to end, on a machine that is busy with other tests."""
    monkeypatch.setattr(chaos, "REST_SECONDS", 400.0)
    monkeypatch.setattr(chaos_nodes, "LOAD_SECONDS", 300.0)
    monkeypatch.setattr(chaos_nodes, "READY_SECONDS", 300.0)
    monkeypatch.setattr(chaos_nodes, "END_SECONDS", 300.0)


def test_nodes_that_are_killed_frozen_cut_off_and_misled_leave_an_exact_ledger() -> None:
    deeds: list[Deed] = ["freeze node", "cut connections", "half-open connections", "clock jump"]
    report = chaos.run(Sizes(seconds=12.0, nodes=3, seed=20, kill_every=2.0, per_second=4.0, deeds=deeds), quiet=True)
    assert report.ok, "\n".join(chaos_table.told(report))
    assert report.tickets > 0 and report.refunds.expected > 0 and report.races["held"] > 0
    assert report.injected["kill node"] + report.missed.get("kill node", 0) >= 1
    assert report.injected.keys() - {"kill node"} <= set(deeds)


def test_g3_without_the_fence_a_frozen_node_that_wakes_is_caught() -> None:
    # A node has to be frozen while it has something to commit: where none of a storm's was, the next one is drawn.
    for seed in (20, 21, 22, 23):
        sizes = Sizes(seconds=12.0, nodes=3, seed=seed, kill_every=0.0, per_second=4.0, fenced=False)
        report = chaos.run(sizes, quiet=True)
        assert report.injected.get("freeze node", 0) >= 1
        if not report.ok:
            break
    assert "stale_turns" in report.invariants["I4"], "\n".join(chaos_table.told(report))
