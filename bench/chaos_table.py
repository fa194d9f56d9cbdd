"""What a chaos run shows: a table that is drawn anew while it runs, lines where nobody looks, and the report."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, TextIO

from callboard.bench.failover import Spread

if TYPE_CHECKING:
    from callboard.bench.chaos import ChaosReport, Sizes
    from callboard.bench.chaos_deeds import Deeds
    from callboard.bench.chaos_load import DeskLoad

REDRAW_SECONDS = 0.5
LINE_SECONDS = 10.0
_BAR = 40


class LiveTable:
    """A few lines on a terminal, drawn over each other; on anything else one line in ten seconds."""

    def __init__(self, out: TextIO, *, quiet: bool = False) -> None:
        self.out = out
        self.quiet = quiet
        self._drawn = 0

    @property
    def every_seconds(self) -> float:
        """How often there is something to show."""
        return REDRAW_SECONDS if self.out.isatty() else LINE_SECONDS

    def say(self, text: str) -> None:
        """One line that stays."""
        if not self.quiet:
            self._drawn = 0
            print(text, file=self.out, flush=True)

    def show(self, at: float, sizes: "Sizes", deeds: "Deeds", load: "DeskLoad") -> None:
        """How it stands."""
        if self.quiet:
            return
        if not self.out.isatty():
            self.say(_line(at, deeds, load))
            return
        lines = [f"{at:7.1f} s of {sizes.seconds:g}, seed {sizes.seed}", *_rows(deeds, load)]
        up = f"\x1b[{self._drawn}A" if self._drawn else ""
        self.out.write(up + "".join(f"\r\x1b[K{line}\n" for line in lines))
        self.out.flush()
        self._drawn = len(lines)


def _line(at: float, deeds: "Deeds", load: "DeskLoad") -> str:
    serving = sum(slot.serves() for slot in deeds.nest.slots)
    done = ", ".join(f"{deed} {count}" for deed, count in sorted(deeds.done.items()))
    now = f"; now: {deeds.doing}" if deeds.doing else ""
    return f"{at:6.0f} s  {load.ended} of {len(load.submitted)} tickets, {serving} nodes serve; {done}{now}"


def _rows(deeds: "Deeds", load: "DeskLoad") -> Iterator[str]:
    races = load.races
    yield f"  tickets   {load.ended:>6,} of {len(load.submitted):,} ended; {dict(load.statuses)}"
    yield f"  people    {races.held:>6,} races, {len(races.won):,} won, {races.late:,} late, {races.unheard:,} unheard"
    for slot in deeds.nest.slots:
        life = slot.life
        state = slot.busy or ("serves" if slot.serves() else "starts")
        clock = f", clock {slot.clock.ahead_seconds:+,.0f} s" if slot.clock.ahead_seconds else ""
        yield f"  node {slot.number}    {life.label:>8}  {state}{clock}"
    done = ", ".join(f"{deed} {count}" for deed, count in sorted(deeds.done.items()))
    yield f"  done      {done}"
    yield f"  now       {deeds.doing or '-'}"


def told(report: "ChaosReport") -> Iterator[str]:
    """The report as a table for people."""
    control = "" if report.fenced else ", WITHOUT the fence (the negative control)"
    yield f"chaos: {report.seconds:g} s, {report.nodes} nodes, seed {report.seed}{control}"
    for deed, count in sorted(report.injected.items()):
        yield f"  {deed:<28} {count:>7,}"
    for deed, count in sorted(report.missed.items()):
        yield f"  {deed:<28} {count:>7,} missed: nobody was there in time"
    for deed, reason in sorted(report.skipped.items()):
        yield f"  {deed:<28} skipped: {reason}"
    refunds = report.refunds
    for name, value in (
        ("node processes", report.lives),
        ("ended for want of memory", report.starved),
        ("tickets", report.tickets),
        ("races of people", report.races["held"]),
        ("refunds to be made", refunds.expected),
        ("refunds made", refunds.made),
        ("attempts at refunds", refunds.attempts),
        ("begun more than once", refunds.repeated),
    ):
        yield f"  {name:<28} {value:>7,}"
    yield from _times("from kill -9 to the new owner's first commit", report.failover.taken_over, bars=True)
    yield from _times("to the first turn in these shards", report.failover.at_work)
    yield from _times("to the first commit, while something else was done", report.failover.taken_over_in_trouble)
    broken = {number: said for number, said in report.invariants.items() if said != "holds"}
    kept = [number for number in report.invariants if number not in broken]
    yield f"  hold: {' '.join(kept) or 'none'}"
    for number, said in broken.items():
        yield f"  ✗ {number} {said}"
    for check in report.checks:
        yield f"  {'✓' if check.ok else '✗'} {check.name}" + ("" if check.ok else f": {check.detail}")
    yield f"{'all of it holds' if report.ok else 'NOT all of it holds'} ({report.took_seconds:g} s)"


def _times(name: str, spread: Spread, *, bars: bool = False) -> Iterator[str]:
    if not spread.count:
        return
    yield (
        f"  {name}: {spread.count} times, p50 {spread.p50_ms:g} ms, p90 {spread.p90_ms:g} ms,"
        f" p99 {spread.p99_ms:g} ms, most {spread.most_ms:g} ms"
    )
    if bars:
        most = max(spread.histogram.values())
        for edge, count in spread.histogram.items():
            yield f"    {edge:>10} {count:>6} {'█' * max(1, round(_BAR * count / most))}"
