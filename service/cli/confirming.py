"""Asking before something is done that cannot be undone: a word to type, never a single key, and no default."""

from ...mailbox.errors import UsageError
from .terminal import ask, is_interactive, note


def confirmed(word: str, *, yes: bool, what: str) -> bool:
    """Whether to go on. `what` is about to happen; `word` is to be typed.

    Raises:
        UsageError: nobody is there to be asked, and --yes was not given.
    """
    if yes:
        return True
    if not is_interactive():
        raise UsageError(f"{what}: nobody is there to confirm it; give --yes")
    if ask(f"{what}. Type {word} to go on:") == word:
        return True
    note("nothing was done")
    return False
