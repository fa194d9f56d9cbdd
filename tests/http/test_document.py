"""The OpenAPI document: what is kept is what is served, and what docs/HTTP.md says of it holds."""

import json
import re
from typing import Any

import pytest

from callboard import InMemoryStore
from callboard.service.http.document import written
from callboard.service.http.problems import KINDS
from tests.http.desk import Desk
from tests.service.conftest import ROOT

KEPT = ROOT / "docs" / "openapi.json"
GUIDE = ROOT / "docs" / "HTTP.md"


@pytest.fixture(scope="module")
def kept() -> Any:
    return json.loads(KEPT.read_text(encoding="utf-8"))


def operations(document: Any) -> list[tuple[str, str, Any]]:
    return [(verb, path, one) for path, verbs in document["paths"].items() for verb, one in verbs.items()]


def test_the_document_that_is_kept_is_the_one_of_the_routes() -> None:
    made = written(Desk(InMemoryStore()).app)
    assert KEPT.read_text(encoding="utf-8") == made, (
        "the routes say something else than docs/openapi.json: where that is meant, write it anew with "
        "`python -m callboard.service.http > docs/openapi.json`, and look at the difference"
    )


@pytest.mark.anyio
async def test_a_server_gives_the_same_document(kept: Any) -> None:
    desk = Desk(InMemoryStore())
    async with desk.caller() as caller:
        assert (await caller.get("/openapi.json")).json() == kept


def test_every_operation_documents_the_problems_it_may_answer(kept: Any) -> None:
    for verb, path, one in operations(kept):
        if path == "/livez":
            continue
        errors = {int(status): answer for status, answer in one["responses"].items() if int(status) >= 400}
        assert {401, 403, 421, 422, 500, 503} - set(errors) <= ({401, 403} if path == "/health" else set()), path
        for answer in errors.values():
            assert list(answer["content"]) == ["application/problem+json"], (verb, path)
        if verb == "post" and path.startswith("/v1"):
            assert {400, 409, 413, 415, 429} <= set(errors)
            (key,) = [p for p in one["parameters"] if p["name"] == "Idempotency-Key"]
            assert key["required"]


def test_every_operation_is_called_something_and_asks_for_a_token(kept: Any) -> None:
    ids = [one["operationId"] for _, _, one in operations(kept)]
    assert len(set(ids)) == len(ids)
    for _, path, one in operations(kept):
        if path.startswith("/v1"):
            assert one["summary"] and one["security"] == [{"bearer": []}], path


def test_no_money_is_a_number_and_bodies_take_no_other_fields(kept: Any) -> None:
    for name, schema in kept["components"]["schemas"].items():
        for field, one in schema.get("properties", {}).items():
            if field in ("value", "currency") and name in ("Money", "Dollars", "Amount", "MoneyOut"):
                assert one["type"] == "string"
            assert not ("cost" in field and one.get("type") in ("number", "integer")), (name, field)
        if name.endswith("Request"):
            assert schema["additionalProperties"] is False


def test_the_guide_has_a_row_for_every_problem() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| (\d{3}) \|", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    assert {name: int(status) for name, status in rows} == {name: status for name, (status, _) in KINDS.items()}


def test_the_guide_names_every_route(kept: Any) -> None:
    text = GUIDE.read_text(encoding="utf-8")
    for _, path, _ in operations(kept):
        short = re.sub(r"\{.*?\}", "{}", path.removeprefix("/v1"))
        told = re.sub(r"\{.*?\}", "{}", text)
        assert short in told or "/" + short.rpartition("/")[2] in told, path


def test_what_is_kept_names_no_machine() -> None:
    assert "localhost" not in KEPT.read_text(encoding="utf-8").replace("say `localhost`", "")
