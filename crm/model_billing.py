"""`DeskModel` as billing: looks everything up that a request is about, and acts once, as the policy says.

A request proves nothing: who wrote the ticket and whose the order is come from the records, in this run.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from callboard.crm.decision import (
    Answer,
    Cancel,
    ChangeEmail,
    CloseAccount,
    Exchange,
    Move,
    Refund,
    after_money,
    decide,
    handed_over,
    how_failed,
    not_identified,
    note_of,
    spoken,
)
from callboard.crm.requests import BillingRequest
from callboard.crm.steps import Step, Steps, Wanted

_ABOUT_AN_ORDER = ("refund_damaged", "cancel_order", "exchange")
_TOOLS: Mapping[type[Move], str] = {
    Refund: "issue_refund",
    Cancel: "cancel_order",
    Exchange: "exchange_items",
    CloseAccount: "offboard_account",
    ChangeEmail: "update_contact",
}


def billing_step(desk: Steps) -> Step:
    """The calls to make now, or the answer for whoever asked."""
    try:
        request = msgspec.json.decode(desk.transcript.request, type=BillingRequest)
    except msgspec.MsgspecError as error:
        return spoken(handed_over(f"The request cannot be read: {error}."))
    answer = _answer(desk, request)
    return spoken(answer) if isinstance(answer, Answer) else answer


def _answer(desk: Steps, request: BillingRequest) -> Answer | Wanted:
    about_order = request.wish in _ABOUT_AN_ORDER
    lookups: Wanted = [("find_sender", {"ticket_id": request.ticket_id})]
    if about_order:
        lookups.append(("get_order", {"order_id": request.order_id}))
    if wanted := desk.missing(lookups):
        return wanted
    if broken := desk.broken(lookups):
        return handed_over(f"{broken.name} {how_failed(broken)}.")
    sender, order = desk.found("find_sender"), desk.found("get_order")
    if sender is None or (about_order and (order is None or sender["account_id"] != order["account_id"])):
        return not_identified()
    return settle(desk, request, sender, order)


def settle(
    desk: Steps, request: BillingRequest, sender: Mapping[str, Any], order: Mapping[str, Any] | None
) -> Answer | Wanted:
    """What comes next for a customer who is known to own the order: calls, or what to tell them."""
    product_id = _product(request, order)
    if product_id and (wanted := desk.missing([("get_product", {"product_id": product_id})])):
        return wanted
    decision = decide(request, sender, order, desk.found("get_product"), desk.policy)
    return decision if isinstance(decision, Answer) else _act(desk, request, decision, sender, order)


def _product(request: BillingRequest, order: Mapping[str, Any] | None) -> str:
    """The product of which an item is to be exchanged; "" where that is not what is asked for."""
    if request.wish != "exchange" or order is None:
        return ""
    meant = (item["product_id"] for item in order["items"] if item["position"] in request.positions)
    return str(next(meant, ""))


def _act(
    desk: Steps, request: BillingRequest, decision: Move, sender: Mapping[str, Any], order: Mapping[str, Any] | None
) -> Answer | Wanted:
    name = str(sender["first_name"])
    if isinstance(decision, Refund | Exchange):
        accounts: Wanted = [("get_account", {"account_id": sender["account_id"]})]
        if wanted := desk.missing(accounts):
            return wanted
        if broken := desk.broken(accounts):
            return handed_over(f"{broken.name} {how_failed(broken)}.", name)
        if not _has_method(desk, decision.payment_method_id):
            return handed_over("The payment method of the order is no longer on the account.", name)
    tool = _TOOLS[type(decision)]
    if not desk.has(tool):
        return handed_over(f"This desk has no tool {tool}.", name)
    moved = desk.transcript.last(tool)
    if moved is None:
        note = ("add_note", {"ticket_id": request.ticket_id, "text": note_of(decision, desk.policy)})
        arguments = _arguments(decision, request)
        if order is not None and "version" in order and desk.takes(tool, "order_version"):
            arguments["order_version"] = order["version"]
        return [(tool, arguments), *([note] if desk.has("add_note") else [])]
    return after_money(decision, moved, sender, desk.policy)


def _has_method(desk: Steps, payment_method_id: str) -> bool:
    account = desk.found("get_account")
    methods = () if account is None else account["payment_methods"]
    return any(method["payment_method_id"] == payment_method_id for method in methods)


def _arguments(decision: Move, request: BillingRequest) -> dict[str, Any]:
    match decision:
        case Cancel():
            return {"order_id": decision.order_id}
        case Exchange():
            return {
                "order_id": decision.order_id,
                "positions": [decision.position],
                "new_variant_ids": [decision.new_variant_id],
                "payment_method_id": decision.payment_method_id,
            }
        case CloseAccount():
            return {"account_id": decision.account_id, "reason": f"asked for in ticket {request.ticket_id}"}
        case ChangeEmail():
            return {"account_id": decision.account_id, "field": "email", "value": decision.email}
    return {
        "order_id": decision.order_id,
        "amount_cents": decision.amount_cents,
        "payment_method_id": decision.payment_method_id,
        "reason": f"{decision.item} arrived damaged",
    }
