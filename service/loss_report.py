"""Reporting lost handlers: what a daemon does with the blame file of a node process that has ended.

Each message whose handler had begun gets a notice into its mailbox, through the store, as from any client; its owner
charges it (`callboard.actors.charges`). Where the database does not answer either, the report is given up after a
while and nobody is charged: a message that is to blame will end another process.
"""

import logging

import anyio

from ..actors.blame import Report, tell_lost
from ..actors.client import Client
from ..mailbox.errors import CallboardError
from ..persistence.port import Port
from .wiring import open_store_at

log = logging.getLogger(__name__)

REPORT_SECONDS = 10.0
AGAIN_SECONDS = 0.2
NUMBER_SECONDS = 60.0
"""For how long the sender of a report leases its number."""


class LossReporter:
    """Reports for one daemon."""

    def __init__(self, port: Port) -> None:
        self._port = port

    async def report(self, dsn: str, found: Report, how: str) -> bool:
        """Tell the owners of what ran in a process that has ended; whether that could be done."""
        if not found.running:
            return True
        process = self._port.token()
        with anyio.move_on_after(REPORT_SECONDS):
            while not await self._report_once(dsn, found, how, process):
                await self._port.sleep(AGAIN_SECONDS)
            log.info("%d handler(s) had begun in it: their messages are charged with a loss", len(found.running))
            return True
        log.warning("%d handler(s) had begun in it, and their messages could not be told", len(found.running))
        return False

    async def _report_once(self, dsn: str, found: Report, how: str, process: str) -> bool:
        try:
            async with open_store_at(dsn) as store:
                client = Client(store, self._port, number_seconds=NUMBER_SECONDS)
                await tell_lost(client, found.running, how, process)
        except CallboardError as error:
            log.info("the report waits for the database: %s", error)
            return False
        return True
