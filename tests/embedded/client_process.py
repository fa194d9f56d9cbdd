"""A process of its own that uses an embedded server, driven by lines on its standard input.

It answers each line with one line, so that tests wait for answers and never for time.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import psycopg

from callboard.persistence.embedded import ensure, release

_CHECKOUT = Path(__file__).resolve().parents[2]


class ClientProcess:
    """The driving end."""

    def __init__(self, root: Path, environment: Mapping[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.embedded.client_process", str(root)],
            cwd=_CHECKOUT,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def send(self, line: str) -> None:
        """Give it something to do, without waiting."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        """Wait for its next line."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def ask(self, line: str) -> str:
        """Give it something to do and wait for the answer."""
        self.send(line)
        return self.answer()

    def end(self) -> int:
        """Let it exit by itself, as a program does; returns its exit code."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        code = self.process.wait(timeout=120)
        self.process.stdout.close()
        return code

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.kill()


def _serve(root: Path) -> None:
    dsn = ""
    for line in sys.stdin:
        match line.split():
            case ["ensure"]:
                dsn = ensure(root, durable=False, timeout_seconds=240)
                print(dsn, flush=True)
            case ["insert", count]:
                with psycopg.connect(dsn, autocommit=True) as connection:
                    connection.execute("drop table if exists ledger")
                    connection.execute("create table ledger (n int primary key)")
                    for number in range(int(count)):
                        connection.execute("insert into ledger values (%s)", [number])
                print("inserted", flush=True)
            case ["count"]:
                with psycopg.connect(dsn) as connection:
                    print(connection.execute("select count(*) from ledger").fetchone(), flush=True)
            case ["fork"]:
                if os.fork():
                    sys.exit(0)  # the parent leaves as a program does; its child goes on with the same pipes
                print("forked", flush=True)
            case ["release"]:
                release(root)
                print("released", flush=True)
            case other:
                raise ValueError(f"unknown line {other}")


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
