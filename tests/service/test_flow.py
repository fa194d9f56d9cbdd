"""A mailbox's last minutes, told from when its messages came and left."""

from callboard.service.cli.inspector_render import flow_text
from callboard.service.operations.flow import MINUTES, Flow, measured

NOW = 1_000_000.0
STAYS = float("inf")


def test_each_message_counts_in_the_minute_it_came_and_in_the_minute_it_left() -> None:
    flow = measured([(NOW - 590, NOW - 30), (NOW - 95, NOW - 90), (NOW - 10, STAYS)], NOW)
    assert flow.arrived == [1, 0, 0, 0, 0, 0, 0, 0, 1, 1]
    assert flow.handled == [0, 0, 0, 0, 0, 0, 0, 0, 1, 1]
    assert flow.depth == [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]


def test_what_came_before_is_in_the_depth_and_in_no_minute() -> None:
    flow = measured([(NOW - 90_000, STAYS), (NOW - 90_000, NOW - 300)], NOW)
    assert sum(flow.arrived) == 0
    assert flow.handled == [0, 0, 0, 0, 1, 0, 0, 0, 0, 0]
    assert flow.depth == [2, 2, 2, 2, 1, 1, 1, 1, 1, 1]


def test_a_line_shows_the_counts_and_the_depth() -> None:
    flow = measured([(NOW - 60 * minute - 1, STAYS) for minute in range(8)], NOW)
    assert flow_text(flow) == "last 10 min: 8 in, 0 out; depth ··▁▂▃▄▅▆▇█ 0 to 8"


def test_an_empty_mailbox_has_a_flat_line_and_unknown_minutes_are_said_to_be() -> None:
    empty = Flow([0] * MINUTES, [0] * MINUTES, [0] * MINUTES, complete=False)
    assert flow_text(empty) == "last 10 min: at least 0 in, 0 out; depth ·········· 0 to 0"
