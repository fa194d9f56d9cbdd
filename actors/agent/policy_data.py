"""Policies as data: what `[[policy]]` tables in TOML, or objects in JSON, mean.

    [[policy]]
    tool = "issue_refund"
    when = [{ field = "amount", above = 5000 }]
    needed = 2
    not_requester = true
    expires_seconds = 3600
    hold_seconds = 30
    risk = "high"
    reason = "a refund of more than 5000"

All conditions of `when` have to hold; without any, the policy is about every call of the tool. A condition looks at one
field (`amount`, `address.country`, `items[].price`: any of them), and may use several operators.

Invariant: a condition that cannot be answered (a text where a number is compared) holds: the gate closes.
"""

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from ...mailbox.errors import SettingError
from .policies import MAX_NAME_CHARS, MAX_SECONDS, Policy, PolicyCall
from .policy import MAX_NEEDED, Risk, Terms

MAX_POLICIES = 1_000

_Number = int | float
_Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_CHARS)]
_Words = Annotated[str, Meta(min_length=1, max_length=1_000)]
_Seconds = Annotated[float, Meta(ge=0, le=MAX_SECONDS)]


class PolicyError(SettingError, ValueError):
    """A policy that cannot mean anything; the message says which and why."""


class Condition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What has to hold of one field of the arguments."""

    field: _Words
    above: _Number | UnsetType = UNSET
    below: _Number | UnsetType = UNSET
    at_least: _Number | UnsetType = UNSET
    at_most: _Number | UnsetType = UNSET
    equals: str | int | float | bool | UnsetType | None = UNSET
    one_of: Annotated[list[str | int | float | bool | None], Meta(min_length=1)] | UnsetType = UNSET
    prefix: _Words | UnsetType = UNSET
    suffix: _Words | UnsetType = UNSET
    missing: bool | UnsetType = UNSET
    """True: the field is not there, or null; False: it is."""


class PolicyTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One policy as it is written."""

    tool: _Name | UnsetType = UNSET
    effect: Annotated[str, Meta(pattern="^(read|write|egress|money)$")] | UnsetType = UNSET
    """All tools of this effect; beside `tool`, both have to fit."""
    agent: str | UnsetType = UNSET
    name: Annotated[str, Meta(max_length=MAX_NAME_CHARS)] = ""
    when: list[Condition] = []
    reason: Annotated[str, Meta(max_length=1_000)] = ""
    needed: Annotated[int, Meta(ge=1, le=MAX_NEEDED)] = 1
    not_requester: bool = False
    expires_seconds: _Seconds | None = None
    hold_seconds: _Seconds = 0.0
    risk: Risk = "medium"


@dataclass(frozen=True)
class DataPolicy:
    """A policy that was written as data."""

    name: str
    table: PolicyTable

    def terms(self, call: PolicyCall) -> Terms | None:
        """See `Policy.terms`."""
        table = self.table
        wanted = ((table.tool, call.tool), (table.effect, call.effect), (table.agent, call.agent))
        if any(want is not UNSET and want != have for want, have in wanted):
            return None
        if not all(_holds(condition, call.arguments) for condition in table.when):
            return None
        return Terms(
            table.reason or self._words(),
            self.name,
            table.risk,
            table.needed,
            table.not_requester,
            table.expires_seconds,
            table.hold_seconds,
        )

    def _words(self) -> str:
        parts = [f"{one.field} {words}" for one in self.table.when for words in _words_of(one)]
        return f"policy {self.name}: " + (", ".join(parts) or "every such call")


def policies_from(data: Sequence[Mapping[str, Any]]) -> tuple[Policy, ...]:
    """Policies from plain data, such as `tomllib.load(file)["policy"]`.

    Raises:
        PolicyError: an unknown key, a value that cannot be, or a policy that could never apply.
    """
    if isinstance(data, str | Mapping) or not isinstance(data, Sequence):
        raise PolicyError("policies: expected a list of tables; write [[policy]], with two brackets")
    if len(data) > MAX_POLICIES:
        raise PolicyError(f"policies: {len(data)} are more than {MAX_POLICIES}")
    found: list[DataPolicy] = []
    for place, one in enumerate(data, 1):
        table = _read(one, place)
        name = table.name or "-".join(str(part) for part in (table.tool, table.effect) if part is not UNSET)
        if any(other.name == name for other in found):
            if table.name:
                raise PolicyError(f"policy {place}: there is a policy {name!r} already; give each a name of its own")
            name = f"{name}-{place}"
        found.append(DataPolicy(name, table))
    return tuple(found)


def require_known(policies: Iterable[Policy], tools: Iterable[str]) -> None:
    """Refuse policies about tools that there are not: a name that was typed wrongly would let everything through.

    Raises:
        PolicyError.
    """
    known = sorted(tools)
    for one in policies:
        named = one.table.tool if isinstance(one, DataPolicy) else UNSET
        if named is not UNSET and named not in known:
            there = ", ".join(known) or "none"
            raise PolicyError(f"policy {one.name!r}: there is no tool {named!r} here; known are: {there}")


def _read(one: object, place: int) -> PolicyTable:
    named = one.get("name") if isinstance(one, Mapping) else None
    where = f"policy {place}" + (f" ({named!r:.100})" if named else "")
    try:
        table = msgspec.convert(one, PolicyTable)
    except msgspec.ValidationError as error:
        raise PolicyError(f"{where}: {error}") from None
    if table.tool is UNSET and table.effect is UNSET:
        raise PolicyError(f"{where}: it needs `tool` or `effect`, to say which calls it is about")
    for condition in table.when:
        wrong = _impossible(condition)
        if wrong:
            raise PolicyError(f"{where}: when {condition.field!r:.100}: {wrong}")
    return table


def _impossible(condition: Condition) -> str:
    """Why a condition could never hold, or asks nothing; "" where it is sound."""
    asked = {name: getattr(condition, name) for name in _OPERATORS if getattr(condition, name) is not UNSET}
    if not asked:
        return f"no operator; use one of {', '.join(_OPERATORS)}"
    if not condition.field.replace("[]", "").replace(".", "") or ".." in condition.field:
        return "it is no path; write `amount`, `address.country` or `items[].price`"
    if "missing" in asked and len(asked) > 1:
        return "`missing` stands alone"
    values = [*asked.get("one_of", ()), *(value for name, value in asked.items() if name != "one_of")]
    if any(isinstance(value, float) and not _is_finite(value) for value in values):
        return "a number has to be finite"
    low = max((Decimal(str(asked[name])) for name in ("above", "at_least") if name in asked), default=None)
    high = min((Decimal(str(asked[name])) for name in ("below", "at_most") if name in asked), default=None)
    if (
        low is not None
        and high is not None
        and (low > high or (low == high and ("above" in asked or "below" in asked)))
    ):
        return f"no number is above {low} and below {high}"
    return ""


def _is_finite(value: float) -> bool:
    return value - value == 0


_OPERATORS = tuple(name for name in Condition.__struct_fields__ if name != "field")


def _words_of(condition: Condition) -> Iterator[str]:
    for name in _OPERATORS:
        value = getattr(condition, name)
        if name == "missing" and value is not UNSET:
            yield "is missing" if value else "is given"
        elif value is not UNSET:
            yield f"{name.replace('_', ' ')} {value}"


def _holds(condition: Condition, arguments: Mapping[str, Any]) -> bool:
    values = [value for value in _at(arguments, condition.field.split(".")) if value is not None]
    if condition.missing is not UNSET:
        return condition.missing is not bool(values)
    if not values:
        return condition.equals is None or (condition.one_of is not UNSET and None in condition.one_of)
    return any(_fits(condition, value) for value in values)


_UNREADABLE = object()
"""What stands where a path wants an object or a list and there is something else."""


def _at(value: Any, path: Sequence[str]) -> Iterator[Any]:
    """The values at a path; `[]` behind a name stands for every one of a list."""
    if not path:
        yield value
        return
    name, lists = path[0].rstrip("[]"), path[0].count("[]")
    if value is None or value is _UNREADABLE:
        yield value
        return
    inner = [value.get(name) if isinstance(value, Mapping) else _UNREADABLE] if name else [value]
    for _ in range(lists):
        inner = [item for one in inner if one is not None for item in (one if isinstance(one, list) else [_UNREADABLE])]
    for one in inner:
        yield from _at(one, path[1:])


def _fits(condition: Condition, value: Any) -> bool:
    asked = ((name, getattr(condition, name)) for name in _TESTS)
    return all(wanted is UNSET or _TESTS[name](value, wanted) for name, wanted in asked)


def _compares(holds: Callable[[Decimal, Decimal], bool]) -> Callable[[Any, Any], bool]:
    def test(value: Any, wanted: Any) -> bool:
        number = _number(value)
        return number is None or holds(number, Decimal(str(wanted)))

    return test


def _begins(value: Any, wanted: str) -> bool:
    return not isinstance(value, str) or value.strip().casefold().startswith(wanted.strip().casefold())


def _ends(value: Any, wanted: str) -> bool:
    return not isinstance(value, str) or value.strip().casefold().endswith(wanted.strip().casefold())


def _is_one_of(value: Any, wanted: Sequence[Any]) -> bool:
    return any(_same(value, one) for one in wanted)


def _number(value: Any) -> Decimal | None:
    """A JSON value as a number, texts that are one included (a tool's Decimal is a text); None: it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = Decimal(str(value).strip())
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _same(value: Any, wanted: Any) -> bool:
    if value is _UNREADABLE or isinstance(value, list | Mapping):
        return True  # a whole list where one value is asked about: nobody can say that it is another one
    if isinstance(value, bool) or isinstance(wanted, bool) or not isinstance(wanted, int | float):
        return type(value) is type(wanted) and value == wanted
    number = _number(value)
    return number is not None and number == Decimal(str(wanted))


_TESTS: Mapping[str, Callable[[Any, Any], bool]] = {
    "above": _compares(operator.gt),
    "below": _compares(operator.lt),
    "at_least": _compares(operator.ge),
    "at_most": _compares(operator.le),
    "equals": _same,
    "one_of": _is_one_of,
    "prefix": _begins,
    "suffix": _ends,
}
"""What each operator asks of a value that is there."""
