"""Who the children of a supervisor are: its state and its specs, side by side.

Children of the tree come first, in its order, then the instances of templates in the order of their start: this is the
order of starts, and the reverse of the order of stops. Nothing is decided here (`supervision`).
"""

from ..mailbox.address import name_of
from .restart import UP, ChildState
from .spec import Child, Spec, Supervisor
from .supervisor_state import Effects, SupervisorState
from .system import Abandon, ChildCounts

RETIRED_LIMIT = 1_000
"""Removed children that are remembered; the oldest are forgotten, whose last word was said long ago."""


class Roster:
    """The children of one supervisor."""

    def __init__(self, spec: Supervisor, state: SupervisorState, effects: Effects) -> None:
        self.spec = spec
        self.state = state
        self.effects = effects

    def adopt(self, tree: str) -> None:
        """Bring the list of children in line with the specs."""
        state = self.state
        known = {child.name: child for child in state.children}
        singles = [s.name for s in self.spec.children if is_single(s) and s.name not in state.removed]
        # A child that the tree no longer has is forgotten: there is no code left that could stop it.
        dynamic = [child for child in state.children if child.name not in singles and self._is_instance(child.name)]
        state.children = [known.get(name) or self.new(name) for name in singles] + dynamic
        state.tree = tree

    def new(self, name: str) -> ChildState:
        """A child that is not in the list; it may have been once."""
        return ChildState(name, incarnation=self.state.retired.pop(name, 0))

    def forget_unknown(self) -> None:
        """Children that this program's tree does not have; before `adopt` they may still be in the state."""
        known = {spec.name for spec in self.spec.children}
        self.state.children = [child for child in self.state.children if name_of(child.name) in known]
        self.state.pools = {name: pool for name, pool in self.state.pools.items() if name in known}

    def find(self, name: str) -> ChildState | None:
        return next((child for child in self.state.children if child.name == name), None)

    def child(self, name: str) -> ChildState:
        child = self.find(name)
        assert child is not None, name
        return child

    def spec_of(self, name: str) -> Spec:
        """The spec of a child, or of the template that an instance is made from."""
        return next(spec for spec in self.spec.children if spec.name == name_of(name))

    def temporary(self) -> set[str]:
        """Names of the children that are never restarted."""
        kinds = {spec.name for spec in self.spec.children if spec.restart == "temporary" and not is_pool(spec)}
        return kinds | {child.name for child in self.state.children if name_of(child.name) in kinds}

    def remove(self, child: ChildState, *, failed: bool = False) -> None:
        """Forget a child; one that has failed is told that it stays so."""
        if failed:
            self.effects.tell(child.name, Abandon(child.incarnation))
        self.state.children = [other for other in self.state.children if other is not child]
        retired = self.state.retired
        retired[child.name] = child.incarnation
        if len(retired) > RETIRED_LIMIT:
            del retired[next(iter(retired))]
        if is_single(self.spec_of(child.name)):
            self.state.removed.append(child.name)

    def busy(self) -> bool:
        return self.state.job is not None or self.effects.paused

    def is_killed(self) -> bool:
        """Whether the supervisor ends because it was killed."""
        return self.state.end is not None and self.state.end.kill

    def _is_instance(self, name: str) -> bool:
        return any(isinstance(s, Child) and s.dynamic and s.name == name_of(name) for s in self.spec.children)

    def with_status(self, status: str) -> list[str]:
        return [child.name for child in self.state.children if child.status == status]

    def in_order(self, names: list[str]) -> list[str]:
        order = [child.name for child in self.state.children]
        return sorted(set(names), key=order.index)

    def count(self, instances: int = 0) -> ChildCounts:
        """`instances`: how many actors its pools have, which it does not know one by one."""
        pools = sum(is_pool(spec) for spec in self.spec.children)
        singles = [child for child in self.state.children if not is_pool(self.spec_of(child.name))]
        supervisors = sum(isinstance(self.spec_of(child.name), Supervisor) for child in singles)
        return ChildCounts(
            specs=len(singles) + pools,
            active=sum(child.status in UP for child in singles) + instances,
            supervisors=supervisors,
            workers=len(singles) - supervisors + instances,
        )


def is_single(spec: Spec) -> bool:
    """Whether the supervisor starts it with the others: no template, no worker. A pool is one child."""
    return isinstance(spec, Supervisor) or not (spec.dynamic or spec.is_worker)


def is_pool(spec: Spec | None) -> bool:
    """Whether a supervisor does not know this child's actors one by one."""
    return isinstance(spec, Child) and spec.pool
