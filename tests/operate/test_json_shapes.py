"""A name of a JSON shape names one shape: a program that has read it once knows what the next one holds."""

import re
from pathlib import Path

from tests.service.conftest import APP, ROOT, Cli

MORE_THAN_ONCE = {
    "callboard.message": "exported without its trail; otherwise the same",
    "callboard.token": "created, and revoked",
    "callboard.verification": "of one run, and of each of all",
}
"""Shapes that are written at several places, which write the same."""


def test_no_two_places_give_one_name_to_shapes_of_their_own() -> None:
    places: dict[str, set[str]] = {}
    for path in sorted([*Path(ROOT, "service/cli").glob("*.py"), *Path(ROOT, "service/operations").glob("*.py")]):
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            for name in re.findall(r'"schema": "(callboard\.[a-z.-]+)/\d+"(?!, \.\.\.)', line):
                places.setdefault(name, set()).add(f"{path.name}:{number}")
    assert len(places) > 20
    assert {name for name, found in places.items() if len(found) > 1} <= set(MORE_THAN_ONCE), places


def test_what_was_sent_is_no_message_of_a_mailbox(cli: Cli, shared: str) -> None:
    assert cli("submit", APP, "x", "--id", "sent", dsn=shared).code == 0
    told = cli("tell", "sent", "hello", "--json", dsn=shared).document
    assert told == {"schema": "callboard.sent/1", "run_id": "sent", "accepted": "told"}
    cancelled = cli("cancel", "sent", "--json", dsn=shared).document
    assert cancelled == {"schema": "callboard.sent/1", "run_id": "sent", "accepted": "cancel-asked"}
    waits = cli("mailbox", "/desk/run:sent", "--json", dsn=shared).document["messages"][0]["id_text"]
    message = cli("mailbox", "show", waits, "--json", dsn=shared).document
    assert message["schema"] == "callboard.message/1" and {"body", "state", "recipient"} <= message.keys()


def test_every_shape_is_in_the_document() -> None:
    documented = "".join(Path(ROOT, "docs", name).read_text("utf-8") for name in ("CLI.md", "INSPECTOR.md", "RUNS.md"))
    for path in [*Path(ROOT, "service/cli").glob("*.py"), *Path(ROOT, "service/operations").glob("*.py")]:
        for name in re.findall(r'"schema": "(callboard\.[a-z.-]+/\d+)"', path.read_text("utf-8")):
            assert name in documented, (path.name, name)
