"""The names of a call never change."""

import hashlib
from uuid import UUID

import pytest

from callboard.actors.agent.digest import call_digest, canonical, idempotency_key


def test_equal_arguments_have_one_text() -> None:
    assert canonical({"b": [1, {"d": None, "c": True}], "a": "é\x00\ud800"}) == (
        '{"a":"\\u00e9\\u0000\\ud800","b":[1,{"c":true,"d":null}]}'
    )
    assert canonical({"a": 1, "b": 2}) == canonical({"b": 2, "a": 1})
    assert canonical({"a": 1}) != canonical({"a": 1.0}) != canonical({"a": "1"})


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_w21_nan_has_no_canonical_text(value: float) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        canonical({"a": [value]})


def test_g4_the_key_is_the_documented_hash() -> None:
    run = UUID(int=7)
    expected = hashlib.sha256(f'{run}:4:issue_refund:{{"amount":5}}'.encode()).hexdigest()
    assert idempotency_key(run, 4, "issue_refund", '{"amount":5}') == expected
    assert idempotency_key(str(run), 4, "issue_refund", '{"amount":5}') == expected
    assert idempotency_key(run, 5, "issue_refund", '{"amount":5}') != expected
    assert len(idempotency_key(run, 4, "\ud800", "{}")) == 64


def test_g5_the_digest_covers_each_part_and_no_part_passes_for_another() -> None:
    digest = call_digest("call", "tool", "v1", "{}")
    assert digest == hashlib.sha256(b'["call","tool","v1","{}"]').hexdigest()
    others = {
        call_digest("other", "tool", "v1", "{}"),
        call_digest("call", "other", "v1", "{}"),
        call_digest("call", "tool", "v2", "{}"),
        call_digest("call", "tool", "v1", '{"x":1}'),
    }
    assert len(others | {digest}) == 5
    assert call_digest("a", "bc", "v", "{}") != call_digest("ab", "c", "v", "{}")
    assert call_digest('a","b', "c", "v", "{}") != call_digest("a", 'b","c', "v", "{}")
