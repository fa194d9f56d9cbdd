"""How the frame is laid out, and what themes need besides their colours. What a widget looks like is its own file's."""

CSS = """
* { scrollbar-size-vertical: 1; scrollbar-size-horizontal: 1; }
#frame { height: 1fr; }
#tiny { display: none; }
Screen { background: $background; color: $foreground; }
Screen.-tiny #frame { display: none; }
Screen.-tiny #tiny { display: block; width: 1fr; height: 1fr; content-align: center middle; }
#masthead, #screens, KeysLine, #hold { background: $panel; }
#attention { background: $background; }
#banner { display: none; background: $cb-bad; color: $background; text-style: bold; }
Screen.lost #banner, Screen.troubled #banner { display: block; }
Screen.lost ContentSwitcher { opacity: 55%; }
ContentSwitcher { height: 1fr; }
#hold { display: none; }
ModalScreen { background: $background 60%; }
Toast { background: $panel; color: $foreground; width: auto; max-width: 90%; padding: 0 1; }
.-theme-callboard-mono LineTable .cb--cursor, .-theme-callboard-ansi LineTable .cb--cursor { text-style: reverse; }
.-theme-callboard-mono LineTable .cb--rest, .-theme-callboard-ansi LineTable .cb--rest { text-style: underline; }
.-theme-callboard-ansi LineTable .cb--rest { background: ansi_default; }
Input.-textual-compact { background: $cb-field; color: $foreground; padding: 0 1; }
Input.-textual-compact:focus { background: $cb-field; }
"""
