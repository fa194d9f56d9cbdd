"""What can be asked of actors here, in words: the dialogs of killing one and of pausing many. No rules in them."""

from typing import TYPE_CHECKING

from callboard.mailbox.address import key_of, name_of, parent_of
from callboard.service.operations.watching import ActorGlance, TreeNode
from callboard.tui.dialog import Fact, TypedWord
from callboard.tui.text import line, piece

if TYPE_CHECKING:
    from callboard.service.operations.actors import MailboxView

PAUSE, RESUME = "pause", "resume"


class PauseBelow(TypedWord):
    """Type `pause`, or `resume`; `asked` is which it was."""

    def __init__(self, node: TreeNode) -> None:
        everything = node.address == "/"
        place = "everything" if everything else node.address
        where = "" if everything else f" at {node.address} and below"
        paused = node.words.get("PAUSED", 0)
        super().__init__(
            f"Pause all at once · {place}",
            [
                ("what", line(f"of {_number(node.total, 'actor')}{where}, each that is active takes no more messages; ",
                              "the handler it is in ends first")),
                ("not", "supervisors, which go on starting what fails; and instances of a pool that begin later"),
                ("kept", "messages wait in their mailboxes, approvals stay open, timers stay set"),
                ("back", line(f"type {RESUME} instead, and all that are paused here go on ",
                              piece(f"({paused or 'none'} now)", "needs" if paused else "dim"))),
            ],
            word=PAUSE, verb="does it", reason="reason", reason_needed=False,
        )  # fmt: skip
        self.asked = ""

    @property
    def missing(self) -> str:
        """What is still to be typed."""
        self.asked = self._typed("word")
        return "" if self.asked in (PAUSE, RESUME) else f"type {PAUSE} or {RESUME}, then Enter"


def kill_dialog(glance: ActorGlance, view: "MailboxView") -> TypedWord:
    """Ask for the word that kills an actor: its key, or its name where it has none."""
    word = key_of(glance.address) or name_of(glance.address)
    parent = parent_of(glance.address)
    begun = [one for one in view.calls if one.started]
    risk = ", ".join(one.type for one in begun) or "none"
    kept = [_number(view.actor.waiting, "message"), "its state and its journal"]
    if glance.decision:
        kept.append(f"the open approval {glance.decision}")
    facts: list[Fact] = [
        ("what", "it fails at once, as in a crash: the turn in hand is undone, nothing is cleaned up"),
        ("then", f"its supervisor {parent} decides: it starts again, or the failure goes up" if parent else
                 "nobody is above it: it stays down until it is resumed"),
        ("kept", ", ".join(kept)),
        ("risk", line("calls under way: ", piece(risk, "bad" if begun else ""))),
    ]  # fmt: skip
    return TypedWord(f"Kill actor · {glance.address}", facts, word=word, verb="kills it")


def _number(amount: int, what: str) -> str:
    return f"{amount:,} {what}{'' if amount == 1 else 's'}" if amount else f"no {what}s"
