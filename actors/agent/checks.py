"""What a tool's `checks` find about a call that waits for a person, told as sentences. Total: a check that fails is a
finding too, since an approver must not be kept from deciding by it, nor left to think that all is well.

A check is a function, sync or async, of those of the tool's arguments that it names. What it gives means:

    None, True                fine
    False                     not fine
    "a sentence"              something that the approver should know; not fine
    (ok, "a sentence")        both
    {"ok": …, "detail": …}    both; `ok` left out is not fine
    an exception, no answer   not fine, and says so
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from .events import Finding
from .result import text_of
from .text import error_line, row_text

CHECK_SECONDS: Final = 15.0
"""How long one check may take. People wait for it."""
MAX_DETAIL_CHARS: Final = 1_000

Runner = Callable[[Callable[..., Any]], Awaitable[Any]]
"""Runs one check with its arguments, for a bounded time."""


async def findings_of(checks: tuple[Callable[..., Any], ...], run: Runner) -> list[Finding]:
    """What each check finds, in their order."""
    return [await _found(check, run) for check in checks]


async def _found(check: Callable[..., Any], run: Runner) -> Finding:
    name = row_text(text_of(getattr(check, "__name__", "") or type(check).__name__), 100)
    try:
        return finding(name, await run(check))
    except TimeoutError:
        return Finding(name, False, "the check gave no answer in time")
    except Exception as error:  # noqa: BLE001 - a user's function; whatever it raises, the approver is told
        return Finding(name, False, row_text(f"the check failed: {error_line(error)}", MAX_DETAIL_CHARS))


def finding(name: str, said: object) -> Finding:
    """What a check's answer means.

    Raises:
        Exception: from an answer with a will of its own.
    """
    match said:
        case None | True:
            return Finding(name, True)
        case False:
            return Finding(name, False)
        case str():
            return Finding(name, not said.strip(), _sentence(said))
        case (ok, detail):
            return Finding(name, bool(ok), _sentence(detail))
        case Mapping():
            return Finding(name, bool(said.get("ok", False)), _sentence(said.get("detail", "")))
    return Finding(name, False, _sentence(f"the check said neither yes nor no: {text_of(said)}"))


def _sentence(text: object) -> str:
    return row_text("" if text is None else text_of(text), MAX_DETAIL_CHARS)
