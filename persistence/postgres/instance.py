"""Being the one instance of a name (S19): an advisory lock on a session of its own; the server frees it when that ends.

While the database is away nobody can tell who holds what, so nobody is told to stop: the lock is taken anew as soon as
the server answers. Only where another one was faster does the loser end, with the name of the winner.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime

import anyio

from ...mailbox.errors import Conflict, StoreError, StoreUnavailable
from ..port import Port
from .connect import Link

LOOK_SECONDS = 2.0
"""How often the session is asked whether it still is one. Bounds how late a cut is seen; nothing else waits for it."""
RELEASE_SECONDS = 1.0
"""How long freeing the name may take at the end; the server frees it by itself, only later."""


@asynccontextmanager
async def held_instance(dsn: str, name: str, holder: str, port: Port) -> AsyncIterator[None]:
    """See `OperatingStore.instance`."""
    hold = _Hold(dsn, name, holder)
    await hold.take()
    failure: Exception | None = None
    try:
        async with anyio.create_task_group() as group:
            port.spawn(group, hold.keep, port, name=f"instance {name}")
            try:
                yield
            except Exception as error:  # noqa: BLE001 - raised again below, outside of the group that would wrap it
                failure = error
            group.cancel_scope.cancel()
    except BaseExceptionGroup as found:
        # What `keep` found out: somebody else has the name now.
        lost, others = found.split(Conflict)
        if lost is None or others is not None:
            raise
        failure = lost.exceptions[0]
    finally:
        await hold.release()
    if failure is not None:
        raise failure


class _Hold:
    """One name, held or being taken back."""

    def __init__(self, dsn: str, name: str, holder: str) -> None:
        self._dsn, self._name, self._holder = dsn, name, holder
        self._link: Link | None = None

    async def take(self) -> None:
        """Take the lock.

        Raises:
            Conflict: another one has it. StoreUnavailable.
        """
        link = await Link.open(self._dsn, f"callboard instance {self._name}"[:63])
        try:
            [(got,)] = await link.run("hold_instance", {"name": self._name})
            if not got:
                rows = await link.run("instance", {"name": self._name})
                raise Conflict(f"an instance {self._name!r} runs already: {_who(rows)}; end it, or take another name")
            await link.run("note_instance", {"name": self._name, "holder": self._holder})
        except BaseException:
            await link.close()
            raise
        self._link = link

    async def keep(self, port: Port) -> None:
        """See that the lock is held, and take it again when the session was cut.

        Raises:
            Conflict: somebody else has taken it meanwhile.
        """
        while True:
            await port.sleep(LOOK_SECONDS)
            if self._link is not None and not await self._link.works():
                await self.release()
            if self._link is None:
                try:
                    await self.take()
                except StoreUnavailable:
                    continue

    async def release(self) -> None:
        """Free the name, at once: a session that is closed keeps its locks until the server notices."""
        link, self._link = self._link, None
        if link is not None:
            with suppress(StoreError):
                await link.run("release_instance", {"name": self._name}, seconds=RELEASE_SECONDS)
            await link.close()


def _who(rows: list[tuple[object, ...]]) -> str:
    if not rows:
        return "it has not said yet who it is"
    holder, since = rows[0]
    return f"{holder}, since {datetime.fromtimestamp(float(str(since)), UTC).isoformat(timespec='seconds')}"
