"""What is known of one request when somebody decides on it: the call, what it takes, the run, what was said."""

import json
from dataclasses import dataclass, field
from typing import Any

from callboard.mailbox.errors import CallboardError, StoreUnavailable
from callboard.service.operations.argument_paths import values_in
from callboard.service.operations.demands import Demand
from callboard.service.operations.views import ApprovalView, RunView
from callboard.service.operations.words import Said, words_or_none

from ..gateway import Gateway

WHOM = ("customer", "name", "payee", "recipient", "to", "email", "account", "account_id", "customer_id", "contact")
WHAT = ("order_id", "order", "ticket", "ticket_id", "invoice", "subject", "reason")
"""Names of arguments by which people know a request in a list, the best first."""


@dataclass(frozen=True)
class Leaf:
    """One value among the arguments."""

    path: str
    value: Any

    @property
    def text(self) -> str:
        """As the tool gets it, in JSON."""
        return json.dumps(self.value, ensure_ascii=False)


@dataclass(frozen=True)
class Subject:
    """A request, and all that is shown beside it."""

    view: ApprovalView
    demand: Demand
    run: RunView | None = None
    words: list[Said] = field(default_factory=list)
    before: ApprovalView | None = None
    """What was shown here until it changed."""


async def read_subject(gateway: Gateway, view: ApprovalView, before: ApprovalView | None = None) -> Subject:
    """Everything about one request. What is beside the point (the run, its words) may be missing; a database that is
    away is not."""
    run: RunView | None = None
    try:
        run = await gateway.operations.run(view.run_address)
    except StoreUnavailable:
        raise
    except CallboardError:
        pass  # a run that cannot be read keeps nobody from refusing its call
    words = await words_or_none(gateway.operations, view.run_address)
    return Subject(view, gateway.decisions.demand(view), run, words, before)


def leaves(arguments: Any) -> list[Leaf]:
    """Every value of a call's arguments by its path, in their order; an empty list or object is one."""
    return [Leaf(*one) for one in values_in(arguments)]


def differences(before: ApprovalView, after: ApprovalView) -> list[tuple[str, str, str]]:
    """Path, old and new value of what differs; "" where there was, or is, none."""
    old = {one.path: one.text for one in leaves(before.arguments)}
    new = {one.path: one.text for one in leaves(after.arguments)}
    paths = [*old, *(path for path in new if path not in old)]
    return [(path, old.get(path, ""), new.get(path, "")) for path in paths if old.get(path) != new.get(path)]


def source_of(view: ApprovalView, path: str) -> dict[str, Any] | None:
    """Where the value at a path comes from, as far as it is known; that of what it is a part of, if need be."""
    best: dict[str, Any] | None = None
    for one in view.provenance:
        place = str(one.get("path", ""))
        is_part = path == place or path.startswith((f"{place}.", f"{place}["))
        if is_part and (best is None or len(place) > len(best["path"])):
            best = one
    return best


def whom(view: ApprovalView) -> str:
    """For whom it is, in a few words, as far as its arguments say."""
    texts = {one.path.rpartition(".")[2].lower(): str(one.value) for one in leaves(view.arguments) if one.value}
    found = [texts[name] for names in (WHOM, WHAT) for name in names if name in texts]
    return " · ".join(dict.fromkeys(found[:2])) or next((text for text in texts.values()), "")
