"""`dead`: what was given up and why; send it again, or leave it for good."""

from typing import TYPE_CHECKING, Annotated

import typer

from .confirming import confirmed
from .grammar import group_with
from .options import Color, Dsn, Json, Jsonl, Time, Watch
from .terminal import note, print_json, print_json_line, print_line, print_lines

if TYPE_CHECKING:
    from ..operations.dead import DeadDetail, DeadLine, DeadList, Settled
    from ..operations.runs import Operations
    from .times import When

_Number = Annotated[int, typer.Argument(metavar="NUMBER", help="A dead letter, as `callboard dead` numbers them.")]
_Numbers = Annotated[list[int], typer.Argument(metavar="NUMBER...", help="Dead letters, by their numbers.")]
_Note = Annotated[str, typer.Option("--note", metavar="TEXT", help="Kept in the audit trail.")]
_Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands of this file."""
    group = typer.Typer(
        cls=group_with(without="list", otherwise="show"),
        rich_markup_mode=None,
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    group.callback()(dead)
    group.command("list")(list_)
    group.command("show")(show)
    group.command("requeue")(requeue)
    group.command("discard")(discard)
    app.add_typer(group, name="dead")


def dead() -> None:
    """List what was given up and why, show one, send it again, or leave it for good.

    `callboard dead` lists those that nobody has settled; `callboard dead 7` shows one.
    """


def list_(
    *,
    all_: Annotated[bool, typer.Option("--all", help="Those that somebody has settled, too.")] = False,
    to: Annotated[str, typer.Option("--to", metavar="PREFIX", help="To addresses that begin like this.")] = "",
    reason: Annotated[str, typer.Option("--reason", metavar="WORD", help="Only those given up for this.")] = "",
    before: Annotated[int, typer.Option("--before", min=0, help="Only those with a smaller number.")] = 0,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="How many.")] = 50,
    watch: Watch = False,
    time: Time = None,
    color: Color = None,
    dsn: Dsn = None,
    json: Json = False,
    jsonl: Jsonl = False,
) -> None:
    """List what was given up and why, newest first."""
    from ..operations.dead import DeadLetters, dead_letters_document
    from ..settings import read_settings
    from .inspector_render import dead_table
    from .watch import Shown, watched

    async def read(operations: "Operations") -> "DeadList":
        letters = DeadLetters(operations)
        return await letters.find(open_only=not all_, recipient=to, reason=reason, before=before, limit=limit)

    def print_(found: "DeadList", when: "When") -> None:
        if found.items:
            dead_table(found, when)
        else:
            note("no such dead letters" if to or reason or before or all_ else "no dead letters: nothing was given up")

    shown = Shown(json=json, jsonl=jsonl, watch=watch, time=time)
    watched(read, print_, read_settings(dsn=dsn, color=color), shown, document=dead_letters_document)


def show(
    number: _Number,
    *,
    raw: Annotated[bool, typer.Option("--raw", help="The body on one line.")] = False,
    reveal: Annotated[bool, typer.Option("--reveal", help="Redact nothing; this is audited.")] = False,
    time: Time = None,
    color: Color = None,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Show one dead letter: why it was given up, what it came from, and what may be done."""
    from ..operations.dead import DeadLetters, dead_letter_document
    from ..settings import read_settings
    from .inspector_render import dead_lines
    from .watch import Shown, watched

    settings = read_settings(dsn=dsn, color=color)

    async def read(operations: "Operations") -> "DeadDetail":
        return await DeadLetters(operations).show(number, reveal=reveal)

    def print_(detail: "DeadDetail", when: "When") -> None:
        print_lines(dead_lines(detail, when, raw=raw), settings.color)

    watched(read, print_, settings, Shown(json=json, time=time), document=dead_letter_document)


def requeue(
    numbers: _Numbers,
    *,
    rate: Annotated[float, typer.Option("--rate", min=0.1, max=10_000.0, help="How many a second, at most.")] = 10.0,
    note_: _Note = "",
    yes: _Yes = False,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Send messages again, to where they came from, as ones that never failed.

    Each once: who comes second is told who was first. A worker's call is not sent again by hand, as its effect may have
    happened, or needs its gate: resume its run, or fork it.

    Exit codes: 3 there is none of that number, 5 somebody settled it before, or it may not be sent again.
    """
    _settle(numbers, note_, "requeue", yes=yes, dsn=dsn, json=json, rate=rate)


def discard(numbers: _Numbers, *, note_: _Note = "", yes: _Yes = False, dsn: Dsn = None, json: Json = False) -> None:
    """Leave dead letters for good: they are kept, and count as settled.

    Exit codes: 3 there is none of that number, 5 somebody settled it before.
    """
    _settle(numbers, note_, "discard", yes=yes, dsn=dsn, json=json, rate=10_000.0)


def _settle(numbers: list[int], note_: str, verb: str, *, yes: bool, dsn: str | None, json: bool, rate: float) -> None:
    from ..operations.dead import DeadLetters, settled_document
    from .inspector_render import settling_lines
    from .session import operate

    async def check(operations: "Operations") -> "list[DeadLine]":
        return await DeadLetters(operations).check(numbers, requeue=verb == "requeue")

    letters, settings = operate(check, dsn)
    if not yes:
        print_lines(settling_lines(letters), settings.color, to_stderr=True)
    what = f"{verb} {len(letters)} dead letter(s)"
    if not confirmed(verb, yes=yes, what=what):
        return

    def tell(one: "Settled") -> None:
        if json:
            document = settled_document(one)
            print_json(document) if len(letters) == 1 else print_json_line(document)
        elif one.new_id:
            print_line(f"dead letter {one.letter.number}: sent again as message {one.new_id} to {one.letter.recipient}")
        else:
            print_line(f"dead letter {one.letter.number}: {one.letter.settled}")

    async def settle(operations: "Operations") -> None:
        dead_letters = DeadLetters(operations)
        act = dead_letters.requeue if verb == "requeue" else dead_letters.discard
        for place, letter in enumerate(letters):
            if place:
                await operations.client.port.sleep(1.0 / rate)
            # Told one by one: where one cannot be settled any more, it is known what became of those before it.
            tell(await act(letter.number, note=note_))

    operate(settle, dsn)
