"""Other arguments for a held call: one field for each value, typed as the value is, and what will be different.

What is sent supersedes the request at once; the run asks anew, with another digest. An edit is no approval.
"""

import json
import math
from typing import Any, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Input, Static

from callboard.mailbox.errors import CallboardError
from callboard.service.operations.decisions import MAX_NOTE_CHARS, Answer

from ..dialog import Dialog
from ..filter_bar import PlainInput
from ..frame_keys import KeysLine
from ..text import Line, block, content, line, piece, plain
from .subject import Leaf, Subject, leaves

MAX_FIELDS = 100
MAX_VALUE_CHARS = 20_000


class NotThatType(ValueError):
    """What was typed is no value of the kind that stands there."""


def read_value(leaf: Leaf, text: str) -> Any:
    """What somebody typed, as a value of the kind that stands there now: a text stays a text, a number a number.

    Raises:
        NotThatType: with what is expected.
    """
    if isinstance(leaf.value, str):
        return text
    wanted, kinds = _wanted(leaf.value)
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError):
        raise NotThatType(f"{leaf.path}: expected {wanted}") from None
    if kinds and (not isinstance(value, kinds) or isinstance(value, bool) != isinstance(leaf.value, bool)):
        raise NotThatType(f"{leaf.path}: expected {wanted}")
    return value


def _refuse(text: str) -> Any:
    raise ValueError(f"JSON has no {text}")  # what is sent would be null


def _finite(text: str) -> float:
    return float(text) if math.isfinite(float(text)) else _refuse(text)


def _wanted(value: Any) -> tuple[str, tuple[type, ...]]:
    match value:
        case bool():
            return "true or false", (bool,)
        case int():
            return "a whole number", (int,)
        case float():
            return "a number", (int, float)
        case list():
            return "a list in JSON", (list,)
        case dict():
            return "an object in JSON", (dict,)
    return "a value in JSON", ()


class EditDialog(Dialog[bool]):
    """Change the arguments; True: it is asked for anew."""

    wait_seconds: ClassVar[float] = 2.0
    """How long the run is given to ask anew before the dialog is left anyway."""
    CHANGES: ClassVar[frozenset[str]] = frozenset()
    DEFAULT_CSS = """
    EditDialog { align: center middle; }
    EditDialog > Vertical {
        width: 100%; height: auto; max-height: 100%; background: $panel; border: round $cb-retry;
        border-title-color: $cb-retry;
    }
    EditDialog.-wide > Vertical { width: 100; max-height: 90%; }
    EditDialog.-broad > Vertical { width: 100; max-height: 90%; }
    EditDialog VerticalScroll { height: auto; max-height: 60%; padding: 0 1; }
    EditDialog Horizontal { height: 1; }
    EditDialog Horizontal Static { width: 24; color: $cb-dim; }
    EditDialog Input { width: 1fr; }
    EditDialog .foot { height: auto; padding: 0 1; margin-top: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "leave it as it is"),
        Binding("down", "app.focus_next", "next field", show=False),
        Binding("up", "app.focus_previous", "field before", show=False),
    ]

    def __init__(self, subject: Subject) -> None:
        super().__init__()
        self._view = subject.view
        self._leaves = [one for one in leaves(subject.view.arguments) if one.path][:MAX_FIELDS]
        self._problem = ""
        self._sent = False

    @property
    def half_typed(self) -> bool:
        """Whether something was changed in the fields."""
        return any(one.value != text for one, text in self._fields())

    def compose(self) -> ComposeResult:
        box = Vertical()
        box.border_title = content(line(piece("Edit arguments · "), piece(self._view.id)))
        with box:
            with VerticalScroll(can_focus=False):
                for one in self._leaves:
                    with Horizontal():
                        yield Static(content(piece(one.path)))
                        yield PlainInput(_text(one), classes="value", compact=True, max_length=MAX_VALUE_CHARS)
                with Horizontal():
                    yield Static(content("note"))
                    yield PlainInput(id="edit-note", compact=True, max_length=MAX_NOTE_CHARS)
            yield Static(classes="foot")
            yield KeysLine()

    def on_mount(self) -> None:
        for field in self.query(".value"):
            field.focus()
            break
        self._show()

    def changed(self) -> dict[str, Any]:
        """Path and new value of what is different.

        Raises:
            NotThatType: a field holds what cannot stand there.
        """
        pairs = zip(self._leaves, self._fields(), strict=True)
        return {one.path: read_value(one, field.value) for one, (field, text) in pairs if field.value != text}

    def _fields(self) -> list[tuple[Input, str]]:
        return [
            (field, _text(one)) for field, one in zip(self.query(".value").results(Input), self._leaves, strict=False)
        ]

    @on(Input.Changed)
    def _show(self) -> None:
        self._problem = ""
        self.query_one(".foot", Static).update(block(self._foot()))

    def _foot(self) -> list[Line]:
        if self._problem:
            return [line(piece(f"▲ {self._problem}", "bad"))]
        try:
            changed = self.changed()
        except NotThatType as error:
            return [line(piece(f"○ {error}", "needs"))]
        if not changed:
            return [line(piece("○ nothing is changed yet", "dim"))]
        old = {one.path: one for one in self._leaves}
        told = [
            line(
                piece(f"  {path} ", "dim"),
                piece(old[path].text, "dim"),
                piece(" → ", "needs"),
                piece(json.dumps(value, ensure_ascii=False), "needs"),
            )
            for path, value in changed.items()
        ]
        said = "Enter has it asked anew, with another digest; nobody can approve the old call any more. No approval."
        return [*told, line(piece("● armed: ", "ok"), piece(said, "dim"))]

    @on(Input.Submitted)
    def _submitted(self) -> None:
        if self._sent or self.frame.refuse_change():
            return
        try:
            changed = self.changed()
        except NotThatType:
            return
        if changed:
            self._sent = True
            self._send(changed)

    @work(group="edit")
    async def _send(self, changed: dict[str, Any]) -> None:
        note = self.query_one("#edit-note", Input).value.strip()
        wish = Answer("approved", (), self._view.digest, note)
        try:
            _, new = await self.gateway.decisions.edit(self._view.id, changed, wish, seconds=self.wait_seconds)
        except CallboardError as error:
            self._sent, self._problem = False, str(error)
            self.query_one(".foot", Static).update(block(self._foot()))
            return
        if new is not None and not new.diff:
            self.frame.say(piece(f"the change does not fit, it is asked for as it was: {new.reason}", "bad"), bad=True)
        else:
            self.frame.say(
                "changed; it is asked for anew" if new else "changed; it is asked anew when a node serves it"
            )
        self.finish(True)


def _text(leaf: Leaf) -> str:
    return plain(leaf.value if isinstance(leaf.value, str) else leaf.text)
