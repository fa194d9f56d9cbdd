"""`tui`: the terminal user interface. Textual is loaded only when it runs.

A person waits for its first frame. So nothing is loaded that it does not need: not Typer either, where the command line
is as plain as it nearly always is (`tui_command` has it for all others, and for help); Textual is loaded while the
database is opened; and nobody looks for garbage until all screens are loaded, as next to nothing is.

Whatever happens, the terminal is given back as it was: signals end the UI like `q` does, nothing is logged to the
screen it draws on, and a database that hangs does not keep the program from ending.
"""

import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from callboard.tui.app import CallboardApp

    from ...persistence.store import Store
    from ..operations.principal import Principal
    from ..settings import Settings

CLOSE_SECONDS = 2.0
"""How long the sessions with the database may take to end once the screen is given back."""
SIGNAL_SECONDS = 10.0
"""How long the screen may take to be given back after a signal."""
TERMINAL_SECONDS = 2.0
"""Between two looks whether the terminal is still there."""
HUNG_UP = 128 + 1
"""The exit code where it is not: that of a process which SIGHUP ended."""


class Wanted(NamedTuple):
    """What the command line asks for; as `tui_command` has it."""

    readonly: bool = False
    label: str = ""
    theme: str | None = None
    ascii_only: bool = False
    demo: bool = False
    dsn: str | None = None


FLAGS = {"--readonly": "readonly", "--ascii": "ascii_only", "--demo": "demo"}
OPTIONS = {"--as": "label", "--theme": "theme", "--dsn": "dsn"}


def plainly(words: list[str]) -> Wanted | None:
    """What these words after `tui` ask for; None where Typer has to read them.

    Plain: options by their names, each once, and values as words of their own that are no options.
    """
    found: dict[str, Any] = {}
    value: str | bool
    rest = iter(words)
    for word in rest:
        if word in FLAGS:
            name, value = FLAGS[word], True
        elif word in OPTIONS:
            name, value = OPTIONS[word], next(rest, "-")
        else:
            return None
        if name in found or str(value).startswith("-"):
            return None
        found[name] = value
    return Wanted(**found)


def run_plainly(words: list[str]) -> int | None:
    """Do what these words after `tui` ask for, without Typer: the exit code, or None where Typer has to read them."""
    wanted = plainly(words)
    if wanted is None:
        return None
    try:
        return show(wanted)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the last line of defence, as in `app.run_command`
        from .errors import ended_by

        return ended_by(error, ["tui", *words])


def show(wanted: Wanted) -> int:
    """Open it, and stay until it is left; the exit code."""
    with _without_garbage():
        return _show_on(wanted)


@contextmanager
def _without_garbage() -> Iterator[None]:
    """Nobody looks for garbage from here until the app, or this, says so: loading makes much and throws nothing away,
    and looking through it all, again and again, takes a tenth of the start."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _show_on(wanted: Wanted) -> int:
    import anyio
    import msgspec

    from ..operations.principal import ALL_SCOPES, terminal_principal
    from ..settings import read_settings

    settings = read_settings(dsn=wanted.dsn, theme=wanted.theme)
    _require_terminal()
    principal = msgspec.structs.replace(
        terminal_principal(
            settings.principal,
            channel="tui",
            scopes=frozenset({"read"}) if wanted.readonly else ALL_SCOPES,
            chaos=settings.chaos(unless_said=wanted.demo),
        ),
        label=wanted.label,
    )
    with ExitStack() as stack:
        if wanted.demo:
            from .demo import demonstration_desk

            settings = stack.enter_context(demonstration_desk(settings))
        last = _Last(stack.close)
        with _quiet(settings.terminal_log):  # until its tasks have ended: what they say last has no place there either
            code = anyio.run(_open, settings, principal, wanted.ascii_only, last)
        if wanted.demo:
            last.cancel()  # the desk takes a while to end, in good order
        return code


async def _open(settings: "Settings", principal: "Principal", ascii_only: bool, last: "_Last") -> int:
    """Open the database, and load the screen meanwhile; then show it. The exit code.

    What the database refuses is said before there is a screen, so the one waits for the other.
    """
    import asyncio

    from .. import wiring  # noqa: F401 - its driver comes first: who is slower to answer is asked sooner
    from .session import opened_store

    loading = asyncio.get_running_loop().run_in_executor(None, _load)
    async with opened_store(settings) as store:
        app = (await loading)(store, settings, principal, ascii_only)
        with _ended_by_signals(app, last), last.with_terminal(sys.stdin.fileno()):
            await app.run_async()
        code = app.return_code or 0
        last.begin(code)
        return code


def _load() -> "Callable[[Store, Settings, Principal, bool], CallboardApp]":
    """Load the frame and its first screen; what makes the app."""
    from callboard.tui.app import CallboardApp
    from callboard.tui.gateway import Gateway
    from callboard.tui.panes import PANES
    from callboard.tui.themes import choose

    PANES[0].load()

    def made(store: "Store", settings: "Settings", principal: "Principal", ascii_only: bool) -> CallboardApp:
        return CallboardApp(
            Gateway(store, principal),
            theme=choose(os.environ, given=settings.theme, colours=settings.color != "never"),
            ascii=ascii_only,
            environment=settings.environment or database_name(settings.dsn),
            bell=settings.bell,
        )

    return made


def database_name(dsn: str) -> str:
    """The database that a DSN names, as a place: `callboard` of `postgresql://host/callboard`; "" where it does not."""
    import re
    from urllib.parse import unquote, urlsplit

    if not dsn or dsn.startswith("embedded:"):
        return dsn.removeprefix("embedded:") or "embedded"
    if "://" in dsn:
        return unquote(urlsplit(dsn).path.lstrip("/"))
    found = re.search(r"dbname\s*=\s*(?:'([^']*)'|(\S+))", dsn)
    return (found.group(1) or found.group(2) or "") if found else ""


def _require_terminal() -> None:
    from ...mailbox.errors import UsageError

    away = [stream for stream in (sys.stdin, sys.stdout, sys.stderr) if stream is None or not stream.isatty()]
    if away or os.environ.get("TERM") == "dumb":
        why = "TERM=dumb cannot show it" if not away else "stdin, stdout and stderr have to be one"
        raise UsageError(
            f"the terminal UI needs a terminal: {why}; without one: callboard status, callboard approvals --watch"
        )


@contextmanager
def _quiet(file: str) -> Iterator[None]:
    """Log to a file or nowhere: what is written to stderr would be drawn across the screen."""
    import logging

    root, kept = logging.getLogger(), logging.getLogger().handlers[:]
    handler: logging.Handler = logging.FileHandler(file, encoding="utf-8") if file else logging.NullHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root.handlers[:] = [handler]
    logging.captureWarnings(True)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        root.handlers[:] = kept
        handler.close()


@contextmanager
def _ended_by_signals(app: "CallboardApp", last: "_Last") -> Iterator[None]:
    """SIGTERM and SIGHUP give the terminal back and end it, also while a dialog is open: nothing is decided by that."""
    import asyncio
    import signal

    loop, signals = asyncio.get_running_loop(), (signal.SIGTERM, signal.SIGHUP)

    def end() -> None:
        last.begin(0, SIGNAL_SECONDS)
        app.exit()

    for one in signals:
        loop.add_signal_handler(one, end)
    try:
        yield
    finally:
        for one in signals:
            loop.remove_signal_handler(one)


class _Last:
    """Ends the process all the same, after `close`, where something would keep it; nothing here is lost with that.

    A statement that a database does not answer is never cut short, and would do so for half a minute. A terminal that
    is gone (its window was closed) takes nothing any more: whoever draws on it would wait for ever.
    """

    def __init__(self, close: Callable[[], None]) -> None:
        self._close = close
        self._timer: threading.Timer | None = None

    def begin(self, code: int, seconds: float = CLOSE_SECONDS) -> None:
        """End with this code soon."""
        self.cancel()
        self._timer = threading.Timer(seconds, self._end, (code,))
        self._timer.daemon = True
        self._timer.start()

    @contextmanager
    def with_terminal(self, terminal: int) -> Iterator[None]:
        """End soon after the terminal has gone. A thread looks, as the others may already wait for it."""
        over = threading.Event()

        def look() -> None:
            while not over.wait(TERMINAL_SECONDS):
                if not os.isatty(terminal):
                    self._end(HUNG_UP)

        threading.Thread(target=look, daemon=True, name="terminal").start()
        try:
            yield
        finally:
            over.set()

    def _end(self, code: int) -> None:
        self._close()
        os._exit(code)

    def cancel(self) -> None:
        """It has ended by itself."""
        if self._timer is not None:
            self._timer.cancel()
