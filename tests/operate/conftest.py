"""What the tests of operating share: the command line and the databases of `tests.service`."""

from tests.patience import patient as patient  # noqa: PLC0414 - a fixture
from tests.service.conftest import cli as cli  # noqa: PLC0414 - a fixture
from tests.service.conftest import database as database  # noqa: PLC0414 - a fixture
from tests.service.conftest import shared as shared  # noqa: PLC0414 - a fixture
