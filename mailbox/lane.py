"""Lanes: three queues in every mailbox, strictly in this order.

Within a lane a mailbox is first in, first out per sender; a message that waits for its next attempt keeps its place
and so holds up its own lane only. System messages (supervision, release, cancel) overtake replies, replies and
decisions of people overtake the rest, or else two busy actors would starve each other's answers.
"""

from enum import IntEnum


class Lane(IntEnum):
    """Which of a mailbox's queues a message stands in; lower goes first."""

    SYSTEM = 0
    REPLY = 1
    NORMAL = 2
