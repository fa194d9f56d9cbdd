"""How the demonstration is told: lines to follow while it runs, then the trace and the proof; or one document.

Progress goes to standard error when a document was asked for, so that standard output is the document alone.
"""

import os
import shutil
import sys
from pathlib import Path
from typing import Any, Literal

from callboard.actors.agent.runs import Recorded
from callboard.crm.policy import dollars
from callboard.service.cli.terminal import print_json_line, print_lines
from callboard.service.trace import Line, Style

from .proof import Check, Interrupted
from .question import Question
from .trace import trace_lines


class Teller:
    """Tells what happens. `began` is on the port's monotonic clock."""

    def __init__(self, *, document: bool, color: Literal["auto", "always", "never"] = "auto") -> None:
        self.document = document
        self.color: Literal["auto", "always", "never"] = color

    def say(self, text: str = "", *, mark: str = " ", style: Style = "event") -> None:
        """One line of progress; `text` may come from anywhere."""
        line = Line(f"{mark} {text}" if text else "", style)
        print_lines([line], self.color, to_stderr=self.document)

    def heading(self, text: str) -> None:
        """The beginning of an act."""
        self.say()
        print_lines([Line(text, "title")], self.color, to_stderr=self.document)

    def ticket(self, run_id: str, status: str, answer: str, done: int, count: int) -> None:
        """A ticket was finished."""
        good = status == "completed"
        first = (answer or status).strip().splitlines()[0][:88]
        self.say(f"{done:>3}/{count} {run_id}  {first}", mark="✓" if good else "✗", style="event" if good else "bad")

    def question(self, question: Question) -> None:
        """What a person is asked."""
        self.heading(f"Held for a person: {question.ticket} wants to pay")
        for name, value in question.lines:
            self.say(f"{name:>14}  {value}")

    def trace(self, interrupted: Interrupted) -> None:
        """The journal of the run whose node was killed."""
        self.heading(f"Trace of {interrupted.run_id}, whose node was killed in the middle of a refund")
        events: list[Recorded] = interrupted.events
        for line in trace_lines(events):
            self.say(line, style="waits" if "[recovered" in line else "event")

    def checks(self, checks: list[Check]) -> None:
        """The proof."""
        self.heading("What was checked in the ledger, the journals and the mailboxes")
        for check in checks:
            detail = f": {check.detail}" if check.detail else ""
            self.say(f"{check.name}{detail}", mark="✓" if check.ok else "✗", style="good" if check.ok else "bad")

    def result(self, document: dict[str, Any], hint: str) -> None:
        """The last word."""
        if self.document:
            print_json_line(document)
            return
        paid = dollars(int(document["refunded_cents"]))
        killed = f"{document['killed_nodes']} node killed"
        if document["takeover_seconds"] is not None:
            killed += f", taken over in {document['takeover_seconds']} s"
        self.say()
        self.say(
            f"{document['completed']} of {document['tickets']} tickets, {document['refunds']} refunds ({paid}), "
            f"{killed}, "
            f"{document['duplicate_effects']} duplicate effects, {document['lost_messages']} lost messages"
        )
        self.say(hint)


def own_command() -> str:
    """How to call this program from here: it need not be on the PATH."""
    return "callboard" if shutil.which("callboard") else os.path.relpath(Path(sys.prefix) / "bin" / "callboard")
