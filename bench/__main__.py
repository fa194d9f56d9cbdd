"""The benches by name: `python -m bench NAME [--json] [--dsn DSN]`.

Each bench is a module here with `Sizes` and `run(dsn, sizes)`; figures are measured and printed, never judged.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
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


BENCHES: dict[str, tuple[Callable[[argparse.Namespace], Any], str]] = {
    "steps": (_steps, "what a step of an agent costs, alone, with many at once, and in a long run"),
    "messages": (_messages, "messages a second on one node, and how long one takes"),
    "wake": (_wake, "what actors cost that only wait, a million of them, and how long one takes to wake"),
}


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="bench", description="How fast it is. Prints figures; nothing is judged.")
    names = top.add_subparsers(dest="name", required=True, metavar="NAME")
    for name, (_, about) in BENCHES.items():
        one = names.add_parser(name, help=about, description=about)
        one.add_argument("--json", action="store_true", help="print JSON instead of a table")
        one.add_argument("--dsn", default="", help="measure on this server (default: an embedded one of its own)")
        if name == "steps":
            one.add_argument(
                "--growth", action=argparse.BooleanOptionalAction, default=True, help="also one run of 1,000 steps"
            )
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one bench and print what it found."""
    options = parser().parse_args(arguments)
    report = BENCHES[options.name][0](options)
    if options.json:
        print(msgspec.json.format(msgspec.json.encode(report), indent=2).decode())
    else:
        print("\n".join(lines(report)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
