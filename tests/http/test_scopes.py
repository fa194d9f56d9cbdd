"""Every route of the document, with every single scope and with none: who gets in is written down, route by route."""

import json
import re
from typing import Any

import pytest

from tests.http.desk import Desk, problem
from tests.service.conftest import ROOT

pytestmark = pytest.mark.anyio
SCOPES = ("read", "operate", "approve", "admin")

READ = """
    get_actor get_approval get_dead_letter get_health get_mailbox get_message get_run list_actors list_approvals
    list_audit list_dead_letters list_mailboxes list_run_events list_runs search_messages stream_events stream_run
"""
OPERATE = """
    cancel_actor cancel_run discard_dead_letter discard_message fork_run kill_actor pause_actor pause_actors
    quarantine_message requeue_dead_letter resume_actor resume_actors start_run tell_run
"""
APPROVE = "decide_approval edit_approval take_back_approval"
SEED = {
    "GET /runs": "read", "GET /runs/{run_id}": "read", "GET /runs/{run_id}/events": "read",
    "GET /runs/{run_id}/stream": "read", "GET /approvals": "read", "POST /runs": "operate",
    "POST /runs/{run_id}/tell": "operate", "POST /runs/{run_id}/cancel": "operate",
    "POST /runs/{run_id}/approve": "approve", "POST /runs/{run_id}/deny": "approve",
}  # fmt: skip
OPEN = {"GET /health", "GET /livez"}
RULES = {
    **dict.fromkeys(READ.split(), "read"),
    **dict.fromkeys(OPERATE.split(), "operate"),
    **dict.fromkeys(APPROVE.split(), "approve"),
}


def routes() -> list[tuple[str, str, str]]:
    """Method, path with names filled in, and the scope that opens it; "?" for one that nobody has thought about."""
    document: Any = json.loads((ROOT / "docs" / "openapi.json").read_text(encoding="utf-8"))
    found = []
    for path, verbs in document["paths"].items():
        for verb, one in verbs.items():
            method = verb.upper()
            if f"{method} {path}" in OPEN:
                continue
            rule = RULES.get(one["operationId"]) if path.startswith("/v1") else SEED.get(f"{method} {path}")
            found.append((method, re.sub(r"\{.*?\}", "1", path), rule or "?"))
    return found


def test_every_route_of_the_document_has_a_rule_here() -> None:
    assert [one for one in routes() if one[2] == "?"] == []
    assert len(routes()) == len(RULES) + len(SEED)


async def test_each_route_takes_its_scope_and_no_other(desk: Desk) -> None:
    secrets = {scope: await desk.token(f"only-{scope}", scope) for scope in SCOPES}
    async with desk.caller() as nobody:
        for method, path, rule in routes():
            # No JSON, and no types that can be: who is let in is told so, nothing changes, and no stream begins.
            url = f"{path}?types=a*b" if path == "/v1/events" else path
            problem(await nobody.http.request(method, url), 401, "unauthenticated")
            for scope, secret in secrets.items():
                answer = await nobody.http.request(method, url, headers={"Authorization": f"Bearer {secret}"})
                if scope == rule:
                    assert answer.status_code not in (401, 403), (method, path, scope)
                else:
                    problem(answer, 403, "scope-missing")
    assert await desk.store.audit(action="submit") == []
