"""One node as this process: what `callboard node APP` runs and the daemon keeps alive.

start      open the store and the application, serve, and announce it with one JSON line
SIGTERM    drain: finish or give back what is in hand, give the shards away, end with 0, or 3 where something was given
           back (SIGINT is the same); while the application is still opening: close what it has opened, end with 0
status     with a parent: once a second a JSON line of how it is, and of what was counted since the last one
again      end at once with 143; the others take over as they do after a kill
blame      what runs is written down where the parent said, and a message that may have ended processes is tried apart
parent     a node that has lost the daemon that started it drains, so that no node outlives its daemon unseen
"""

import json
import logging
import os
import signal
import socket
import sys
from collections.abc import Mapping
from typing import Any

import anyio

from ..actors.app import App, Surroundings
from ..actors.blame import UNWATCHED, Blame, BlameFile
from ..actors.measuring import UNMEASURED
from ..actors.node import Node, NodeSettings
from ..persistence.port import Port, RealPort
from .applications import CLOSE_SECONDS, opened
from .configuration import read_configuration
from .log_context import LoggedBlame, log_as
from .metrics import NodeMetrics
from .quarantine import QuarantineProcess
from .settings import Settings
from .telemetry import traced
from .wiring import find_database, open_store_at

log = logging.getLogger(__name__)

PARENT_LOOK_SECONDS = 1.0
TICK_SECONDS = 1.0
ORPHAN_GRACE_SECONDS = 5.0
KILLED = 128 + signal.SIGTERM
SPENT = 70
"""It can go on no longer, out of memory say; a fresh process can."""
RETURNED = 3
"""It left, and what it had in hand was not all finished in time: others do that."""
STATUS_SECONDS = 1.0


def node_settings(settings: Settings, label: str) -> NodeSettings:
    """What a node takes of the settings."""
    return NodeSettings(
        label=label,
        lease_seconds=settings.lease_seconds,
        beat_seconds=settings.beat_seconds,
        drain_seconds=settings.drain_seconds,
    )


def default_label() -> str:
    """A node's name for people: machine and process."""
    return f"{socket.gethostname()}/{os.getpid()}"


def announce(event: Mapping[str, Any], mark: str = "") -> None:
    """One JSON line on stdout, at once; `mark` begins it, for a parent that has to tell it from what others print."""
    print(_line(event, mark), end="", flush=True)  # noqa: T201 - this is the process's data


def _line(event: Mapping[str, Any], mark: str) -> str:
    return f"{mark} {json.dumps(event)}\n" if mark else f"{json.dumps(event)}\n"


async def run_node(
    app: App,
    settings: Settings,
    options: Mapping[str, str],
    *,
    label: str = "",
    parent: int = 0,
    blame: int = -1,
    name: str = "",
    mark: str = "",
    port: Port | None = None,
) -> int:
    """Be a node of `app` until SIGTERM or SIGINT; the exit code once it has drained: 0 or RETURNED, or SPENT where it
    stopped by itself and another process should take its place.

    `mark`: what begins its lines on stdout. `blame`: descriptor of the file for what runs, or -1. `name`: what `app`
    was loaded by, so that a quarantine process can do that too; "" for no quarantine.

    Raises:
        StoreUnavailable, SchemaMismatch, ApplicationFailed: (in a group) before it serves; later it survives what can
            be survived.
    """
    port = port or RealPort()
    label = label or default_label()
    log_as(label, app.runs)
    dsn = await find_database(settings)
    surroundings = Surroundings(dsn, label, dict(options), read_configuration().tables)
    leaving = _Leaving()
    async with (
        open_store_at(dsn, create=not settings.dsn) as store,
        traced(label, port) as spans,
        anyio.create_task_group() as group,
    ):
        # Before the application opens, which may take its time: what it has started by then has to be ended as well.
        port.spawn(group, _obey_signals, leaving, settings, name="signals")
        if parent:
            port.spawn(group, _watch_parent, leaving, settings, parent, port, name="parent")
        with leaving.opening:
            async with opened(app, surroundings) as tree:
                watched = LoggedBlame(UNWATCHED if blame < 0 else BlameFile.inherited(blame))
                measures = NodeMetrics(port.monotonic) if parent else UNMEASURED
                quarantine = QuarantineProcess(name, options, settings, dsn, label=label, port=port) if name else None
                node = Node(
                    store,
                    tree,
                    port,
                    node_settings(settings, label),
                    blame=watched,
                    quarantine=quarantine,
                    measures=measures,
                    tracing=spans,
                )
                leaving.node = node
                if isinstance(measures, NodeMetrics):
                    port.spawn(group, _tell_status, node, measures, port, mark, name="status")
                port.spawn(group, _announce_ready, node, mark, name="ready")
                port.spawn(group, _tick, watched, port, name="tick")
                await node.run()
        group.cancel_scope.cancel()
    return leaving.code()


class _Leaving:
    """How this process is told to end: by its node, or while there is none yet, by giving up on opening."""

    def __init__(self) -> None:
        self.opening = anyio.CancelScope()
        self.node: Node | None = None

    def stop(self) -> None:
        """Once or often."""
        if self.node is None:
            self.opening.cancel()
        else:
            self.node.stop()

    def code(self) -> int:
        """The exit code of a process whose node has left, if there was one."""
        if self.node is None:
            log.info("left before it served")
        elif self.node.stopped_for:
            log.error("node stopped by itself: %s", self.node.stopped_for)
            return SPENT
        elif not self.node.drained:
            log.warning("left with work in hand, which was given back")
            return RETURNED
        else:
            log.info("node drained")
        return 0


async def _tick(blame: Blame, port: Port) -> None:
    """Show whoever watches that the loop turns, also while the node waits for its store."""
    while True:
        blame.tick()
        await port.sleep(TICK_SECONDS)


async def _announce_ready(node: Node, mark: str) -> None:
    await node.ready.wait()
    assert node.life is not None
    number = node.life.session.number
    log.info("node %s serves", number)
    root, label = node.tree.address, node.settings.label
    announce({"event": "ready", "node": number, "pid": os.getpid(), "label": label, "root": root}, mark)


async def _tell_status(node: Node, measures: NodeMetrics, port: Port, mark: str) -> None:
    """Tell the parent, for as long as it listens.

    In a thread, past the buffers of Python: a parent that is frozen takes nothing from the pipe, and must not stop this
    process by that.
    """
    while True:
        await port.sleep(STATUS_SECONDS)
        life = node.life
        status = {
            "event": "status",
            "ready": node.serves_now,
            "listener_lag": round(life.echo.lag_seconds(), 4) if life is not None else 0.0,
            "shards": len(life.ownership.owned) if life is not None else 0,
            "metrics": measures.drain(),
        }
        try:
            await port.in_thread(_write_out, _line(status, mark).encode())
        except OSError:  # it is gone, which `_watch_parent` sees too
            return


def _write_out(line: bytes) -> None:
    while line:
        line = line[os.write(sys.stdout.fileno(), line) :]


async def _obey_signals(leaving: _Leaving, settings: Settings) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        asked = False
        async for received in signals:
            if asked:
                log.warning("%s again: leaving at once", received.name)
                os._exit(KILLED)
            asked = True
            log.info("%s: draining for at most %g s", received.name, settings.drain_seconds)
            leaving.stop()


async def _watch_parent(leaving: _Leaving, settings: Settings, parent: int, port: Port) -> None:
    while os.getppid() == parent:
        await port.sleep(PARENT_LOOK_SECONDS)
    log.warning("the daemon %s is gone: draining", parent)
    leaving.stop()
    # There is nobody left who would end it when it cannot (its database is gone, say).
    await port.sleep(settings.drain_seconds + CLOSE_SECONDS + ORPHAN_GRACE_SECONDS)
    log.warning("it did not drain in time: leaving at once")
    os._exit(KILLED)
