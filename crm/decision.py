"""What the policy says about a request, given the records. Pure functions; the model's head without its hands.

Two steps, because the second depends on what the money tool answered: `decide` chooses what to do, `after_money` what
to tell the customer then. `ledger.py` computes the right outcome by another road, from the tables.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from callboard.crm.casework import TicketStatus
from callboard.crm.policy import Policy, dollars
from callboard.crm.reading import Request, named_items
from callboard.crm.transcript import Call


class Answer(msgspec.Struct, frozen=True):
    """The ticket ends here: what the customer reads, and how the ticket is set, with the reason."""

    status: TicketStatus
    resolution: str
    reply: str


class Refund(msgspec.Struct, frozen=True):
    """Give back the price of one item."""

    order_id: str
    amount_cents: int
    payment_method_id: str
    item: str
    needs_approval: bool


class Cancel(msgspec.Struct, frozen=True):
    """Cancel the whole order."""

    order_id: str


Decision = Answer | Refund | Cancel


def identified(request: Request, contact: Mapping[str, Any] | None, order: Mapping[str, Any] | None) -> bool:
    """Whether the writer is a customer on record and the order is theirs, as far as the records know."""
    own_address = all(email == request.sender for email in request.named_emails)
    return bool(own_address and contact and order and contact["account_id"] == order["account_id"])


def not_identified() -> Answer:
    """Refuse without telling which detail was wrong: a stranger must learn nothing from trying."""
    return Answer(
        status="rejected",
        resolution="The e-mail address and the order do not belong together.",
        reply=(
            "Thank you for writing. The details in your message do not match our records, so we cannot say or do"
            " anything about this order. Please write again from the address the order was made with."
        ),
    )


def which_order(request: Request) -> Answer:
    """Ask for the order, where the text names none or several."""
    found = "several orders" if request.order_ids else "no order"
    return Answer(
        status="waiting",
        resolution=f"The message names {found}.",
        reply="Thank you for writing. Which order is this about? Please send us its number.",
    )


def handed_over(why: str, name: str = "") -> Answer:
    """Leave it to a colleague."""
    return Answer(
        status="escalated",
        resolution=why,
        reply=f"{_hello(name)} A colleague of mine will look at this and write to you.",
    )


def decide(request: Request, contact: Mapping[str, Any], order: Mapping[str, Any], policy: Policy) -> Decision:
    """Choose what to do for an identified customer."""
    name = str(contact["first_name"])
    match request.wish:
        case "refund_damaged":
            return _damaged(request, name, order, policy)
        case "cancel":
            return _cancel(name, order, policy)
        case "status":
            return _status(name, order)
        case "unclear":
            return handed_over("What the customer wants is not clear.", name)


def after_money(decision: Refund | Cancel, call: Call, contact: Mapping[str, Any], policy: Policy) -> Answer:
    """Choose what to tell the customer after the money tool answered, whatever it answered."""
    name, order_id = str(contact["first_name"]), decision.order_id
    if call.error is None:
        if isinstance(decision, Refund):
            amount = dollars(int(call.result["amount_cents"]), policy.currency)
            news = f"we have refunded {amount} for the {decision.item} in order {order_id}"
        else:
            amount = dollars(int(call.result["refunded_cents"]), policy.currency)
            news = f"order {order_id} is cancelled, and we have given back {amount}"
        way = "the way you paid, and it can take a few days to show"
        return Answer("resolved", f"{news[0].upper()}{news[1:]}.", f"{_hello(name)} As you asked, {news}, {way}.")
    if _was_not_approved(call):
        sorry = f"We are sorry: a colleague looked at the refund for order {order_id} and did not approve it."
        return Answer("rejected", f"The refund was not approved ({call.error})", f"{_hello(name)} {sorry}")
    return handed_over(f"{call.name} for order {order_id} did not go through: {call.error}", name)


def _damaged(request: Request, name: str, order: Mapping[str, Any], policy: Policy) -> Decision:
    order_id = str(order["order_id"])
    if order["status"] not in policy.refundable_statuses:
        return handed_over(f"Damage is reported, but order {order_id} is {order['status']}.", name)
    meant = named_items(request.text, order["items"])
    if len(meant) != 1:
        ask = "Which item of it arrived damaged? Please name it, with its colour and size where there are several."
        reply = f"{_hello(name)} We are sorry about the damage in order {order_id}. {ask}"
        return Answer("waiting", "Which item is damaged is not clear.", reply)
    price_cents, item = int(meant[0]["unit_price_cents"]), str(meant[0]["name"])
    if price_cents > policy.refund_ceiling_cents:
        return handed_over(
            f"The {item} cost {dollars(price_cents, policy.currency)}, above what the desk may refund.", name
        )
    if int(order["refunded_cents"]) > 0:
        return handed_over(f"Order {order_id} has been refunded in part before.", name)
    charged = next(payment for payment in order["payments"] if payment["kind"] == "charge")
    return Refund(
        order_id=order_id,
        amount_cents=price_cents,
        payment_method_id=str(charged["payment_method_id"]),
        item=item,
        needs_approval=price_cents > policy.refund_limit_cents,
    )


def _cancel(name: str, order: Mapping[str, Any], policy: Policy) -> Decision:
    order_id, status = str(order["order_id"]), str(order["status"])
    if status in policy.cancellable_statuses:
        return Cancel(order_id)
    was = {"processed": "is on its way already", "delivered": "was delivered", "cancelled": "was cancelled before"}[
        status
    ]
    reply = f"{_hello(name)} Order {order_id} {was}, so it cannot be cancelled any more."
    return Answer("rejected", f"Order {order_id} is {status} and cannot be cancelled.", reply)


def _status(name: str, order: Mapping[str, Any]) -> Answer:
    order_id, status = str(order["order_id"]), str(order["status"])
    news = {
        "pending": "has not left our warehouse yet",
        "processed": "has been handed to the carrier",
        "delivered": "was delivered",
        "cancelled": "was cancelled",
    }[status]
    tracking_ids = [str(number) for number in order["tracking_ids"]]
    track = f" The tracking number is {', '.join(tracking_ids)}." if tracking_ids else ""
    return Answer("resolved", f"Told the state: {status}.", f"{_hello(name)} Order {order_id} {news}.{track}")


def _was_not_approved(call: Call) -> bool:
    # The gate's own sentence; a tool's refusal has a code, so that no text that a tool quotes can pass for a decision.
    said = (call.error or "").lower()
    return call.refusal_code is None and ("approval denied" in said or "approval expired" in said)


def _hello(name: str) -> str:
    return f"Hello {name}, thank you for writing." if name else "Hello, thank you for writing."
