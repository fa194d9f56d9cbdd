"""Finding a run by what people type: its id, the unique beginning of one, or its whole address.

Runs are actors of kind "run"; which pools there are is read off the store, so no application has to be loaded to look
at what it did. Every look-up is a step into an index: its cost does not grow with the number of runs.
"""

from urllib.parse import quote

from ...mailbox.address import family_of, key_of, parse
from ...mailbox.errors import NotFound, UsageError
from ...persistence.store import Store

KIND = "run"
START = "run.start"
BEGINNINGS = (START, "run.fork", "run.start_child")
"""Messages that begin a run."""
WAITING = 1_000
"""How many runs that no node has taken yet are looked at."""
LAST = chr(0x10FFFF)
"""Beyond every key: pools are found by jumping from one to the next."""
_SHOWN = 8


async def find_run(store: Store, given: str) -> str:
    """The address of the run that `given` names.

    Raises:
        RunNotFound; UsageError: several runs begin like that, or nothing was given.
    """
    if not given.strip():
        raise UsageError("expected a run id, got nothing; `callboard runs` lists them")
    if given.startswith("/"):
        return await _exact(store, parse(given))
    if not is_text(given):
        raise _not_found(repr(given[:80]))
    key = quote(given, safe="")
    found: list[str] = []
    for pool in await pools(store):
        address = f"{pool}:{key}"
        if await _exists(store, address):
            return address
        found += await _beginning(store, address)
    # An agent's run begins like the one that has called it, which is the one that is meant.
    found = [one for one in found if not any(one.startswith(f"{other}.") for other in found)]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(run_id_of(address) for address in found[:_SHOWN])
        more = ", …" if len(found) > _SHOWN else ""
        raise UsageError(f"{given!r} is the beginning of several runs: {names}{more}; give more of it")
    raise _not_found(repr(given[:80]))


async def pools(store: Store) -> list[str]:
    """The addresses of all pools that have runs, recorded ones included."""
    waiting = [view for begin in BEGINNINGS for view in await store.waiting(begin, limit=WAITING)]
    recorded = {family_of(view.envelope.recipient).rpartition(":")[0] for view in waiting}
    found: list[str] = []
    after = ""
    while rows := await store.actors(kind=KIND, limit=1, after=after):
        pool = family_of(rows[0].address).rpartition(":")[0]
        found.append(pool)
        after = f"{pool}:{LAST}"
    return [*found, *sorted(recorded - {"", *found})]


def _not_found(which: str) -> NotFound:
    from ...actors.agent.runs import RunNotFound  # most commands find their run, and need none of what it is made of

    return RunNotFound(f"no run {which}; `callboard runs` lists them")


def is_text(given: str) -> bool:
    """Whether `given` is whole characters only: bytes of an argument that are no UTF-8 come as halves of one."""
    return not any("\ud800" <= character <= "\udfff" for character in given)


def pool_of(address: str) -> str:
    """The pool of a run's address."""
    return address.rpartition(":")[0]


def run_id_of(address: str) -> str:
    """The run id in a run's address."""
    return key_of(address) or address


async def _exact(store: Store, address: str) -> str:
    if key_of(address) is None or not await _exists(store, address):
        raise _not_found(f"at {address}")
    return address


async def _exists(store: Store, address: str) -> bool:
    row = await store.actor(address)
    if row is not None:
        return row.kind == KIND
    waiting = await store.peek(address, limit=10)
    return any(view.envelope.type in BEGINNINGS for view in waiting)


async def _beginning(store: Store, start: str) -> list[str]:
    rows = await store.actors(kind=KIND, prefix=start, limit=_SHOWN + 1)
    waiting = [view for begin in BEGINNINGS for view in await store.waiting(begin, limit=WAITING)]
    names = {row.address for row in rows} | {view.envelope.recipient for view in waiting}
    # Not one beneath it: `/desk/agent:42/run:1` does not begin like `42`.
    return sorted(name for name in names if name.startswith(start) and "/" not in name[len(start) :])
