"""What the desk's runs go by: the profile `standard`, for whose customers write whatever they like into their tickets.

One number of it is the desk's own: a value that nothing explains asks for every kind of call, not only where money
moves. An agent of this desk has nothing to make up, and honest tickets ask no more for it (docs/THREAT_MODEL.md).

The order and the amount of a refund come from the customer's mail, but the desk looks them up: a value that is found in
a row of its own counts as its own. What that clears is only that the row exists; whose it is, the money tools and the
policy have to see to.
"""

from collections.abc import Mapping
from typing import Final

from callboard.actors.guard.profiles import PROFILES, GuardrailProfile

PROFILE: Final = PROFILES["standard"].with_(
    novel=("write", "egress", "money"),
    # Words for people. What they carry (order numbers, amounts, addresses, links) is looked at all the same.
    free_text={
        "add_note": ("text",),
        "set_ticket": ("resolution",),
        "reply_to_customer": ("text",),
        "issue_refund": ("reason",),
    },
)
GUARDRAIL: Final = PROFILE.name
"""The profile of the desk's runs, unless one names another."""
GUARDRAILS: Final[Mapping[str, GuardrailProfile]] = {PROFILE.name: PROFILE}
