"""Every recorded case, and our own in the same format, on both stores."""

from pathlib import Path

import pytest

from callboard.persistence.postgres import PostgresStore
from tests.conformance.cases import Case, read
from tests.conformance.everywhere import on_postgres
from tests.conformance.play import play_case

pytestmark = pytest.mark.anyio

HERE = Path(__file__).parent
CASES = [case for name in ("supervision_cases.json", "extra_cases.json") for case in read(HERE / name)]
GROUPS = sorted({case.id.partition("-")[0] for case in CASES})


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_case_in_memory(case: Case) -> None:
    verdict = await play_case(case)
    assert not verdict.wrong, str(verdict)


@pytest.mark.timeout(900)  # what is wrong on a busy machine is played again, much slower
@pytest.mark.parametrize("group", GROUPS)
async def test_cases_on_postgres(group: str, stores: list[PostgresStore]) -> None:
    # In groups, as they mostly wait on a real clock; one case alone is `python -m tests.conformance FILE --case ID`.
    verdicts = await on_postgres([case for case in CASES if case.id.startswith(f"{group}-")], stores)
    assert verdicts
    assert not [str(verdict) for verdict in verdicts if verdict.wrong]
