"""What a person does at the terminal, step by step: each step waits until the screen shows that it was taken."""

from .terminal import Terminal

TRIES = 10
SETTLED_SECONDS = 0.6
"""A dialog drops keys for 0.4 s after it came to sight; a person takes longer than that to read it."""


def go_to_approvals(seen: Terminal, shows: str = "480.00") -> None:
    """The list, with the request in it under the cursor: the line above tells of it as well, and earlier."""

    def listed(row: str) -> bool:
        return shows in row and ("▐" in row or "Nothing" in row)

    seen.until("Approvals")
    seen.press("2")
    seen.until(lambda text: "Waiting for a decision" in text and any(map(listed, text.splitlines())))


def open_request(seen: Terminal, shows: str = "480.00") -> None:
    """The dialog of the first request, read."""
    go_to_approvals(seen, shows)
    seen.press("a")
    seen.until(lambda text: "What happens next" in text and "approve…" in text)
    seen.rest(SETTLED_SECONDS)


def ask_amount(seen: Terminal) -> None:
    """`y`: the amount is asked for."""
    seen.press("y")
    seen.until("to arm, then Enter")


def fill(seen: Terminal, text: str, took: str) -> None:
    """Type into the field that has just come, which takes keys once it has the focus: its first character until the
    screen shows that it was taken (by `took`); that away again, as it may have been taken more than once; the text."""
    typed = 0
    while not typed or not seen.shows(took, seconds=3):
        assert typed < TRIES, f"nothing of what was typed was taken:\n{seen.text()}"
        seen.type(text[0])
        typed += 1
    seen.press(*["backspace"] * typed)
    seen.gone(took)  # characters that come in one stream with a key that edits are sooner than that
    seen.type(text)


def arm(seen: Terminal, amount: str = "480.00", note: str = "") -> None:
    """The amount is typed, and a note where one is wanted."""
    ask_amount(seen)
    fill(seen, amount, "that is not")
    if note:
        seen.until(lambda text: any(amount in row and " note " in row for row in text.splitlines()))
        seen.press("tab")
        seen.until_typing_after(" note ")  # keys that come in one stream with a tab go to the field before it
        seen.type(note)
        seen.until(note)
    seen.until("● armed")


def approve(seen: Terminal, amount: str = "480.00", note: str = "") -> None:
    """From the list to what can be taken back."""
    open_request(seen, amount)
    arm(seen, amount, note)
    seen.press("enter")
    seen.until("take it back")


def begin_denial(seen: Terminal, reason: str) -> None:
    """`n`, and a reason that is typed and not sent."""
    seen.press("n")
    seen.until("Deny this request")
    fill(seen, reason, "Enter denies")
    seen.until(reason)
