"""What looks like a secret is not shown, and it is told where; everything else is shown as it is."""

import json
from typing import Any

import pytest

from callboard.service.operations.redaction import MAX_DEPTH, REDACTED, body_of, redacted_text


def shown(value: Any) -> tuple[Any, list[str]]:
    body = body_of(json.dumps(value))
    return body.value, body.redacted


@pytest.mark.parametrize(
    "name",
    ["password", "db_password", "passwd", "secret", "client_secret", "token", "access_token", "Authorization",
     "api_key", "apiKey", "API-KEY", "private_key", "credentials", "cookie", "cvv", "card_number", "iban"],
)  # fmt: skip
def test_fields_of_secrets_are_redacted_and_named(name: str) -> None:
    assert shown({"a": [{name: "x-1"}]}) == ({"a": [{name: REDACTED}]}, [f"a[0].{name}"])
    assert shown({name: {"deeper": 1}}) == ({name: REDACTED}, [name])


@pytest.mark.parametrize(
    "value",
    [{"input_tokens": 12}, {"max_tokens": 5}, {"token": 7}, {"password": ""}, {"secret": None}, {"tokens": ["a"]},
     {"idempotency_key": "abc"}, {"key": "k"}, {"order": "4111111111111112"}, {"id": 4111111111111111}, "plain",
     {"text": "the password was changed"}, {"secret": True}],
)  # fmt: skip
def test_what_is_no_secret_is_shown_as_it_is(value: Any) -> None:
    assert shown(value) == (value, [])


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("Authorization: Bearer abcdefgh12345678", f"Authorization: Bearer {REDACTED}"),
        ("pay with 4111 1111 1111 1111 today", f"pay with {REDACTED} 1111 today"),
        ("card 5500-0055-5555-5559.", f"card {REDACTED} 5559."),
        ("my password: hunter2, thanks", f"my password: {REDACTED} thanks"),
        ("API_KEY=sk-123 curl", f"API_KEY={REDACTED} curl"),
    ],
)
def test_secrets_within_a_sentence_are_redacted(text: str, clean: str) -> None:
    assert shown({"say": text}) == ({"say": clean}, ["say"])
    assert redacted_text(text) == clean


def test_arguments_that_are_json_in_a_text_are_looked_into() -> None:
    value, paths = shown({"arguments": '{"api_key": "k", "amount": 5}'})
    assert json.loads(value["arguments"]) == {"api_key": REDACTED, "amount": 5} and paths == ["arguments.api_key"]
    untouched = '{"amount":  5}'
    assert shown({"arguments": untouched}) == ({"arguments": untouched}, [])


def test_a_body_that_is_no_json_is_shown_as_text() -> None:
    assert body_of("password: x and {").value == f"password: {REDACTED} and {{"
    assert body_of("{").value == "{"


def test_revealing_shows_all_of_it() -> None:
    text = '{"password": "hunter2"}'
    assert body_of(text, reveal=True).value == {"password": "hunter2"}
    assert body_of(text, reveal=True).redacted == []


def test_deep_bodies_end_somewhere() -> None:
    value: Any = "bottom"
    for _ in range(MAX_DEPTH + 5):
        value = [value]
    found, paths = shown(value)
    assert REDACTED in json.dumps(found) and "bottom" not in json.dumps(found) and len(paths) == 1
    assert body_of("[" * 100_000).size == 100_000, "and what cannot be parsed is text"


def test_long_bodies_are_cut_and_say_so() -> None:
    text = body_of(json.dumps({"a": "x" * 100})).text(limit=50)
    assert text.startswith('{\n  "a": "xxx') and "more characters" in text
    assert body_of('{"a":1}').text(pretty=False) == '{"a": 1}'
