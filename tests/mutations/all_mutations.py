"""All mutations there are."""

from .of_guarantees import OF_GUARANTEES
from .of_rules import OF_RULES

MUTATIONS = (*OF_GUARANTEES, *OF_RULES)
