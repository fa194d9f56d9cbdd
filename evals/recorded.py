"""Reports that were measured before and kept: `results/NAME.json` beside this module."""

from pathlib import Path
from typing import Any, Final

import msgspec

from callboard.mailbox.errors import UsageError

RESULTS: Final = Path(__file__).with_name("results")


class NoResult(UsageError):
    """A kept report cannot be read; the sentence names its file."""


def recorded(name: str, folder: Path = RESULTS) -> dict[str, Any]:
    """The kept report of that name, as JSON has it.

    Raises:
        NoResult: there is none, or it is not a JSON object.
    """
    path = folder / f"{name}.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except OSError as error:
        raise NoResult(f"{path} cannot be read: {error.strerror or error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NoResult(f"{path} is no report: {error}") from None
