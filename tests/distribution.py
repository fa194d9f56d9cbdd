"""How several processes share the tests, which they do under `pytest -n`: whole files, and never two of some at a time.

Each worker is a process with a session of its own: its own PostgreSQL, its own folders. A file stays together, so that
what its tests share is made once. The files of `PROCESSES` start nodes, kill them and wait for what comes of it: they
are one unit of work and begun first, so that no two of them run beside each other. What else is long is begun next: the
other worker does it meanwhile, and nobody waits for it in the end.
"""

import os

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

PROCESSES = (
    "bench/",
    "demo/",
    "deploy/",
    "field/",
    "flagship/",
    "quarantine/",
    "service/test_daemon.py",
    "soak/",
)
LONG = (
    "simulation/test_simulation.py",
    "adapters/",
    "agent/test_approvals_race.py",
    "agent/test_killed_anywhere.py",
    "conformance/test_cases.py",
    "contract/test_model.py",
    "embedded/",
    "evals/",
    "test_documented_commands.py",
    "test_examples.py",
    "test_migrating.py",
    "test_packaging.py",
)
MAX_WORKERS = 4


class Sharing(LoadFileScheduling):
    """Gives the longest units out first."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return "tests of processes" if _rank(file) == 0 else file

    def _assign_work_unit(self, node: WorkerController) -> None:
        units = self.workqueue
        units.move_to_end(min(units, key=lambda unit: _rank(next(iter(units[unit])))), last=False)
        super()._assign_work_unit(node)


def _rank(nodeid: str) -> int:
    within = nodeid.removeprefix("tests/")
    return 0 if within.startswith(PROCESSES) else 1 if within.startswith(LONG) else 2


def workers() -> int:
    """How many workers are worth having; none where all would use one server that the environment names."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    # Twice as many as there are cores: much of what tests do is wait, for processes to start and locks to be free.
    return 0 if os.environ.get("TEST_DATABASE_URL") or cores < 2 else min(2 * cores, MAX_WORKERS)
