"""Telling systemd how a service is: datagrams to the socket that NOTIFY_SOCKET names. Without one, nothing happens.

    READY=1       the service does what it is for
    STATUS=…      a line for people (`systemctl status`)
    WATCHDOG=1    its event loop turns; within each WATCHDOG_USEC, or systemd ends it
    STOPPING=1    it is on its way out

A service must not stand still because its supervisor does not listen: what cannot be sent waits for the next word, and
a beat is dropped.
"""

import logging
import socket
from collections.abc import Mapping
from contextlib import suppress

log = logging.getLogger(__name__)

VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
"""What systemd tells the one process it watches; that one's children must not take it for theirs."""


class Notifier:
    """Of this process."""

    def __init__(self, environ: Mapping[str, str], pid: int) -> None:
        self._status = ""
        self._owed: list[str] = []
        """What could not be sent yet; at most a word of each kind but the beats."""
        self._socket: socket.socket | None = None
        self.watchdog_seconds = _watchdog_seconds(environ, pid)
        """How often `WATCHDOG=1` is to be sent: twice in the time after which systemd loses patience. 0.0: never."""
        address = environ.get("NOTIFY_SOCKET", "")
        if address[:1] not in ("/", "@"):
            return
        found = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
        try:
            found.connect("\0" + address[1:] if address.startswith("@") else address)
        except OSError as error:
            log.warning("systemd cannot be told anything: %s", error)
            found.close()
            return
        self._socket = found

    def ready(self) -> None:
        """It serves."""
        self._send("READY=1")

    def status(self, text: str) -> None:
        """How it is, in a line; said only when that has changed."""
        text = " ".join(text.split())
        if text != self._status:
            self._status = text
            self._send(f"STATUS={text}")

    def watchdog(self) -> None:
        """It is alive."""
        self._send("WATCHDOG=1", keep=False)

    def stopping(self) -> None:
        """It was told to end, and does."""
        self._send("STOPPING=1")

    def close(self) -> None:
        """Say nothing any more."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send(self, text: str, *, keep: bool = True) -> None:
        if self._socket is None:
            return
        kind = text.partition("=")[0]
        self._owed = [owed for owed in self._owed if owed.partition("=")[0] != kind] + [text]
        with suppress(OSError):
            while self._owed:
                self._socket.send(self._owed[0].encode())
                del self._owed[0]
        if not keep and text in self._owed:
            self._owed.remove(text)


def _watchdog_seconds(environ: Mapping[str, str], pid: int) -> float:
    if environ.get("WATCHDOG_PID", str(pid)) != str(pid):
        return 0.0
    try:
        return max(0.0, int(environ.get("WATCHDOG_USEC", "0")) / 2_000_000)
    except ValueError:
        return 0.0
