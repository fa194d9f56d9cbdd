"""The process of an open demonstration desk: a fresh database, a daemon with its nodes, and the play around it.

    python -m callboard.service.demo.desk_house '{"nodes": 2}'

`desk.open_desk` starts it. One line of JSON on standard output says that the desk is open, and where. It ends on
SIGTERM and when its standard input does: whoever opened it may have been killed, and nothing of the desk may outlive
that. The nodes drain first; the database stays until the next demonstration.
"""

import json
import logging
import os
import signal
import sys
import tempfile
from pathlib import Path

import anyio
import anyio.abc
import msgspec

from callboard.crm.app import OWN_DSN
from callboard.mailbox.errors import CallboardError, leaf
from callboard.persistence.port import Port, RealPort

from ..daemon import Daemon
from ..logs import configure_logging
from ..settings import Settings, read_settings
from ..wiring import make_store
from .database import DemoDatabase, open_database
from .desk_play import SEED, Play

APP = "callboard.service.demo.desk_app:app"


class HouseOptions(msgspec.Struct, frozen=True):
    """How the desk is run."""

    nodes: int = 2
    seed: int = SEED
    think_seconds: float = 0.4
    """About how long the simulated model takes for an answer."""
    every_seconds: float = 9.0
    """A new ticket comes in so often; 0: none does."""


async def keep_house(options: HouseOptions, settings: Settings, port: Port) -> int:
    """Open the desk, say so, and keep it until told to end; the daemon's exit code."""
    home = Path(settings.home) if settings.home else None
    with tempfile.TemporaryDirectory(prefix="callboard-desk-") as folder:
        async with open_database(settings.dsn, port, home=home) as database, make_store(database.dsn) as store:
            mark = Path(folder) / "hangs"
            play = Play(store, database.owner, port, mark, seed=options.seed)
            daemon = _daemon(options, settings, database, mark, port)
            code: list[int] = []
            async with anyio.create_task_group() as group:

                async def keep() -> None:
                    code.append(await daemon.run())
                    group.cancel_scope.cancel()

                port.spawn(group, keep, name="daemon")
                await play.begin()
                _say({"event": "open", "dsn": database.dsn, "name": database.name.strip("'")})
                if options.every_seconds:
                    await play.go_on(options.every_seconds)
            return code[0] if code else 0


def _daemon(options: HouseOptions, settings: Settings, database: DemoDatabase, mark: Path, port: Port) -> Daemon:
    if database.desk_dsn:
        os.environ[OWN_DSN] = database.desk_dsn  # which the nodes inherit
    said = {"think_seconds": f"{options.think_seconds:g}", "hang_once": str(mark)}
    own = msgspec.structs.replace(settings, dsn=database.dsn, dsn_file="", nodes=options.nodes, name="", health="")
    return Daemon(APP, own, said, announce=lambda event: None, port=port)


def _say(event: dict[str, str]) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def _end_with_input() -> None:
    """In a thread: when nobody holds the other end any more, leave in good order."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def main(argument: str) -> int:
    """The process, from its one argument; its exit code."""
    port = RealPort()
    options = msgspec.json.decode(argument, type=HouseOptions)
    settings = read_settings()
    configure_logging(settings)
    port.start_thread(_end_with_input, "input")
    try:
        return anyio.run(keep_house, options, settings, port)
    except Exception as error:
        if not isinstance(known := leaf(error), CallboardError):
            logging.getLogger(__name__).exception("the desk cannot be kept open")
        _say({"event": "failed", "error": str(known) or type(known).__name__})
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
