"""The seven screens, in the order of their numbers. Each is loaded when it is first shown, or when there is time.

What the frame says of a screen that is not loaded yet (its name, its number) is known here; `load` gives the rest.
"""

import gc
from collections.abc import Callable, Sequence
from typing import NamedTuple

from callboard.persistence.port import Port, Signal
from callboard.tui.pane import Pane

FIRST_SECONDS = 3.0
"""For so long the others wait for what is read for the first screen, at most."""
LOAD_SECONDS = 0.3
"""Between the loading of one screen and the next: keys, and what is read, come first."""


class Shown(NamedTuple):
    """A screen that can be shown."""

    heading: str
    """Its name in the row of screens, and in help; the same as its class's."""
    short: str
    """Its name where there is little room."""
    load: Callable[[], type[Pane]]


def _actors() -> type[Pane]:
    from .actors import ActorsPane

    return ActorsPane


def _approvals() -> type[Pane]:
    from .approvals import ApprovalsPane

    return ApprovalsPane


def _mailboxes() -> type[Pane]:
    from .mailboxes import MailboxesPane

    return MailboxesPane


def _dead() -> type[Pane]:
    from .dead import DeadPane

    return DeadPane


def _runs() -> type[Pane]:
    from .runs import RunsPane

    return RunsPane


def _audit() -> type[Pane]:
    from .audit import AuditPane

    return AuditPane


def _system() -> type[Pane]:
    from .system import SystemPane

    return SystemPane


PANES: tuple[Shown, ...] = (
    Shown("Actors", "Actors", _actors),
    Shown("Approvals", "Approve", _approvals),
    Shown("Mailboxes", "Mail", _mailboxes),
    Shown("Dead letters", "Dead", _dead),
    Shown("Runs", "Runs", _runs),
    Shown("Audit", "Audit", _audit),
    Shown("System", "System", _system),
)


async def load_in_turn(panes: Sequence[Shown], port: Port, filled: Signal) -> None:
    """Load all of them, once the first is `filled`.

    Whoever starts the UI may have put the collection of garbage off until then (`service.cli.tui`).
    """
    await port.wait(filled, FIRST_SECONDS)
    for shown in panes:
        shown.load()
        await port.sleep(LOAD_SECONDS)
    if not gc.isenabled():
        gc.freeze()  # what is there by now stays, and need not be looked through ever again
        gc.enable()


__all__ = ["PANES", "Shown", "load_in_turn"]
