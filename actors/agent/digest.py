"""What names a call: its canonical arguments, the digest that approvals are given for, and the idempotency key.

The three never change for a call, in any process: they are functions of recorded values alone. Changing one of these
formulas orphans every approval that waits and every key that a payment provider remembers.
"""

import hashlib
import json
from typing import Any
from uuid import UUID


def canonical(args: dict[str, Any]) -> str:
    """Plain JSON values as the one text that equal values have: sorted keys, no spaces, ASCII.

    Raises:
        ValueError: for NaN and infinity, a cycle, or an integer too long to print.
        TypeError: for anything that JSON cannot hold.
        RecursionError: for very deep nesting.
    """
    return json.dumps(args, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def decision_id(run_id: str, number: int) -> str:
    """The id of the decision on a call that is gated, and the call's id where its digest is made."""
    return f"{run_id}.{number}"


def call_digest(call_id: str, tool: str, tool_version: str, canonical_args: str) -> str:
    """What a decision is about: sha256, in hexadecimal, of this call of this version of the tool with these arguments.

    The parts are hashed as a JSON array, since joining them would let one part's end pass for the next one's beginning.
    """
    parts = json.dumps([call_id, tool, tool_version, canonical_args], separators=(",", ":"))
    return hashlib.sha256(parts.encode()).hexdigest()


def idempotency_key(run_id: UUID | str, seq: int, tool: str, canonical_args: str) -> str:
    """The key under which a call's effect is attempted for ever; `seq` is the call's position in its run.

    Two calls of a run with equal arguments get two keys; a retry gets the same one, after a crash as well.
    """
    # surrogatepass: a tool's name comes from the model
    return hashlib.sha256(f"{run_id}:{seq}:{tool}:{canonical_args}".encode(errors="surrogatepass")).hexdigest()
