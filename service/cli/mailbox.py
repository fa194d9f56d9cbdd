"""`mailbox`: what waits where and why; one message with all that is known of it; and giving one up.

Looking never consumes anything, and cannot change anything. `discard` and `quarantine` ask the node that serves the
message: it does so between two turns.
"""

from typing import TYPE_CHECKING, Annotated, Literal, cast, get_args

import typer

from ...mailbox.errors import UsageError
from .confirming import confirmed
from .grammar import group_with
from .options import Color, Dsn, Json, Jsonl, Time, Watch
from .terminal import note, print_json, print_json_line, print_line, print_lines

if TYPE_CHECKING:
    from ...persistence.operating import MailboxOrder, MessageState
    from ..operations.actors import MailboxView, MessageLine
    from ..operations.message_views import GivenUp, MailboxList, MessageDetail
    from ..operations.runs import Operations
    from .times import When

    _Found = tuple[list[MessageLine], bool]

_Address = Annotated[str, typer.Argument(metavar="ADDRESS", help="An address, such as /crm/desk/agent:42.")]
_Message = Annotated[int, typer.Argument(metavar="MESSAGE", help="Id of a message, as mailboxes show it.")]
_Prefix = Annotated[str, typer.Option("--prefix", metavar="PREFIX", help="Only addresses that begin like this.")]
_Order = Annotated[str, typer.Option("--order", metavar="depth|age|address", help="What comes first.")]
_Limit = Annotated[int, typer.Option("--limit", min=1, max=10_000, help="How many.")]
_State = Annotated[
    str, typer.Option("--state", metavar="ready|scheduled|retrying|held|stashed", help="Only messages in this state.")
]
_Reveal = Annotated[bool, typer.Option("--reveal", help="Redact nothing; this is audited.")]
_Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Kept with the dead letter and in the audit.")]
_Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
_ORDERS = ("depth", "age", "address")


def add_to(app: typer.Typer) -> None:
    """Add the commands of this file."""
    group = typer.Typer(
        cls=group_with(without="list", otherwise="peek"),
        rich_markup_mode=None,
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    group.callback()(mailbox)
    group.command("list")(list_)
    group.command("peek")(peek)
    group.command("show")(show)
    group.command("search")(search)
    group.command("export")(export)
    group.command("discard")(discard)
    group.command("quarantine")(quarantine)
    app.add_typer(group, name="mailbox")


def mailbox() -> None:
    """Show what waits and why, without touching it; search, export, or give a message up.

    `callboard mailbox` lists mailboxes, the deepest first; `callboard mailbox ADDRESS` looks into one.
    """


def list_(
    *,
    order: _Order = "depth",
    prefix: _Prefix = "",
    limit: _Limit = 50,
    watch: Watch = False,
    time: Time = None,
    color: Color = None,
    dsn: Dsn = None,
    json: Json = False,
    jsonl: Jsonl = False,
) -> None:
    """List mailboxes that have messages: how many in which state, since when, who serves them, and why they wait."""
    from ..operations.mailboxes import Mailboxes
    from ..operations.message_views import mailboxes_document
    from ..settings import read_settings
    from .inspector_render import mailboxes_table
    from .watch import Shown, watched

    if order not in _ORDERS:
        raise UsageError(f"--order: expected depth, age or address, got {order[:80]!r}")

    async def read(operations: "Operations") -> "MailboxList":
        wanted = cast("MailboxOrder", order)
        return await Mailboxes(operations).list(prefix=prefix, order=wanted, limit=limit)

    def print_(found: "MailboxList", when: "When") -> None:
        if found.items:
            mailboxes_table(found, when)
        else:
            note("no messages wait" + (f" at {prefix}…" if prefix else ""))

    shown = Shown(json=json, jsonl=jsonl, watch=watch, time=time)
    watched(read, print_, read_settings(dsn=dsn, color=color), shown, document=mailboxes_document)


def peek(
    address: _Address,
    limit: _Limit = 100,
    *,
    watch: Watch = False,
    time: Time = None,
    color: Color = None,
    dsn: Dsn = None,
    json: Json = False,
    jsonl: Jsonl = False,
) -> None:
    """Look into one mailbox without touching it, and see why nothing in it moves; with the calls its actor made."""
    from ..operations.actors import Inspection, mailbox_document
    from ..operations.message_views import messages_document
    from ..settings import read_settings
    from .inspector_render import mailbox_lines
    from .watch import Shown, watched

    settings = read_settings(dsn=dsn, color=color)

    async def read(operations: "Operations") -> "MailboxView":
        return await Inspection(operations).mailbox(address, limit=limit)

    def print_(view: "MailboxView", when: "When") -> None:
        print_lines(mailbox_lines(view, when), settings.color)

    def lines(view: "MailboxView") -> "dict[str, object]":
        return messages_document(view.messages, complete=view.complete)

    shown = Shown(json=json, jsonl=jsonl, watch=watch, time=time)
    watched(read, print_, settings, shown, document=lines if jsonl else mailbox_document)


def show(
    message: _Message,
    *,
    to: Annotated[
        str, typer.Option("--to", metavar="ADDRESS", help="Its mailbox: finds one that was handled long ago.")
    ] = "",
    raw: Annotated[bool, typer.Option("--raw", help="The body on one line.")] = False,
    reveal: _Reveal = False,
    time: Time = None,
    color: Color = None,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Show one message, wherever it is by now: state, attempts, keys, body, what it came from and what it led to.

    Exit codes: 3 it does not wait, and no record of it is kept.
    """
    from ..operations.mailboxes import Mailboxes
    from ..operations.message_views import message_document
    from ..settings import read_settings
    from .inspector_render import detail_lines
    from .watch import Shown, watched

    settings = read_settings(dsn=dsn, color=color)

    async def read(operations: "Operations") -> "MessageDetail":
        return await Mailboxes(operations).message(message, recipient=to, reveal=reveal)

    def print_(detail: "MessageDetail", when: "When") -> None:
        print_lines(detail_lines(detail, when, raw=raw), settings.color)

    watched(read, print_, settings, Shown(json=json, time=time), document=message_document)


def search(
    text: Annotated[str, typer.Argument(metavar="[TEXT]", help="Somewhere in the body, as written.")] = "",
    *,
    type_: Annotated[str, typer.Option("--type", metavar="TYPE", help="Of this type, such as run.tell.")] = "",
    to: Annotated[str, typer.Option("--to", metavar="PREFIX", help="To addresses that begin like this.")] = "",
    from_: Annotated[str, typer.Option("--from", metavar="PREFIX", help="From addresses that begin like this.")] = "",
    state: _State = "",
    key: Annotated[str, typer.Option("--key", metavar="KEY", help="Sent from outside under this client id.")] = "",
    causation: Annotated[int, typer.Option("--causation", metavar="ID", help="Caused by this message.")] = 0,
    correlation: Annotated[int, typer.Option("--correlation", metavar="ID", help="Answering this message.")] = 0,
    limit: _Limit = 50,
    watch: Watch = False,
    time: Time = None,
    color: Color = None,
    dsn: Dsn = None,
    json: Json = False,
    jsonl: Jsonl = False,
) -> None:
    """Find messages that wait, by all that is given. Looks at a hundred thousand of them at most."""
    from ...persistence.operating import MessageSearch
    from ..operations.mailboxes import Mailboxes
    from ..operations.message_views import messages_document
    from ..settings import read_settings
    from .inspector_render import found_lines
    from .watch import Shown, watched

    wanted = MessageSearch(text, type_, to, from_, _state(state), causation, correlation, key)
    settings = read_settings(dsn=dsn, color=color)

    async def read(operations: "Operations") -> "_Found":
        return await Mailboxes(operations).search(wanted, limit=limit)

    def print_(found: "_Found", when: "When") -> None:
        print_lines(found_lines(found[0], when), settings.color)
        if not found[0]:
            note("no such message waits")
        elif not found[1]:
            note("there are more; --limit shows them")

    shown = Shown(json=json, jsonl=jsonl, watch=watch, time=time)
    watched(read, print_, settings, shown, document=lambda found: messages_document(found[0], complete=found[1]))


def _state(given: str) -> "MessageState | Literal['']":
    from ...persistence.operating import MessageState

    if given and given not in get_args(MessageState):
        raise UsageError(f"--state: expected one of {', '.join(get_args(MessageState))}, got {given[:80]!r}")
    return cast("MessageState", given)


def export(address: _Address, *, state: _State = "", reveal: _Reveal = False, dsn: Dsn = None) -> None:
    """Write all of a mailbox to stdout, a JSON document a line, with whole bodies; this is audited."""
    from ..operations.mailboxes import Mailboxes
    from .session import operate

    wanted = _state(state)

    async def work(operations: "Operations") -> int:
        count = 0
        async for document in Mailboxes(operations).export(address, state=wanted, reveal=reveal):
            print_json_line(document)
            count += 1
        return count

    count, _ = operate(work, dsn)
    note(f"{count} message(s) of {address}" + ("" if reveal else "; what looks like a secret is redacted"))


def discard(message: _Message, *, reason: _Reason = "", yes: _Yes = False, dsn: Dsn = None, json: Json = False) -> None:
    """Give a message up for good: it becomes a dead letter that is settled, and its sender is told where it waits.

    A held message is released by a decision only, and a worker's call ends with its run: both are refused.

    Exit codes: 3 it does not wait, 5 it may not be given up.
    """
    _give_up(message, reason, "discard", yes=yes, dsn=dsn, json=json)


def quarantine(
    message: _Message, *, reason: _Reason = "", yes: _Yes = False, dsn: Dsn = None, json: Json = False
) -> None:
    """Move a message to the dead letters, where it harms nobody; look at it there, and send it again or not.

    Exit codes: 3 it does not wait, 5 it may not be given up.
    """
    _give_up(message, reason, "quarantine", yes=yes, dsn=dsn, json=json)


def _give_up(message: int, reason: str, verb: str, *, yes: bool, dsn: str | None, json: bool) -> None:
    from ..operations.giving_up import GivingUp
    from ..operations.message_views import given_up_document
    from .inspector_render import found_lines
    from .session import operate
    from .times import when

    async def check(operations: "Operations") -> "MessageLine":
        return await GivingUp(operations).may_give_up(message)

    line, settings = operate(check, dsn)
    if not yes:
        print_lines(found_lines([line], when("relative")), settings.color, to_stderr=True)
    if not confirmed(verb, yes=yes, what=f"{verb} message {message}"):
        return

    async def act(operations: "Operations") -> "GivenUp":
        giving_up = GivingUp(operations)
        return await (giving_up.discard if verb == "discard" else giving_up.quarantine)(message, reason=reason)

    given, _ = operate(act, dsn)
    if json:
        print_json(given_up_document(given))
    else:
        print_line(f"message {given.id}: {given.text}")
