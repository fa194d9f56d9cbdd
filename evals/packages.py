"""Libraries that only some evals need. They are no dependency of Callboard: whoever measures installs them."""

from importlib import import_module
from typing import Any

from callboard.mailbox.errors import UsageError


class MissingPackage(UsageError):
    """A library is not installed; the sentence says how it gets there."""


def load(module: str, install: str) -> Any:
    """Import a module of a library that may be missing.

    Raises:
        MissingPackage: it is; `install` is what to tell pip.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingPackage(f"this needs a library that is not installed ({error}); pip install {install}") from None
