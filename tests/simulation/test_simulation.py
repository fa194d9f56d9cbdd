"""G1 to G9 under simulated faults: a thousand seeds, and that a seed is a seed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.__main__ import command
from tests.simulation.many import Controls, run_many
from tests.simulation.profile import NAMES
from tests.simulation.simulation import simulate

pytestmark = pytest.mark.timeout(900)  # a busy machine is no fault
SEEDS = 1_000
"""More of them: `python -m tests.simulation --seeds 0..100000`."""
PART = 250
JOBS = 2


@pytest.mark.parametrize("first", range(0, SEEDS, PART))
def test_g1_to_g9_hold_whatever_goes_wrong(first: int) -> None:
    with run_many(range(first, first + PART), jobs=JOBS) as chunks:
        outcomes = [outcome for chunk in chunks for outcome in chunk.outcomes]
    assert [outcome.seed for outcome in outcomes] == list(range(first, first + PART))
    assert not {command(Controls(), outcome.seed): outcome.wrong for outcome in outcomes if outcome.wrong}


def test_how_many_processes_share_the_seeds_changes_nothing() -> None:
    found = []
    for jobs in (1, 2):
        with run_many(range(50), Controls("storm", split_acks=True), jobs=jobs) as chunks:
            found.append([outcome for chunk in chunks for outcome in chunk.outcomes])
    assert found[0] == found[1]
    assert any(outcome.wrong for outcome in found[0])


@pytest.mark.parametrize("profile", NAMES)
def test_a_seed_does_the_same_twice(profile: str) -> None:
    first, again = (simulate(7, profile, trace=True) for _ in range(2))
    assert first.trace == again.trace
    assert (first.digest, first.steps, first.seconds) == (again.digest, again.steps, again.seconds)
    assert first.digest != simulate(8, profile).digest


def test_a_seed_does_the_same_in_every_process_and_under_every_hash_seed() -> None:
    outcomes = {hash_seed: _in_a_process(hash_seed) for hash_seed in ("0", "1", "random")}
    here = "".join(f"{simulate(seed, 'storm').digest}\n" for seed in range(3))
    assert set(outcomes.values()) == {here}


def _in_a_process(hash_seed: str) -> str:
    root = Path(__file__).parents[2]
    script = (
        "from tests.simulation.simulation import simulate\nfor seed in range(3): print(simulate(seed, 'storm').digest)"
    )
    return subprocess.run(
        [sys.executable, "-c", script],
        cwd=root,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join([str(root), *sys.path])},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
