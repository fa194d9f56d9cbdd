"""schemathesis against the command as it is run, over a seeded PostgreSQL: whatever fits the document or does not, each
answer is one that the document has.
"""

import uuid
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

pytest.importorskip("schemathesis")

import schemathesis
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from tests.http.conftest import Server
from tests.service.conftest import ROOT

EXAMPLES = 8

api: Any = schemathesis.openapi.from_path(str(ROOT / "docs" / "openapi.json"))
# Streams have no end to wait for; tests/http/test_streams.py follows them.
api = api.exclude(path_regex="(^/v1/events|/stream)$")
# The token is given with each call; tests/http/test_admission.py leaves it out.
api.config.generation.update(deterministic=True, with_security_parameters=False)
# Its boundary values are some hundred requests for each route, which is a soak and no test.
api.config.phases.coverage.enabled = False


def refused_for_its_form(response: Any, case: Any) -> bool:
    """Whether what fits the document was refused as something that does not.

    This is what is asked instead of `positive_data_acceptance`, which wants all that fits to be accepted: a cursor
    nobody gave out, an address without an actor, a sum that was not repeated or a digest of other arguments fit every
    document, and are refused all the same (with 422, 410 or 412, and without `errors`).
    """
    mode = case.meta.generation.mode if case.meta else None
    positive = mode is not None and mode.is_positive
    # The seed takes its costs as numbers or texts of any form, and says which of them are none.
    seeds = case.operation.path == "/runs" and case.operation.method.upper() == "POST"
    return positive and not seeds and response.status_code in (400, 415, 422) and "errors" in response.json()


@api.parametrize()  # type: ignore[untyped-decorator]  # what it loads has no types
@settings(
    max_examples=EXAMPLES, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
def test_every_answer_is_one_that_the_document_has(case: Any, server: Server) -> None:
    headers = {"Authorization": f"Bearer {server.secret}"}
    if str((case.headers or {}).get("Idempotency-Key", "")).strip().isalnum():
        headers["Idempotency-Key"] = uuid.uuid4().hex  # a short one comes again, and would be another request's
    response = case.call(base_url=server.url, headers=headers, timeout=60)
    excluded = [positive_data_acceptance]
    if response.status_code == 413:
        excluded.append(negative_data_rejection)  # which does not count 413 among refusals
    case.validate_response(response, excluded_checks=excluded)
    assert not refused_for_its_form(response, case), response.text
