"""An application: what a daemon hosts. A module names one (`callboard daemon crm.app:app`).

    app = App("crm", open_desk, runs="/crm/desk/agent")

`open` is an async context manager that opens what the tools need (a database, a model client) and gives the supervision
tree; every node process opens its own.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

from .spec import Supervisor


@dataclass(frozen=True)
class Surroundings:
    """What an application is told of the node that hosts it."""

    dsn: str
    node: str
    """The node's label, for people."""
    options: dict[str, str] = field(default_factory=dict)
    """Whatever was given with `--option key=value`."""
    configuration: Mapping[str, Any] = field(default_factory=dict)
    """The tables `guardrails`, `policy`, `model` and `classifier` of `callboard.toml`; `actors.agent.configured` makes
    the rules of a desk out of them."""


@dataclass(frozen=True)
class App:
    """A named supervision tree, and how to open what it needs."""

    name: str
    open: Callable[[Surroundings], AbstractAsyncContextManager[Supervisor]]
    runs: str
    """Address of the pool that new runs go to: `/crm/desk/agent`."""
    system_prompt: str = ""
    """For runs that bring none of their own."""
