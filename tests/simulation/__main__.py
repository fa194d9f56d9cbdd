"""`python -m tests.simulation --seeds 0..999`: run seeds, say how fast, and how to see a failing one again."""

import argparse
import sys
import time
from collections import Counter

import msgspec

from .many import Chunk, Controls, cores, run_many
from .profile import NAMES
from .simulation import Outcome

TELL_SECONDS = 5.0


def _seeds(text: str) -> range:
    first, _, last = text.partition("..")
    return range(int(first), int(last or first) + 1)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=_seeds, default=range(1_000), metavar="A..B", help="which seeds (0..999)")
    parser.add_argument("--profile", choices=NAMES, default="", help="one profile (default: by the seed)")
    parser.add_argument("--jobs", type=int, default=cores(), metavar="N", help="processes (default: one for each core)")
    parser.add_argument("--trace", action="store_true", help="print what happened, step by step")
    parser.add_argument("--unfenced", action="store_true", help="negative control: zombies may commit")
    parser.add_argument("--split-acks", action="store_true", help="negative control: acknowledge in another commit")
    parser.add_argument("--keep-going", action="store_true", help="do not end at the tenth failing seed")
    return parser


class Tally:
    """What came of the seeds so far."""

    def __init__(self, controls: Controls) -> None:
        self.controls = controls
        self.began = self.told = time.perf_counter()
        self.failed: list[int] = []
        self.kinds: Counter[str] = Counter()
        self.count = self.steps = self.commits = 0
        self.cpu_seconds = 0.0

    def add(self, chunk: Chunk) -> None:
        """Count, and show what failed."""
        self.cpu_seconds += chunk.cpu_seconds
        for outcome in chunk.outcomes:
            self.count, self.steps = self.count + 1, self.steps + outcome.steps
            self.commits += outcome.commits
            for line in outcome.trace:
                print(line)
            if outcome.wrong:
                self._show(outcome)
        if time.perf_counter() - self.told > TELL_SECONDS:
            self.told = time.perf_counter()
            print(f"  {self.count} seeds, {len(self.failed)} failed, {self._pace():,.0f} a minute", flush=True)

    def _show(self, outcome: Outcome) -> None:
        self.failed.append(outcome.seed)
        self.kinds.update({what.split()[0].rstrip(":") for what in outcome.wrong})
        print(f"\nseed {outcome.seed} ({outcome.profile}) FAILED:")
        for what in outcome.wrong[:20]:
            print(f"  {what}")
        print(f"  again: {command(self.controls, outcome.seed)}", flush=True)

    def _pace(self) -> float:
        return self.count / (time.perf_counter() - self.began) * 60

    def show(self) -> None:
        """The last lines."""
        print(
            f"{self.count} seeds, {len(self.failed)} failed; {self.steps:,} steps, {self.commits:,} commits; "
            f"{time.perf_counter() - self.began:.1f} s, {self._pace():,.0f} seeds a minute, "
            f"{self.cpu_seconds / max(1, self.count) * 1e3:.1f} ms of CPU a seed"
        )
        if self.failed:
            print(f"failed: {self.failed}\nwhy: {dict(self.kinds)}")


def command(controls: Controls, seed: int) -> str:
    """What shows a seed again."""
    profile = f" --profile {controls.profile}" if controls.profile else ""
    control = " --unfenced" * controls.unfenced + " --split-acks" * controls.split_acks
    return f"python -m tests.simulation --seeds {seed}{profile}{control} --trace"


def main(arguments: list[str] | None = None) -> int:
    """Run; 1 when a seed failed, 130 when interrupted."""
    options = _parser().parse_args(arguments)
    controls = msgspec.convert(vars(options), Controls)
    jobs = min(options.jobs, len(options.seeds))
    tally, interrupted = Tally(controls), False
    try:
        with run_many(options.seeds, controls, jobs=jobs) as chunks:
            for chunk in chunks:
                tally.add(chunk)
                if len(tally.failed) >= 10 and not options.keep_going:
                    break
    except KeyboardInterrupt:
        interrupted = True
    tally.show()
    return 130 if interrupted else 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
