"""Addresses: what is one, its parts, its family, and the shard that must never change."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.mailbox.address import (
    CLIENT_SHARD,
    MAX_DEPTH,
    MAX_KEY_BYTES,
    SHARDS,
    child,
    family_of,
    key_of,
    name_of,
    parent_of,
    parse,
    shard_of,
)
from callboard.mailbox.errors import BadAddress

PINNED = {
    "/crm": 156,
    "/crm/approvals": 0,
    "/crm/desk": 173,
    "/crm/desk/agent:42": 130,
    "/desk/agent:1": 38,
    "/a/b:ticket%2F7": 182,
}
"""Stored rows depend on these for ever: a change of the function would lose every mailbox."""


@pytest.mark.parametrize("address", PINNED)
def test_address_the_shard_of_an_address_never_changes(address: str) -> None:
    assert shard_of(address) == PINNED[address]


@pytest.mark.parametrize(
    "text",
    ["/crm", "/crm/desk/agent:42", "/a-b_c9/d", "/a:B.~_-%2F", "/x" * MAX_DEPTH, "/a:" + "k" * MAX_KEY_BYTES],
)
def test_address_what_is_one(text: str) -> None:
    assert parse(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "", "/", "crm", "//", "/crm/", "/Crm", "/9", "/-a", "/a b", "/a:", "/a::b", "/a:b:c", "/a:é", "/é", "/a\n",
        "/a:b\n", "/a/../b", "/a:b c", "/" + "a" * 64, "/x" * (MAX_DEPTH + 1), "/a:" + "k" * (MAX_KEY_BYTES + 1),
        "/a\0",
    ],
)  # fmt: skip
def test_address_what_is_none(text: str) -> None:
    with pytest.raises(BadAddress):
        parse(text)


def test_address_the_error_names_the_segment_at_fault() -> None:
    with pytest.raises(BadAddress, match="'Desk'"):
        parse("/crm/Desk/agent:1")


def test_address_parts() -> None:
    address = "/crm/desk/agent:42/tool:shell"
    assert parent_of(address) == "/crm/desk/agent:42"
    assert name_of(address) == "tool"
    assert key_of(address) == "shell"
    assert parent_of("/crm") == ""
    assert name_of("/crm/desk") == "desk"
    assert key_of("/crm/desk") is None


def test_address_a_family_is_all_below_the_first_key() -> None:
    assert family_of("/crm/desk/agent:42/tool:shell") == "/crm/desk/agent:42"
    assert family_of("/crm/desk/agent:42") == "/crm/desk/agent:42"
    assert family_of("/crm/desk") == "/crm/desk"
    assert family_of("/crm/a:1/b/c") == "/crm/a:1"


def test_address_outside_askers_live_in_a_shard_of_their_own() -> None:
    assert shard_of("/sys/client:1024-abc") == CLIENT_SHARD == SHARDS
    assert shard_of("/sys/client") < SHARDS
    assert shard_of("/sys/clients:1") < SHARDS


names = st.from_regex(r"[a-z][a-z0-9_-]{0,8}", fullmatch=True)


@given(
    names, st.text(min_size=1, max_size=16).filter(lambda key: key.isascii() or len(key.encode(errors="replace")) < 60)
)
def test_address_any_text_can_be_a_key_and_comes_back(name: str, key: str) -> None:
    address = child("/desk", name, key)
    assert (parent_of(address), name_of(address), key_of(address)) == ("/desk", name, key)


@given(names, st.text("abc", min_size=1, max_size=5), st.lists(names, max_size=4))
def test_address_a_family_shares_a_shard(name: str, key: str, below: list[str]) -> None:
    top = child("/desk", name, key)
    address = top
    for segment in below:
        address = child(address, segment)
    assert shard_of(address) == shard_of(top)
    assert 0 <= shard_of(top) < SHARDS


def test_address_a_key_with_a_lone_surrogate_is_refused_as_an_address() -> None:
    with pytest.raises(BadAddress):
        child("/desk", "agent", "\ud800")


def test_address_an_empty_key_is_refused() -> None:
    with pytest.raises(BadAddress):
        child("/desk", "agent", "")


def test_address_shards_are_spread() -> None:
    counts = [0] * SHARDS
    for n in range(SHARDS * 100):
        counts[shard_of(f"/crm/desk/agent:{n}")] += 1
    assert min(counts) > 40
    assert max(counts) < 200
