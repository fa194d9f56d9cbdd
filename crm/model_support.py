"""`DeskModel` as support: reads the ticket, finds out who writes about what, asks the others, answers the customer.

What it tells a customer of an exchange it reads in the order afterwards: what another agent says is no record.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from callboard.crm.decision import (
    Answer,
    answer_in,
    handed_over,
    how_failed,
    identified,
    known,
    not_identified,
    order_state,
    told,
    which_order,
    which_subscription,
    which_variant,
)
from callboard.crm.model_billing import settle
from callboard.crm.reading import (
    WISHES,
    Request,
    Wish,
    named_items,
    question_in,
    read_request,
    subscription_wish,
    swapped,
    wanted_variants,
)
from callboard.crm.requests import BillingRequest, KnowledgeRequest, RetentionRequest, TriageRequest
from callboard.crm.steps import Step, Steps, Wanted
from callboard.crm.transcript import Call
from callboard.crm.triage import Label

Found = Mapping[str, Any]


def support_step(desk: Steps) -> Step:
    """The calls to make now, or the sentence that ends the run."""
    ticket_id = desk.transcript.ticket_id
    if ticket_id is None:
        return "Tell me which ticket to work, as in: Work ticket T-0001."
    wanted = desk.missing([("read_ticket", {"ticket_id": ticket_id})])
    if wanted:
        return wanted
    ticket = desk.transcript.last("read_ticket")
    if ticket is None or ticket.error is not None:
        return f"Ticket {ticket_id} could not be read: {ticket.error if ticket else 'there is no tool for it'}."
    answer = _answer(desk, ticket_id, read_request(ticket.result))
    return _close(desk, ticket_id, answer) if isinstance(answer, Answer) else answer


def _answer(desk: Steps, ticket_id: str, request: Request) -> Answer | Wanted:
    wish = request.wish
    if wish == "unclear" and desk.has("triage"):
        asked = desk.transcript.last("triage")
        if asked is None:
            return [("triage", msgspec.to_builtins(TriageRequest(ticket_id)))]
        wish = _wish_in(asked)
    if wish == "question":
        return _question(desk, request)
    if wish in ("close_account", "change_email", "subscription"):
        return _about_account(desk, ticket_id, request, wish)
    return _about_order(desk, ticket_id, request, wish)


def _wish_in(asked: Call) -> Wish:
    """What triage makes of a ticket that is not clear from here."""
    try:
        wish = msgspec.json.decode(str(asked.result.get("answer", "")), type=Label).wish
    except msgspec.MsgspecError:
        return "unclear"
    return next((one for one in WISHES if one == wish), "unclear")


def _question(desk: Steps, request: Request) -> Answer | Wanted:
    question = question_in(request.text)
    if not question or not desk.has("knowledge"):
        return handed_over("A question that the articles do not answer.")
    asked = desk.transcript.last("knowledge")
    if asked is None:
        return [("knowledge", msgspec.to_builtins(KnowledgeRequest(question)))]
    try:
        said = msgspec.json.decode(str(asked.result.get("answer", "")))
    except msgspec.DecodeError:
        said = {}
    if not isinstance(said, dict) or said.get("found") is not True or not str(said.get("answer", "")).strip():
        return handed_over("A question that the articles do not answer.")
    return told(str(said["answer"]))


def _about_account(desk: Steps, ticket_id: str, request: Request, wish: Wish) -> Answer | Wanted:
    lookups: Wanted = [("find_contact", {"email": request.sender})]
    if wanted := desk.missing(lookups):
        return wanted
    if broken := desk.broken(lookups):
        return handed_over(f"{broken.name} {how_failed(broken)}.")
    contact = desk.found("find_contact")
    # Whoever wants another address has to name it.
    if contact is None or not (wish == "change_email" or known(request, contact)):
        return not_identified()
    if wish == "subscription":
        return _subscription(desk, ticket_id, request, contact)
    asked = BillingRequest(ticket_id, "close_account" if wish == "close_account" else "change_email")
    return _by_agent(desk, "billing", asked, str(contact["first_name"]))


def _subscription(desk: Steps, ticket_id: str, request: Request, contact: Found) -> Answer | Wanted:
    name = str(contact["first_name"])
    accounts: Wanted = [("get_account", {"account_id": contact["account_id"]})]
    if wanted := desk.missing(accounts):
        return wanted
    account = desk.found("get_account")
    own = [] if account is None else [str(one) for one in account.get("subscription_ids", ())]
    meant = list(request.subscription_ids) or own
    if set(meant) - set(own):
        return not_identified()
    wish = subscription_wish(request.text)
    if len(meant) != 1 or wish is None:
        return which_subscription(name, several=len(meant) != 1)
    return _by_agent(desk, "retention", RetentionRequest(ticket_id, meant[0], wish), name)


def _about_order(desk: Steps, ticket_id: str, request: Request, wish: str) -> Answer | Wanted:
    if len(request.order_ids) != 1:
        return which_order(request)
    lookups: Wanted = [
        ("find_contact", {"email": request.sender}),
        ("get_order", {"order_id": request.order_ids[0]}),
    ]
    if wanted := desk.missing(lookups):
        return wanted
    if broken := desk.broken(lookups):
        return handed_over(f"{broken.name} {how_failed(broken)}.")
    contact, order = desk.found("find_contact"), desk.found("get_order")
    if contact is None or order is None or not identified(request, contact, order):
        return not_identified()
    match wish:
        case "status":
            return order_state(contact, order)
        case "exchange":
            return _exchange(desk, ticket_id, request, contact, order)
        case "cancel":
            return _by_billing(desk, BillingRequest(ticket_id, "cancel_order", request.order_ids[0]), contact, order)
        case "refund_damaged":
            meant = _positions(named_items(request.text, order["items"]))
            asked = BillingRequest(ticket_id, "refund_damaged", request.order_ids[0], meant)
            return _by_billing(desk, asked, contact, order)
    return handed_over("What the customer wants is not clear.", str(contact["first_name"]))


def _exchange(desk: Steps, ticket_id: str, request: Request, contact: Found, order: Found) -> Answer | Wanted:
    have, want = swapped(request.text)
    meant = named_items(have, order["items"])
    if len(meant) != 1:
        return which_variant(str(contact["first_name"]))
    if wanted := desk.missing([("get_product", {"product_id": meant[0]["product_id"]})]):
        return wanted
    product = desk.found("get_product")
    variants = [] if product is None else wanted_variants(want, meant[0], product["variants"])
    asked = BillingRequest(ticket_id, "exchange", request.order_ids[0], _positions(meant), variants)
    answer = _by_billing(desk, asked, contact, order)
    if isinstance(answer, Answer) and answer.status == "resolved" and desk.transcript.times("get_order") == 1:
        return [("get_order", {"order_id": request.order_ids[0]})]
    return answer


def _positions(items: list[Mapping[str, Any]]) -> list[int]:
    return [int(item["position"]) for item in items]


def _by_billing(desk: Steps, request: BillingRequest, contact: Found, order: Found) -> Answer | Wanted:
    """Ask billing; at a desk of one agent, which holds all tools itself, do its work."""
    if not desk.has("billing"):
        return settle(desk, request, contact, order)
    return _by_agent(desk, "billing", request, str(contact["first_name"]))


def _by_agent(desk: Steps, agent: str, request: msgspec.Struct, name: str) -> Answer | Wanted:
    if not desk.has(agent):
        return handed_over(f"This desk has no agent {agent}.", name)
    asked = desk.transcript.last(agent)
    if asked is None:
        return [(agent, msgspec.to_builtins(request))]
    if asked.error is not None:
        return handed_over(f"{agent} gave no answer.", name)
    return answer_in(asked) or handed_over(f"{agent} gave an answer that cannot be read.", name)


def _close(desk: Steps, ticket_id: str, answer: Answer) -> Step:
    closing: Wanted = [
        ("reply_to_customer", {"ticket_id": ticket_id, "text": answer.reply}),
        ("set_ticket", {"ticket_id": ticket_id, "status": answer.status, "resolution": answer.resolution}),
    ]
    if wanted := desk.missing(closing):
        return wanted
    failed = desk.broken(closing)
    if failed is not None:
        return f"Ticket {ticket_id}: {answer.resolution} But {failed.name} failed: {failed.error}."
    return f"Ticket {ticket_id} is {answer.status}. {answer.resolution}"
