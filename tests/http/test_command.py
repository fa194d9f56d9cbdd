"""`callboard http` and `callboard token` as they are run."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from callboard.mailbox.errors import UsageError
from callboard.service.http.server import parse_bind
from tests.service.conftest import ROOT, environment, process, until


@contextmanager
def http(dsn: str, *arguments: str) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """The command on a free port, and its URL."""
    command = [sys.executable, "-m", "callboard", "http", "--bind", "127.0.0.1:0", "--json", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, env=environment(dsn), text=True) as running:
        assert running.stdout is not None
        try:
            yield json.loads(running.stdout.readline())["url"], running
        finally:
            running.kill()


def token(dsn: str, *arguments: str) -> Any:
    done = process("token", *arguments, "--json", dsn=dsn)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_token_of_the_command_line_opens_the_server_until_it_is_revoked(database: str) -> None:
    with http(database, "tests.service.desk_app:app") as (url, running):
        with httpx.Client(base_url=url, timeout=60) as caller:
            assert caller.get("/v1/runs").status_code == 200  # no token was ever made, and this is loopback
            made = token(
                database, "create", "ann", "--scopes", "read,operate", "--principal", "mara", "--expires", "1d"
            )
            assert made["schema"] == "callboard.token/1" and made["scopes"] == ["read", "operate"]
            bearer = {"Authorization": f"Bearer {made['secret']}"}
            body = {"goal": "hello"}
            run = caller.post("/v1/runs", json=body, headers=bearer | {"Idempotency-Key": "k"}).json()
            assert (run["address"][:10], run["requested_by"]) == ("/desk/run:", "mara")
            listed = token(database, "list")["items"]
            assert [one["name"] for one in listed] == ["ann"]
            assert made["secret"] not in json.dumps(listed)
            assert token(database, "revoke", "ann")["revoked_at"]
            until(lambda: caller.get("/v1/runs", headers=bearer).status_code == 401, "the door forgets the token")
        with httpx.stream("GET", f"{url}/livez", timeout=60) as alive:
            assert alive.status_code == 200
        running.send_signal(signal.SIGTERM)
        assert running.wait(120) == 0


def test_sigterm_ends_streams_and_the_server_in_good_order(database: str) -> None:
    secret = token(database, "create", "viewer", "--scopes", "read")["secret"]
    bearer = {"Authorization": f"Bearer {secret}"}
    with (
        http(database) as (url, running),
        httpx.stream("GET", f"{url}/v1/events", headers=bearer, timeout=60) as answer,
    ):
        lines = answer.iter_lines()
        assert next(lines) == ": callboard"
        running.send_signal(signal.SIGTERM)
        assert [line for line in lines if line and not line.startswith((":", "id:"))] == []  # and it ends
        assert running.wait(120) == 0


def test_another_address_than_loopback_is_refused_until_a_token_opens_something(dsn: str, server_dsn: str) -> None:
    assert process("init-db", dsn=dsn).returncode == 0
    for _ in range(2):
        refused = process("http", "--bind", "0.0.0.0:0", dsn=dsn)
        assert refused.returncode == 2 and not refused.stdout
        assert "callboard token create" in refused.stderr
        token(dsn, "create", f"gone{_}", "--scopes", "read")
        token(dsn, "revoke", f"gone{_}")  # a token that opens nothing keeps nobody out


def test_with_a_token_it_listens_anywhere_and_asks_for_it(database: str) -> None:
    token(database, "create", "anywhere", "--scopes", "read")
    with http(database, "--bind", "0.0.0.0:0") as (url, _):
        assert httpx.get(f"{url.replace('0.0.0.0', '127.0.0.1')}/v1/runs", timeout=60).status_code == 401


@pytest.mark.parametrize(
    "text", ["", "8080", ":8080", "host", "127.0.0.1:", "127.0.0.1:99999", "a b:1", "[::1]", "::1:8"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--bind"):
        parse_bind(text)


@pytest.mark.parametrize(
    ("text", "host", "port", "loopback"),
    [
        ("127.0.0.1:8080", "127.0.0.1", 8080, True),
        ("localhost:0", "localhost", 0, True),
        ("[::1]:8080", "::1", 8080, True),
        ("0.0.0.0:80", "0.0.0.0", 80, False),
        ("[::]:80", "::", 80, False),
        ("10.1.2.3:80", "10.1.2.3", 80, False),
        ("desk.example:80", "desk.example", 80, False),
    ],
)
def test_addresses_are_read_and_only_those_of_this_machine_are_loopback(
    text: str, host: str, port: int, *, loopback: bool
) -> None:
    bind = parse_bind(text)
    assert (bind.host, bind.port, bind.is_loopback) == (host, port, loopback)


@pytest.mark.parametrize(
    "arguments",
    [
        ("create", "a b", "--scopes", "read"),
        ("create", "a", "--scopes", "all"),
        ("create", "a", "--scopes", "read", "--expires", "tomorrow"),
    ],
)
def test_a_token_that_cannot_be_is_wrong_usage(database: str, arguments: tuple[str, ...]) -> None:
    done = process("token", *arguments, dsn=database)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr
