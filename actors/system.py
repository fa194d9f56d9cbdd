"""The messages of the runtime itself, all in the system lane: starting, stopping, failing, parking, asking.

A supervisor and its children speak nothing else with each other. Every one of them is harmless when it comes twice.
"""

from ..mailbox.message import Message


class Start(Message, tag="sys.start"):
    """Supervisor to child: exist, in this incarnation. A child that has that incarnation already just says so."""

    incarnation: int = 1


class Started(Message, tag="sys.started"):
    """Child to supervisor: on_start has committed."""

    child: str
    incarnation: int = 1


class Stop(Message, tag="sys.stop"):
    """Supervisor to child: end in good order. State and mailbox stay."""

    incarnation: int
    reason: str = "shutdown"


class Stopped(Message, tag="sys.stopped"):
    """Child to supervisor: it has ended, for a clean reason."""

    child: str
    incarnation: int
    reason: str = "normal"


class ChildFailed(Message, tag="sys.child_failed"):
    """Child to supervisor, in the commit that gave up: one actor failure."""

    child: str
    incarnation: int
    reason: str


class Resume(Message, tag="sys.resume"):
    """Anybody with the right, to a parked, paused or failed actor: take messages again."""

    by: str = ""


class Pause(Message, tag="sys.pause"):
    """An operator, to an actor: take no messages until resumed."""

    by: str = ""
    reason: str = ""


class Boot(Message, tag="sys.boot"):
    """A node, to the root supervisor: see that the tree of this digest is up."""

    tree: str


class AskFailed(Message, tag="sys.ask_failed"):
    """To whoever waits for a reply: there will be none.

    `why` is one of: timeout, no-such-actor, target-failed, target-ended, rejected.
    """

    why: str
    detail: str = ""
