"""What a tool says of the sums of money among its arguments: which they are, in which currency, and in which unit.

    @tool(effect="money", sums={"amount_cents": "USD cents"})
    async def issue_refund(order_id: str, amount_cents: int, idempotency_key: str) -> dict[str, str]: ...

A function's author knows that its 12900 are 129.00 dollars; whoever approves the call can only guess it by a name. What
is declared is written into each question to people when it is asked (`ApprovalRequested.sums`, the decision's row), so
that a deploy that comes later changes nothing of what somebody was shown. Neighbours: options.py (the other options),
run_questions.py (who asks); `service.operations.money` reads arguments by it.

Invariant: what is declared names an argument of the tool, in one of the few forms of `_UNIT`.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from .arguments import Parameter
from .result import text_of
from .schema import BadTool

MAX_SUMS: Final = 32
_UNIT: Final = re.compile(r"(?P<code>[A-Z]{3})(?: (?:minor|cents|pence))?|(?:minor|cents|pence)")
_PATH: Final = re.compile(r"(?P<name>[^.\[\]\"*\s]+)(?:\[\]|\.[^.\[\]\"*\s]+)*")


def checked_sums(declared: object, inputs: Sequence[Parameter], tool: str) -> dict[str, str]:
    """What `sums=` says: the path of each sum among the arguments, and its unit in one form (`USD`, `USD minor`).

    Raises:
        BadTool: it is no mapping of the tool's arguments to units.
    """
    if not isinstance(declared, Mapping) or len(declared) > MAX_SUMS:
        raise BadTool(
            f"tool {tool!r}: sums must be a mapping of at most {MAX_SUMS} arguments to units, such as "
            f"{{'amount_cents': 'USD cents'}}, not {text_of(declared):.200}"
        )
    return {_path(path, inputs, tool): _unit(path, unit, tool) for path, unit in declared.items()}


def _path(path: Any, inputs: Sequence[Parameter], tool: str) -> str:
    found = _PATH.fullmatch(path) if isinstance(path, str) else None
    if found is None:
        raise BadTool(f"tool {tool!r}: sums has no usable path {text_of(path)!r:.200}; write 'lines[].price_cents'")
    if found["name"] not in {one.name for one in inputs}:
        raise BadTool(f"tool {tool!r}: sums names {found['name']!r:.200}, which is no argument of the tool")
    return str(path)


def _unit(path: str, unit: object, tool: str) -> str:
    found = _UNIT.fullmatch(unit) if isinstance(unit, str) else None
    if found is None:
        raise BadTool(
            f"tool {tool!r}: sums[{path!r}] must be a currency, 'minor', or both, such as 'USD', 'USD cents', 'JPY', "
            f"'minor' (of the currency that the call names), not {text_of(unit)!r:.200}"
        )
    minor = found["code"] is None or found[0] != found["code"]
    return f"{found['code'] or ''}{' minor' if minor else ''}".strip()
