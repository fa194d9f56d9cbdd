"""What reaches the terminal, byte by byte, while models, tools and customers write what a terminal would obey."""

import re
from collections.abc import Iterator
from contextlib import ExitStack

import anyio
import pytest

from callboard.actors.agent.messages import Tell
from callboard.actors.client import Client
from callboard.persistence.postgres import PostgresStore
from callboard.service.operations.actors import Inspection
from callboard.service.operations.decisions import Answer, Decisions
from callboard.service.operations.principal import Principal
from callboard.service.operations.runs import Operations
from tests.made_database import made_database
from tests.operate.hostile_app import EVIL, app
from tests.service.conftest import until

from .conftest import Desk
from .terminal import Terminal
from .walk import SETTLED_SECONDS, TRIES

APP = "tests.operate.hostile_app:app"
HIDDEN = re.compile(
    "[\u0000-\u0006\u000b-\u000c\u000e-\u001a\u001c-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
"""C0 but for what moves a cursor, C1, directions, zero width, separators, tags."""
OWN = re.compile(
    r"\x1b\[[0-9;:]*[HmKJhlABCDGdtr]"  # moving, colours, erasing
    r"|\x1b\[\?[0-9;]+(?:[hl]|\$p)"  # modes, and asking for them
    r"|\x1b\[[<>=][0-9;]*u"  # keyboard protocol
    r"|\x1b\]0;(?:\([0-9]+\) callboard|callboard|)\x07"  # the title: ours, and a count
    r"|\x1b\]22;[a-z-]*\x07"  # the shape of the pointer
    r"|\x1b[78=>]|\x1b\(B"
)
"""What the UI itself says to a terminal; a sequence that is none of these came from somewhere else."""


@pytest.fixture(scope="module")
def hostile(server_dsn: str) -> Iterator[Desk]:
    """A desk where everything that takes text from outside has such text in it, by real runs and real messages."""
    with made_database(server_dsn) as dsn, ExitStack() as stack:
        desk = Desk(dsn, stack)
        desk.daemon(APP)
        anyio.run(_stage, dsn)
        asked = "select 1 from callboard.decision where run = %s"
        for run in ("held", "denied", "paused"):
            until(lambda run=run: desk.rows(asked, f"/evil/run:{run}"), f"{run} asks")  # type: ignore[misc]
        anyio.run(_decide, dsn)
        until(lambda: desk.rows("select 1 from callboard.dead_letter"), "a letter is dead")
        until(lambda: desk.rows("select 1 from callboard.actor where status = 'paused'"), "one is paused")
        yield desk


async def _stage(dsn: str) -> None:
    async with PostgresStore(dsn) as store:
        operations = Operations(store, Principal(EVIL, label=EVIL, channel="cli", host=EVIL))
        for run in ("held", "denied", "failing", "paused"):
            goal = ("fail " if run == "failing" else "") + EVIL
            await operations.submit(app, goal, run_id=run, client_id=f"{run} {EVIL}")
        client = Client(store, number_seconds=60.0)
        scheduled = await client.envelope("/evil/run:held", Tell(EVIL))
        scheduled.delay_seconds = 5_000
        await store.send([scheduled, await client.envelope("/evil/lost:1", Tell(EVIL))])


async def _decide(dsn: str) -> None:
    async with PostgresStore(dsn) as store:
        operations = Operations(store, Principal(EVIL, label=EVIL, channel="cli", host=EVIL))
        await Decisions(operations).decide("denied", Answer("denied", note=EVIL))
        await Inspection(operations).pause("/evil/run:paused", EVIL)
        await operations.tell("held", EVIL)


SCREENS = ("Supervision", "Waiting for a decision", "Mailbox", "Dead letters ·", "Run", "Audit ·", "Health")
SMALL_SCREENS = ("Actors ·", *SCREENS[1:])


def go_to(seen: Terminal, number: int, word: str) -> None:
    """A screen, out of whatever is open over another one."""
    for _ in range(10):
        seen.press(str(number))
        if seen.shows(word, seconds=4):
            return
        seen.press("escape")
    raise AssertionError(f"screen {number} never shows {word!r}:\n{seen.text()}")


def leave(seen: Terminal, word: str) -> None:
    """What says this, by as many escapes as that takes: two that a busy program reads at once are one."""
    for _ in range(TRIES):
        seen.press("escape")
        if word not in seen.text():
            return
        seen.rest(SETTLED_SECONDS)
    seen.gone(word)


def look_around(seen: Terminal, screens: tuple[str, ...]) -> None:
    """Every screen, what opens from it, and the dialogs."""
    seen.until("to decide")
    for number, word in enumerate(screens, 1):
        go_to(seen, number, word)
        seen.press("down", "down", "tab", "down", "down", "tab", "w", "up", "up", "enter")
        seen.rest(1.0)  # whatever opens, opens; and its keys are taken
        seen.press("w", "down", "tab", "down", "escape", "escape")
    go_to(seen, 2, "Waiting for a decision")
    seen.press("a")
    seen.until("Decide ·")
    seen.rest(SETTLED_SECONDS)
    seen.press("t")
    seen.until(lambda text: "Transcript · said, not checked · held" in text or "sayings" in text)
    seen.rest(SETTLED_SECONDS)
    seen.press("escape")
    for _ in range(TRIES):
        seen.press("n")  # dropped as long as the dialog has only just come back into sight
        if seen.shows("Deny this request", seconds=3):
            break
    seen.press("down")
    leave(seen, "Decide ·")
    seen.press("?")
    seen.rest(SETTLED_SECONDS)
    seen.press("escape")


@pytest.mark.parametrize("size", [(120, 36), (80, 24)], ids=str)
def test_a13_no_byte_that_a_terminal_obeys_or_hides_comes_from_data(hostile: Desk, size: tuple[int, int]) -> None:
    seen = hostile.tui(columns=size[0], rows=size[1])
    look_around(seen, SCREENS if size[0] >= 100 else SMALL_SCREENS)
    seen.process.terminate()
    assert seen.wait() == 0
    written = bytes(seen.raw).decode("utf-8")  # and it is UTF-8 from the first byte to the last
    assert "forged" in written, "the hostile text was never shown, so this proves nothing"
    strange = sorted({one for one in seen.screen.sequences if OWN.fullmatch(one) is None})
    assert not strange, strange
    assert not re.search(r"\x1b\]52|aGFoYQ==\x07|\x1b\]0;title", written)
    text = OWN.sub("", written).replace("\x07", "")  # a bell of ours: something new waits
    assert "\x1b" not in text, "an ESC that begins nothing of ours"
    hidden = sorted({hex(ord(one)) for one in HIDDEN.findall(text)})
    assert not hidden, hidden
