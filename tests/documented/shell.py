"""A document's commands in one shell, one after the other, each with its exit code and what it said."""

import os
import random
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .blocks import Command

ROOT = Path(__file__).resolve().parents[2]
READY = "ready|serves|listening|http://"
"""What a command in the background says when it is."""
READY_SECONDS = 180
INTERRUPT_SECONDS = 5
COMMAND_SECONDS = 240.0
"""More than a command needs on a machine with much else to do, and than the longest `--timeout` of a document."""
LOOK_SECONDS = 0.2
ENDED_WELL = (0, 130, 143)
"""How what runs in the background may end, once it is told to."""
PATIENCE = {"CALLBOARD_LEASE_SECONDS": "60", "CALLBOARD_DRAIN_SECONDS": "120"}
"""Of the nodes of a document: on a machine that stands still for seconds none takes over from another, and none gives
its work back."""
PORTS = range(20_000, 32_000)
"""Below those that a system gives to connections: one that is free here stays free."""
_LISTENS = re.compile(r"127\.0\.0\.1:(\d{4,5})\b")
_PRELUDE = """
set -a
make() { command make --no-print-directory -n -C "$CHECKOUT" "$@"; }
say() { printf '%s %s\\n' "$1" "$2" >>"$SAID/codes"; }
await() {
    for ((i = 0; i < SECONDS_TO_BE_READY * 10; i++)); do
        if grep -qE "$READY" "$SAID/$1.out" "$SAID/$1.err"; then return 0; fi
        if ! kill -0 "$2" 2>/dev/null; then wait "$2"; return $?; fi
        sleep 0.1
    done
    return 98
}
"""
_EPILOGUE = """
for job in "${started[@]}"; do kill -TERM "${job#* }" 2>/dev/null; done
for job in "${started[@]}"; do wait "${job#* }"; say "end ${job% *}" $?; done
"""


@dataclass(frozen=True)
class Done:
    """A command that was run."""

    command: Command
    code: int | None
    """None: the shell did not come to it."""
    out: str
    err: str

    @property
    def problem(self) -> str:
        """What is wrong with it; "" for nothing."""
        where = f"line {self.command.line}: $ {self.command.text}\n{self.out[-1500:]}{self.err[-1500:]}"
        if self.code is None:
            return f"never begun, or never ended: {where}"
        if self.code not in self.command.exits:
            return f"exit {self.code}, expected {self.command.exits[0]}: {where}"
        missing = _missing(self.command.shown, self.out + self.err) if self.command.checked else ""
        return f"the document shows {missing!r}, which was not said: {where}" if missing else ""


def run_document(commands: Sequence[Command], folder: Path, dsn: str) -> tuple[list[Done], list[str]]:
    """Run them in a new directory within `folder`; what became of each, and which in the background ended badly."""
    work, said = folder / "work", folder / "said"
    for made in (work, said, folder / "home"):
        made.mkdir()
    for name in ("docs", "deploy"):
        if (ROOT / name).exists():
            (work / name).symlink_to(ROOT / name)
    script, ports = folder / "document.sh", _ports(commands)
    lines = "".join(_lines(number, one, ports) for number, one in enumerate(commands))
    script.write_text(_PRELUDE + lines + _EPILOGUE)
    with (folder / "shell.log").open("w") as log:
        shell = subprocess.Popen(
            ["bash", str(script)],
            cwd=work,
            env=_environment(folder, said, dsn),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            _await(shell, said / "codes")
        finally:
            _end(shell)
    codes = dict(line.rsplit(" ", 1) for line in _text(said / "codes").splitlines())
    done = [
        Done(
            one,
            int(codes[str(number)]) if str(number) in codes else None,
            _text(said / f"{number}.out"),
            _text(said / f"{number}.err"),
        )
        for number, one in enumerate(commands)
    ]
    bad = [f"{name} exits {code}" for name, code in codes.items() if name[:3] == "end" and int(code) not in ENDED_WELL]
    return done, bad


def _await(shell: "subprocess.Popen[bytes]", codes: Path) -> None:
    """Until the shell ends, or is at one command for too long; what it did not reach has no exit code then."""
    seen, since = "", time.monotonic()
    while time.monotonic() - since < COMMAND_SECONDS:
        try:
            shell.wait(LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            if seen != (seen := _text(codes)):
                since = time.monotonic()
        else:
            return


def _ports(commands: Sequence[Command]) -> dict[str, str]:
    """For each port that a command in the background listens on, one that is free: its own may be somebody else's."""
    asked = {port for one in commands if one.background for port in _LISTENS.findall(one.text)}
    return dict(zip(sorted(asked), _free_ports(len(asked)), strict=True))


def _free_ports(count: int) -> list[str]:
    found: list[str] = []
    for port in random.sample(PORTS, 200):
        with socket.socket() as tried, suppress(OSError):
            if len(found) < count:
                tried.bind(("127.0.0.1", port))
                found.append(str(port))
    return found


def _lines(number: int, command: Command, ports: Mapping[str, str]) -> str:
    text = _LISTENS.sub(lambda found: f"127.0.0.1:{ports.get(found[1], found[1])}", command.text)
    if command.interrupted:
        quoted = shlex.quote(text)
        text = f"timeout --preserve-status -s INT -k 60 {INTERRUPT_SECONDS} bash -c {quoted}"
    line = f'eval {shlex.quote(text)} >"$SAID/{number}.out" 2>"$SAID/{number}.err" </dev/null; '
    if command.background:
        return f'\n{line}started+=("{number} $!"); await {number} $!; say {number} $?\n'
    return f"\n{line}say {number} $?\n"


def _environment(folder: Path, said: Path, dsn: str) -> Mapping[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("CALLBOARD_")}
    return {
        **kept,
        **PATIENCE,
        "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}",
        "HOME": str(folder / "home"),
        "DATABASE_URL": dsn,
        "NO_COLOR": "1",
        "CHECKOUT": str(ROOT),
        "SAID": str(said),
        "READY": READY,
        "SECONDS_TO_BE_READY": str(READY_SECONDS),
    }


def _end(shell: "subprocess.Popen[bytes]") -> None:
    """Leave nothing behind that the document started."""
    try:
        os.killpg(shell.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        shell.wait()


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""


def _missing(shown: Sequence[str], said: str) -> str:
    """The first of the lines that are shown which was not said after the ones before it; "" if all were."""
    lines = iter(said.splitlines())
    for wanted in (line.strip() for line in shown if line.strip().strip("…")):
        if not any(_fits(wanted, line.strip()) for line in lines):
            return wanted
    return ""


def _fits(wanted: str, line: str) -> bool:
    parts = [" ".join(part.split()) for part in wanted.split("…")]
    rest = " ".join(line.split())
    if not rest.startswith(parts[0]) or not rest.endswith(parts[-1]):
        return False
    for part in parts:
        _, found, rest = rest.partition(part) if part else ("", True, rest)
        if not found:
            return False
    return len(parts) > 1 or not rest
