"""`python -m tests.mutations [--list] [--jobs N] [WORD…]`: break guarantees on purpose, and see who notices.

A WORD is a mutation's name, or what it breaks (`G3`, `R5`). First all tests that are to notice run on the program as it
is: what fails anyway would prove nothing. Exit code 1 where a mutation survives or its text is not found, 2 where the
tests fail without any. `results.json` keeps what came of each when it was last run.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue

from .all_mutations import MUTATIONS
from .mutation import Mutation
from .trial import Result, copy_tree, own_program, run_tests, try_out

RESULTS = Path(__file__).with_name("results.json")
JOBS = 2
CHECK_JOBS = 8
"""Into so many parts the check of the program as it is is cut: a part that fails is named sooner, and they overlap."""


def main() -> int:
    """Run; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description="Break guarantees on purpose.")
    parser.add_argument("words", nargs="*", metavar="WORD", help="a name, or a guarantee or rule (default: all)")
    parser.add_argument("--list", action="store_true", help="say what there is")
    parser.add_argument("--jobs", type=int, default=JOBS, help=f"how many at a time (default: {JOBS})")
    given = parser.parse_args()
    known = {word for mutation in MUTATIONS for word in (mutation.name, *mutation.breaks)}
    if unknown := [word for word in given.words if word not in known]:
        parser.error(f"no such mutation: {', '.join(unknown)}; --list says what there is")
    words = set(given.words)
    chosen = [one for one in MUTATIONS if not words or words & {one.name, *one.breaks}]
    if given.list:
        for mutation in chosen:
            print(f"{' '.join(mutation.breaks):8} {mutation.name:52} {mutation.file}")
        return 0
    if lost := [mutation.name for mutation in chosen if mutation.count() != 1]:
        print(f"their text is not in the tree, or more than once: {', '.join(lost)}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="callboard-mutations-") as folder:
        return _run(chosen, Path(folder), max(1, given.jobs))


def _run(chosen: list[Mutation], folder: Path, jobs: int) -> int:
    trees: SimpleQueue[Path] = SimpleQueue()
    for number in range(jobs):
        tree = folder / f"tree-{number}"
        copy_tree(tree)
        if not own_program(tree).startswith(str(tree)):
            print(f"the copy would not run its own program, but {own_program(tree)}", file=sys.stderr)
            return 2
        trees.put(tree)

    def in_a_tree(do: Callable[[Path], Result]) -> Result:
        tree = trees.get()
        try:
            return do(tree)
        finally:
            trees.put(tree)

    with ThreadPoolExecutor(jobs) as pool:
        tests = sorted({test for mutation in chosen for test in mutation.tests})
        parts = [part for first in range(CHECK_JOBS) if (part := tests[first::CHECK_JOBS])]
        for result in pool.map(lambda part: in_a_tree(lambda tree: _unchanged(part, tree)), parts):
            if result.killed_by:
                print(f"{result.said}\nfails on the program as it is: {result.killed_by}", file=sys.stderr)
                return 2
        print("on the program as it is, all of these tests pass", flush=True)
        results = list(pool.map(lambda mutation: in_a_tree(lambda tree: _trial(mutation, tree)), chosen))
    survivors = [result for result in results if not result.killed_by]
    for result in survivors:
        print(f"\n--- {result.mutation}\n{result.said}", file=sys.stderr)
    print(f"{len(results) - len(survivors)} killed, {len(survivors)} survived")
    _keep(results)
    return 1 if survivors else 0


def _keep(results: Sequence[Result]) -> None:
    known = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    today = datetime.now(UTC).date().isoformat()
    known |= {result.mutation: {"date": today, "killed_by": result.killed_by} for result in results}
    told = {mutation.name: known[mutation.name] for mutation in MUTATIONS if mutation.name in known}
    RESULTS.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def _unchanged(tests: Sequence[str], tree: Path) -> Result:
    code, said = run_tests(tests, tree)
    return Result("", f"pytest ended with {code}" if code else "", said[-4_000:])


def _trial(mutation: Mutation, tree: Path) -> Result:
    result = try_out(mutation, tree)
    said = f"killed    by {result.killed_by}" if result.killed_by else "SURVIVED"
    print(f"{' '.join(mutation.breaks):8} {mutation.name}: {said}", flush=True)
    return result


if __name__ == "__main__":
    sys.exit(main())
