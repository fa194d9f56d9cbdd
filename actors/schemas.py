"""What a process can read, said so that other nodes know: each message type and each kind of state, with its version.

A node publishes its capabilities when it joins. A message or a state that a node cannot read is then left, or given,
to a node that can: in a rolling deploy the new program's messages never fail in the old one.

    ticket.opened             a message type, with its newest version
    kind:ticket               the state of the actors of a kind, likewise
    at:/crm/desk/ticket       an address of the program's tree (a pool's without key), always 1
"""

import re
from functools import lru_cache

import msgspec

from ..mailbox.errors import UsageError
from ..mailbox.message import known_types
from .snapshot import kind_name
from .spec import Child, Tree
from .supervisor import SupervisorActor

MAX_CAPABILITIES_BYTES = 1 << 18
"""How long the text may be (256 KiB): some thousands of types, more than a program has."""

_KEY = re.compile(":[^/]*")
_encoder = msgspec.json.Encoder(order="sorted")


def capabilities(tree: Tree) -> str:
    """All that this process can read: canonical JSON of {name: newest version}.

    Raises:
        UsageError: it is longer than MAX_CAPABILITIES_BYTES.
    """
    known = known_types()
    known[kind_name(SupervisorActor.kind)] = SupervisorActor.state_version
    for address, spec in tree.specs.items():
        known[place_name(address)] = 1
        if isinstance(spec, Child) and not spec.is_worker:
            name = kind_name(spec.actor.kind)
            known[name] = max(spec.actor.state_version, known.get(name, 1))  # type: ignore[union-attr]
    text = _encoder.encode(known)
    if len(text) > MAX_CAPABILITIES_BYTES:
        raise UsageError(
            f"{len(known):,} message types and kinds of actors are {len(text):,} bytes to publish, "
            f"{MAX_CAPABILITIES_BYTES:,} are allowed; import only what this program needs"
        )
    return text.decode()


def can(capabilities: str, name: str, version: int = 1) -> bool:
    """Whether a process with these capabilities can read `version` of what is called `name`.

    One that published nothing can read nothing: where it matters, the asker still has the message.
    """
    return _parsed(capabilities).get(name, 0) >= version


def place_name(address: str) -> str:
    """What an address is called in capabilities: that of its place in the tree, so without keys."""
    return "at:" + _KEY.sub("", address)


@lru_cache(maxsize=256)
def _parsed(capabilities: str) -> dict[str, int]:
    try:
        return msgspec.json.decode(capabilities, type=dict[str, int])
    except msgspec.MsgspecError:
        return {}
