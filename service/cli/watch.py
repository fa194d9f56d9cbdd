"""Printing what was read: once, or again for as long as somebody watches. Every command that lists or shows uses it.

    def runs(..., time: Time = None, color: Color = None, jsonl: Jsonl = False, watch: Watch = False,
             dsn: Dsn = None, json: Json = False) -> None:
        from ..operations.views import runs_document
        from ..settings import read_settings
        from .render import print_runs                 # print_runs(found: RunList, when: When) -> None
        from .watch import Shown, watched

        watched(
            lambda operations: operations.runs(limit=limit),
            print_runs,
            read_settings(dsn=dsn, color=color),
            Shown(json=json, jsonl=jsonl, watch=watch, time=time),
            document=runs_document,
        )

    as text         `print_(value, when)`; every moment in it is said by `when(at)`, "" for 0, as --time wants it
    --json          `document(value)`, once
    --jsonl         one line for each of `document(value)["items"]`, under `callboard.X.item/1` of `callboard.X/1`
    --watch         on a terminal as text, in place; else, and with --json, one line of JSON whenever it changed

`watched` gives back what it read last, for commands whose exit code depends on it. It reads in one session, so watching
costs one connection. While a database that was there is away, it says so and goes on when it is back.
"""

import io
import sys
from collections.abc import Awaitable, Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ...mailbox.errors import StoreUnavailable, UsageError
from .terminal import note, print_json, print_json_line
from .times import When, style_of, when

if TYPE_CHECKING:
    from ..operations.runs import Operations
    from ..settings import Settings

T = TypeVar("T")
Document = dict[str, Any]
EVERY_SECONDS = 1.0
PATIENCE_SECONDS = 15.0
"""The longest pause while the database is away."""


@dataclass(frozen=True)
class Shown:
    """How it is to be shown: the options of the same names."""

    json: bool = False
    jsonl: bool = False
    watch: bool = False
    time: str | None = None

    @property
    def as_text(self) -> bool:
        """Whether a person reads it as text. What is watched by a pipe is JSON."""
        return not (self.json or self.jsonl) and (not self.watch or sys.stdout.isatty())

    def check(self) -> None:
        """Refuse what cannot be meant. Raises UsageError."""
        style_of(self.time)
        if self.json and self.jsonl:
            raise UsageError("--json is one document and --jsonl a line for each item; give one of them")


class Screen(Protocol):
    """Where text is shown that is watched."""

    def __enter__(self) -> "Screen": ...

    def __exit__(self, *_: object) -> None: ...

    def show(self, text: str, status: str = "") -> None:
        """Replace what is shown; `status` is a line about the watching itself."""
        ...

    async def pause(self, seconds: float) -> None:
        """Wait, at most until what is shown has to be shown anew."""
        ...


def watched(
    read: "Callable[[Operations], Awaitable[T]]",
    print_: "Callable[[T, When], None]",
    settings: "Settings",
    shown: Shown,
    *,
    document: Callable[[T], Document],
    every_seconds: float = EVERY_SECONDS,
) -> T:
    """Read and print, again and again with --watch; what was read last. See the module's text for how.

    Raises:
        UsageError: --json with --jsonl, or no such --time. What `read` raises, too.
    """
    import anyio

    from .screen import screen_for

    shown.check()
    if shown.watch and shown.as_text:
        with screen_for(sys.stdout) as screen:
            return anyio.run(_session, read, _on_screen(print_, shown, screen), settings, screen.pause, every_seconds)
    print_once = _as_lines(document) if shown.watch else _once(print_, document, shown)
    return anyio.run(_session, read, print_once, settings, _slept if shown.watch else None, every_seconds)


Printer = Callable[[Any, float, str], None]
"""Of a value, the store's time, and what is wrong at the moment ("": nothing)."""


async def _session(
    read: "Callable[[Operations], Awaitable[T]]",
    print_: Printer,
    settings: "Settings",
    pause: "Callable[[float], Awaitable[None]] | None",
    every_seconds: float,
) -> T:
    from ..operations.principal import terminal_principal
    from ..operations.runs import Operations
    from .session import opened_store

    async with opened_store(settings) as store:
        operations = Operations(store, terminal_principal(settings.principal))
        value, now = await read(operations), await store.now()
        print_(value, now, "")
        wait = every_seconds
        while pause is not None:
            await pause(wait)
            try:
                value, now = await read(operations), await store.now()
            except StoreUnavailable as lost:
                print_(value, now, f"database lost: {lost}")
                wait = min(wait * 2, PATIENCE_SECONDS)
            else:
                print_(value, now, "")
                wait = every_seconds
        return value


async def _slept(seconds: float) -> None:
    import anyio

    await anyio.sleep(seconds)


def _once(print_: "Callable[[Any, When], None]", document: Callable[[Any], Document], shown: Shown) -> Printer:
    def show(value: Any, now: float, _: str) -> None:
        if shown.json:
            print_json(document(value))
        elif shown.jsonl:
            for item in items_of(document(value)):
                print_json_line(item)
        else:
            print_(value, when(shown.time, now))

    return show


def items_of(document: Document) -> list[Document]:
    """The items of a list's document, each under a schema of its own: `callboard.runs.item/1` of `callboard.runs/1`."""
    name, _, version = str(document["schema"]).partition("/")
    return [{"schema": f"{name}.item/{version}", **item} for item in document["items"]]


def _as_lines(document: Callable[[Any], Document]) -> Printer:
    last: Document | None = None
    said = ""

    def show(value: Any, _: float, wrong: str) -> None:
        nonlocal last, said
        if wrong and wrong != said:
            note(wrong)
        if said and not wrong:
            note("database found again")
        said = wrong
        found = document(value)
        if found != last:
            print_json_line(found)
        last = found

    return show


def _on_screen(print_: "Callable[[Any, When], None]", shown: Shown, screen: Screen) -> Printer:
    def show(value: Any, now: float, wrong: str) -> None:
        captured = _Captured()
        with redirect_stdout(captured), redirect_stderr(captured):
            print_(value, when(shown.time or "relative", now))
        screen.show(captured.getvalue(), wrong)

    return show


class _Captured(io.StringIO):
    """What is printed on its way to a terminal: colours and tables are as on that."""

    def isatty(self) -> bool:
        return True
