"""Gates: whether a pool takes new instances now, as far as this node knows.

Instances of a pool come into being by message or `Spawn`, on their own node, and their supervisor is not asked. So that
none begins while it is down, or has paused the pool, each node looks at the supervisors of its program's pools: at
their cells where it has them, else at their rows, every `LOOK_SECONDS`. What would make an instance of a pool that is
shut waits, on disk and uncharged, and is looked at again (`failing.PoolIsShut`); instances that there are go on.

Not a lock: in the moment before another node has seen that the supervisor is down, an instance may still begin there.
Whoever stops the pool finds it while it goes through the instances; later, it runs until the pool is stopped next.
"""

from ..mailbox.address import name_of, parent_of
from ..mailbox.errors import UnknownMessage
from ..persistence.port import Port
from ..persistence.rows import ActorRow
from ..persistence.store import Store
from .cells import Cells
from .roster import is_pool
from .snapshot import UnreadableState, decode_state
from .spec import Child, Tree
from .supervisor import SupervisorActor
from .supervisor_state import SupervisorState

LOOK_SECONDS = 1.0
"""How old what a node knows of another node's supervisor may be."""
DOWN = ("stopped", "failed", "escalated", "parked")


class Gates:
    """Those of one node."""

    def __init__(self, tree: Tree, cells: Cells, store: Store, port: Port) -> None:
        self.cells = cells
        self.store = store
        self.port = port
        self.pools = [address for address, spec in tree.specs.items() if isinstance(spec, Child) and is_pool(spec)]
        self._shut: dict[str, str] = {}
        """Why, by pool; as last read."""

    def why_shut(self, pool: str) -> str:
        """Why the pool at this address takes no new instance now; "" where it does."""
        here = self._cell(parent_of(pool))
        return self._shut.get(pool, "") if here is None else why_shut(*here, name_of(pool))

    def _cell(self, supervisor: str) -> tuple[str, SupervisorState] | None:
        cell = self.cells.cells.get(supervisor)
        if cell is None or cell.row is None or not isinstance(cell.actor, SupervisorActor):
            return None
        return cell.row.status, cell.actor.state

    async def look(self) -> None:
        """See how all of them stand; also those whose supervisor is here, which it may not be in a moment.

        Raises:
            StoreUnavailable.
        """
        for pool in self.pools:
            here = self._cell(parent_of(pool))
            if here is None:
                row = await self.store.actor(parent_of(pool))
                here = None if row is None else (row.status, _state(row))
            self._shut[pool] = "" if here is None else why_shut(*here, name_of(pool))

    async def run(self) -> None:
        """Look for ever."""
        while True:
            await self.port.sleep(LOOK_SECONDS)
            await self.look()


def why_shut(status: str, state: SupervisorState, pool: str) -> str:
    """The same, of a supervisor that stands so."""
    if status in DOWN or state.end is not None:
        return f"the supervisor of the pool is {status if status in DOWN else 'being stopped'}"
    child = next((child for child in state.children if child.name == pool), None)
    if child is not None and child.status not in ("running", "starting"):
        return f"the pool is {child.status}"
    known = state.pools.get(pool)
    return "the pool is paused: too many of its instances fail" if known is not None and known.paused_until else ""


def _state(row: ActorRow) -> SupervisorState:
    try:
        state = decode_state(SupervisorActor, row.state_version, row.state)
    except (UnknownMessage, UnreadableState):
        return SupervisorState()  # another version's: its status is all that is known
    assert isinstance(state, SupervisorState)
    return state
