"""Loading an application: `module:attribute` names an `App` in a module that can be imported.

A module is somebody's code. Whatever it does wrong while it is imported or opened becomes one sentence that says where,
so that a missing annotation reads as one and not as a page of our frames.
"""

import importlib
import sys
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType

from ..actors.app import App, Surroundings
from ..actors.spec import Tree
from ..mailbox.errors import CallboardError, UsageError


class ApplicationFailed(CallboardError):
    """An application's own code failed; the message says where and with what."""


def load_app(name: str) -> App:
    """The application called `module:attribute`.

    Modules of the working directory are found too, as with `python -m`.

    Raises:
        UsageError: no such module, attribute, or not an App; or the module itself fails to import.
    """
    module_name, colon, attribute = name.partition(":")
    if not (module_name and colon and attribute):
        raise UsageError(f"application {name!r}: expected module:attribute, such as callboard.crm.app:app")
    module = _import(module_name, name)
    found: object = module
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if isinstance(found, App):
        return found
    what = "has no such attribute" if found is None else f"has a {type(found).__name__} there, not an App"
    raise UsageError(f"application {name!r}: the module {what}; {_offered(module)}")


def _import(module_name: str, name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name + ".").startswith(error.name + "."):
            raise UsageError(
                f"application {name!r}: there is no module {error.name!r} here; "
                "run this where it can be imported, or give another"
            ) from error
        raise UsageError(f"application {name!r} cannot be imported: {_said(error)}") from error
    except (Exception, SystemExit) as error:
        raise UsageError(f"application {name!r} cannot be imported: {_said(error)}") from error


def _offered(module: ModuleType) -> str:
    apps = sorted(name for name, value in vars(module).items() if isinstance(value, App))
    return f"it offers {', '.join(apps)}" if apps else "it holds no App at all"


def _said(error: BaseException) -> str:
    """The error in one line, with the last place outside of Callboard that it passed."""
    ours = str(Path(__file__).resolve().parent.parent)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith("<frozen")]
    theirs = [f for f in frames if not str(Path(f.filename).resolve()).startswith(f"{ours}/service/")]
    place = next((f for f in reversed(theirs) if "/callboard/" not in f.filename), theirs[-1] if theirs else None)
    if isinstance(error, SyntaxError):
        where = f" ({Path(error.filename or '?').name}:{error.lineno})"
    else:
        where = f" ({Path(place.filename).name}:{place.lineno})" if place else ""
    text = " ".join(str(error).split()) or "no message"
    return f"{type(error).__name__}: {text[:500]}{where}"


@asynccontextmanager
async def opened(app: App, surroundings: Surroundings) -> AsyncIterator[Tree]:
    """The application's tree, while what it needs is open.

    Raises:
        ApplicationFailed: it raised something of its own; errors of Callboard's tree pass as they are.
    """
    manager = app.open(surroundings)
    try:
        root = await manager.__aenter__()
        tree = Tree(root)
    except CallboardError:
        raise
    except Exception as error:
        raise ApplicationFailed(f"application {app.name!r} did not open: {_said(error)}") from error
    try:
        yield tree
    except BaseException as error:
        if not await manager.__aexit__(type(error), error, error.__traceback__):
            raise
    else:
        await manager.__aexit__(None, None, None)


def parse_options(given: list[str]) -> dict[str, str]:
    """`key=value` texts as a mapping.

    Raises:
        UsageError: for a text without a key or without "=".
    """
    options: dict[str, str] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"--option: expected key=value, got {text[:80]!r}")
        options[key.strip()] = value
    return options
