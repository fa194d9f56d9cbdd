"""A requester cannot approve its own run: whatever it calls itself in a command, the operating system names it."""

import pytest

from callboard.mailbox.errors import SettingError
from callboard.service.settings import read_settings
from tests.service.conftest import Cli, cli, query, shared  # noqa: F401 - fixtures

APP = "tests.service.desk_app:app"


def held(cli: Cli, dsn: str, goal: str) -> str:  # noqa: F811
    document = cli("run", APP, goal, "--json", dsn=dsn).document
    return str(document["approvals"][0]["id"])


@pytest.mark.parametrize("label", [(), ("--by", "ann@example.com"), ("--by", "root"), ("--note", "as ann")])
def test_who_asked_may_not_approve_under_any_label(cli: Cli, shared: str, label: tuple[str, ...]) -> None:  # noqa: F811
    approval = held(cli, shared, "close 300")
    said = cli("approve", approval, *label, dsn=shared)
    assert said.code == 4 and "wants somebody else" in said.err
    assert query(shared, f"SELECT status, decided_by FROM callboard.decision WHERE id = '{approval}'") == [
        ("pending", "")
    ]


def test_a_label_is_written_beside_the_name_and_never_in_its_place(cli: Cli, shared: str) -> None:  # noqa: F811
    approval = held(cli, shared, "close 3")
    assert cli("approve", approval, "--by", "ann@example.com", dsn=shared).code == 0
    [(who, label)] = query(
        shared, f"SELECT who, label FROM callboard.audit WHERE object = '{approval}' AND after = 'approved'"
    )
    assert (who, label) == (read_settings().principal, "ann@example.com")


def test_approving_twice_under_two_labels_counts_once(cli: Cli, shared: str) -> None:  # noqa: F811
    approval = held(cli, shared, "close 100")
    assert cli("approve", approval, "--by", "ann@example.com", dsn=shared).code == 0
    again = cli("approve", approval, "--by", "erik@example.com", dsn=shared)
    assert again.code == 5, "one principal is one person"
    assert query(shared, f"SELECT status FROM callboard.decision WHERE id = '{approval}'") == [("pending",)]


def test_who_acts_is_in_no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    before = read_settings().principal
    for variable in ("USER", "LOGNAME", "USERNAME", "SUDO_USER"):
        monkeypatch.setenv(variable, "ann@example.com")
    assert read_settings().principal == before != "ann@example.com"
    monkeypatch.setenv("CALLBOARD_PRINCIPAL", "ann@example.com")
    with pytest.raises(SettingError, match="no such setting"):
        read_settings()
