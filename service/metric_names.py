"""The names of what is measured: each metric with its type, labels and meaning, and how few values a label may have.

One table, read by the nodes that count (`metrics.NodeMetrics`), by the daemon that shows (`metrics.Exposition`) and by
the test that compares it with docs/METRICS.md. No label is ever an address or an id: what a model, a tool or a customer
says becomes one of a few values here, or "other". So the number of series is bounded whatever runs.
"""

import re
from dataclasses import dataclass, field
from typing import Literal

PREFIX = "callboard_"
OTHER = "other"
MAX_VALUE_CHARS = 48
_UNFIT = re.compile(r"[^!#-\[\]-~]")
"""What a label value does not keep: spaces, quotes, backslashes, and all that is not plain ASCII."""

HANDLER_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
RECOVERY_BUCKETS = (0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
RATIO_BUCKETS = (0.1, 0.25, 0.5, 0.75, 0.9, 1.0, 1.5)


@dataclass(frozen=True)
class Family:
    """A metric: one series for each set of label values."""

    name: str
    """Without the prefix; a counter's ends in `_total`."""
    type: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


COUNTED = (
    Family("messages_total", "counter", "Messages whose turn or call was committed, by how it ended.", ("outcome",)),
    Family(
        "handler_seconds",
        "histogram",
        "How long turns of actors and calls of workers took, from being taken to the end of the handler.",
        ("kind",),
        HANDLER_BUCKETS,
    ),
    Family("retries_total", "counter", "Messages that are to be handled again after a delay.", ("kind",)),
    Family("restarts_total", "counter", "Actors that began in another incarnation than their first.", ("kind",)),
    Family("escalations_total", "counter", "Supervisors that gave up: one restart too many of a child."),
    Family(
        "recovery_seconds",
        "histogram",
        "From noticing that a node is gone until all that waits in its shards was read by the node that took them.",
        (),
        RECOVERY_BUCKETS,
    ),
    Family("approval_decisions_total", "counter", "Decisions on held calls that took effect.", ("decision",)),
    Family(
        "budget_spent_ratio",
        "histogram",
        "What runs had spent of the limit they had come nearest to, when they ended.",
        (),
        RATIO_BUCKETS,
    ),
    Family("model_calls_total", "counter", "Answers of models.", ("model",)),
    Family("model_tokens_total", "counter", "Tokens of these answers, input or output.", ("model", "direction")),
    Family("model_cost_usd_total", "counter", "What these answers cost, in USD.", ("model",)),
    Family("tool_calls_total", "counter", "Tool calls that came to an end, by how.", ("tool", "outcome")),
)
"""What nodes count: sent to the daemon as what was added since the last time."""

SHOWN = (
    Family("up", "gauge", "1 while a node process of this daemon serves, else 0."),
    Family("database_up", "gauge", "1 if the database answered when it was last asked, else 0."),
    Family("build_info", "gauge", "1; which version this is.", ("version", "python", "schema")),
    Family("node_processes", "gauge", "Node processes of this daemon that were heard of within the last seconds."),
    Family("node_process_restarts_total", "counter", "Node processes that ended and were started again."),
    Family("listener_lag_seconds", "gauge", "The slowest wake-up through the database of any node of this daemon."),
)
"""What the daemon knows by itself."""

LOOKED_UP = (
    Family("mailbox_depth", "gauge", "Messages that wait, by the kind of actor or worker they wait for.", ("kind",)),
    Family("mailbox_messages", "gauge", "Messages that wait, by their state.", ("state",)),
    Family("mailbox_oldest_seconds", "gauge", "How long the oldest message that could be handled has waited."),
    Family("dead_letters", "gauge", "Dead letters that nobody has settled."),
    Family("approvals_pending", "gauge", "Held calls that wait for a person."),
    Family("approval_wait_seconds", "gauge", "How long the oldest of them has waited."),
    Family("actors", "gauge", "Actors, by kind and status.", ("kind", "status")),
    Family("nodes", "gauge", "Nodes of all daemons: up, draining, silent (no sign of life), gone.", ("status",)),
    Family("shards_without_owner", "gauge", "Of 256 shards, those that no node serves."),
)
"""What is in the database, counted when somebody scrapes; absent while it does not answer."""

FAMILIES = {family.name: family for family in (*COUNTED, *SHOWN, *LOOKED_UP)}

_CAPS = {"kind": 40, "tool": 40, "model": 20}
_CAP = 16


def plain_label(value: str) -> str:
    """A value that needs no escaping anywhere, and is not long."""
    return _UNFIT.sub("_", value) or "none"


@dataclass
class Labels:
    """The label values of one metric that are told apart; all that come after these are `OTHER`."""

    family: Family
    _known: dict[str, dict[str, str]] = field(default_factory=dict)

    def of(self, *values: str) -> tuple[str, ...]:
        """The values to count under, one for each label."""
        return tuple(self._one(name, value) for name, value in zip(self.family.labels, values, strict=True))

    def _one(self, name: str, value: str) -> str:
        known, value = self._known.setdefault(name, {}), value[:MAX_VALUE_CHARS]
        found = known.get(value)
        if found is None:
            if len(known) >= _CAPS.get(name, _CAP):
                return OTHER
            found = known[value] = plain_label(value)
        return found


def key_of(family: str, labels: tuple[str, ...] = ()) -> str:
    """How a series is named between a node and its daemon."""
    return " ".join((family, *labels))


def read_key(key: str) -> tuple[Family, tuple[str, ...]] | None:
    """What `key_of` named; None where there is no such thing among what is counted."""
    name, *labels = key.split(" ")
    family = FAMILIES.get(name)
    if family is None or len(labels) != len(family.labels) or family not in COUNTED:
        return None
    return family, tuple(labels)
