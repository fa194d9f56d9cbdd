"""Every operation there is, found by looking, and what it does with a principal: so that a new one cannot be forgotten.

An operation is a public asynchronous method of a class of `service.operations` that acts as a principal. It is called
on a store that lets reads through and stops at the first write: `Reached`. So nothing is changed by trying.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from callboard.mailbox.errors import NotAllowed
from callboard.persistence.store import Store
from callboard.service import operations as package
from callboard.service.operations.decisions import Outcome
from callboard.service.operations.principal import Principal
from callboard.service.operations.runs import Operations

READS = {
    "actor", "actors", "alarms", "asking", "audit", "calls", "caused", "census", "changes", "client_id",
    "dead_letter", "dead_letters", "decision", "decisions", "decisions_of", "feed", "glances", "handled", "journal",
    "mailboxes", "message", "newest", "now", "old", "overhear", "owner", "peek", "pressing", "receive", "search",
    "tallies", "timers", "tokens", "trail", "trends", "turns", "waiting", "window",
}  # fmt: skip
"""Of a store. Whatever else it has, or will have, writes until somebody says here that it does not."""

WITHOUT_PRINCIPAL = {
    "Answers": "keeps answers to requests that were admitted",
    "Credentials": "is the door itself",
    "Outcomes": "tells what became of decisions",
    "Rehearsal": "is a store on which a change is tried, and not made",
}
"""Classes that do not act as somebody, and why."""


class Reached(Exception):
    """An operation came to a write."""


class ReadOnly:
    """A store that stops at the first write."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name in READS or not callable(found):
            return found

        def stop(*_: object, **__: object) -> Any:
            raise Reached(name)

        return stop


@dataclass(frozen=True)
class Operation:
    """One of them."""

    owner: type
    name: str

    def __str__(self) -> str:
        return f"{self.owner.__name__}.{self.name}"

    async def call(self, store: Store, principal: Principal, samples: Mapping[str, Any]) -> str:
        """What comes of it: "refused", "reached" a write, "returned", or the error it ends with."""
        operations = Operations(ReadOnly(store), principal)
        target = operations if self.owner is Operations else self.owner(operations)
        method = getattr(target, self.name)
        try:
            found = method(**self._arguments(method, samples))
            if inspect.isasyncgen(found):
                async for _ in found:
                    pass
                return "returned"
            result = await found
        except NotAllowed:
            return "refused"
        except Reached:
            return "reached"
        except Exception as error:  # noqa: BLE001 - told as the outcome
            return f"{type(error).__name__}: {error}"
        if isinstance(result, list) and result and all(isinstance(one, Outcome) for one in result):
            return "refused" if all(isinstance(one.error, NotAllowed) for one in result) else f"returned {result}"
        return "returned"

    def _arguments(self, method: Callable[..., Any], samples: Mapping[str, Any]) -> dict[str, Any]:
        given = {}
        for name, parameter in inspect.signature(method).parameters.items():
            key = f"{self.owner.__name__}.{name}"
            if key in samples or parameter.default is parameter.empty:
                assert key in samples or name in samples, f"{self} takes {name!r}: give a sample of it to this test"
                given[name] = samples[key] if key in samples else samples[name]
        return given


def classes() -> Iterator[type]:
    """The classes of the package that act on a store."""
    for module in pkgutil.iter_modules(package.__path__):
        loaded = importlib.import_module(f"{package.__name__}.{module.name}")
        for _, found in inspect.getmembers(loaded, inspect.isclass):
            if found.__module__ == loaded.__name__ and any(_methods(found)):
                yield found


def operations() -> list[Operation]:
    """Every operation that acts as a principal."""
    return [
        Operation(one, name)
        for one in classes()
        if one is Operations or "operations" in inspect.signature(one).parameters
        for name in _methods(one)
    ]


def _methods(owner: type) -> list[str]:
    def is_operation(found: object) -> bool:
        return inspect.iscoroutinefunction(found) or inspect.isasyncgenfunction(found)

    return [name for name, _ in inspect.getmembers(owner, is_operation) if not name.startswith("_")]
