"""The supervision tree as data: child specs, supervisors, and how an address finds its spec.

    TREE = Supervisor("crm", strategy="rest_for_one", max_restarts=3, within=60, children=(
        Child(Approvals, "approvals"),
        Supervisor("desk", children=(Child(Ticket, "ticket", restart="transient", pool=True),)),
    ))

A **pool** child is many actors, one for each key (`/crm/desk/ticket:42`), brought into being by their first message;
its supervisor does not know them one by one. A **worker** child is no actor: every node has its own.
Specs are code, not rows: all nodes of a version hold the same tree, and its digest tells a supervisor when it changed.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Literal

from ..mailbox.address import child as child_address
from ..mailbox.address import name_of, parent_of
from ..mailbox.errors import BadAddress, UsageError
from .actor import Actor, Worker

Strategy = Literal["one_for_one", "one_for_all", "rest_for_one"]
Restart = Literal["permanent", "transient", "temporary"]


@dataclass(frozen=True)
class Child:
    """How one child (or one pool of them) is made and restarted.

    `args` are passed to the class each time it is made; `restart` is OTP's: permanent (default) restarts always,
    transient after an abnormal end only, temporary never.
    """

    actor: type[Actor[Any]] | type[Worker]
    name: str
    restart: Restart = "permanent"
    pool: bool = False
    args: tuple[Any, ...] = ()
    shutdown_seconds: float = 5.0

    def __post_init__(self) -> None:
        if self.pool and self.is_worker:
            raise UsageError(f"child {self.name!r}: every node has its own worker, none is pooled; leave out pool=True")

    @property
    def is_worker(self) -> bool:
        return issubclass(self.actor, Worker)

    def make(self) -> Any:
        """A new object of its class, without state."""
        return self.actor(*self.args)


@dataclass(frozen=True)
class Supervisor:
    """A supervisor and its children, started left to right and stopped right to left.

    More than `max_restarts` restarts within `within` seconds make it give up and escalate.
    """

    name: str
    children: "tuple[Child | Supervisor, ...]" = ()
    strategy: Strategy = "one_for_one"
    max_restarts: int = 3
    within: float = 60.0
    restart: Restart = "permanent"
    shutdown_seconds: float = float("inf")

    def __post_init__(self) -> None:
        names = [child.name for child in self.children]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise UsageError(f"supervisor {self.name!r} has two children named {twice[0]!r}; give one another name")
        if self.max_restarts < 0 or self.within <= 0:
            raise UsageError(f"supervisor {self.name!r}: max_restarts must be 0 or more and within above 0 seconds")


Spec = Child | Supervisor


@dataclass(frozen=True)
class Tree:
    """A supervisor with all below it, indexed by address (without keys)."""

    root: Supervisor
    specs: dict[str, Spec] = field(init=False)
    workers: dict[str, Child] = field(init=False)
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        specs = dict(_walk("", self.root))
        workers = {a: s for a, s in specs.items() if isinstance(s, Child) and s.is_worker}
        object.__setattr__(self, "specs", specs)
        object.__setattr__(self, "workers", workers)
        shape = "\n".join(f"{address} {_shape(spec)}" for address, spec in specs.items())
        object.__setattr__(self, "digest", sha256(shape.encode()).hexdigest()[:16])

    @property
    def address(self) -> str:
        """Of the root."""
        return child_address("", self.root.name)

    def find(self, address: str) -> Spec | None:
        """The spec that an address belongs to: its own, or its pool's; None for what the tree does not know."""
        spec = self.specs.get(address)
        if spec is not None:
            return None if isinstance(spec, Child) and spec.pool else spec
        spec = self.specs.get(f"{parent_of(address)}/{name_of(address)}")
        return spec if isinstance(spec, Child) and spec.pool else None


def _walk(parent: str, spec: Spec) -> Iterator[tuple[str, Spec]]:
    address = child_address(parent, spec.name)
    if address.rpartition("/")[2] != name_of(address) or name_of(address) != spec.name:
        raise BadAddress(f"child {spec.name!r}: a name in the tree is one segment without a key, such as agent")
    yield address, spec
    if isinstance(spec, Supervisor):
        for child in spec.children:
            yield from _walk(address, child)


def _shape(spec: Spec) -> str:
    if isinstance(spec, Supervisor):
        return f"supervisor {spec.strategy} {spec.max_restarts}/{spec.within} {spec.restart}"
    return f"{spec.actor.kind} {spec.restart} {'pool' if spec.pool else 'one'}"
