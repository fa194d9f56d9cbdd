"""What a node process says to its daemon, and what its application prints the same way."""

import json
import logging
from collections.abc import Mapping
from typing import Any

import pytest

from callboard.persistence.port import RealPort
from callboard.service.node_process import announce
from callboard.service.place import Household, Place

pytestmark = pytest.mark.anyio

STATUS = {"event": "status", "ready": True, "listener_lag": 0.1, "shards": 3, "metrics": {}}


class House:
    """All that a place passes on."""

    def __init__(self) -> None:
        self.roots: list[str] = []
        self.said: list[Mapping[str, Any]] = []
        self.place = Place(
            1,
            Household(
                app="a:b",
                options={},
                drain_seconds=1.0,
                announce=self.said.append,
                port=RealPort(),
                environment=dict,
                dsn=str,
                told=lambda place, metrics: None,
                serves=lambda place, ready: None,
                ended=lambda place: None,
                root_seen=self.roots.append,
            ),
        )
        command = self.place._command(9)
        self.mark = command[command.index("--mark") + 1]

    def hears(self, line: str) -> None:
        self.place._take_line(line)

    def ours(self, event: Mapping[str, Any]) -> str:
        return f"{self.mark} {json.dumps(event)}"


async def test_a_node_is_heard_and_each_place_has_a_mark_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    house = House()
    announce({"event": "ready", "root": "/desk", "node": 7}, house.mark)
    house.hears(capsys.readouterr().out.rstrip("\n"))
    house.hears(house.ours(STATUS))
    assert house.roots == ["/desk"] and house.said == [{"event": "ready", "node": 7, "place": 1}]
    assert house.place.status is not None and house.place.status.shards == 3
    assert House().mark != house.mark


@pytest.mark.parametrize(
    "line",
    [
        json.dumps({**STATUS, "ready": False}),
        json.dumps({"event": "ready", "root": "/bogus"}),
        "0123456789abcdef0123456789abcdef " + json.dumps({"event": "ready", "root": "/bogus"}),
        "[" * 100_000,
        '{"event": "status", "ready": true, "listener_lag": 1' + "0" * 400 + "}",
    ],
)
async def test_what_a_tool_prints_says_nothing_of_its_node_and_goes_to_the_log(
    line: str, caplog: pytest.LogCaptureFixture
) -> None:
    house = House()
    with caplog.at_level(logging.INFO, logger="callboard"):
        house.hears(line)
    assert house.roots == [] and house.said == [] and house.place.status is None
    assert f"prints: {line[:100]}" in caplog.text


async def test_a_tool_that_prints_without_ending_its_line_does_not_make_its_node_unready() -> None:
    house = House()
    house.hears(f"........{house.ours(STATUS)}")
    assert house.place.status is not None and house.place.status.ready


@pytest.mark.parametrize("text", ["[" * 100_000, "{", "5", "[]", '{"event": ["status"]}', "NaN"])
async def test_nonsense_behind_the_mark_ends_nothing(text: str) -> None:
    house = House()
    house.hears(f"{house.mark} {text}")
    assert house.place.status is None
