"""The four themes, and which one a terminal gets.

Colour is the third signal, after glyph and word; still, each role is readable on each ground it stands on (contrast of
4.5 at least), and what needs somebody, what is bad and what is well stay apart for people who see fewer colours. Both
are tested (`tests/tui/test_themes.py`): change a colour there, not by eye. `mono` and `ansi` have no shade of their own
for the row under the cursor and turn it around instead.
"""

from collections.abc import Mapping

from textual.theme import Theme

from callboard.mailbox.errors import SettingError

DARK = Theme(
    name="callboard-dark",
    primary="#58b5ea",
    background="#0e1419",
    surface="#0e1419",
    panel="#141b22",
    foreground="#d8dee6",
    error="#ff7a50",
    warning="#f2c230",
    success="#3fbf8f",
    dark=True,
    variables={
        "cb-dim": "#95a0ad",
        "cb-ok": "#3fbf8f",
        "cb-needs": "#f2c230",
        "cb-bad": "#ff7a50",
        "cb-retry": "#d39af0",
        "cb-info": "#58b5ea",
        "cb-line": "#2c3742",
        "cb-cursor": "#173150",
        "cb-field": "#1d262f",
        "scrollbar": "#2c3742",
        "scrollbar-hover": "#4a5a6a",
        "scrollbar-active": "#4a5a6a",
        "scrollbar-background": "#0e1419",
        "scrollbar-background-hover": "#0e1419",
        "scrollbar-background-active": "#0e1419",
        "scrollbar-corner-color": "#0e1419",
    },
)
LIGHT = Theme(
    name="callboard-light",
    primary="#005f9e",
    background="#fbfcf8",
    surface="#fbfcf8",
    panel="#f3f5f0",
    foreground="#1a2430",
    error="#88071d",
    warning="#855f00",
    success="#00736a",
    dark=False,
    variables={
        "cb-dim": "#57616d",
        "cb-ok": "#00736a",
        "cb-needs": "#855f00",
        "cb-bad": "#88071d",
        "cb-retry": "#6a44b0",
        "cb-info": "#005f9e",
        "cb-line": "#c3c8cc",
        "cb-cursor": "#dceaf8",
        "cb-field": "#e6e9e3",
        "scrollbar": "#c3c8cc",
        "scrollbar-hover": "#8f979e",
        "scrollbar-active": "#8f979e",
        "scrollbar-background": "#fbfcf8",
        "scrollbar-background-hover": "#fbfcf8",
        "scrollbar-background-active": "#fbfcf8",
        "scrollbar-corner-color": "#fbfcf8",
    },
)
MONO = Theme(
    name="callboard-mono",
    primary="#ffffff",
    background="#000000",
    surface="#000000",
    panel="#121212",
    foreground="#e0e0e0",
    secondary="#ffffff",
    accent="#ffffff",
    error="#ffffff",
    warning="#ffffff",
    success="#c8c8c8",
    dark=True,
    variables={
        "cb-dim": "#9a9a9a",
        "cb-ok": "#c8c8c8",
        "cb-needs": "#ffffff",
        "cb-bad": "#ffffff",
        "cb-retry": "#d4d4d4",
        "cb-info": "#f0f0f0",
        "cb-line": "#5a5a5a",
        "cb-cursor": "#000000",
        "cb-field": "#2a2a2a",
        "scrollbar": "#5a5a5a",
        "scrollbar-hover": "#9a9a9a",
        "scrollbar-active": "#9a9a9a",
        "scrollbar-background": "#000000",
        "scrollbar-background-hover": "#000000",
        "scrollbar-background-active": "#000000",
        "scrollbar-corner-color": "#000000",
    },
)
ANSI = Theme(
    name="callboard-ansi",
    ansi=True,
    primary="ansi_cyan",
    secondary="ansi_cyan",
    warning="ansi_yellow",
    error="ansi_red",
    success="ansi_green",
    accent="ansi_cyan",
    foreground="ansi_default",
    background="ansi_default",
    surface="ansi_default",
    panel="ansi_default",
    boost="ansi_default",
    dark=True,
    variables={
        # Not bright black: what that is depends on the terminal's palette, and in some it is the background.
        "cb-dim": "ansi_default",
        "cb-ok": "ansi_green",
        "cb-needs": "ansi_yellow",
        "cb-bad": "ansi_bright_red",
        "cb-retry": "ansi_bright_magenta",
        "cb-info": "ansi_cyan",
        "cb-line": "ansi_bright_black",
        "cb-cursor": "ansi_default",
        "cb-field": "ansi_default",
        "ansi-background": "ansi_black",
        "ansi-foreground": "ansi_white",
        "border": "ansi_cyan",
        "border-blurred": "ansi_bright_black",
        "block-cursor-foreground": "ansi_black",
        "block-cursor-background": "ansi_white",
        "block-hover-background": "ansi_default",
        "input-cursor-background": "ansi_white",
        "input-cursor-foreground": "ansi_black",
        "input-cursor-text-style": "none",
        "input-selection-background": "ansi_cyan",
        "input-selection-foreground": "ansi_black",
        "screen-selection-background": "ansi_cyan",
        "screen-selection-foreground": "ansi_black",
        "scrollbar": "ansi_bright_black",
        "scrollbar-hover": "ansi_white",
        "scrollbar-active": "ansi_white",
        "scrollbar-background": "ansi_default",
        "scrollbar-background-hover": "ansi_default",
        "scrollbar-background-active": "ansi_default",
        "scrollbar-corner-color": "ansi_default",
    },
)
THEMES = (DARK, LIGHT, MONO, ANSI)
NAMES = {theme.name.removeprefix("callboard-"): theme.name for theme in THEMES}
"""What `--theme` takes, and the name of each theme."""

_LIGHT_GROUNDS = frozenset({"7", "9", "10", "11", "12", "13", "14", "15"})
_MANY_COLOURS = ("256", "direct", "truecolor", "kitty", "alacritty", "ghostty", "wezterm", "iterm", "foot")


def choose(environ: Mapping[str, str], *, given: str = "auto", colours: bool = True) -> str:
    """The name of a terminal's theme. `given`: what somebody asked for; `colours`: whether any are wanted.

    NO_COLOR: mono. A terminal of sixteen colours: ansi. Else light where COLORFGBG says that the ground is light, and
    dark where it does not.

    Raises:
        SettingError: there is no theme of this name.
    """
    if given not in ("auto", "", *NAMES):
        raise SettingError(f"--theme: expected {', '.join(NAMES)} or auto, got {given[:80]!r}")
    if given in NAMES:
        return NAMES[given]
    if not colours or environ.get("NO_COLOR"):
        return MONO.name
    if not _has_many_colours(environ):
        return ANSI.name
    ground = environ.get("COLORFGBG", "").rpartition(";")[2]
    return LIGHT.name if ground in _LIGHT_GROUNDS else DARK.name


def _has_many_colours(environ: Mapping[str, str]) -> bool:
    term = environ.get("TERM", "").lower()
    if term in ("linux", "dumb"):
        return False
    return environ.get("COLORTERM", "").lower() in ("truecolor", "24bit") or any(one in term for one in _MANY_COLOURS)
