"""The benches by name: `python -m bench NAME [--json] [--dsn DSN]`; and the storms: `python -m bench soak`.

Each bench is a module here with `Sizes` and `run(dsn, sizes)`; figures are measured and printed, never judged. A storm
is judged: its exit code is 1 where something that must be true is not.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from callboard.bench.table import lines


def _steps(options: argparse.Namespace) -> Any:
    from callboard.bench import steps

    sizes = steps.Sizes() if options.growth else steps.Sizes(growth_steps=0)
    return steps.run(options.dsn, sizes)


def _messages(options: argparse.Namespace) -> Any:
    from callboard.bench import messages

    return messages.run(options.dsn, messages.Sizes())


def _wake(options: argparse.Namespace) -> Any:
    from callboard.bench import wake

    return wake.run(options.dsn, wake.Sizes())


def _tui(options: argparse.Namespace) -> Any:
    from callboard.bench import tui

    return tui.run(options.dsn, tui.Sizes(seconds=options.seconds))


def _start(options: argparse.Namespace) -> Any:
    from callboard.bench import start

    return start.run(options.dsn, start.Sizes())


BENCHES: dict[str, tuple[Callable[[argparse.Namespace], Any], str]] = {
    "steps": (_steps, "what a step of an agent costs, alone, with many at once, and in a long run"),
    "messages": (_messages, "messages a second on one node, and how long one takes"),
    "start": (_start, "what starting a command costs: the CPU of a process of its own"),
    "tui": (_tui, "the terminal UI on a busy site: its CPU, its memory, and how long a key takes to be seen"),
    "wake": (_wake, "what actors cost that only wait, a million of them, and how long one takes to wake"),
}


STORMS: dict[str, tuple[str, float]] = {
    "soak": ("SIGTERM, kill -9 and restarts of the database, for minutes; then everything is counted", 5.0),
    "chaos": ("nodes killed and frozen past their lease, connections cut; then everything is counted", 1.0),
}


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="bench", description="How fast it is, and whether it holds in a storm.")
    names = top.add_subparsers(dest="name", required=True, metavar="NAME")
    for name, (_, about) in BENCHES.items():
        one = names.add_parser(name, help=about, description=about)
        one.add_argument("--json", action="store_true", help="print JSON instead of a table")
        one.add_argument("--dsn", default="", help="measure on this server (default: an embedded one of its own)")
        if name == "steps":
            one.add_argument(
                "--growth", action=argparse.BooleanOptionalAction, default=True, help="also one run of 1,000 steps"
            )
        if name == "tui":
            one.add_argument(
                "--seconds", type=float, default=60.0, help="how long the busy site is watched (default: 60)"
            )
    for name, (about, minutes) in STORMS.items():
        one = names.add_parser(name, help=about, description=about)
        one.add_argument("--json", action="store_true", help="print JSON instead of a table")
        one.add_argument("--minutes", type=float, default=minutes, help=f"how long (default: {minutes:g})")
        one.add_argument("--scale", type=float, default=1.0, help="how much load, as a multiple (default: 1)")
        one.add_argument("--seed", type=int, default=1, help="what is done when; the same number, the same storm")
        one.add_argument(
            "--out", default="", metavar="FILE", help=f"where the summary goes (default: build/{name}.json)"
        )
    return top


def _storm(options: argparse.Namespace) -> int:
    from callboard.bench import soak

    report = soak.run(soak.Sizes(options.name, minutes=options.minutes, scale=options.scale, seed=options.seed))
    document = msgspec.json.format(msgspec.json.encode(report), indent=2).decode()
    file = Path(options.out or f"build/{options.name}.json")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(document + "\n", encoding="utf-8")
    print(document if options.json else "\n".join([*soak.told(report), f"the whole of it is in {file}"]))
    return 0 if report.ok else 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one bench or storm and print what it found; the exit code."""
    options = parser().parse_args(arguments)
    if options.name in STORMS:
        return _storm(options)
    report = BENCHES[options.name][0](options)
    if options.json:
        print(msgspec.json.format(msgspec.json.encode(report), indent=2).decode())
    else:
        print("\n".join(lines(report)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
