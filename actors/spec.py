"""The supervision tree as data: child specs, supervisors, and how an address finds its spec.

    TREE = Supervisor("crm", strategy="rest_for_one", max_restarts=3, within=60, children=(
        Child(Approvals, "approvals"),
        Supervisor("desk", children=(Child(Ticket, "ticket", restart="transient", pool=True),)),
    ))

A **pool** child is many actors, one for each key (`/crm/desk/ticket:42`), brought into being by their first message;
its supervisor does not know them one by one. A **dynamic** child is a template: its instances have keys too, but its
supervisor starts each when asked (`StartChild`) and knows it as its last child. A **worker** child is no actor: every
node has its own.
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
from .backoff import RestartBackoff

Strategy = Literal["one_for_one", "one_for_all", "rest_for_one"]
Restart = Literal["permanent", "transient", "temporary"]
AutoShutdown = Literal["never", "any_significant", "all_significant"]

BACKOFF = RestartBackoff()
"""The default of every supervisor."""

CENSUS = "/sys/census"
"""The runtime's own worker, which supervisors with pools ask (`census`); every node with such a tree has one."""


class InvalidSpec(UsageError):
    """A child spec that contradicts itself or its supervisor; `fields` names what of it, as OTP's error would."""

    def __init__(self, text: str, fields: str) -> None:
        super().__init__(text)
        self.fields = fields

    @property
    def result(self) -> str:
        """In the words of the recorded cases."""
        return f"invalid_spec({self.fields})"


@dataclass(frozen=True)
class Child:
    """How one child (or one pool of them) is made and restarted.

    `args` are passed to the class each time it is made; `restart` is OTP's: permanent (default) restarts always,
    transient after an abnormal end only, temporary never; but an instance of a pool that has completed is done,
    whatever its kind. `significant`: its end may be its supervisor's end (`auto_shutdown`). `max_deliveries`: how often
    a message of this child may fail before the child does, instead of what its class says. `shutdown_seconds`: how long
    it has to stop before it is killed; 0: it is killed at once.
    """

    actor: type[Actor[Any]] | type[Worker]
    name: str
    restart: Restart = "permanent"
    pool: bool = False
    args: tuple[Any, ...] = ()
    shutdown_seconds: float = 5.0
    significant: bool = False
    max_deliveries: int | None = None
    dynamic: bool = False

    def __post_init__(self) -> None:
        if self.pool and self.is_worker:
            raise UsageError(f"child {self.name!r}: every node has its own worker, none is pooled; leave out pool=True")
        if self.dynamic and (self.pool or self.is_worker):
            what = "a pool" if self.pool else "a worker"
            raise UsageError(f"child {self.name!r}: {what} has no instances that are started; leave out dynamic=True")
        if self.significant and self.pool:
            raise UsageError(f"child {self.name!r}: no instance of a pool is significant; leave out significant=True")
        if self.max_deliveries is not None and self.max_deliveries < 1:
            raise UsageError(f"child {self.name!r}: max_deliveries is {self.max_deliveries}; it must be 1 or more")
        _check_seconds(self.name, self.shutdown_seconds)

    @property
    def is_worker(self) -> bool:
        return issubclass(self.actor, Worker)

    @property
    def keyed(self) -> bool:
        """Whether its actors are told apart by a key: a pool's, or a template's instances."""
        return self.pool or self.dynamic

    def make(self) -> Any:
        """A new object of its class, without state."""
        return self.actor(*self.args)


@dataclass(frozen=True)
class Supervisor:
    """A supervisor and its children, started left to right and stopped right to left.

    More than `max_restarts` restarts within `within` seconds make it give up and escalate. `backoff` spaces restarts
    (None: at once). `auto_shutdown`: it ends when any, or all, of its significant children have. `restart`,
    `significant` and `shutdown_seconds` are about itself, as a child of another: the time it has for its whole subtree.

    Raises:
        InvalidSpec: a significant child that is permanent, or without `auto_shutdown`.
        UsageError: two children of one name, or numbers that mean nothing.
    """

    name: str
    children: "tuple[Child | Supervisor, ...]" = ()
    strategy: Strategy = "one_for_one"
    max_restarts: int = 3
    within: float = 60.0
    restart: Restart = "permanent"
    shutdown_seconds: float = float("inf")
    auto_shutdown: AutoShutdown = "never"
    backoff: RestartBackoff | None = BACKOFF
    significant: bool = False

    def __post_init__(self) -> None:
        names = [child.name for child in self.children]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise UsageError(f"supervisor {self.name!r} has two children named {twice[0]!r}; give one another name")
        if self.max_restarts < 0 or self.within <= 0:
            raise UsageError(f"supervisor {self.name!r}: max_restarts must be 0 or more and within above 0 seconds")
        _check_seconds(self.name, self.shutdown_seconds)
        for child in self.children:
            if child.significant:
                self._check_significant(child)

    def _check_significant(self, child: "Spec") -> None:
        if child.restart == "permanent":
            raise InvalidSpec(
                f"child {child.name!r} of {self.name!r} is significant and permanent, so it would never end; "
                f'make it restart="transient" or "temporary"',
                "restart=permanent,significant=true",
            )
        if self.auto_shutdown == "never":
            raise InvalidSpec(
                f"child {child.name!r} of {self.name!r} is significant, which means nothing there; "
                f'give {self.name!r} auto_shutdown="any_significant" or "all_significant"',
                "auto_shutdown=never,significant=true",
            )


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
        if any(isinstance(spec, Child) and spec.pool for spec in specs.values()):
            workers[CENSUS] = Child(Worker, "census")  # each node makes its own, with its store
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
            return None if isinstance(spec, Child) and spec.keyed else spec
        spec = self.specs.get(f"{parent_of(address)}/{name_of(address)}")
        return spec if isinstance(spec, Child) and spec.keyed else None


def _walk(parent: str, spec: Spec) -> Iterator[tuple[str, Spec]]:
    address = child_address(parent, spec.name)
    if address.rpartition("/")[2] != name_of(address) or name_of(address) != spec.name:
        raise BadAddress(f"child {spec.name!r}: a name in the tree is one segment without a key, such as agent")
    yield address, spec
    if isinstance(spec, Supervisor):
        for child in spec.children:
            yield from _walk(address, child)


def _check_seconds(name: str, seconds: float) -> None:
    if not 0 <= seconds <= float("inf"):
        raise UsageError(
            f"child {name!r}: shutdown_seconds is {seconds}; it must be 0 or more, float('inf') for no end"
        )


def _shape(spec: Spec) -> str:
    common = f"{spec.restart} {spec.shutdown_seconds} {'significant' if spec.significant else ''}"
    if isinstance(spec, Supervisor):
        return f"supervisor {spec.strategy} {spec.max_restarts}/{spec.within} {spec.auto_shutdown} {common}"
    return f"{spec.actor.kind} {'pool' if spec.pool else 'dynamic' if spec.dynamic else 'one'} {common}"
