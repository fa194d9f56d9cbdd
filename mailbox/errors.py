"""What can go wrong, as one tree: a class says what the caller can do about it.

    CallboardError
    ├── UsageError             fix the call: the message names the value and the way out
    │   ├── BadAddress
    │   ├── BadMessage         a body that its own type refuses, or a type declared wrongly
    │   └── SettingError
    ├── NotFound               no such run, actor, message, approval
    ├── Conflict               somebody else was first; the message says who and when
    │   ├── AlreadyDecided
    │   ├── SignaturesMoved    another person approved in the same moment
    │   └── MailboxFull        try again later: the recipient has more than it can hold
    ├── NotAllowed             a policy or a right says no
    ├── UnknownMessage         a type or version this process cannot read: leave it for one that can
    └── StoreError
        ├── StoreUnavailable   the database does not answer: try again, nothing was lost
        ├── SchemaMismatch     the database's schema is not this program's: migrate, or run the right program
        ├── StaleEpoch         stop: this node was superseded and owns nothing any more
        └── BadRow             the database refused a value; the turn that wrote it is at fault

A denied approval and a spent budget are states of a run, not errors. What a *handler* raises to choose its
fate (Transient, Reject, Park, Fatal) is in `callboard.actors.directives`.
"""


class CallboardError(Exception):
    """Root of everything that Callboard raises on purpose."""


class UsageError(CallboardError):
    """The call cannot mean anything; the message names the value and the way out."""


class BadAddress(UsageError):
    """Not an address: see `callboard.mailbox.address`."""


class BadMessage(UsageError):
    """A message body that its type refuses, or a message type declared in a way that cannot be stored."""


class SettingError(UsageError):
    """A setting that is unknown or has a value it cannot have."""


class NotFound(CallboardError):
    """There is nothing by that name."""


class Conflict(CallboardError):
    """Somebody else was first."""


class AlreadyDecided(Conflict):
    """The approval was decided before; the message names the decider and the time."""


class SignaturesMoved(Conflict):
    """Another person approved since the notice of a decision was written, which therefore does not name all of them."""


class MailboxFull(Conflict):
    """The recipient's mailbox holds as many messages as it may; try again later."""


class NotAllowed(CallboardError):
    """A policy or a missing right says no."""


class UnknownMessage(CallboardError):
    """A message type or version that this process cannot read; another one may.

    `name` and `version` say what one would have to know, as nodes publish it (`callboard.actors.schemas`).
    """

    def __init__(self, text: str, name: str = "", version: int = 1) -> None:
        super().__init__(text)
        self.name = name
        self.version = version


class StoreError(CallboardError):
    """The store could not do what was asked."""


class StoreUnavailable(StoreError):
    """The store does not answer; trying again later is right, and nothing that was accepted is lost."""


class SchemaMismatch(StoreError):
    """The database's schema is older or newer than this program; the message says which, and what to run."""


class StaleEpoch(StoreError):
    """This node's epoch was superseded: it owns nothing any more and must forget what it holds."""


class BadRow(StoreError):
    """The database refused a value (SQLSTATE class 22 or 23): the turn that wrote it is at fault, no other."""


def leaf(error: BaseException) -> BaseException:
    """What a group of errors is about: a task group puts one around each error. Of several, the first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
