"""Trials: how a node's actors wait for what quarantine says of their suspect messages.

The actor is busy meanwhile, as in a turn that waits, and is interrupted like one; other actors go on. Nothing of it is
written down: a node that ends during a trial has learned nothing, and the next one begins anew.
"""

import logging
from collections.abc import Callable

import anyio.abc

from ..mailbox.envelope import Envelope
from ..persistence.port import Port
from .cell import Cell, Turn
from .failing import TurnOverLimit
from .outcome import Undeliverable
from .quarantine import AGAIN_SECONDS, Quarantine, TrialOverran, is_suspect, try_turn

log = logging.getLogger(__name__)


class Trials:
    """Those of one node's actors. `quarantine` is None where there is none: then nothing is tried."""

    def __init__(
        self,
        port: Port,
        node: int,
        *,
        passed: Callable[[Cell, Envelope], None],
        failed: Callable[[Cell, Envelope, BaseException], None],
        again: Callable[[Cell, Envelope], None],
    ) -> None:
        self.quarantine: Quarantine | None = None
        self.port = port
        self.node = node
        self._passed = passed
        self._failed = failed
        self._again = again

    def begin(self, group: anyio.abc.TaskGroup | None, cell: Cell, envelope: Envelope) -> bool:
        """Try a message if it is a suspect; False where it may be handled."""
        if self.quarantine is None or not is_suspect(envelope):
            return False
        assert group is not None
        cell.busy = True
        turn = cell.turn = Turn(envelope)
        self.port.spawn(group, self._try, self.quarantine, cell, turn, name=f"trial {cell.address}")
        return True

    async def _try(self, quarantine: Quarantine, cell: Cell, turn: Turn) -> None:
        envelope = turn.envelope
        error: Exception | None = None
        try:
            with turn.scope:
                await try_turn(quarantine, cell, envelope, self.node)
        except Exception as raised:  # noqa: BLE001 - a trial that could not be held, too, ends no node
            error = raised
        if cell.turn is not turn:
            return  # interrupted, or forgotten
        cell.turn = None
        match error:
            case None:
                envelope.losses = 0
                self._passed(cell, envelope)
            case Undeliverable():
                self._failed(cell, envelope, error)
            case TrialOverran():
                self._failed(cell, envelope, TurnOverLimit(str(error)))
            case _:
                log.warning("%s: message %s could not be tried: %s", cell.address, envelope.id, error)
                envelope.delay_seconds = AGAIN_SECONDS
                self._again(cell, envelope)
