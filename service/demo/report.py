"""How the demonstration is told: lines a person can follow while it runs, then the trace and the proof; or one document.

Progress goes to standard error when a document was asked for, so that standard output is the document alone.
"""

import json
import sys
from typing import Any

import typer

from callboard.actors.agent.runs import Recorded
from .trace import trace_lines
from callboard.crm.policy import dollars
from callboard.service.safe import safe

from .proof import Check, Interrupted
from .question import Question


class Teller:
    """Tells what happens. `began` is on the port's monotonic clock."""

    def __init__(self, *, document: bool) -> None:
        self.document = document
        self.out = sys.stderr if document else sys.stdout

    def say(self, text: str = "", *, mark: str = " ", color: str | None = None) -> None:
        """One line of progress; `text` may come from anywhere."""
        line = f"{mark} {safe(text)}" if text else ""
        typer.secho(line, fg=color, file=self.out)
        self.out.flush()

    def heading(self, text: str) -> None:
        """The beginning of an act."""
        self.say()
        typer.secho(text, bold=True, file=self.out)

    def ticket(self, run_id: str, status: str, answer: str, done: int, count: int) -> None:
        """A ticket was finished."""
        good = status == "completed"
        first = (answer or status).strip().splitlines()[0][:88]
        self.say(f"{done:>3}/{count} {run_id}  {first}", mark="✓" if good else "✗", color=None if good else "red")

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
            self.say(line, color="yellow" if "[recovered" in line else None)

    def checks(self, checks: list[Check]) -> None:
        """The proof."""
        self.heading("What was checked in the ledger, the journals and the mailboxes")
        for check in checks:
            detail = f": {check.detail}" if check.detail else ""
            self.say(f"{check.name}{detail}", mark="✓" if check.ok else "✗", color="green" if check.ok else "red")

    def result(self, document: dict[str, Any], hint: str) -> None:
        """The last word."""
        if self.document:
            sys.stdout.write(json.dumps(document) + "\n")
            sys.stdout.flush()
            return
        paid = dollars(int(document["refunded_cents"]))
        self.say()
        self.say(
            f"{document['completed']} of {document['tickets']} tickets, {document['refunds']} refunds ({paid}), "
            f"{document['killed_nodes']} node killed, taken over in {document['takeover_seconds']} s, "
            f"{document['duplicate_effects']} duplicate effects, {document['lost_messages']} lost messages"
        )
        self.say(hint)
