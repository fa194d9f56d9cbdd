"""What is compared: the runtime's profiles, and the single ideas that they are made of, each alone.

The ideas show what each of them buys, and the two ends are there to see that the measurement can measure: a gate that
is off lets everything land that can, and one that holds every write lets nothing.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from callboard.actors.guard.profiles import PROFILES, GuardrailProfile, get_profile

_WRITES: Final = PROFILES["strict"].context

IDEAS: Final[Mapping[str, GuardrailProfile]] = {
    "plan alone": GuardrailProfile("plan alone", loop_threshold=0, plan=True),
    "field taint alone": GuardrailProfile("field taint alone", loop_threshold=0, taint=_WRITES),
    "plan + field taint": GuardrailProfile("plan + field taint", loop_threshold=0, plan=True, taint=_WRITES),
    "novelty alone": GuardrailProfile(
        "novelty alone", loop_threshold=0, taint=_WRITES, novel=_WRITES, novel_dates=_WRITES
    ),
    "after untrusted text": GuardrailProfile("after untrusted text", loop_threshold=0, context=_WRITES),
}
EVERY_WRITE: Final = "every write"
"""A gate that asks for every call with an effect: its own row, made with an empty plan."""


class Compared(msgspec.Struct, frozen=True):
    """One row of a table."""

    name: str
    profile: GuardrailProfile
    empty_plan: bool = False
    """The run's plan names no tool at all."""


def compared(names: Iterable[str] = ()) -> list[Compared]:
    """The rows for these names; all of them for none.

    Raises:
        UnknownProfile: there is none of that name.
    """
    every = Compared(EVERY_WRITE, IDEAS["plan alone"].with_(name=EVERY_WRITE), empty_plan=True)
    known = {name: Compared(name, profile) for name, profile in {**PROFILES, **IDEAS}.items()} | {EVERY_WRITE: every}
    wanted = list(names) or list(known)
    return [known[name] if name in known else Compared(name, get_profile(name)) for name in wanted]
