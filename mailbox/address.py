"""Addresses: where an actor is found, for ever and on whatever node it happens to run.

`/crm/desk/agent:42` names the actor `agent` with key `42`; the path before it, `/crm/desk`, is its supervisor, so an
escalation is visible in the name. The first segment with a key names the *family*: it and all beneath it live in one
shard, so that a run, its sub-agents and its messages are committed together. An address without a key is a family of
its own. The shard of an address is a pure function of its text and must never change: it is stored in every row.
"""

import re
from functools import lru_cache
from urllib.parse import quote, unquote
from zlib import crc32

from .errors import BadAddress

SHARDS = 256
"""How many shards nodes share. Fixed for the life of a database: the shard of every stored row depends on it."""

CLIENT_SHARD = SHARDS
"""Where the mailboxes of outside askers live. No node owns it; each client reads its own mailbox there."""

CLIENT_PREFIX = "/sys/client:"
MAX_DEPTH = 16
MAX_KEY_BYTES = 200

_SEGMENT = re.compile(r"[a-z][a-z0-9_-]{0,62}(?::[A-Za-z0-9_.~%-]+)?")


def parse(text: str) -> str:
    """`text`, if it is an address.

    Raises:
        BadAddress: with the segment at fault.
    """
    if not text.startswith("/") or text == "/":
        raise BadAddress(f"not an address: {text[:80]!r}; an address looks like /crm/desk/agent:42")
    segments = text[1:].split("/")
    if len(segments) > MAX_DEPTH:
        raise BadAddress(f"address {text[:80]!r} has {len(segments)} segments; {MAX_DEPTH} are allowed")
    for segment in segments:
        if not _SEGMENT.fullmatch(segment):
            raise BadAddress(f"address {text[:80]!r}: {segment[:80]!r} is not name or name:key (lower-case name first)")
        if len(segment.partition(":")[2]) > MAX_KEY_BYTES:
            raise BadAddress(f"address {text[:80]!r}: the key of a segment is longer than {MAX_KEY_BYTES} bytes")
    return text


def child(parent: str, name: str, key: str | None = None) -> str:
    """The address of `name` (with `key`, percent-encoded here) under `parent`; `parent` may be "" for the top.

    Raises:
        BadAddress: when the result is not an address.
    """
    try:
        suffix = "" if key is None else ":" + quote(key, safe="")
    except UnicodeEncodeError as error:
        raise BadAddress(f"address {parent}/{name}: the key {key!r} holds half a character ({error.reason})") from error
    return parse(f"{parent}/{name}{suffix}")


def parent_of(address: str) -> str:
    """The supervisor's address; "" for a top actor."""
    return address.rpartition("/")[0]


def name_of(address: str) -> str:
    """The last segment without its key: `agent` of `/crm/desk/agent:42`."""
    return address.rpartition("/")[2].partition(":")[0]


def key_of(address: str) -> str | None:
    """The last segment's key, decoded: `42` of `/crm/desk/agent:42`; None if it has none."""
    _, colon, key = address.rpartition("/")[2].partition(":")
    return unquote(key) if colon else None


def family_of(address: str) -> str:
    """The part up to and with the first keyed segment; the whole address where there is none."""
    colon = address.find(":")
    if colon < 0:
        return address
    end = address.find("/", colon)
    return address if end < 0 else address[:end]


@lru_cache(maxsize=65_536)
def shard_of(address: str) -> int:
    """0 ≤ shard < SHARDS, or CLIENT_SHARD for an outside asker's mailbox."""
    if address.startswith(CLIENT_PREFIX):
        return CLIENT_SHARD
    return crc32(family_of(address).encode()) % SHARDS
