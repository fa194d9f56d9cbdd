"""`callboard actors --order` and `--tree`: what a screen shows, for pipes."""

import json

import pytest

from tests.service.conftest import APP, Cli


@pytest.fixture
def held(cli: Cli, shared: str) -> str:
    """The address of a run that waits for a person."""
    said = cli("run", APP, "refund 129.00", "--json", dsn=shared)
    return str(said.document["address"])


def test_actors_by_attention_begin_with_what_needs_somebody(cli: Cli, shared: str, held: str) -> None:
    document = cli("actors", "--order", "attention", "--json", dsn=shared).document
    assert document["schema"] == "callboard.glances/1" and document["attention"] >= 1
    assert document["items"][0]["word"] == "NEEDS YOU"
    one = next(item for item in document["items"] if item["address"] == held)
    assert one["doing"].startswith("issue_refund 129") and one["decision"] and one["created_at"].endswith("Z")
    said = cli("actors", "list", held, "--order", "attention", dsn=shared)
    assert said.code == 0 and "NEEDS YOU" in said.out and "issue_refund 129" in said.out
    assert "NEEDS YOU" not in cli("actors", "list", held, dsn=shared).out, "without it the list is what it was"


def test_actors_by_address_and_line_by_line(cli: Cli, shared: str, held: str) -> None:
    said = cli("actors", "--order", "address", "--jsonl", "--limit", "1000", dsn=shared)
    addresses = [json.loads(line)["address"] for line in said.out.splitlines()]
    assert held in addresses and addresses == sorted(addresses)


def test_the_tree_counts_what_is_below(cli: Cli, shared: str, held: str) -> None:
    document = cli("actors", "--tree", "--json", dsn=shared).document
    assert document["schema"] == "callboard.tree/1"
    root = document["root"]
    place, found = held.partition(":")[0], root
    for name in place.split("/")[1:]:
        found = next(child for child in found["children"] if child["name"] == name)
    assert found["pool"] and found["words"]["NEEDS YOU"] >= 1 and root["total"] >= found["total"] >= 1
    said = cli("actors", "--tree", dsn=shared)
    assert said.code == 0 and "needs you" in said.out and f"{found['name']}:*" in said.out


@pytest.mark.parametrize(
    "wrong",
    [
        ("--order", "size"),
        ("--order", "address", "--stuck"),
        ("--tree", "--stuck"),
        ("--tree", "--kind", "run"),
        ("--tree", "--jsonl"),
    ],
)
def test_what_cannot_be_meant_is_refused(cli: Cli, shared: str, wrong: tuple[str, ...]) -> None:
    said = cli("actors", "list", *wrong, dsn=shared)
    assert said.code == 2 and not said.out
