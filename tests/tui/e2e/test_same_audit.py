"""A decision leaves the same row in the audit whether it was made on a screen, by a command, or by a request (a18)."""

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from callboard.service.settings import read_settings
from tests.service.conftest import ROOT, Cli, environment

from .conftest import Desk
from .walk import arm, begin_denial, open_request

pytest.importorskip("litestar")

WHERE = {"number", "at", "object", "channel", "host"}
"""What is of the channel, or of the one row."""


@contextmanager
def api(desk: Desk, secret: str) -> Iterator["Api"]:
    """`callboard http` as a process."""
    command = [sys.executable, "-m", "callboard", "http", "--bind", "127.0.0.1:0", "--json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT, env=environment(desk.dsn), text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield Api(json.loads(process.stdout.readline())["url"], secret)
        finally:
            process.terminate()
            process.wait(120)


class Api:
    """Requests with a token."""

    def __init__(self, url: str, secret: str) -> None:
        self._url, self._secret = url, secret

    def ask(self, path: str, body: dict[str, Any] | None = None, key: str = "") -> Any:
        headers = {"Authorization": f"Bearer {self._secret}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self._url + path,
            data,
            headers | ({"Idempotency-Key": key} if key else {}),
            method="POST" if data else "GET",
        )
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(f"{path}: {error.status} {error.read().decode()}") from None

    def decide(self, approval: str, decision: str, **more: str) -> None:
        view = self.ask(f"/v1/approvals/{approval}")
        amount = [{"value": one["value"], "currency": one["currency"]} for one in view["money"]]
        body = {"decision": decision, "args_digest": view["digest"], **more}
        self.ask(f"/v1/approvals/{approval}/decision", {**body, "amount": amount}, key=f"{decision}-{approval}")


def rows(desk: Desk, approval: str, channel: str) -> list[dict[str, Any]]:
    """What the audit has of it by this channel, without what is the channel's own."""
    found = [row for row in desk.audit(approval) if row["channel"] == channel]
    assert found and all(row["host"] for row in found), desk.audit(approval)
    return [{key: value for key, value in row.items() if key not in WHERE} for row in found]


def test_a18_the_audit_rows_of_screen_command_and_request_differ_by_the_channel_only(desk: Desk, cli: Cli) -> None:
    desk.daemon()
    me = read_settings().principal
    made = cli("token", "create", "t", "--scopes", "read,approve", "--principal", me, "--json", dsn=desk.dsn)

    said = {"http": "h1", "cli": "c1", "tui": "u1"}
    asked = {}
    for channel, run in said.items():
        # One after the other: the list on the screen holds the one that is meant, and no other.
        asked[channel] = desk.request("pay 480.00 to Ann hold 600", run)
        match channel:
            case "tui":
                seen = desk.tui("--as", "t")
                open_request(seen)
                arm(seen, note="seen the invoice")
                seen.press("enter")
                seen.until("take it back")
                seen.press("u")
                desk.until_status(asked[channel], "pending")
                seen.gone("take it back")
                open_request(seen)
                begin_denial(seen, "on second thoughts")
                seen.press("enter")
            case "cli":
                assert not cli(
                    "approve", run, "--amount", "480.00", "--note", "seen the invoice", "--by", "t", dsn=desk.dsn
                ).code
                assert not cli("take-back", asked[channel], "--by", "t", dsn=desk.dsn).code
                assert not cli("deny", run, "--reason", "on second thoughts", "--by", "t", dsn=desk.dsn).code
            case "http":
                with api(desk, made.document["secret"]) as http:
                    http.decide(asked[channel], "approve", reason="seen the invoice")
                    http.ask(f"/v1/approvals/{asked[channel]}/take-back", {}, key="back")
                    http.decide(asked[channel], "deny", reason="on second thoughts")
        desk.until_status(asked[channel], "denied")
        desk.until_run(run, "completed")
    found = {channel: rows(desk, approval, channel) for channel, approval in asked.items()}
    assert [row["action"] for row in found["tui"]] == ["decide", "take back", "decide"]
    assert [row["note"] for row in found["tui"]] == ["seen the invoice", "", "on second thoughts"]
    assert found["tui"] == found["cli"] == found["http"]
    assert desk.paid() == 0
