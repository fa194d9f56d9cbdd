"""Who acts: an authenticated principal, by which channel, and what it may do.

The name comes from authentication only: the operating system's user for a command, the token for a request. What a
principal calls itself (`label`) is shown beside it and never trusted; policies count names.
"""

import os
import socket
from typing import Literal, get_args

import msgspec

from ...mailbox.errors import NotAllowed

Scope = Literal["read", "operate", "approve", "admin"]
"""read: look. operate: submit, tell, cancel, fork, pause, resume, requeue, discard. approve: decide on gated calls, and
say what became of those in doubt. admin: tokens; each of the others besides is not included in it."""

Channel = Literal["cli", "http", "tui", "daemon", "library"]

SCOPES: tuple[Scope, ...] = get_args(Scope)
ALL_SCOPES: frozenset[Scope] = frozenset(SCOPES)


class Principal(msgspec.Struct, frozen=True):
    """Who acts."""

    name: str
    channel: Channel = "library"
    host: str = ""
    """Of the one who acts: the machine of a terminal, the address of a request."""
    scopes: frozenset[Scope] = ALL_SCOPES
    label: str = ""
    chaos: bool = True
    """Whether it may end things as a crash would (`kill`), besides the right to operate. A terminal UI has this where
    the setting `allow_chaos` says so."""

    def require(self, scope: Scope) -> None:
        """Go on only with this right.

        Raises:
            NotAllowed: naming the right that is missing and who lacks it.
        """
        if scope not in self.scopes:
            held = ", ".join(one for one in SCOPES if one in self.scopes) or "none"
            raise NotAllowed(
                f"{self.name} may not do this: it takes the scope {scope!r}, and this principal has: {held}"
            )

    def require_chaos(self) -> None:
        """Go on only where ending things as a crash would is allowed.

        Raises:
            NotAllowed: naming the setting.
        """
        if not self.chaos:
            raise NotAllowed(
                "this place does not allow to kill what runs: the setting allow_chaos does (terminal.allow_chaos in "
                "callboard.toml, or CALLBOARD_ALLOW_CHAOS); to end an actor in good order, cancel it"
            )


def terminal_principal(
    name: str, *, channel: Channel = "cli", scopes: frozenset[Scope] = ALL_SCOPES, chaos: bool = True
) -> Principal:
    """Who sits at this machine. Rights beyond these are the database role's."""
    return Principal(name, channel, socket.gethostname() or os.uname().nodename, scopes, chaos=chaos)
