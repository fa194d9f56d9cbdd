"""A question to people, as the run that waits for its answer keeps it: part of the fold of its journal.

A call has one question at a time, and each has a decision row of its own. An edit, or a check that has changed its
mind, ends one and asks the next, so that no approval is ever used for anything but what was shown.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from ...mailbox.message import Message
from .approval_events import ApprovalChecked, ApprovalCheckRequested, Change
from .events import ApprovalRequested, Finding, Provenance, ToolAsked
from .policy import MAX_NEEDED, RISKS, Risk, Terms
from .text import row_text

MAX_CHANGES = 200
"""Changes of one edit that are told one by one."""
MAX_DIFF_BYTES = 256 << 10
"""Of the values of one edit that are told in whole; the whole arguments are in the question anyway."""
MAX_CUT_CHARS = 200
"""What is told of other values, and of a path."""
MAX_SOURCES = 400
"""Values of one call of which it is kept where they come from."""


class Question(msgspec.Struct):
    """What was asked, and what is known beside the answer."""

    terms: Terms
    provenance: list[Provenance] = []
    findings: dict[str, bool] = {}
    """What each check found, as the approvers see it."""
    check: int = 0
    """Message that has the checks run; 0 while none are."""
    approver: str = ""
    """Who has approved, while the checks are run at the release."""
    note: str = ""
    edited_by: list[str] = []
    sums: dict[str, str] = {}
    """What the tool had declared of its sums when it was asked."""
    by_tool: ToolAsked | None = None
    """What the tool itself wanted, where it asked; that holds for the changed call as well."""


def asked(event: ApprovalRequested) -> Question:
    """The question that an event asks."""
    terms = Terms(
        event.reason,
        event.policy,
        event.risk if event.risk in RISKS else "medium",
        event.needed,
        event.not_requester,
        event.expires_seconds,
        event.hold_seconds,
    )
    found = {finding.check: finding.ok for finding in event.findings}
    return Question(
        terms,
        list(event.provenance),
        found,
        edited_by=list(event.edited_by),
        sums=dict(event.sums),
        by_tool=event.by_tool,
    )


def terms_of_tool(asked: ToolAsked) -> Terms:
    """What a tool wants, as terms. Whatever it says is bounded, and in doubt strict."""
    risk: Risk = "medium" if asked.risk in ("normal", "medium") else "high"
    return Terms(row_text(asked.reason), "tool", risk, min(max(asked.needed, 1), MAX_NEEDED))


def apply_to_question(question: Question, event: Message) -> None:
    """What an event about its checks changes."""
    match event:
        case ApprovalCheckRequested():
            question.check = event.message
            if event.at_release:
                question.approver, question.note = event.approver, event.note
        case ApprovalChecked():
            question.check = 0
            if not event.at_release:
                question.findings = {finding.check: finding.ok for finding in event.findings}


def worse(question: Question, findings: list[Finding]) -> list[Finding]:
    """What is not fine now, and was fine, or not known, when people looked."""
    return [finding for finding in findings if not finding.ok and question.findings.get(finding.check, True)]


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """What differs, value by value; of very many, the first ones."""
    found: list[Change] = []
    _compare("", dict(before), dict(after), found)
    left, told = MAX_DIFF_BYTES, []
    for change in found[:MAX_CHANGES]:
        size = sum(len(msgspec.json.encode(value)) for value in (change.before, change.after))
        told.append(change if size <= left else Change(change.path, _cut(change.before), _cut(change.after)))
        left -= min(size, left)
    return told


def _cut(value: Any) -> Any:
    text = msgspec.json.encode(value).decode()
    return value if len(text) <= MAX_CUT_CHARS else f"{text[:MAX_CUT_CHARS]} … ({len(text):,} characters)"


def _compare(path: str, before: Any, after: Any, found: list[Change]) -> None:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            place = f"{path}.{key[:MAX_CUT_CHARS]}" if path else str(key)
            _compare(place[:MAX_CUT_CHARS], before.get(key), after.get(key), found)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (one, other) in enumerate(zip(before, after, strict=True)):
            _compare(f"{path}[{number}]"[:MAX_CUT_CHARS], one, other, found)
    elif type(before) is not type(after) or before != after:
        found.append(Change(path, before, after))


def said_by(editor: str, diff: list[Change], before: list[Provenance]) -> list[Provenance]:
    """Where the values come from after an edit: what a person wrote, they said."""
    changed = [change.path for change in diff]
    kept = [one for one in before if not any(_is_within(one.path, path) for path in changed)]
    found = [*kept, *(Provenance(path, "said", "trusted", f"edited by {editor[:MAX_CUT_CHARS]}") for path in changed)]
    return found if len(found) <= MAX_SOURCES else [Provenance("…", "unread", "untrusted")]


def _is_within(path: str, outer: str) -> bool:
    return path == outer or path.startswith((f"{outer}.", f"{outer}["))
