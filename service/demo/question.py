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

_PAYEE = """
SELECT a.first_name, a.last_name, a.email, o.order_id, o.status, m.kind AS method
FROM crm.sales_order o JOIN crm.account a USING (account_id)
    LEFT JOIN crm.payment_method m ON m.payment_method_id = %(method)s
WHERE o.order_id = %(order)s
"""


class Question(msgspec.Struct, frozen=True):
    """A held refund, as a person needs it."""

    decision: Decision
    ticket: str
    amount_cents: int
    lines: list[tuple[str, str]]


async def ask_about(decision: Decision, ticket: str, database: Database) -> Question:
    """Everything a person should see before deciding, looked up now."""
    arguments: dict[str, Any] = msgspec.json.decode(decision.arguments)
    order, method = str(arguments.get("order_id", "")), str(arguments.get("payment_method_id", ""))
    payee = await database.row(_PAYEE, {"order": order, "method": method}) or {}
    cents = int(arguments.get("amount_cents", 0))
    name = f"{payee.get('first_name', '?')} {payee.get('last_name', '')} <{payee.get('email', '?')}>"
    lines = [
        ("pay", dollars(cents)),
        ("to", name),
        ("by", f"{payee.get('method', 'unknown')} {method}"),
        ("for", f"order {order} ({payee.get('status', '?')}): {arguments.get('reason', '')}"),
        ("asks because", decision.reason),
        ("digest", decision.digest[:16]),
    ]
    return Question(decision, ticket, cents, lines)


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
