"""The schema lock: what every message, event and state of a program looked like when it was last released.

    python -m callboard.actors.schema_lock --write schemas.lock.json my.app     # begin one, for all types in my.app
    python -m callboard.actors.schema_lock schemas.lock.json                    # in CI: 1 and a list where it is broken
    python -m callboard.actors.schema_lock --write schemas.lock.json            # after a change that breaks nothing

What was written under the lock lies in mailboxes, journals and snapshots, and in a rolling deploy the old program
reads what the new one writes. So a change may break neither: a field is added with a default; any other change is a new
version with an upcast. `compare` tells the one from the other. The lock is committed beside the code, and each
release's lock is compared with the one before.
"""

import argparse
import importlib
import pkgutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ..mailbox.errors import UsageError
from ..mailbox.message import newest_types, oldest_readable, refused_types, wire
from .actor import Actor
from .context import Event
from .schema_change import Lock, compare
from .schema_shape import Shapes
from .snapshot import oldest_state

_encoder = msgspec.json.Encoder(order="deterministic")


def lock(modules: Sequence[str], retired: Sequence[str] = ()) -> Lock:
    """All message, event and state types that are declared in these modules and packages, as they are now.

    Raises:
        UsageError: a module cannot be imported, or a type is declared wrongly.
    """
    for name in modules:
        _import(name)
    found = Lock(modules=sorted(modules), retired=sorted(retired))
    shapes = Shapes()
    for refused, why in refused_types().items():
        if _lies_in(refused, modules):
            raise UsageError(why)
    for name, kind in sorted(newest_types().items()):
        if _lies_in(kind, modules) and kind is not Event:
            section = found.events if issubclass(kind, Event) else found.messages
            section[name] = shapes.of(kind, wire(kind).version, oldest_readable(name))
    for actor in actors_in(modules):
        shape = shapes.of(actor.state_type, actor.state_version, oldest_state(actor))
        if found.states.setdefault(actor.kind, shape) != shape:
            raise UsageError(f"two kinds of actors with unlike states are called {actor.kind!r}; rename one")
    found.structs = shapes.structs
    return found


def actors_in(modules: Sequence[str]) -> list[type[Actor[Any]]]:
    """All classes of actors that are declared in these modules and packages, by kind."""
    # By its full name: a module that was imported anew has left its former class behind.
    found = {(actor.kind, actor.__module__, actor.__qualname__): actor for actor in _actors(Actor)}
    return [actor for _, actor in sorted(found.items(), key=lambda item: item[0]) if _lies_in(actor, modules)]


def read(path: Path) -> Lock:
    """The lock that a file holds.

    Raises:
        UsageError: there is none.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=Lock)
    except (OSError, msgspec.MsgspecError) as error:
        raise UsageError(f"{path} is no schema lock: {error}") from error


def text(lock: Lock) -> str:
    """A lock as canonical JSON, a line a field, so that a change of it is a change of as many lines."""
    return msgspec.json.format(_encoder.encode(lock), indent=2).decode() + "\n"


def _import(name: str) -> None:
    """Import a module, and all below it where it is a package."""
    try:
        module = importlib.import_module(name)
        for below in pkgutil.iter_modules(getattr(module, "__path__", ()), f"{name}."):
            if not below.name.endswith(".__main__"):
                _import(below.name)
    except ImportError as error:
        raise UsageError(f"module {name!r} cannot be imported: {error}") from error


def _lies_in(kind: type, modules: Sequence[str]) -> bool:
    return any(kind.__module__ == name or kind.__module__.startswith(f"{name}.") for name in modules)


def _actors(base: type[Actor[Any]]) -> Iterator[type[Actor[Any]]]:
    for actor in base.__subclasses__():
        yield actor
        yield from _actors(actor)


# --- the command -------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare a lock file with the program, or write it. Exit code 1: something is broken, or behind; 2: bad usage."""
    about = "What every message, event and state of a program looks like, compared with what it was in a file."
    parser = argparse.ArgumentParser(prog="python -m callboard.actors.schema_lock", description=about)
    parser.add_argument("file", type=Path)
    parser.add_argument("modules", nargs="*", help="modules and packages whose types it holds; default: as in the file")
    parser.add_argument("--write", action="store_true", help="write the file, unless something is broken")
    parser.add_argument("--force", action="store_true", help="write it even so: nothing of it was ever released")
    given = parser.parse_args(arguments)
    try:
        before = read(given.file) if given.file.exists() or not given.write else None
        known = before or Lock()
        now = lock(given.modules or known.modules, known.retired)
    except UsageError as error:
        return _say([error], 2)
    changes = compare(before, now) if before else []
    broken = any(change.breaks for change in changes)
    if given.write and (given.force or not broken):
        given.file.write_text(text(now))
        return _say([*changes, f"{given.file}: written"], 0)
    if not broken and text(now) != text(known):
        return _say([*changes, f"{given.file} is behind: write it with --write"], 1)
    return _say(changes, int(broken))


def _say(lines: Sequence[object], code: int) -> int:
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return code


if __name__ == "__main__":
    sys.exit(main())
