"""Loading an application: `module:attribute` names an `App` in a module that can be imported.

A module is somebody's code. Whatever it does wrong while it is imported or opened becomes one sentence that says where,
so that a missing annotation reads as one and not as a page of our frames. It may wait for somebody else in turn (the
server of its tools), so opening and closing it are bounded in time.
"""

import importlib
import logging
import math
import sys
import traceback
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import ModuleType

import anyio
import anyio.lowlevel

from ..actors.app import App, Surroundings
from ..actors.spec import Supervisor, Tree
from ..mailbox.errors import CallboardError, SchemaMismatch, StoreUnavailable, UsageError, leaf

log = logging.getLogger(__name__)

OPEN_SECONDS = 120.0
"""How long an application may take to open what it needs."""
CLOSE_SECONDS = 10.0
"""How long it may take to close that again; then the process goes on to its end without."""


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
    place = next((f for f in reversed(theirs) if _is_foreign(f.filename)), theirs[-1] if theirs else None)
    if isinstance(error, SyntaxError):
        where = f" ({Path(error.filename or '?').name}:{error.lineno})"
    else:
        where = f" ({Path(place.filename).name}:{place.lineno})" if place else ""
    text = " ".join(str(error).split()) or "no message"
    return f"{type(error).__name__}: {text[:500]}{where}"


def _is_foreign(path: str) -> bool:
    """Whether a file is neither Callboard's nor of the standard library."""
    standard = str(Path(logging.__file__).parent.parent)
    installed = "/site-packages/" in path or "/dist-packages/" in path
    return "/callboard/" not in path and (installed or not path.startswith(standard))


@asynccontextmanager
async def opened(app: App, surroundings: Surroundings) -> AsyncIterator[Tree]:
    """The application's tree, while what it needs is open.

    What it opens is closed however the block is left, and neither takes longer than OPEN_SECONDS and CLOSE_SECONDS.

    Raises:
        ApplicationFailed: it raised something of its own, or did not open in time; errors of Callboard's tree pass as
            they are, and so does what has an exit code of its own (a database that is away, an option that cannot be).
    """
    manager, opened_it, excused = app.open(surroundings), False, False
    failure: BaseException | None = None
    # One scope around all of it, whose deadline moves: one around the opening alone would be left before the scopes
    # that the application has opened in it, which no task may do.
    with anyio.CancelScope(deadline=anyio.current_time() + OPEN_SECONDS) as scope:
        root = await _entered(manager, app)
        scope.deadline = math.inf
        try:
            await anyio.lowlevel.checkpoint_if_cancelled()  # where it opened too late
            opened_it = True
            yield Tree(root)
        except BaseException as error:  # noqa: BLE001 - raised again below, once the application has heard of it
            failure = error
        scope.deadline = anyio.current_time() + CLOSE_SECONDS
        left = (None, None, None) if failure is None else (type(failure), failure, failure.__traceback__)
        excused = bool(await manager.__aexit__(*left))
    if not opened_it:
        raise ApplicationFailed(
            f"application {app.name!r} did not open within {OPEN_SECONDS:g} s; see what it waits for in its `open`"
        )
    if scope.cancelled_caught:
        log.warning("application %r did not close within %g s; this process goes on without", app.name, CLOSE_SECONDS)
    if failure is not None and not excused:
        raise failure


async def _entered(manager: AbstractAsyncContextManager[Supervisor], app: App) -> Supervisor:
    try:
        return await manager.__aenter__()
    except (UsageError, StoreUnavailable, SchemaMismatch):
        raise
    except Exception as error:
        said = _said(leaf(error))
        text = f"application {app.name!r} did not open: {said}; mend that, then start it again"
        raise ApplicationFailed(text) from error


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
