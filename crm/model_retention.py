"""`DeskModel` as retention: makes the one change to a subscription that is asked for, if it is the writer's own."""

from collections.abc import Mapping
from typing import Any

import msgspec

from callboard.crm.decision import Answer, after_change, handed_over, how_failed, not_identified, spoken
from callboard.crm.requests import RetentionRequest
from callboard.crm.steps import Step, Steps, Wanted


def retention_step(desk: Steps) -> Step:
    """The calls to make now, or the answer for whoever asked."""
    try:
        request = msgspec.json.decode(desk.transcript.request, type=RetentionRequest)
    except msgspec.MsgspecError as error:
        return spoken(handed_over(f"The request cannot be read: {error}."))
    answer = _answer(desk, request)
    return spoken(answer) if isinstance(answer, Answer) else answer


def _answer(desk: Steps, request: RetentionRequest) -> Answer | Wanted:
    lookups: Wanted = [
        ("find_sender", {"ticket_id": request.ticket_id}),
        ("get_subscription", {"subscription_id": request.subscription_id}),
    ]
    if wanted := desk.missing(lookups):
        return wanted
    if broken := desk.broken(lookups):
        return handed_over(f"{broken.name} {how_failed(broken)}.")
    sender, subscription = desk.found("find_sender"), desk.found("get_subscription")
    if sender is None or subscription is None or sender["account_id"] != subscription["account_id"]:
        return not_identified()
    changed = desk.transcript.last("change_subscription")
    if changed is None:
        return _change(desk, request, subscription)
    return after_change(request, changed, str(sender["first_name"]))


def _change(desk: Steps, request: RetentionRequest, subscription: Mapping[str, Any]) -> Wanted:
    change: dict[str, Any] = {"subscription_id": request.subscription_id, "change": request.wish}
    if "version" in subscription and desk.takes("change_subscription", "version"):
        change["version"] = subscription["version"]
    text = f"Subscription {request.subscription_id} is {subscription['status']}; asked for: {request.wish}."
    return [("change_subscription", change), ("add_note", {"ticket_id": request.ticket_id, "text": text})]
