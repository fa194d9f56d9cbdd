"""The messages of the runtime itself, all in the system lane: starting, stopping, failing, parking, asking.

A supervisor and its children speak nothing else with each other. Every one of them is harmless when it comes twice.
"""

import msgspec

from ..mailbox.message import Message, wire
from ..mailbox.request import Request

NOBODY = "no-such-actor"
"""Reason of a `Stopped` from where there is nobody to be stopped: never was, or has ended for good."""


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
    """Which one shall end; 0: whichever it is."""
    reason: str = "shutdown"
    kill: bool = False
    """At once, without `on_stop`, whatever its handler is doing; the reason of its end is "killed"."""
    final: bool = False
    """It is not started again: it takes nothing any more, instead of keeping what comes."""


class Stopped(Message, tag="sys.stopped"):
    """Child to supervisor: it has ended, for a clean reason, or was killed as it was told."""

    child: str
    incarnation: int
    reason: str = "normal"
    ended: bool = False
    """It ended by itself, for good, and not because it was told to stop."""
    cancelled: bool = False
    """A person has ended it: it is not started again, whatever its restart kind."""


class ChildFailed(Message, tag="sys.child_failed"):
    """Child to supervisor, in the commit that gave up: one actor failure."""

    child: str
    incarnation: int
    reason: str
    starting: bool = False
    """It could not start."""


class Ignored(Message, tag="sys.ignored"):
    """Child to supervisor: its on_start declined (`ctx.ignore()`); it does not run, and nothing is wrong."""

    child: str
    incarnation: int


class Abandon(Message, tag="sys.abandon"):
    """Supervisor to a failed child: it is not restarted, and stays failed for good."""

    incarnation: int


class Kill(Message, tag="sys.kill"):
    """An operator, to one actor: fail at once, whatever its handler is doing. Its supervisor decides what follows.

    One whose start is under way, or waits to be tried again, has failed to start.
    All children of a supervisor that is killed are killed first.
    """

    by: str = ""
    reason: str = "killed"


class StartChild(Request["ChildDone | ChildRefused"], tag="sys.start_child"):
    """Asked of a supervisor: start the instance `name:key` of a dynamic child or of a pool.

    Without a key: the child of the tree that was deleted. Answered when it runs (or has failed to start).
    """

    name: str
    key: str = ""


class TerminateChild(Request["ChildDone | ChildRefused"], tag="sys.terminate_child"):
    """Asked of a supervisor: stop a child, and let nobody but an operator start it again. Answered when it is down."""

    child: str
    """`name`, or `name:key`; so in all of these."""


class RestartChild(Request["ChildDone | ChildRefused"], tag="sys.restart_child"):
    """Asked of a supervisor: start a child that is down. Answered when it runs (or has failed to start)."""

    child: str


class DeleteChild(Request["ChildDone | ChildRefused"], tag="sys.delete_child"):
    """Asked of a supervisor: forget a child that is down."""

    child: str


class ListChildren(Request["Children"], tag="sys.list_children"):
    """Asked of a supervisor."""


class CountChildren(Request["ChildCounts"], tag="sys.count_children"):
    """Asked of a supervisor."""


class ChildDone(Message, tag="sys.child_done"):
    """A supervisor's answer: what was asked of this child is done."""

    child: str
    incarnation: int = 0


class ChildRefused(Message, tag="sys.child_refused"):
    """A supervisor's answer: no.

    `why` is one of: running, not_found, already_present, simple_one_for_one, restarting, stopping, busy, paused
    (the pool); or the reason for which the child failed to start.
    """

    child: str
    why: str


class ChildView(msgspec.Struct, frozen=True):
    """A child as its supervisor lists it."""

    id: str
    """`name`, or `name:key`; a pool is listed once, by its name."""
    process: str
    """running, restarting (being started, or waiting for it), or none."""
    kind: str
    """worker or supervisor."""
    incarnation: int = 0
    detail: str = ""
    """Why there is no process: paused (by an operator), ended, failed, ignored, stopped, …"""


class Children(Message, tag="sys.children"):
    """A supervisor's answer to `ListChildren`: newest first."""

    children: list[ChildView] = msgspec.field(default_factory=list)


class ChildCounts(Message, tag="sys.child_counts"):
    """A supervisor's answer to `CountChildren`."""

    specs: int
    active: int
    supervisors: int
    workers: int


class ShutdownOver(Message, tag="sys.shutdown_over"):
    """A supervisor's timer: a child that was asked to stop has had its time."""

    child: str
    incarnation: int


class RestartDue(Message, tag="sys.restart_due"):
    """A supervisor's timer: the back-off before a restart is over. Without a child: of the whole group."""

    child: str = ""


class Cancel(Message, tag="sys.cancel"):
    """Anybody with the right, to an actor: end now, as cancelled, whatever it is doing; `on_cancel` has a turn.

    An actor that has ended already, or is not there, is left as it is. A supervisor refuses it (`TerminateChild`).
    """

    by: str = ""
    reason: str = ""


class InstanceDue(Message, tag="sys.instance_due"):
    """A supervisor's timer: the back-off of a pool's instance is over."""

    child: str
    incarnation: int


class PoolDue(Message, tag="sys.pool_due"):
    """A supervisor's timer: a pool that was paused may go on."""

    pool: str


class CensusDue(Message, tag="sys.census_due"):
    """A supervisor's timer: what the census did not answer is to be asked again."""


class Resume(Message, tag="sys.resume"):
    """Anybody with the right, to a parked, paused or failed actor: take messages again.

    So does one that has failed for good (`Abandon`); a root that has given up starts its children again.
    """

    by: str = ""


class Pause(Message, tag="sys.pause"):
    """An operator, to an actor: take no messages until resumed."""

    by: str = ""
    reason: str = ""


class Boot(Message, tag="sys.boot"):
    """A node, to the root supervisor: see that the tree of this digest is up."""

    tree: str


class HandlerLost(Message, tag="sys.handler_lost"):
    """Who watches a node's process, to the engine of the next one: that process ended while a handler of `message` ran.

    It goes into the mailbox that `message` waits in (an actor's own, or a worker's in its caller's shard), so that it
    is read first. No handler sees it.
    """

    message: int
    how: str
    """How the process ended: for people."""


class DiscardMessage(Message, tag="sys.discard_message"):
    """An operator, into the mailbox of a message that waits: give it up (`discarding`). No handler sees this."""

    id: int
    by: str = ""
    reason: str = ""
    quarantine: bool = False
    """Its dead letter stays open: somebody looks at it, and may send it again. Else it is settled by this."""


class AskFailed(Message, tag="sys.ask_failed"):
    """To whoever waits for a reply: there will be none.

    `why` is one of: timeout, no-such-actor, target-failed, target-ended, rejected, cycle (the target waits, by deferred
    replies, for the asker itself), cancelled. Which ask it was is `Context.answers`.
    """

    why: str
    detail: str = ""


class AskTimedOut(Message, tag="sys.ask_timed_out"):
    """The clock, to whoever asked: the time is over. Its handlers see an AskFailed instead."""

    ask: int


class Probe(Message, tag="sys.probe"):
    """Along an open ask to the actor that deferred it, and on along the asks that this one waits for (`cycles`)."""

    ask: int
    """The ask that it came along."""
    origin: str
    """Who sent it out."""
    first: int
    """The ask that it left along."""
    youngest: int
    """The youngest ask on its way so far; that is the one that fails when the way is a circle."""
    asker: str
    """Who asked that one."""
    budget: int
    """How many more of it there may be: it is divided where the way forks."""


class Spawn(Message, tag="sys.spawn"):
    """To an address of a pool: be there. Who is there already takes no notice."""

    again: bool = False
    """Who has ended begins anew, as the next incarnation, with a fresh state."""


class Watch(Message, tag="sys.watch"):
    """Watcher to target: tell me when you have ended (`Terminated`)."""

    generation: int


class Unwatch(Message, tag="sys.unwatch"):
    """Watcher to target: never mind."""

    generation: int


class Terminated(Message, tag="sys.terminated"):
    """To a watcher, once: this actor has ended for good, or there is none at its address."""

    address: str
    incarnation: int
    status: str
    """completed, cancelled, failed (for good), unknown (there is no such actor), or refused (it is watched by so many
    already that it takes no more watchers; it has not ended)."""
    reason: str = ""


_ALWAYS_INTERRUPTS = frozenset({wire(Kill).name, wire(Cancel).name})
_STOP = wire(Stop).name


class _Kills(msgspec.Struct):
    kill: bool = False


_kills = msgspec.json.Decoder(_Kills).decode


def interrupts(message_type: str, body: str = "") -> bool:
    """Whether a message of this wire name (and body) has its turn at once, although a handler of its actor waits."""
    if message_type == _STOP:
        try:
            return bool(body) and _kills(body).kill
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return False  # nobody can read it: its turn says so
    return message_type in _ALWAYS_INTERRUPTS
