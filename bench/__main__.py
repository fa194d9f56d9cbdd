"""The benches by name: `python -m bench NAME [--json] [--dsn DSN]`; and the storms: `python -m bench chaos`, `soak`.

Each bench is a module here with `Sizes` and `run(dsn, sizes)`; figures are measured and printed, never judged.
`peers` compares with others, `all` runs everything and keeps the reports. A storm is judged: its exit code is 1 where
something that must be true is not.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from callboard.bench import catalogue
from callboard.bench.catalogue import CATALOGUE
from callboard.bench.peers.contenders import PEERS
from callboard.bench.rounds import median_of
from callboard.bench.table import lines


def _measured(options: argparse.Namespace) -> Any:
    """The report of one bench: the median of its rounds."""
    more: dict[str, Any] = {}
    if options.name == "steps" and not options.growth:
        more["growth_steps"] = 0
    if options.name == "tui" and options.seconds is not None:
        more["seconds"] = options.seconds
    sizes = catalogue.sizes_of(options.name, quick=options.quick, **more)
    return median_of([catalogue.run(options.name, options.dsn, sizes) for _ in range(max(1, options.rounds))])


def _days(options: argparse.Namespace) -> Any:
    from callboard.bench import days

    return days.run(options.dsn, days.Sizes(runs=options.runs, nodes=options.nodes))


BENCHES: dict[str, tuple[Callable[[argparse.Namespace], Any], str]] = {
    "days": (_days, "a day of runs, compressed, beside retention: does anything grow that should not"),
    **{name: (_measured, bench.about) for name, bench in CATALOGUE.items()},
}


STORMS: dict[str, tuple[str, float]] = {
    "soak": ("daemons: SIGTERM, kill -9, restarts of the database, for minutes; then everything is counted", 5.0),
}


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="bench", description="How fast it is, and whether it holds in a storm.")
    names = top.add_subparsers(dest="name", required=True, metavar="NAME")
    for name, (_, about) in BENCHES.items():
        one = _server_options(names, name, about)
        if name in CATALOGUE:
            one.add_argument("--rounds", type=int, default=1, help="repeat it and print medians (default: 1)")
        if name == "steps":
            one.add_argument(
                "--growth", action=argparse.BooleanOptionalAction, default=True, help="also one run of 1,000 steps"
            )
        if name == "days":
            one.add_argument("--runs", type=int, default=200_000, help="how many runs (default: 200000)")
            one.add_argument("--nodes", type=int, default=2, help="how many node processes (default: 2)")
        if name == "tui":
            one.add_argument("--seconds", type=float, help="how long the busy site is watched (default: 60)")
    for name, (about, minutes) in STORMS.items():
        one = names.add_parser(name, help=about, description=about)
        one.add_argument("--json", action="store_true", help="print JSON instead of a table")
        one.add_argument(
            "--kind", choices=("soak", "chaos"), default="soak", help="chaos: their nodes are frozen and cut off too"
        )
        one.add_argument("--minutes", type=float, default=minutes, help=f"how long (default: {minutes:g})")
        one.add_argument("--scale", type=float, default=1.0, help="how much load, as a multiple (default: 1)")
        one.add_argument("--seed", type=int, default=1, help="what is done when; the same number, the same storm")
        one.add_argument(
            "--out", default="", metavar="FILE", help=f"where the summary goes (default: build/{name}.json)"
        )
    _chaos_options(names)
    _comparing_options(names)
    return top


def _server_options(names: Any, name: str, about: str) -> argparse.ArgumentParser:
    one: argparse.ArgumentParser = names.add_parser(name, help=about, description=about)
    one.add_argument("--json", action="store_true", help="print JSON instead of a table")
    one.add_argument("--dsn", default="", help="measure on this server (default: an embedded one of its own)")
    if name == "days":
        return one
    one.add_argument("--quick", action="store_true", help="do little: to see that it works, not for figures")
    one.add_argument(
        "--write", action="store_true", help="keep the report in bench/results and make docs/BENCHMARKS.md anew"
    )
    return one


def _comparing_options(names: Any) -> None:
    peers = _server_options(names, "peers", "ours and others on the same work, in turn, on the same server")
    peers.add_argument("--peers", metavar="A,B,…", help=f"only these (of {', '.join(PEERS)}; default: all)")
    peers.add_argument("--rounds", type=int, help="how often, at most (default: 3)")
    peers.add_argument("--minutes", type=float, help="no round begins that would end later (default: 8)")
    every = _server_options(names, "all", "all benches and the comparison; reports are kept, short ones apart")
    every.add_argument("--minutes", type=float, default=12.0, help="for repetitions, without peers (default: 12)")
    every.add_argument("--peers", action=argparse.BooleanOptionalAction, default=True, help="compare with others, too")
    every.add_argument("--only", metavar="A,B,…", help="only these benches")


def _peers(options: argparse.Namespace) -> Any:
    from callboard.bench.peers import compare

    chosen = None if options.peers is None else tuple(filter(None, options.peers.split(",")))
    if strangers := set(chosen or ()) - set(PEERS):
        raise SystemExit(f"bench peers: nobody is called {', '.join(sorted(strangers))}; there are {', '.join(PEERS)}")
    sizes = compare.quick() if options.quick else compare.Sizes()
    given = {"peers": chosen, "rounds": options.rounds, "minutes": options.minutes}
    sizes = msgspec.structs.replace(sizes, **{name: value for name, value in given.items() if value is not None})
    return compare.run(options.dsn, sizes, tell=_say)


def _all(options: argparse.Namespace) -> Any:
    from callboard.bench import everything

    only = tuple(CATALOGUE) if options.only is None else tuple(filter(None, options.only.split(",")))
    if strangers := set(only) - set(CATALOGUE):
        raise SystemExit(f"bench all: no bench is called {', '.join(sorted(strangers))}")
    sizes = everything.Sizes(quick=options.quick, minutes=options.minutes, peers=options.peers, only=only)
    return everything.run(options.dsn, sizes, tell=_say)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _keep_measured(report: Any, options: argparse.Namespace) -> None:
    """Keep a report, and say what has changed with it; short ones are kept apart and are on no page."""
    from callboard.bench import everything, page

    if options.name != "all":
        _say(f"kept in {everything.keep(report, everything.RESULTS / ('quick' if options.quick else ''))}")
    if not options.quick:
        for path in page.written():
            _say(f"made anew: {path}")


def _printed(report: Any, options: argparse.Namespace) -> str:
    if options.json:
        return msgspec.json.format(msgspec.json.encode(report), indent=2).decode()
    if options.name == "peers":  # as people read it: the tables of the page
        from callboard.bench import page_tables

        document = msgspec.to_builtins(report)
        return f"{page_tables.peers_messages(document)}\n\n{page_tables.peers_steps(document)}"
    return "\n".join(lines(report))


def _chaos_options(names: Any) -> None:
    about = "nodes killed, frozen, cut off, starved and misled, and their database too; then everything is counted"
    one = names.add_parser("chaos", help=about, description=about)
    one.add_argument("--json", action="store_true", help="print JSON instead of a table")
    one.add_argument("--seconds", type=float, default=60.0, help="how long (default: 60)")
    one.add_argument("--nodes", type=int, default=3, help="how many node processes (default: 3)")
    one.add_argument("--seed", type=int, default=1, help="what is done when; the same number, the same storm")
    one.add_argument(
        "--kill-every", type=float, default=2.0, metavar="S", help="seconds between two kills; 0: none (default: 2)"
    )
    one.add_argument("--no-fence", action="store_true", help="the negative control: superseded nodes may commit")
    one.add_argument("--out", default="", metavar="FILE", help="where the summary goes (default: build/chaos.json)")


def _chaos(options: argparse.Namespace) -> int:
    from callboard.bench import chaos, chaos_table

    sizes = chaos.Sizes(
        seconds=options.seconds,
        nodes=options.nodes,
        seed=options.seed,
        kill_every=options.kill_every,
        fenced=not options.no_fence,
    )
    report = chaos.run(sizes)
    _keep(report, options, list(chaos_table.told(report)))
    if options.no_fence and report.ok:
        print("the negative control was NOT caught: there was no fence, and nothing was found", file=sys.stderr)
        return 3
    return 0 if report.ok else 1


def _keep(report: msgspec.Struct, options: argparse.Namespace, told: Sequence[str]) -> None:
    """Write a storm's report to its file, and print it."""
    document = msgspec.json.format(msgspec.json.encode(report), indent=2).decode()
    file = Path(options.out or f"build/{options.name}.json")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(document + "\n", encoding="utf-8")
    print(document if options.json else "\n".join([*told, f"the whole of it is in {file}"]))


def _storm(options: argparse.Namespace) -> int:
    from callboard.bench import soak

    report = soak.run(soak.Sizes(options.kind, minutes=options.minutes, scale=options.scale, seed=options.seed))
    _keep(report, options, list(soak.told(report)))
    return 0 if report.ok else 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one bench or storm and print what it found; the exit code."""
    options = parser().parse_args(arguments)
    if options.name == "chaos":
        return _chaos(options)
    if options.name in STORMS:
        return _storm(options)
    run = {"peers": _peers, "all": _all}.get(options.name) or BENCHES[options.name][0]
    report = run(options)
    if options.name == "all" or getattr(options, "write", False):
        _keep_measured(report, options)
    print(_printed(report, options))
    return 1 if getattr(report, "failed", None) else 0


if __name__ == "__main__":
    sys.exit(main())
