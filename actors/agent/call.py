"""A tool call of a run, from when it was let go or held until it has its answer. A part of the run's state."""

from typing import Any, Literal

import msgspec

from .budget import Budget
from .question import Question


class Call(msgspec.Struct, omit_defaults=True):
    """A tool call that has no answer yet."""

    call: int
    step: int
    tool: str
    arguments: dict[str, Any]
    status: Literal["running", "held", "in_doubt"]
    message: int
    idempotency_key: str = ""
    digest: str = ""
    """Of what is asked, while it waits for a person; of what was approved, once it was let go."""
    tool_call_id: str = ""
    decision: str = ""
    reason: str = ""
    attempts: int = 0
    node: int = 0
    """Number of the node that let it go."""
    approved: str = ""
    """In doubt: the digest that was approved before; what is made again must still have it."""
    released: str = ""
    """Once it was in doubt: the decision that had let it go; what is made again is told the same."""
    child: str = ""
    """Address of the child run that answers it, where it is a call of an agent."""
    granted: Budget | None = None
    """What that child may spend."""
    question: Question | None = None
    """held: what people are asked."""
