"""`callboard`, with a UI that waits long for an answer before it takes the database for lost: it refuses keys then, and
a person would press them again. On a busy machine an answer takes seconds at times.

    python -m tests.tui.e2e.patient ARGUMENTS…
"""

from callboard.service.cli import main
from callboard.tui import live

ANSWER_SECONDS = 60.0


def be_patient() -> None:
    """In this process, from now on."""
    live.ANSWER_SECONDS = ANSWER_SECONDS


if __name__ == "__main__":
    be_patient()
    main()
