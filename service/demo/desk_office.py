"""What goes wrong at the demonstration desk: the shop's back office, whose partners are simulated, as the model is.

    mail       hands letters to a mail relay; one recipient does not exist (SMTP 550), and one letter is no letter
    feed       tells the warehouse what was sold; its gateway is down for the day (503)
    digest     collects the day's notes; an operator has paused it
    returns    reads labels of parcels that came back; one cannot be read, and a person must look
    labels     a supervisor of its own, whose printer is broken: it restarts it once, then gives up

The partners answer at once and without a network; everything else is what the runtime does with such answers: it tries
again, gives up, parks, restarts, escalates. No row of that is written by hand.
"""

import msgspec

from callboard.actors.actor import Actor, on
from callboard.actors.context import Context
from callboard.actors.directives import Fatal, Park, Transient
from callboard.actors.retry import RetryPolicy
from callboard.actors.spec import Child, Supervisor
from callboard.mailbox.message import Message

OFFICE = "/crm/office"
INVOICES = {"2269": "EUR 310.00", "2270": "EUR 1,900.00"}
GONE = "press@chronicle.example"
"""Who is not at the relay any more."""


class Letter(Message, tag="demo.letter"):
    """To the mail: send this."""

    recipient: str
    subject: str
    invoice: str = ""
    """Number of the invoice that goes with it."""


class Sold(Message, tag="demo.sold"):
    """To the feed: so much was sold."""

    day: str
    orders: int


class Note(Message, tag="demo.note"):
    """To the digest: a ticket came in."""

    ticket: str
    subject: str


class Parcel(Message, tag="demo.parcel"):
    """To the returns: a parcel came back."""

    parcel: str
    label: str


class Label(Message, tag="demo.label"):
    """To the printer: print this."""

    order: str


class Count(msgspec.Struct):
    """How much an actor has done."""

    done: int = 0


class Refused(Exception):
    """What the mail relay says."""


class Mail(Actor[Count], kind="demo.mail"):
    """Hands letters to the relay."""

    retry = RetryPolicy(max_failures=3, first_seconds=0.2, cap_seconds=1.0)

    @on(creates=True)
    def letter(self, message: Letter, ctx: Context) -> None:
        if message.recipient == GONE:
            raise Refused(f"550 5.1.1 mailbox unavailable: {message.recipient}")
        if message.invoice:
            INVOICES[message.invoice]  # a KeyError where nobody has written that invoice
        self.state.done += 1


class Feed(Actor[Count], kind="demo.feed"):
    """Tells the warehouse what was sold, for as long as it takes."""

    retry = RetryPolicy(transient_seconds=7 * 86_400.0, first_seconds=2.0, cap_seconds=20.0)

    @on(creates=True)
    def sold(self, message: Sold, ctx: Context) -> None:
        if not self.state.done:  # the gateway went down after the first report of the day
            self.state.done = 1
            return
        raise Transient("the warehouse's gateway answers 503 Service Unavailable")


class Digest(Actor[Count], kind="demo.digest"):
    """Collects notes."""

    @on
    def note(self, message: Note, ctx: Context) -> None:
        self.state.done += 1


class Returns(Actor[Count], kind="demo.returns"):
    """Reads the labels of parcels that came back."""

    @on(creates=True)
    def parcel(self, message: Parcel, ctx: Context) -> None:
        if not message.label.isascii():
            raise Park(f"the label of parcel {message.parcel} cannot be read; a person must look")
        self.state.done += 1


class Printer(Actor[Count], kind="demo.printer"):
    """Prints labels, if the printer answers."""

    @on
    def label(self, message: Label, ctx: Context) -> None:
        raise Fatal("label printer LP-2 does not answer on port 9100")


def office() -> Supervisor:
    """The back office, to be a child of the desk's root."""
    # Temporary: when the printer's supervisor has given up, it stays so, and the rest of the office goes on.
    labels = Supervisor("labels", (Child(Printer, "printer"),), max_restarts=1, within=3_600, restart="temporary")
    return Supervisor(
        "office",
        (
            Child(Mail, "mail", pool=True),
            Child(Feed, "feed", pool=True),
            Child(Digest, "digest"),
            Child(Returns, "returns", pool=True),
            labels,
        ),
        max_restarts=100,
    )
