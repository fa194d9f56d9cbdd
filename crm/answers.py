"""The shape in which the desk's tools say no: an ordinary result that a model can read.

A refusal carries a sentence for the model and a code for programs. It is not an exception: nothing is broken, and
trying again does not help.
"""

from typing import Any

MAX_TEXT_CHARACTERS = 4_000
"""The longest note or reply that the desk keeps."""


def refused(code: str, sentence: str) -> dict[str, Any]:
    """Make the result of a tool that did nothing, for the reason given."""
    return {"error": sentence, "code": code}


def text_problem(text: str) -> dict[str, Any] | None:
    """Refuse text that is empty, too long, or that a table cannot hold."""
    if not text.strip():
        return refused("bad_text", "the text is empty; write at least a sentence")
    if len(text) > MAX_TEXT_CHARACTERS:
        return refused("bad_text", f"the text has {len(text)} characters, at most {MAX_TEXT_CHARACTERS} are kept")
    if "\x00" in text:
        return refused("bad_text", "the text contains a NUL character; leave it out")
    return None
