"""What the desk's runs go by: the profile `standard`, for whose customers write whatever they like into their tickets.

One number of it is the desk's own: a value that nothing explains asks for every kind of call, not only where money
moves. An agent of this desk has nothing to make up, and honest tickets ask no more for it (docs/THREAT_MODEL.md).

The order and the amount of a refund come from the customer's mail, but the desk looks them up: a value that is found in
a row of its own counts as its own. What that clears is only that the row exists; whose it is, the money tools and the
policy have to see to.

Runs of the agents that a ticket's run has called go by the same profile. To them the request that they get is a text
from outside: a value of it counts as the desk's own once they have looked it up themselves. And no request may be about
another ticket than the one that the run was begun for (`own_ticket`), or a customer could have the desk act in the name
of another one.
"""

from collections.abc import Mapping
from typing import Final

from callboard.actors.agent.policies import PolicyCall, policy
from callboard.actors.agent.policy import Terms
from callboard.actors.guard.profiles import PROFILES, GuardrailProfile

PROFILE: Final = PROFILES["standard"].with_(
    novel=("write", "egress", "money"),
    # Words for people. What they carry (order numbers, amounts, addresses, links) is looked at all the same.
    free_text={
        "add_note": ("text",),
        "set_ticket": ("resolution",),
        "reply_to_customer": ("text",),
        "issue_refund": ("reason",),
        "offboard_account": ("reason",),
        "knowledge": ("question",),
    },
)
GUARDRAIL: Final = PROFILE.name
"""The profile of the desk's runs, unless one names another."""
GUARDRAILS: Final[Mapping[str, GuardrailProfile]] = {PROFILE.name: PROFILE}


@policy
def own_ticket(call: PolicyCall) -> Terms | None:
    """Asks a person where support sends another agent to a ticket that nobody trusted has named to it."""
    found = next((one for one in call.provenance if one.path == "ticket_id"), None)
    if call.agent or call.tool not in _ABOUT_A_TICKET or found is None:
        return None
    if found.trust == "trusted" and found.source in ("goal", "said"):
        return None
    return Terms(f"{call.tool} is asked about a ticket that this run was not begun for", "desk.own_ticket", "high")


_ABOUT_A_TICKET: Final = ("triage", "billing", "retention")
