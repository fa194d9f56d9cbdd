"""The one door through which text from models, tools and customers reaches a terminal.

Whatever could move the cursor, change colours, hide text or turn its direction is shown as an escape instead of being
obeyed: C0 and C1 controls, DEL, bidirectional and invisible format characters, line separators, lone surrogates.
"""

import unicodedata

_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Control, format (bidi, zero width), surrogate, line and paragraph separator."""
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Letters and marks that nobody sees: with one of them, two names look like one."""


def safe(text: str, *, lines: bool = False) -> str:
    """`text` as it may be printed; with `lines` its line breaks and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    kept = "\n\t" if lines else ""
    return "".join(c if c in kept or not _is_hidden(c) else _escaped(c) for c in text)


def _is_hidden(character: str) -> bool:
    return unicodedata.category(character) in _INVISIBLE or character in _BLANK


def _escaped(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(character, f"\\x{code:02x}")
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
