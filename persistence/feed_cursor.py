"""Where one is in the feed of all journals, as text for outside: opaque there, checked when it comes back."""

import base64
import binascii

import msgspec

from ..mailbox.errors import UsageError


class FeedPlace(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The last event that was given: its time, and what orders events of one time."""

    micros: int
    """Since 1970, by the store's clock; in a store in memory: how many events were given."""
    shard: int = -1
    address: str = ""
    seq: int = 0


BEGINNING = FeedPlace(0)


def write_place(place: FeedPlace) -> str:
    """A place as a cursor."""
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def read_place(cursor: str) -> FeedPlace:
    """The place of a cursor; "" is the beginning.

    Raises:
        UsageError: it is none of ours.
    """
    if not cursor:
        return BEGINNING
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        place = msgspec.json.decode(base64.b64decode(padded, altchars=b"-_", validate=True), type=FeedPlace)
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        raise UsageError(f"{cursor[:80]!r} is no cursor; leave it out, or give back the one you got last") from None
    numbers = 0 <= place.micros < 1 << 62 and -1 <= place.shard < 1 << 16 and 0 <= place.seq < 1 << 62
    if not numbers or "\0" in place.address:
        raise UsageError(f"{cursor[:80]!r} is no cursor of this store; leave it out, or give back the one you got last")
    return place
