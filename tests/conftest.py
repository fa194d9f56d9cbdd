"""What every test can ask for: one PostgreSQL for each process of the run, a database of its own for each test."""

import gc
import os
import signal
import threading
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from callboard.persistence.embedded import ensure, release
from tests.made_database import empty_database, forget_model, made_database
from tests.server_folder import SETTINGS, server_folder

LEFT_SECONDS = 60.0
"""How long the last process of a test may take to end."""
START_SECONDS = 240.0
"""How long making and starting the server may take: a little less than a test may take in all."""
GC_THRESHOLDS = (10_000, 10, 10)
"""Python's own begin with 700: made for programs that are small, and that go on for ever."""

# A property is tried with the same examples in every run, and for as long as a busy machine takes: what is right must
# not fail by chance. To look for more: --hypothesis-profile=explore, with --hypothesis-seed=N for others again.
PATIENT: Any = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("same", **PATIENT, derandomize=True, database=None)
settings.register_profile("explore", **PATIENT)
settings.load_profile("same")

gc.disable()  # until all is collected, in half the time: of what imports and collecting make, nothing is garbage


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """What is there now stays to the end: the collector need not go through it again and again."""
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--storms`: see `tests.storms`."""
    parser.addoption("--storms", choices=("no", "only", "all"), default="no", help="the long tests (default: no)")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The storms are left out, unless they are asked for."""
    from tests.storms import choose

    choose(config, items)


def pytest_configure() -> None:
    """A shell ignores ctrl-C for what it starts in the background, and every process that a test starts would too."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """What `-n auto` means here."""
    from tests.distribution import workers

    return workers()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Who gets which tests under `--dist loadfile`."""
    from tests.distribution import Sharing

    return Sharing(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """A report goes to another process as UTF-8, and some tests log what has none: halves of surrogate pairs."""
    return encodable((yield))


def encodable(value: Any) -> Any:
    """The same, with everything in it that UTF-8 does not have written out."""
    match value:
        case str():
            return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
        case dict():
            return {encodable(key): encodable(item) for key, item in value.items()}
        case list() | tuple():
            return type(value)(encodable(item) for item in value)
        case _:
            return value


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Tests marked anyio run on asyncio, which is what the runtime runs on."""
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def no_process_is_left() -> Iterator[None]:
    """What tests have started has ended when they have, and was reaped (where the system tells: Linux)."""
    yield
    pause, end = threading.Event(), time.monotonic() + LEFT_SECONDS
    while (left := _children()) and time.monotonic() < end:
        pause.wait(0.1)  # it may be on its way
    assert not left, f"processes that tests have left: {left}"


def _children() -> list[str]:
    pids = [pid for task in Path("/proc/self/task").glob("*/children") for pid in _read(task).split()]
    # Python's own, which ends when it hears that this process has, is nobody's to end before that.
    return [told for pid in pids if (told := _process(pid)) and "multiprocessing.resource_tracker" not in told]


def _process(pid: str) -> str:
    stat = _read(Path(f"/proc/{pid}/stat"))[:40]
    return f"{stat} {_read(Path(f'/proc/{pid}/cmdline'))!r}" if stat else ""


def _read(path: Path) -> str:
    """What the system says of a thread or a process; "" where it has ended meanwhile."""
    try:
        return path.read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):  # the one before it was opened, the other one while it was read
        return ""


@pytest.fixture(scope="session")
def server_dsn() -> Iterator[str]:
    """A PostgreSQL server: TEST_DATABASE_URL if set, else an embedded one that is gone when the run ends."""
    if given := os.environ.get("TEST_DATABASE_URL"):
        yield given
        forget_model(given)
        return
    # SIGTERM skips teardown and atexit; as an interrupt it stops the server like ctrl-C does
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    with server_folder("callboard-tests-") as root:
        try:
            yield ensure(root, durable=False, timeout_seconds=START_SECONDS, settings=SETTINGS)
        finally:
            release(root)
            signal.signal(signal.SIGTERM, previous)


@pytest.fixture
def dsn(server_dsn: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """The URI of a database that no other test has: an empty one, or `made` where a test asks for that one too."""
    new = made_database if "made" in request.fixturenames else empty_database
    with new(server_dsn) as found:
        yield found


@pytest.fixture
def made(dsn: str) -> str:
    """The URI of a database that no other test has, with the schema in it."""
    return dsn
