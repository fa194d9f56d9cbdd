"""What runs in the process of a test waits for its database and its threads for as long as a machine may stand still.

The product's own limits are made for people who wait; what a test is about is seldom one of them.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from callboard.actors import testing
from callboard.persistence.postgres import connect, inspecting, store, watching

PATIENCE_SECONDS = 60
_LIMITS = (
    (testing, ("THREAD_SECONDS",)),
    (store, ("BORROW_SECONDS",)),
    (inspecting, ("CENSUS_SECONDS", "STEP_SECONDS", "WALK_SECONDS")),
    (watching, ("COUNT_SECONDS", "LOOK_SECONDS")),
)


@contextmanager
def patience() -> Iterator[None]:
    """Until its end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connect, "CONNECT_SECONDS", PATIENCE_SECONDS)
        patch.setitem(connect._CONNECTION, "connect_timeout", str(PATIENCE_SECONDS))
        for module, names in _LIMITS:
            for name in names:
                patch.setattr(module, name, float(PATIENCE_SECONDS))
        yield


@pytest.fixture(scope="module", autouse=True)
def patient() -> Iterator[None]:
    """For a conftest.py to import: all tests of its folder are patient."""
    with patience():
        yield
