"""How hard a run is: how often what goes wrong. A profile is picked by the seed, or named on the command line."""

import random

import msgspec


class Profile(msgspec.Struct, frozen=True):
    """Chances are per occasion; rates are per second of virtual time, over all nodes."""

    name: str
    storm_seconds: float = 1.0
    """How long things go wrong; then all is healed and must come to rest."""
    nodes: int = 2
    """At the beginning; others join, and restart."""
    steps: tuple[int, ...] = (1, 2, 3, 4, 6)
    """How much each client has to say: little, as variety comes from the many seeds; one of these."""
    slow: float = 0.15
    """A call to the store takes a while."""
    slow_seconds: float = 0.02
    crash_before_commit: float = 0.0
    crash_after_commit: float = 0.0
    """It landed, and the node dies before it hears of it."""
    crash_in_call: float = 0.0
    """Any other call to the store."""
    crash_in_tool: float = 0.0
    """Between a tool's effect and its record."""
    crash_rate: float = 0.0
    """Between any two steps."""
    freeze_before_commit: float = 0.0
    """With turns in hand that it believes are about to be written."""
    freeze_in_tool: float = 0.0
    freeze_rate: float = 0.0
    freeze_seconds: float = 2.0
    cut_rate: float = 0.0
    """A node's connections are lost."""
    outage_rate: float = 0.0
    outage_seconds: float = 1.0
    restart_rate: float = 0.0
    """The store goes away and is back at once."""
    lost_landed: float = 0.0
    lost_unlanded: float = 0.0
    lost_answer: float = 0.0
    """To any other call of a node."""
    lost_answer_outside: float = 0.0
    """A client does not hear that its message was accepted."""
    wake_lost: float = 0.0
    wake_late: float = 0.0
    wake_twice: float = 0.0
    leave_rate: float = 0.0
    join_rate: float = 0.0
    poison: float = 0.0
    """Chance that a message of the workload is a bad one."""
    drain_seconds: float = 1.5
    """Of a leaving node; the slowest tools take longer than this."""
    agents: int = 0

    @property
    def is_calm(self) -> bool:
        """Whether no process dies, freezes or is cut off: then nothing is begun twice."""
        harm = ("crash", "freeze", "cut", "outage", "restart", "lost")
        winds = msgspec.structs.asdict(self).items()
        return not any(value for field, value in winds if field.startswith(harm) and not field.endswith("_seconds"))


PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile("calm", slow=0.4, slow_seconds=0.05, wake_lost=0.1, wake_late=0.3, wake_twice=0.3),
        Profile("moves", slow=0.4, slow_seconds=0.04, leave_rate=2.0, join_rate=2.0, wake_lost=0.4,
                wake_late=0.3, drain_seconds=10.0, agents=1, nodes=3),
        Profile("crashes", crash_before_commit=0.01, crash_after_commit=0.01, crash_in_call=0.002, crash_in_tool=0.05,
                crash_rate=0.8, wake_late=0.1),
        Profile("boundaries", crash_before_commit=0.03, crash_after_commit=0.03, crash_in_tool=0.1),
        Profile("freezes", freeze_rate=1.0, freeze_before_commit=0.02, freeze_in_tool=0.1, slow=0.3,
                wake_late=0.1),
        Profile("network", lost_landed=0.04, lost_unlanded=0.04, lost_answer=0.01, lost_answer_outside=0.1,
                cut_rate=0.4, wake_lost=0.2, wake_late=0.2, wake_twice=0.1, slow=0.3, agents=1),
        Profile("outages", outage_rate=0.7, restart_rate=0.7, lost_landed=0.02, lost_answer_outside=0.1),
        Profile("poison", poison=0.15, crash_rate=0.4, leave_rate=0.4, join_rate=0.4),
        Profile("agents", agents=1, crash_before_commit=0.02, crash_after_commit=0.02, crash_in_tool=0.1,
                freeze_rate=0.3, lost_landed=0.02),
        Profile("storm", crash_before_commit=0.01, crash_after_commit=0.01, crash_in_call=0.001, crash_in_tool=0.05,
                crash_rate=0.5, freeze_rate=0.3, freeze_before_commit=0.005, freeze_in_tool=0.05, cut_rate=0.3,
                outage_rate=0.2, restart_rate=0.2, lost_landed=0.02, lost_unlanded=0.02, lost_answer=0.003,
                lost_answer_outside=0.05, wake_lost=0.1, wake_late=0.2, wake_twice=0.1, leave_rate=0.5, join_rate=0.7,
                poison=0.03, agents=1),
    )
}  # fmt: skip

WILD = "wild"
"""Not one profile but one for each seed."""
NAMES = sorted({*PROFILES, WILD})


def profile_of(name: str, chance: random.Random) -> Profile:
    """The profile of that name; a wild one is the storm with each of its winds turned off, on, or up."""
    if name != WILD:
        return PROFILES[name]
    storm = msgspec.structs.asdict(PROFILES["storm"])
    winds = [field for field, value in storm.items() if isinstance(value, float) and not field.endswith("_seconds")]
    changed = {field: storm[field] * chance.choice((0, 0, 1, 1, 4)) for field in winds}
    changed["freeze_seconds"] = chance.choice((0.5, 2.0, 4.0))
    return Profile(**{**storm, **changed, "name": WILD, "nodes": chance.choice((1, 2, 2, 3)),
                      "storm_seconds": chance.choice((0.6, 1.0, 1.0, 2.0)), "agents": chance.choice((0, 0, 1)),
                      "drain_seconds": chance.choice((0.2, 1.5, 6.0))})  # fmt: skip


HEALED = Profile("healed", slow=0.0)
"""After the storm: nothing goes wrong any more."""
