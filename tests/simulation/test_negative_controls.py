"""The simulation can fail: with the protocol broken on purpose it must, and soon."""

import pytest

from tests.simulation.simulation import simulate

WITHIN = 100
"""Seeds within which a broken protocol must show."""


def seeds_until_wrong(**broken: bool) -> tuple[int, list[str]]:
    for seed in range(WITHIN):
        wrong = simulate(seed, "", **broken).wrong
        if wrong:
            return seed + 1, wrong
    pytest.fail(f"{WITHIN} seeds found nothing wrong with {broken}")


def test_g3_fails_when_the_fence_is_off() -> None:
    _, wrong = seeds_until_wrong(unfenced=True)
    assert any(what.startswith(("I4", "G3")) for what in wrong)


def test_g1_fails_when_acknowledgements_are_a_commit_of_their_own() -> None:
    _, wrong = seeds_until_wrong(split_acks=True)
    assert any(what.startswith(("I1", "G1")) for what in wrong)
