"""The command line and the databases of `tests.service`."""

from tests.patience import patient as patient  # noqa: PLC0414 - a fixture
from tests.service.conftest import cli as cli  # noqa: PLC0414 - a fixture
from tests.service.conftest import database as database  # noqa: PLC0414 - a fixture
