"""What the policy says about a request, given the records. Pure functions; the model's head without its hands.

Two steps, because the second depends on what the money tool answered: `decide` chooses what to do, `after_money` what
to tell the customer then. `ledger.py` computes the right outcome by another road, from the tables.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from callboard.crm.casework import TicketStatus
from callboard.crm.policy import Policy, dollars
from callboard.crm.reading import Request
from callboard.crm.requests import BillingRequest, RetentionRequest
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


class Exchange(msgspec.Struct, frozen=True):
    """Give one item back for another variant of the same product."""

    order_id: str
    position: int
    new_variant_id: str
    payment_method_id: str
    item: str


class CloseAccount(msgspec.Struct, frozen=True):
    """Have an account closed."""

    account_id: str


class ChangeEmail(msgspec.Struct, frozen=True):
    """Give an account another e-mail address."""

    account_id: str
    email: str


Move = Refund | Cancel | Exchange | CloseAccount | ChangeEmail
"""What billing does, with the one tool that does it."""
Decision = Answer | Move


def identified(request: Request, contact: Mapping[str, Any] | None, order: Mapping[str, Any] | None) -> bool:
    """Whether the writer is a customer on record and the order is theirs, as far as the records know."""
    return known(request, contact) and bool(contact and order and contact["account_id"] == order["account_id"])


def known(request: Request, contact: Mapping[str, Any] | None) -> bool:
    """Whether the writer is a customer on record, and names no other address than the one they write from."""
    return contact is not None and all(email == request.sender for email in request.named_emails)


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


def which_subscription(name: str, *, several: bool) -> Answer:
    """Ask for the subscription, where the customer has several, or what they want of it."""
    ask = "Which of your subscriptions is this about?" if several else "Shall it be paused, resumed, renewed or ended?"
    return Answer("waiting", "What is wanted of which subscription is not clear.", f"{_hello(name)} {ask}")


def which_variant(name: str) -> Answer:
    """Ask what is wanted instead."""
    ask = "Which item would you like to exchange, and for which colour, size or kind of it?"
    return Answer("waiting", "What is to be exchanged for what is not clear.", f"{_hello(name)} {ask}")


def told(answer: str) -> Answer:
    """Answer a general question in the words of an article."""
    return Answer("resolved", "Answered a question from the articles.", f"{_hello('')} {answer}")


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


def decide(
    request: BillingRequest,
    sender: Mapping[str, Any],
    order: Mapping[str, Any] | None,
    product: Mapping[str, Any] | None,
    policy: Policy,
) -> Decision:
    """Choose what to do for a customer who is known, and known to own the order where one is meant.

    `product`: of the item that is to be exchanged.
    """
    name, account_id = str(sender["first_name"]), str(sender["account_id"])
    match request.wish:
        case "refund_damaged" if order is not None:
            return _damaged(request, name, order, policy)
        case "cancel_order" if order is not None:
            return _cancel(name, order, policy)
        case "exchange" if order is not None:
            return _exchange(request, name, order, product, policy)
        case "close_account" | "change_email" if sender.get("role", "owner") != "owner":
            return handed_over("Only the owner of an account may ask for that, and somebody else wrote.", name)
        case "close_account":
            return CloseAccount(account_id)
        case "change_email":
            return _change_email(name, account_id, sender)
    return handed_over(f"Nothing is known that {request.wish} could be about.", name)


def after_money(decision: Move, call: Call, sender: Mapping[str, Any], policy: Policy) -> Answer:
    """Choose what to tell the customer after the tool answered that acts, whatever it answered."""
    name = str(sender["first_name"])
    if call.error is None:
        news, way = _news(decision, call, policy)
        return Answer("resolved", f"{news[0].upper()}{news[1:]}.", f"{_hello(name)} As you asked, {news}{way}.")
    if was_not_approved(call):
        return not_approved(name, _what(decision), call)
    return handed_over(f"{call.name} for {_of_what(decision)} {how_failed(call)}.", name)


def not_approved(name: str, what: str, call: Call) -> Answer:
    """Tell a customer that a person said no, or nobody in time. What a person wrote is for colleagues: it stands with
    the decision."""
    if "approval expired" in (call.error or "").lower():
        sorry = f"We are sorry: nobody here has approved {what} in time, so it is not made."
        return Answer("rejected", f"Nobody decided about {what} in time.", f"{_hello(name)} {sorry}")
    sorry = f"We are sorry: a colleague looked at {what} and did not approve it."
    return Answer("rejected", f"A colleague did not approve {what}.", f"{_hello(name)} {sorry}")


def after_change(request: RetentionRequest, call: Call, name: str) -> Answer:
    """Choose what to tell the customer after a subscription was changed, or was not."""
    done = {"cancel": "ended", "pause": "paused", "resume": "resumed", "renew": "set to renew"}[request.wish]
    if call.error is None:
        news = f"subscription {request.subscription_id} is {done}"
        return Answer("resolved", f"{news[0].upper()}{news[1:]}.", f"{_hello(name)} As you asked, {news}.")
    if was_not_approved(call):
        return not_approved(name, f"the change of subscription {request.subscription_id}", call)
    if call.refusal_code in ("wrong_status", "lapsed"):
        sorry = f"Subscription {request.subscription_id} cannot be {done} as it is now."
        return Answer("rejected", sorry, f"{_hello(name)} {sorry}")
    return handed_over(f"The change of subscription {request.subscription_id} {how_failed(call)}.", name)


def _news(decision: Move, call: Call, policy: Policy) -> tuple[str, str]:
    """What has happened, and how the customer will notice."""
    way = ", the way you paid, and it can take a few days to show"
    match decision:
        case Refund():
            amount = dollars(int(call.result["amount_cents"]), policy.currency)
            return f"we have refunded {amount} for the {decision.item} in order {decision.order_id}", way
        case Cancel():
            amount = dollars(int(call.result["refunded_cents"]), policy.currency)
            return f"order {decision.order_id} is cancelled, and we have given back {amount}", way
        case Exchange():
            what = f"the {decision.item} of order {decision.order_id} is exchanged"
            cents = int(call.result["difference_cents"])
            if not cents:
                return what, ""
            moved = "charged" if cents > 0 else "given back"
            return f"{what}, and we have {moved} the difference of {dollars(abs(cents), policy.currency)}", way
        case CloseAccount():
            return "we have begun to close your account", ". You will hear from us when it is done"
        case ChangeEmail():
            return "your account has the new e-mail address", ". Please write to us from that one from now on"


def _what(decision: Move) -> str:
    match decision:
        case Refund():
            return f"the refund for order {decision.order_id}"
        case Cancel():
            return f"the cancellation of order {decision.order_id}"
        case Exchange():
            return f"the exchange in order {decision.order_id}"
        case CloseAccount():
            return "the closing of your account"
        case ChangeEmail():
            return "the change of your e-mail address"


def how_failed(call: Call) -> str:
    """How a call went wrong, in words of our own: its error may quote anybody, and stands in the run's journal."""
    return f"was refused ({call.refusal_code})" if call.refusal_code else "failed"


def _of_what(decision: Move) -> str:
    if isinstance(decision, CloseAccount | ChangeEmail):
        return f"account {decision.account_id}"
    return f"order {decision.order_id}"


def order_state(contact: Mapping[str, Any], order: Mapping[str, Any]) -> Answer:
    """Tell how an order is."""
    return _status(str(contact["first_name"]), order)


def note_of(decision: Move, policy: Policy) -> str:
    """What a colleague should read while it is done, or decided."""
    match decision:
        case Cancel():
            return f"Order {decision.order_id} is pending and belongs to the writer: cancelling it as asked."
        case Exchange():
            return f"The {decision.item} of order {decision.order_id} is to become {decision.new_variant_id}."
        case CloseAccount():
            return "The owner of the account asks to have it closed. Asking for approval."
        case ChangeEmail():
            return "The owner of the account wants another e-mail address. Asking for approval."
    amount = dollars(decision.amount_cents, policy.currency)
    found = f"The {decision.item} of order {decision.order_id} is reported damaged; it cost {amount}."
    return f"{found} Asking for approval." if decision.needs_approval else f"{found} Refunding it."


def spoken(answer: Answer) -> str:
    """An answer as one agent gives it to another."""
    return msgspec.json.encode(answer).decode()


def answer_in(call: Call) -> Answer | None:
    """What another agent has answered; None where it did not answer like one."""
    try:
        return msgspec.json.decode(str(call.result.get("answer", "")), type=Answer)
    except msgspec.MsgspecError:
        return None


def _damaged(request: BillingRequest, name: str, order: Mapping[str, Any], policy: Policy) -> Decision:
    order_id = str(order["order_id"])
    if order["status"] not in policy.refundable_statuses:
        return handed_over(f"Damage is reported, but order {order_id} is {order['status']}.", name)
    meant = [item for item in order["items"] if int(item["position"]) in request.positions]
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
    return Refund(
        order_id=order_id,
        amount_cents=price_cents,
        payment_method_id=_charged(order),
        item=item,
        needs_approval=price_cents > policy.refund_limit_cents,
    )


def _exchange(
    request: BillingRequest,
    name: str,
    order: Mapping[str, Any],
    product: Mapping[str, Any] | None,
    policy: Policy,
) -> Decision:
    order_id = str(order["order_id"])
    if order["status"] not in policy.exchangeable_statuses:
        return handed_over(f"An exchange is asked for, but order {order_id} is {order['status']}.", name)
    meant = [item for item in order["items"] if int(item["position"]) in request.positions]
    if len(meant) != 1 or len(request.new_variant_ids) != 1:
        return which_variant(name)
    variants = () if product is None else product["variants"]
    wanted = next((one for one in variants if one["variant_id"] == request.new_variant_ids[0]), None)
    item = str(meant[0]["name"])
    if wanted is None:
        return handed_over(f"The {item} of order {order_id} cannot become what is asked for.", name)
    if not wanted["available"]:
        sorry = f"The {item} that you would like instead cannot be had at the moment."
        return Answer("waiting", f"The {item} that is wanted cannot be had.", f"{_hello(name)} {sorry} Another one?")
    return Exchange(order_id, int(meant[0]["position"]), str(wanted["variant_id"]), _charged(order), item)


def _change_email(name: str, account_id: str, sender: Mapping[str, Any]) -> Decision:
    others = sender.get("other_emails", ())
    if len(others) != 1:
        ask = "Which e-mail address shall your account have? Please name that one alone."
        return Answer("waiting", "The new e-mail address is not clear.", f"{_hello(name)} {ask}")
    return ChangeEmail(account_id, str(others[0]))


def _charged(order: Mapping[str, Any]) -> str:
    """The payment method that the order was paid with."""
    charged = next(payment for payment in order["payments"] if payment["kind"] == "charge")
    return str(charged["payment_method_id"])


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


def was_not_approved(call: Call) -> bool:
    """Whether people said no, or nobody in time."""
    # The gate's own sentence; a tool's refusal has a code, so that no text that a tool quotes can pass for a decision.
    said = (call.error or "").lower()
    return call.refusal_code is None and ("approval denied" in said or "approval expired" in said)


def _hello(name: str) -> str:
    return f"Hello {name}, thank you for writing." if name else "Hello, thank you for writing."
