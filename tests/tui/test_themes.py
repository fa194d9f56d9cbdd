"""The themes: readable on every ground, told apart with fewer colours, and chosen by what the terminal says."""

import itertools
from typing import get_args

import pytest
from textual.color import Color

from callboard.mailbox.errors import SettingError
from callboard.persistence.memory import MemoryStore
from callboard.service.operations.watching import Word
from callboard.tui.frame_ascii import as_ascii
from callboard.tui.look import LOOKS, state
from callboard.tui.table import LineTable, Row
from callboard.tui.themes import DARK, LIGHT, MONO, NAMES, THEMES, choose
from tests.tui.conftest import BareApp, gateway_on, until

MATRICES = {
    "all colours": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.01182, 0.04294, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.3039)),
}
"""Machado, Oliveira and Fernandes (2009), at full strength: from linear RGB to what is seen."""
ROLES = ("foreground", "cb-dim", "cb-ok", "cb-needs", "cb-bad", "cb-retry", "cb-info")
GROUNDS = ("background", "panel", "cb-cursor")


def colour(theme: object, role: str) -> str:
    found = getattr(theme, role, None) or theme.variables[role]  # type: ignore[attr-defined]
    assert isinstance(found, str)
    return found


def linear(text: str) -> tuple[float, ...]:
    parts = [part / 255 for part in Color.parse(text).rgb]
    return tuple(part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)


def contrast(one: str, other: str) -> float:
    """By WCAG 2."""
    lights = sorted(sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear(x), strict=True)) for x in (one, other))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


def lab(text: str, vision: str) -> tuple[float, float, float]:
    seen = [min(max(sum(m * c for m, c in zip(row, linear(text), strict=True)), 0.0), 1.0) for row in MATRICES[vision]]
    red, green, blue = seen
    x = (0.4124564 * red + 0.3575761 * green + 0.1804375 * blue) / 0.95047
    y = 0.2126729 * red + 0.7151522 * green + 0.072175 * blue
    z = (0.0193339 * red + 0.119192 * green + 0.9503041 * blue) / 1.08883

    def f(t: float) -> float:
        return float(t ** (1 / 3)) if t > 0.008856 else 7.787 * t + 16 / 116

    return 116 * f(y) - 16, 500 * (f(x) - f(y)), 200 * (f(y) - f(z))


def difference(one: str, other: str, vision: str) -> float:
    """Delta E of 1976."""
    pairs = zip(lab(one, vision), lab(other, vision), strict=True)
    return float(sum((a - b) ** 2 for a, b in pairs) ** 0.5)


@pytest.mark.parametrize("theme", [DARK, LIGHT, MONO], ids=lambda theme: theme.name)
@pytest.mark.parametrize("ground", GROUNDS)
@pytest.mark.parametrize("role", ROLES)
def test_every_role_is_readable_on_every_ground(theme: object, ground: str, role: str) -> None:
    assert contrast(colour(theme, role), colour(theme, ground)) >= 4.5


@pytest.mark.parametrize("theme", [DARK, LIGHT, MONO], ids=lambda theme: theme.name)
def test_the_banner_of_a_lost_database_is_readable(theme: object) -> None:
    assert contrast(colour(theme, "background"), colour(theme, "cb-bad")) >= 4.5


@pytest.mark.parametrize("theme", [DARK, LIGHT], ids=lambda theme: theme.name)
@pytest.mark.parametrize("vision", MATRICES)
def test_what_needs_somebody_what_is_bad_and_what_is_well_differ_for_everybody(theme: object, vision: str) -> None:
    for one, other in itertools.combinations(("cb-needs", "cb-bad", "cb-ok"), 2):
        assert difference(colour(theme, one), colour(theme, other), vision) >= 20, (one, other)


def test_all_themes_name_the_same_things() -> None:
    ours = [{name for name in theme.variables if name.startswith("cb-")} for theme in THEMES]
    assert all(names == ours[0] for names in ours)


@pytest.mark.anyio
@pytest.mark.parametrize("name", sorted(NAMES))
@pytest.mark.parametrize("ascii", [False, True])
async def test_a15_every_state_is_read_by_its_word_in_every_theme_and_in_ascii(
    name: str, ascii: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = get_args(Word)
    monkeypatch.setattr(BareApp.SHOWN[0].load(), "rows", [Row(word, [(state(word),)]) for word in words])
    async with MemoryStore() as store:
        app = BareApp(gateway_on(store), theme=NAMES[name], ascii=ascii)
        async with app.run_test(size=(120, 36)) as pilot:
            await until(pilot, lambda: app.bare.query_one(LineTable).rows)
            await pilot.pause()
            drawn = ["".join(segment.text for segment in strip) for strip in app.screen._compositor.render_strips()]
    for word in words:
        row = next(line for line in drawn if f" {word} " in line)
        glyph = LOOKS[word].glyph
        assert (as_ascii(glyph) if ascii else glyph) in row
        assert row.isascii() or not ascii


def test_a15_the_states_that_need_somebody_have_glyphs_that_differ_in_ascii() -> None:
    glyphs = {
        as_ascii(LOOKS[word].glyph) for word in ("NEEDS YOU", "DEAD", "ESCALATED", "RETRY", "RECOVERING", "PAUSED")
    }
    assert len(glyphs) == 6 and all(glyph.isascii() for glyph in glyphs)


def test_ascii_replaces_signs_and_leaves_letters_as_they_are() -> None:
    assert as_ascii("◆ Zoë · “Łódź” → …") == '! Zoë . "Łódź" > ~'
    assert as_ascii("Nоrdlicht") == "Nоrdlicht", "a letter that looks like another must not become it"


@pytest.mark.anyio
@pytest.mark.parametrize(("name", "turned"), [("mono", True), ("ansi", True), ("dark", False), ("light", False)])
async def test_the_row_under_the_cursor_is_turned_around_where_there_is_no_shade_for_it(
    name: str, turned: bool
) -> None:
    async with MemoryStore() as store:
        app = BareApp(gateway_on(store), theme=NAMES[name])
        async with app.run_test(size=(80, 24)) as pilot:
            table = app.bare.query_one(LineTable)
            await until(pilot, lambda: table.rows and table.has_focus)
            styles = [segment.style for segment in table.render_line(1) if "/one" in segment.text]
    assert styles and all(bool(style and style.reverse) == turned for style in styles)


MANY = {"TERM": "xterm-256color"}


@pytest.mark.parametrize(
    ("environ", "given", "colours", "expected"),
    [
        (MANY, "auto", True, "dark"),
        (MANY, "light", True, "light"),
        (MANY | {"NO_COLOR": "1"}, "auto", True, "mono"),
        (MANY | {"NO_COLOR": "1"}, "dark", True, "dark"),
        (MANY, "auto", False, "mono"),
        (MANY | {"NO_COLOR": ""}, "auto", True, "dark"),
        ({"TERM": "linux"}, "auto", True, "ansi"),
        ({"TERM": "linux", "COLORTERM": "truecolor"}, "auto", True, "ansi"),
        ({"TERM": "xterm"}, "auto", True, "ansi"),
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, "auto", True, "dark"),
        ({}, "auto", True, "ansi"),
        (MANY | {"COLORFGBG": "0;15"}, "auto", True, "light"),
        (MANY | {"COLORFGBG": "15;0"}, "auto", True, "dark"),
        (MANY | {"COLORFGBG": "0;default;15"}, "auto", True, "light"),
    ],
)
def test_the_theme_is_chosen_by_what_the_terminal_says(
    environ: dict[str, str], given: str, colours: bool, expected: str
) -> None:
    assert choose(environ, given=given, colours=colours) == f"callboard-{expected}"


def test_a_theme_that_there_is_not_is_an_error_that_names_those_there_are() -> None:
    with pytest.raises(SettingError, match="dark, light, mono, ansi or auto"):
        choose({}, given="solarized")
