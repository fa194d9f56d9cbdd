"""Deciding on gated calls: the dialog of one, the review of several, and what else can be done to a request.

    subject     what is known of one request, read from the operations
    sheet       all of it as lines, at a width; where its arguments end
    strip       the few lines at the foot: what a key does now, what is missing, what somebody else did
    dialog      the dialog: looking, typing, sending, and hearing nothing
    together    several at once
    asking      a question to the agent; edit: other arguments

No rule is here: what has to be typed, who may, and until when is `service.operations.demands`'s to say, and what became
of it the store's.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from callboard.mailbox.errors import CallboardError, NotFound
from callboard.service.operations.views import ApprovalView

from ..text import piece
from .dialog import DecideDialog
from .subject import read_subject

if TYPE_CHECKING:
    from ..app import CallboardApp


async def decide(frame: "CallboardApp", approval: str, items: Sequence[str] = ()) -> ApprovalView | None:
    """Open the dialog on an approval, by its id, or the run that waits for it; how it was decided, None where it was
    left. To be awaited in a worker. `items`: ids of those that `[` and `]` go to."""
    try:
        subject = await read_subject(frame.gateway, await _found(frame, approval))
    except CallboardError as error:
        frame.say(piece(str(error), "bad"), bad=True)
        return None
    view = await frame.push_screen_wait(DecideDialog(subject, items))
    if view is not None and view.status == "denied":
        frame.say(f"denied: {view.tool} · the agent reads your reason and goes on")
    elif view is not None:
        frame.say(
            f"approved: {view.tool} · " + ("held, u takes it back" if view.can_take_back else "it goes once, now")
        )
    return view


async def _found(frame: "CallboardApp", given: str) -> ApprovalView:
    try:
        view, _ = await frame.gateway.decisions.now_of(given)
    except NotFound:
        return await frame.gateway.decisions.find(given)
    return view


__all__ = ["DecideDialog", "decide"]
