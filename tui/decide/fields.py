"""The fields of the dialog's foot: one for each sum, and one for a note or a reason."""

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Input, Static

from callboard.service.operations.decisions import MAX_NOTE_CHARS
from callboard.service.operations.demands import Asked

from ..filter_bar import PlainInput
from ..text import Line, Piece, content, line, piece, plain

AMOUNT_CELLS = 16


class Fields(Vertical):
    """What is typed. Made anew for each question; empty and out of sight while there is none."""

    DEFAULT_CSS = """
    Fields { height: auto; max-height: 6; overflow-y: auto; display: none; padding: 0 1; }
    Fields.-open { display: block; }
    Fields Horizontal { height: 1; }
    Fields Static { width: auto; color: $cb-dim; padding-right: 1; }
    Fields Input { width: 1fr; }
    Fields Input.amount { width: 18; margin-right: 2; }
    """

    async def ask(self, repeat: Sequence[Asked], note: str, *, hint: str = "", text: str = "") -> None:
        """Ask for these, and for a text called `note` ("" for none); the focus goes to the first field."""
        await self.remove_children()
        rows = [_Row(one) for one in repeat]
        if note:
            last = rows[-1] if rows and len(repeat) == 1 else _Row(None)
            last.add_note(note, hint, text)
            rows += [last] if last not in rows else []
        await self.mount_all(rows)
        self.set_class(bool(rows), "-open")
        for field in self.query(Input):
            field.focus()
            break

    async def close(self) -> None:
        """Ask nothing."""
        self.remove_class("-open")
        await self.remove_children()

    @property
    def amounts(self) -> list[str]:
        """What stands in the fields of the sums, in their order."""
        return [one.value for one in self.query(".amount").results(Input)]

    @property
    def note(self) -> str:
        """What stands in the field of the note."""
        return next((one.value for one in self.query(".note").results(Input)), "")

    def put_note(self, text: str) -> None:
        """Let this stand in the field of the note."""
        for field in self.query(".note").results(Input):
            field.value = plain(text)
            field.cursor_position = len(field.value)


class _Row(Horizontal):
    """One line of fields."""

    def __init__(self, asked: Asked | None) -> None:
        super().__init__()
        self._asked = asked
        self._note: tuple[str, str, str] | None = None

    def add_note(self, label: str, hint: str, text: str) -> None:
        self._note = (label, hint, text)

    def compose(self) -> ComposeResult:
        if self._asked is not None:
            yield Static(content(_label(self._asked)))
            yield PlainInput(classes="amount", compact=True, max_length=MAX_NOTE_CHARS)
        if self._note is not None:
            label, hint, text = self._note
            yield Static(content(piece(label)))
            yield PlainInput(
                plain(text), placeholder=plain(hint), classes="note", compact=True, max_length=MAX_NOTE_CHARS
            )


def _label(asked: Asked) -> Piece | Line:
    if asked.word:
        return line(piece("type "), piece(asked.text, "strong"))
    if asked.exact:
        return piece(f"{asked.field} letter by letter")
    return piece(f"{asked.field} {asked.currency}".rstrip() if asked.currency else asked.field)
