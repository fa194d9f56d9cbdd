"""Log lines as JSON: what is in each, and that none holds what a message says."""

import json
import logging
import sys
import time

import pytest

from callboard.actors.blame import UNWATCHED
from callboard.mailbox.envelope import Envelope, Headers, write_headers
from callboard.service import log_context
from callboard.service.log_context import LoggedBlame, log_as
from callboard.service.logs import JsonFormatter, TextFormatter
from tests.contract.build import message

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def line(text: str, *values: object, **extra: object) -> dict[str, object]:
    record = logging.LogRecord("callboard.x", logging.WARNING, "f", 1, text, values, None)
    record.__dict__.update(extra)
    found: dict[str, object] = json.loads(JsonFormatter().format(record))
    return found


@pytest.fixture(autouse=True)
def _as_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_context, "PROCESS", log_context._Process())
    log_as("host/1", "/desk/run")


def envelope(recipient: str = "/desk/run:r1", sender: str = "", body: str = '"the secret text"') -> Envelope:
    found = message()
    found.recipient, found.sender, found.body, found.failures = recipient, sender, body, 2
    return found


def test_a_line_says_when_how_bad_and_what_kind_of_event() -> None:
    found = line("node %s: %d shards in %.1f s", "a", 3, 0.5)
    assert str(found["ts"]).endswith("+00:00") and "T" in str(found["ts"])
    assert (found["level"], found["event"], found["node"]) == ("warning", "node_shards_in_s", "host/1")
    assert found["message"] == "node a: 3 shards in 0.5 s"
    assert not {"run_id", "actor", "msg_id"} & set(found)


def test_what_a_handler_logs_says_which_run_actor_message_and_attempt() -> None:
    blame, handled = LoggedBlame(UNWATCHED), envelope()
    slot = blame.hold(handled)
    found = line("something")
    blame.release(slot)
    assert found | {"run_id": "r1", "actor": "/desk/run:r1", "msg_id": handled.id, "attempt": 3} == found
    assert "secret" not in json.dumps(found)
    assert "actor" not in line("something")
    blame.enter(handled)
    assert line("something")["actor"] == "/desk/run:r1"
    blame.leave()
    assert "actor" not in line("something")


def test_a_worker_s_line_is_of_the_run_that_asked() -> None:
    assert line("x", envelope=envelope("/desk/tools", sender="/desk/run:r7"))["run_id"] == "r7"
    assert "run_id" not in line("x", envelope=envelope("/desk/tools", sender="/desk/clock"))


def test_a_line_of_traced_work_names_the_trace() -> None:
    handled = envelope()
    handled.headers = write_headers(Headers(traceparent=TRACE))
    assert line("x", envelope=handled)["trace_id"] == TRACE.split("-")[1]


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://u:hunter2@h/db",
        "postgresql://u:hun@hunter2@h/db",
        "postgres://u:hunter2@h, mysql://v:hunter2@i",
        "host=h password=hunter2",
        "host=h password='my hunter2 pw'",
        "PGPASSWORD=hunter2",
        "OPENAI_API_KEY=hunter2",
        "Authorization: Bearer hunter2",
        "{'Authorization': 'Bearer hunter2', 'a': 1}",
        '{"client_secret": "hunter2"}',
        "https://x/y?access_token=hunter2&z=1",
    ],
)
def test_passwords_are_in_no_line(text: str) -> None:
    assert "hunter2" not in json.dumps(line("cannot reach %s", text))


def test_what_only_sounds_like_a_secret_is_told() -> None:
    told = "5 tokens of max_tokens 150, at https://example.org:443/a?b=c"
    assert line("%s", told)["message"] == told


@pytest.mark.parametrize("word", ["a", "://a:", "token", "token ", "password= ", "%0", "://a:b"])
def test_a_long_word_is_logged_at_once(word: str) -> None:
    text = word * (200_000 // len(word))
    began = time.thread_time()
    try:
        raise ValueError(text)
    except ValueError:
        record = logging.LogRecord("callboard.x", logging.WARNING, "f", 1, text, (), sys.exc_info())
    for formatter in (JsonFormatter(), TextFormatter()):
        assert len(formatter.format(record)) < 200_000
    assert time.thread_time() - began < 5.0, "it would keep the event loop busy"


def test_a_long_error_keeps_its_beginning_and_its_end() -> None:
    try:
        raise ValueError("x" * 1_000_000 + " the end")
    except ValueError:
        record = logging.LogRecord("callboard.x", logging.WARNING, "f", 1, "it failed", (), sys.exc_info())
    told = json.loads(JsonFormatter().format(record))["traceback"]
    assert told.startswith("Traceback") and told.endswith("the end") and "characters are left out" in told
