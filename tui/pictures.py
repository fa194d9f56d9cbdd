"""Pictures of the screens for the documentation, taken from the running demonstration desk.

    python -m callboard.tui.pictures docs/tui [NAME ...]

Opens the desk (`service.demo.desk`), walks through the screens with the keys a person would press, waits until each has
come to rest, and saves it as SVG. Who looks and where are made up, and no new tickets come in meanwhile; what differs
from one run to the next are times, numbers of messages, and who was quicker. Nothing in a picture is fetched from the
net: the fonts are those of whoever looks at it.
"""

import inspect
import queue
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import anyio
from textual.pilot import Pilot

from callboard.actors.agent.events import ToolCallCompleted
from callboard.mailbox.errors import StoreUnavailable
from callboard.persistence.port import RealPort
from callboard.persistence.store import Store
from callboard.service.demo.desk import open_desk
from callboard.service.demo.desk_house import HouseOptions
from callboard.service.operations.principal import Principal
from callboard.service.wiring import make_store

from .app import CallboardApp
from .decide.dialog import DecideDialog
from .dialog import Dialog
from .gateway import Gateway

FONT = "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace"
LOOK_SECONDS = 0.3
LOOKS_AT_MOST = 40
ALIKE = 4
PICTURE_SECONDS = 120.0
WIDE, SMALL = (120, 36), (80, 24)
MAX_BYTES = 150_000


@dataclass(frozen=True)
class Picture:
    """One picture: where its keys lead from the first screen. `shows`: a word that is there when it is complete."""

    name: str
    keys: Sequence[str]
    shows: str
    size: tuple[int, int] = WIDE
    theme: str = ""


PICTURES = (
    Picture("actors", (), "ESCALATED"),
    Picture("approvals", ("2", "S"), "Preview"),
    Picture("decide", ("2", "/", "type:risk:high", "enter", "a"), "approved already"),
    Picture(
        "armed",
        ("2", "/", "type:amount>250", "space", "type:amount<300", "enter", "a", "y", "AMOUNT"),
        "● armed",
        SMALL,
    ),
    Picture("mailbox", ("3", "down", "down", "enter"), "503"),
    Picture("dead", ("4", "down"), "550"),
    Picture("trace", ("5", "RECOVERED"), "▾ T-"),
    Picture("audit", ("6",), "taken back"),
    Picture("system", ("7",), "Health"),
    Picture("light", (), "ESCALATED", theme="callboard-light"),
    Picture("lost", ("2", "CUT"), "Database lost"),
)


class Line:
    """The way to a store, which can be cut: then its server is gone, as this terminal sees it. The desk works on."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.is_cut = False

    @property
    def store(self) -> Store:
        """As a gateway takes it."""
        return cast(Store, self)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not self.is_cut or not inspect.iscoroutinefunction(found):
            return found

        async def unanswered(*_: object, **__: object) -> Any:
            raise StoreUnavailable("the server closed the connection")

        return unanswered


def main(folder: Path, names: Sequence[str] = ()) -> None:
    """Take those of these names (none: all) into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    Dialog.settle_seconds = 0.0  # nobody sits in front
    with open_desk(options=HouseOptions(every_seconds=0.0, think_seconds=0.2)) as desk:
        for picture in [one for one in PICTURES if not names or one.name in names]:
            svg = taken(picture, desk.dsn)
            if len(svg) > MAX_BYTES:
                raise ValueError(f"{picture.name} has {len(svg)} bytes; {MAX_BYTES} are allowed")
            (folder / f"{picture.name}.svg").write_text(svg, encoding="utf-8")
            sys.stderr.write(f"{picture.name}.svg  {len(svg):,} bytes\n")


def taken(picture: Picture, dsn: str) -> str:
    """One picture, as SVG.

    Raises:
        ValueError: it never shows what it is to show.
    """
    # In a thread, whose end is not waited for: a statement that has begun is never cut short, and may be a long one.
    found: queue.SimpleQueue[str | Exception] = queue.SimpleQueue()

    async def take() -> None:
        try:
            await _take(picture, dsn, found)
        except Exception as error:  # noqa: BLE001 - raised where it is waited for
            found.put(error)

    RealPort().start_thread(lambda: anyio.run(take), picture.name)
    svg = found.get(timeout=PICTURE_SECONDS)
    if isinstance(svg, Exception):
        raise svg
    return svg


async def _take(picture: Picture, dsn: str, found: "queue.SimpleQueue[str | Exception]") -> None:
    async with make_store(dsn) as store:
        line = Line(store)
        gateway = Gateway(line.store, Principal("mara", "tui", "desk"))
        app = CallboardApp(gateway, theme=picture.theme, environment="demo", bell=False)
        async with app.run_test(size=picture.size) as pilot:
            await _at_rest(pilot)
            for key in picture.keys:
                line.is_cut = line.is_cut or key == "CUT"
                await pilot.press(*await _typed(key, app))
                await _at_rest(pilot)
            text = await _at_rest(pilot, picture.shows)
            if picture.shows not in text:
                raise ValueError(f"{picture.name} does not show {picture.shows!r}:\n{text}")
            found.put(plain_svg(app.export_screenshot(title="callboard tui")))


async def _typed(key: str, app: CallboardApp) -> Sequence[str]:
    """The keys that one of `Picture.keys` stands for."""
    if key == "CUT":
        return ()
    if key == "AMOUNT" and isinstance(app.screen, DecideDialog):
        return tuple(app.screen.subject.view.money[0].shown)
    if key == "RECOVERED":
        return ("down",) * await _place_of_recovered(app.gateway)
    return tuple(key.removeprefix("type:")) if key.startswith("type:") else (key,)


async def _place_of_recovered(gateway: Gateway) -> int:
    """How far down the list of runs the one stands whose node was killed in a refund."""
    for place, line in enumerate((await gateway.watching.runs()).items):
        events = (await gateway.operations.trace(line.run_id)).events
        if any(isinstance(one.event, ToolCallCompleted) and one.event.recovered for one in events):
            return place
    return 0


async def _at_rest(pilot: Pilot[None], shows: str = "") -> str:
    """Wait until `ALIKE` looks are alike but for their digits, and `shows` is there; what is shown."""
    port, before, alike = RealPort(), "", 1
    for _ in range(LOOKS_AT_MOST):
        await pilot.pause()
        await port.sleep(LOOK_SECONDS)
        strips = pilot.app.screen._compositor.render_strips()
        now = "\n".join("".join(segment.text for segment in strip) for strip in strips)
        alike = alike + 1 if re.sub(r"\d", "", now) == re.sub(r"\d", "", before) else 1
        if alike >= ALIKE and shows in now:
            return now
        before = now
    return before


def plain_svg(svg: str) -> str:
    """The same picture with fonts of the reader's own, and in fewer bytes: without what every line repeats."""
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r"font-family: Fira Code[^;]*;", f"font-family: {FONT};", svg)
    svg = re.sub(r"<clipPath id=\"[^\"]*-line-\d+\">.*?</clipPath>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r" clip-path=\"url\(#[^)]*-line-\d+\)\"", "", svg)
    svg = re.sub(r"terminal-\d+-", "t-", svg)
    svg = re.sub(r"(?:<rect fill=\"[^\"]*\" x=[^>]*shape-rendering=\"crispEdges\"/>)+", _joined, svg)
    return re.sub(r"(?m)^\s+", "", svg)


_RECT = re.compile(r'<rect fill="([^"]*)" x="([^"]*)" y="([^"]*)" width="([^"]*)" height="([^"]*)"')


def _joined(found: re.Match[str]) -> str:
    """Rectangles of one colour that touch, as one."""
    joined: list[tuple[str, float, str, float, str]] = []
    for fill, x, y, width, height in _RECT.findall(found[0]):
        left, wide = float(x), float(width)
        if joined and joined[-1][0] == fill and joined[-1][2] == y and abs(joined[-1][1] + joined[-1][3] - left) < 0.2:
            left, wide = joined[-1][1], left + wide - joined[-1][1]
            joined.pop()
        joined.append((fill, left, y, wide, height))
    return "".join(
        f'<rect fill="{fill}" x="{left:g}" y="{y}" width="{wide:g}" height="{height}" shape-rendering="crispEdges"/>'
        for fill, left, y, wide, height in joined
    )


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/tui"), sys.argv[2:])
