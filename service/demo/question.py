"""The question to a person: exactly what will be paid, to whom, and why it asks; and the answer.

On a terminal the amount has to be typed to approve, as everywhere in Callboard; anything else denies. With --yes, or
where nobody sits in front of it, the demonstration approves by itself and says so.
"""

import sys
from typing import Any

import msgspec

from callboard.crm.policy import dollars
from callboard.persistence.port import Port
from callboard.persistence.postgres.database import Database
from callboard.persistence.rows import Decision

_ORDER = """
SELECT a.first_name, a.last_name, a.email, o.order_id, o.status, m.kind AS method
FROM crm.sales_order o JOIN crm.account a USING (account_id)
    LEFT JOIN crm.payment_method m ON m.payment_method_id = %(method)s
WHERE o.order_id = %(order)s
"""
_ACCOUNT = "SELECT first_name, last_name, email FROM crm.account WHERE account_id = %s"
_TOLD = ("order_id", "account_id", "amount_cents", "payment_method_id", "reason", "order_version")
"""Arguments that have lines of their own, or that are looked up by the tool's checks."""


class Question(msgspec.Struct, frozen=True):
    """A held call, as a person needs it."""

    decision: Decision
    ticket: str
    amount_cents: int
    """What will be paid; 0 where the call names no sum."""
    lines: list[tuple[str, str]]


def ticket_of(decision: Decision) -> str:
    """The ticket that a question is about, also where an agent asks that another one has called."""
    return decision.run.rpartition(":")[2].partition(".")[0]


async def ask_about(decision: Decision, ticket: str, database: Database) -> Question:
    """Everything a person should see before deciding, looked up now."""
    arguments: dict[str, Any] = msgspec.json.decode(decision.arguments)
    cents = int(arguments.get("amount_cents", 0))
    lines = [
        ("pay", dollars(cents)) if cents else ("do", decision.tool),
        *await _whose(arguments, database),
        *((name, f"{value}") for name, value in arguments.items() if name not in _TOLD and value not in ("", [], None)),
        ("asks because", decision.reason),
        *_checks(decision),
        *([("takes", f"{decision.needed} people")] if decision.needed > 1 else []),
        ("digest", decision.digest[:16]),
    ]
    return Question(decision, ticket, cents, lines)


async def _whose(arguments: dict[str, Any], database: Database) -> list[tuple[str, str]]:
    """Whom it concerns, and by which order and payment method."""
    order, method = str(arguments.get("order_id", "")), str(arguments.get("payment_method_id", ""))
    reason = str(arguments.get("reason", ""))
    if not order:
        account = await database.row(_ACCOUNT, (str(arguments.get("account_id", "")),))
        why = [("for", reason)] if reason else []
        return [("to", _person(account)), *why] if account or "account_id" in arguments else why
    payee = await database.row(_ORDER, {"order": order, "method": method}) or {}
    what = f"order {order} ({payee.get('status', '?')})"
    by = [("by", f"{payee.get('method') or 'unknown'} {method}")] if method else []
    return [("to", _person(payee)), *by, ("for", f"{what}: {reason}" if reason else what)]


def _person(row: dict[str, Any] | None) -> str:
    found = row or {}
    return f"{found.get('first_name', '?')} {found.get('last_name', '')} <{found.get('email', '?')}>"


def _checks(decision: Decision) -> list[tuple[str, str]]:
    """What the tool's own checks found when the question was asked, each that is not as it should be by itself."""
    found: list[dict[str, Any]] = msgspec.json.decode(decision.checks) if decision.checks else []
    said = [(bool(one.get("ok")), str(one.get("detail") or one.get("check"))) for one in found]
    fine = "; ".join(text for ok, text in said if ok)
    return [*([("looked up", fine)] if fine else []), *(("but", text) for ok, text in said if not ok)]


async def answer(question: Question, port: Port) -> bool:
    """Ask on the terminal; whether the amount was typed."""
    exact = f"{question.amount_cents / 100:.2f}"
    prompt = f"  type {exact} to approve, anything else denies: "

    def read() -> str:
        sys.stderr.write(prompt)
        sys.stderr.flush()
        return sys.stdin.readline()

    typed = await port.in_thread(read)
    return typed.strip().replace(",", ".") == exact
