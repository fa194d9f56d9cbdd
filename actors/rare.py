"""The effects that few turns have, and what a turn knows of its actor's bonds."""

from collections.abc import Callable

from ..mailbox.envelope import Envelope
from ..persistence.rows import Decision, Timer
from ..persistence.unit import Move
from .bonds import Bonds


class Rare:
    """Made when the first of them comes, because so many lists cost as much as a send."""

    __slots__ = (
        "answers",
        "bonds",
        "cancelled_timers",
        "decisions",
        "drops",
        "holds",
        "keep",
        "moves",
        "opened",
        "releases",
        "stash",
        "tied",
        "timers",
        "unheard",
        "unstash",
        "withdrawn",
    )

    def __init__(self) -> None:
        self.holds: list[Envelope] = []
        self.releases: list[int] = []
        self.drops: list[int] = []
        self.withdrawn: list[int] = []
        self.timers: list[Timer] = []
        self.cancelled_timers: list[str] = []
        self.decisions: list[Decision] = []
        self.moves: list[Move] = []
        self.bonds: Bonds | None = None
        """This turn's copy of the actor's bonds, once it was needed."""
        self.tied = False
        """Whether they were changed."""
        self.opened: list[int] = []
        """Asks of this turn."""
        self.answers = 0
        self.keep: Callable[[Bonds], None] | None = None
        """Restores the bond that the message in hand has closed, where the message is put aside."""
        self.unheard = ""
        """Why the message in hand, which has closed its bond, is a dead letter."""
        self.stash = False
        self.unstash = False
