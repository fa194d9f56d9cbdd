"""`python -m tests.conformance FILE [--store memory|postgres|both] [--case ID]... [-v]`, from the repository root.

Prints a line for each case that fails and at last how many passed; exits with 1 when any failed, and with 2 when the
file is not of the format.
"""

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

import anyio
import psycopg

from callboard.mailbox.errors import CallboardError

from .cases import Case, NotCases, read
from .databases import databases, server
from .everywhere import LANES, in_memory, on_postgres
from .play import Verdict


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases of a file; the exit code."""
    options = _options(arguments)
    logging.getLogger("callboard").setLevel(logging.WARNING if options.verbose > 1 else logging.CRITICAL)
    try:
        cases = read(options.file)
        if options.case:
            known = {case.id for case in cases}
            if missing := [name for name in options.case if name not in known]:
                raise NotCases(f"{options.file} has no case {missing[0]!r}")
            cases = [case for case in cases if case.id in options.case]
    except NotCases as error:
        print(error, file=sys.stderr)
        return 2
    verdicts = anyio.run(_memory, cases, options.verbose) if options.store in ("memory", "both") else []
    if options.store in ("postgres", "both") and cases:
        try:
            with server() as dsn:
                verdicts += anyio.run(_postgres, cases, dsn, options.verbose)
        except (CallboardError, psycopg.OperationalError) as error:
            print(f"no PostgreSQL to run on: {error}", file=sys.stderr)
            return 1
    failed = sum(1 for verdict in verdicts if verdict.wrong)
    print(f"{len(verdicts) - failed} passed, {failed} failed")
    return 1 if failed else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description="Run recorded supervision cases.")
    parser.add_argument("file", type=Path, metavar="FILE", help="cases in the format of supervision_cases.json")
    parser.add_argument("--store", choices=("memory", "postgres", "both"), default="both")
    parser.add_argument("--case", action="append", metavar="ID", help="only this case; may be given several times")
    parser.add_argument(
        "-v", dest="verbose", action="count", default=0, help="show every step; twice: what the runtime logs, too"
    )
    return parser.parse_args(arguments)


async def _memory(cases: list[Case], verbose: int) -> list[Verdict]:
    verdicts = []
    async for verdict in in_memory(cases):
        _tell(verdict, verbose)
        verdicts.append(verdict)
    return verdicts


async def _postgres(cases: list[Case], dsn: str, verbose: int) -> list[Verdict]:
    async with databases(dsn, min(LANES, len(cases))) as stores:
        verdicts = await on_postgres(cases, stores)
    for verdict in verdicts:
        _tell(verdict, verbose)
    return verdicts


def _tell(verdict: Verdict, verbose: int) -> None:
    if verdict.wrong or verbose:
        print(verdict, flush=True)
    if verbose:
        for number, shown in enumerate(verdict.shown, 1):
            events = " ".join("/".join(str(part) for part in event) for event in shown.events)
            print(f"    {number}: {events}" + ("" if shown.result is None else f"  [{shown.result}]"), flush=True)


if __name__ == "__main__":
    sys.exit(main())
