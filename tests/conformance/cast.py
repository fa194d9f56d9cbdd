"""Who plays whom: a recorded tree as one of ours, and between recorded ids and our addresses.

An id becomes the name of a child (another one where it is no name of ours). A spec that a script adds later
(`start_child`) becomes a dynamic template of its supervisor, instance 1 of which bears its id; a simple_one_for_one
supervisor has one pool, whose instances bear the names that `start_instance` gives them.
"""

import re
from collections.abc import Iterator
from typing import Any

from callboard.actors.spec import Child, Supervisor
from callboard.mailbox.address import child as child_address
from callboard.mailbox.address import key_of, name_of, parent_of

from .behaviour import INFINITY, behaviour_of, shutdown_ms
from .cases import Case
from .diary import Diary
from .player import Player

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,40}")
ADDED_KEY = "1"


class Cast:
    """The tree of one case. `suffix` makes its root's name its own; `scale` stretches all of the case's times."""

    def __init__(self, case: Case, diary: Diary, *, suffix: str = "", scale: float = 1.0) -> None:
        self.case = case
        self.scale = scale
        self._diary = diary
        self._suffix = suffix
        self.addresses: dict[str, str] = {}
        """By recorded id; instances of pools only once they were named."""
        self.ids: dict[str, str] = {}
        """The recorded id of an address without its key."""
        self.pools: set[str] = set()
        """Addresses of simple_one_for_one supervisors."""
        self.supervisors: set[str] = set()
        self._specs: dict[str, Supervisor] = {}
        self.added: dict[tuple[str, str], str] = {}
        """(supervisor's id, id that a script adds) to the name of its template; "" for a child of the tree."""
        self.tree = self._supervisor("", case.tree)

    @property
    def root(self) -> str:
        return self.addresses[self.case.tree["id"]]

    def _supervisor(self, parent: str, spec: dict[str, Any]) -> Supervisor:
        name = _name(spec["id"]) + (self._suffix if not parent else "")
        address = self._know(parent, name, spec["id"])
        self.supervisors.add(address)
        pool = spec.get("strategy") == "simple_one_for_one"
        if pool:
            self.pools.add(address)
        children: list[Child | Supervisor] = []
        for child in spec.get("children", ()):
            if child["kind"] == "supervisor":
                children.append(self._supervisor(address, child))
            else:
                self._know(address, _name(child["id"]), child["id"])
                children.append(self._child(child, pool=pool))
        children += self._templates(spec["id"], address, {child.name for child in children})
        made = self._specs[address] = Supervisor(
            name,
            tuple(children),
            strategy="one_for_one" if pool else spec.get("strategy", "one_for_one"),
            max_restarts=int(spec.get("max_restarts", 1)),
            within=float(spec.get("within_seconds", 5)) * self.scale,
            restart=spec.get("restart", "permanent"),
            significant=bool(spec.get("significant", False)),
            auto_shutdown=spec.get("auto_shutdown", "never"),
            shutdown_seconds=self._seconds(shutdown_ms(spec)),
            backoff=None,
        )
        return made

    def _child(self, spec: dict[str, Any], *, name: str = "", pool: bool = False, dynamic: bool = False) -> Child:
        return Child(
            Player,
            name or _name(spec["id"]),
            restart=spec.get("restart", "permanent"),
            significant=bool(spec.get("significant", False)),
            pool=pool,
            dynamic=dynamic,
            args=("" if pool else spec["id"], behaviour_of(spec), self.scale, self._diary),
            shutdown_seconds=self._seconds(shutdown_ms(spec)),
            max_deliveries=1,
        )

    def _templates(self, supervisor: str, address: str, taken: set[str]) -> Iterator[Child]:
        """What the script adds to this supervisor."""
        for step in self.case.steps:
            if step.do != "start_child" or step.text("supervisor") != supervisor:
                continue
            spec = step.fields["spec"]
            if (supervisor, spec["id"]) in self.added:
                continue
            if spec["kind"] == "supervisor":
                raise ValueError(f"start_child of the supervisor {spec['id']!r}: only workers are added at run time")
            name = _name(spec["id"])
            if name in taken:
                # The tree has it already: what is added is that child, after it was deleted.
                self.added[supervisor, spec["id"]] = ""
                continue
            self.added[supervisor, spec["id"]] = name
            self._know(address, name, spec["id"])
            self.addresses[spec["id"]] = child_address(address, name, ADDED_KEY)
            yield self._child(spec, dynamic=True)

    def _know(self, parent: str, name: str, id: str) -> str:
        address = child_address(parent, name)
        self.addresses[id], self.ids[address] = address, id
        return address

    def _seconds(self, ms: float) -> float:
        return INFINITY if ms == INFINITY else ms * self.scale / 1000.0

    # --- between ids and addresses -----------------------------------------------------------------------------

    def name_instance(self, supervisor: str, name: str) -> str:
        """An instance of a pool gets its name; the segment that its supervisor knows it by."""
        address = self.addresses[supervisor]
        (template,) = (known for known in self.ids if parent_of(known) == address)
        instance = child_address(address, name_of(template), name)
        self.addresses[name] = instance
        return instance.rpartition("/")[2]

    def segment(self, supervisor: str, id: str) -> str:
        """How a supervisor of ours calls a child."""
        address = self.addresses.get(id)
        if address is None or parent_of(address) != self.addresses[supervisor]:
            return _name(id)
        return address.rpartition("/")[2]

    def id_of(self, address: str) -> str:
        """The recorded id of an actor."""
        key = key_of(address)
        if key is not None and parent_of(address) in self.pools:
            return key
        return self.spec_id(address)

    def comes_back(self, address: str) -> bool:
        """Whether a supervisor of ours that gave up is started again, or makes its parent give up."""
        spec = self._specs[address]
        cascades = spec.significant and self._specs[parent_of(address)].auto_shutdown == "any_significant"
        return spec.restart == "permanent" or (spec.restart == "transient" and not cascades)

    def spec_id(self, address: str) -> str:
        """The id of a child's spec: that of the template for an instance."""
        return self.ids.get(f"{parent_of(address)}/{name_of(address)}", address)


def _name(id: str) -> str:
    if _NAME.fullmatch(id):
        return id
    return "x-" + "".join(c if re.fullmatch(r"[a-z0-9]", c) else f"-{ord(c):x}-" for c in id)[:50]
