"""What is written in a run's journal between a question to people and its answer. See `events` for the whole.

ApprovalRequested
  ApprovalCheckRequested  ApprovalChecked     what the tool's checks find, for the approvers and at the release
  ApprovalTakenBack                           an approval was undone while it was held
  ApprovalSuperseded                          an approval was of a world that has changed: asked anew
  ApprovalEdited | ApprovalEditRefused        a person changed the arguments, or tried to: asked anew
ApprovalGranted | ApprovalDenied | ApprovalExpired
"""

from typing import Any

import msgspec

from ..context import Event
from .events import Finding


class Change(msgspec.Struct, frozen=True):
    """One value in a call's arguments that a person changed; None stands for one that was not there."""

    path: str
    before: Any
    after: Any


class ApprovalCheckRequested(Event, tag="approval.check_requested"):
    """The tool's checks are about to be run."""

    call: int
    decision: str
    message: int
    """Id of the message to the tool worker."""
    at_release: bool = False
    approver: str = ""
    """Who approved, at the release."""
    note: str = ""


class ApprovalChecked(Event, tag="approval.checked"):
    """The tool's checks were run."""

    call: int
    decision: str
    findings: list[Finding] = msgspec.field(default_factory=list)
    at_release: bool = False


class ApprovalTakenBack(Event, tag="approval.taken_back_event"):
    """Somebody took an approval back while it was held; the call waits for people again."""

    call: int
    decision: str
    by: str
    note: str = ""


class ApprovalSuperseded(Event, tag="approval.superseded_event"):
    """The approval was of a world that has changed since: the call is asked for anew."""

    call: int
    decision: str
    approver: str
    reason: str


class ApprovalEdited(Event, tag="approval.edited_event"):
    """A person changed the arguments; the changed call is asked for anew, as `replaced_by`."""

    call: int
    decision: str
    replaced_by: str
    by: str
    diff: list[Change] = msgspec.field(default_factory=list)
    note: str = ""


class ApprovalEditRefused(Event, tag="approval.edit_refused_event"):
    """A person's change does not fit the tool; the call is asked for anew as it was, as `replaced_by`."""

    call: int
    decision: str
    replaced_by: str
    by: str
    error: str
