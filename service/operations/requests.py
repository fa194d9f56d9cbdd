"""What programs ask of runs beyond what a person at a terminal does: a beginning with all that can be said, and words
that somebody outside has written. As everywhere here: the scope first, and the audit row in the message's transaction.
"""

from hashlib import sha256

from ...actors.agent.events import Trust
from ...actors.agent.messages import StartRun
from ...actors.agent.runs import Runs
from ...mailbox.errors import UsageError
from .lookup import find_run, pool_of, run_id_of
from .runs import Operations


async def start_run(operations: Operations, pool: str, start: StartRun, *, client_id: str = "") -> str:
    """Record a run; whoever serves its pool begins it. Its id, which `client_id` (the principal's own name for this
    request) decides where there is one: sent again, it is the same run; another principal's is another one.

    Raises:
        NotAllowed; UsageError: as `Runs.create`. Conflict: the client id was used for another beginning.
    """
    operations.require("operate")
    for name, text in (
        ("goal", start.goal),
        ("system_prompt", start.system_prompt),
        ("requested_by", start.requested_by),
    ):
        if "\x00" in text:
            raise UsageError(f"{name}: holds a NUL character, which no journal can show; leave it out")
    run_id = _name("start", pool, operations.principal, client_id)[:32] if client_id else operations.client.port.token()
    address = Runs(operations.client, pool).address(run_id)
    client = operations.client.audited(operations.entry("submit", address, note=start.goal))
    return await Runs(client, pool).create(start, run_id)


async def say(operations: Operations, given: str, text: str, *, trust: Trust = "trusted", client_id: str = "") -> str:
    """Say something to a live run, and by whom it was written; its id. With a `client_id` (the principal's own name for
    this request) it is said once, however often it is sent within a week.

    Raises:
        NotAllowed; RunNotFound; UsageError: nothing was said. Conflict: the run has ended.
    """
    operations.require("operate")
    if not text.strip():
        raise UsageError("expected something to say, got nothing")
    address = await find_run(operations.store, given)
    client = operations.client.audited(operations.entry("tell", address, note=text))
    once = _name("say", operations.principal, client_id) if client_id else ""
    runs = Runs(client, pool_of(address))
    await runs.tell(run_id_of(address), text, by=operations.principal, trust=trust, client_id=once)
    return run_id_of(address)


def _name(*parts: str) -> str:
    """A name that only these parts make: none of them can be written so that it runs into the next."""
    return sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()
