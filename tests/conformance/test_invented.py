"""Trees and scripts that nobody recorded: our runtime does what the model says."""

from typing import Any

import pytest

from tests.conformance.cases import case_of
from tests.conformance.foretell import Model
from tests.conformance.invent import pool_case, tree_case
from tests.conformance.play import play_case

pytestmark = pytest.mark.anyio

TREES = 30
POOLS = 10


async def play(invented: dict[str, Any]) -> str:
    otp = Model(case_of(invented), ours=False).run()
    for step, (events, result) in zip(invented["script"], otp, strict=True):
        step["expect"] = [list(event) for event in events]
        if "result" in step:
            step["result"] = result
    verdict = await play_case(case_of(invented))
    return str(verdict) if verdict.wrong else ""


@pytest.mark.parametrize("seed", range(TREES))
async def test_an_invented_tree(seed: int) -> None:
    assert not await play(tree_case(seed))


@pytest.mark.parametrize("seed", range(POOLS))
async def test_an_invented_pool(seed: int) -> None:
    assert not await play(pool_case(seed))
