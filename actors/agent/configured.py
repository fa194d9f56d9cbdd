"""Rules as data: what the tables `guardrails`, `policy` and `classifier` of a `callboard.toml` mean for a desk's runs.

Neighbours: `service.configuration` reads the file and says where in it a mistake is; an application's `open` gets the
tables in its surroundings and calls `configured`. Each table is read by who knows it: profiles, policies, budgets.
"""

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from ...mailbox.errors import SettingError, UsageError
from ..guard.profiles import get_profile, profile_of
from .budget import Budget, check
from .classifier import RuleClassifier
from .policy_data import policies_from
from .rules import NO_RULES, Rules

NO_LIMIT = "none"
"""What stands for "no limit" where TOML has no null."""

_Count = Annotated[int, Meta(ge=0)]
_Amount = Annotated[float, Meta(ge=0)]
_LIMITS: Mapping[str, tuple[Any, str]] = {
    "max_iterations": (_Count, "a whole number above 0"),
    "max_tokens": (_Count, "a whole number above 0"),
    "max_duration_seconds": (_Amount, "seconds above 0"),
    "max_duration_ms": (_Amount, "milliseconds above 0"),
    "max_cost_usd": (_Amount | str, 'US dollars, 0 or more, such as 1.5 or "1.50"'),
    "max_tool_calls": (_Count, "a whole number, 0 or more"),
}


def known_keys(table: Mapping[str, Any], where: str, keys: tuple[str, ...]) -> None:
    """Refuse keys that mean nothing.

    Raises:
        SettingError: naming the key, and those that there are.
    """
    for key in table:
        if key not in keys:
            raise SettingError(f"{where}.{key}: there is no such key; {where} has {', '.join(keys)}")


def table_at(value: object, where: str) -> Mapping[str, Any]:
    """
    Raises:
        SettingError: it is no table.
    """
    if not isinstance(value, Mapping):
        raise SettingError(f"{where}: expected a table, got {value!r:.80}")
    return value


def budget_from(table: Mapping[str, Any], where: str = "budget", base: Budget | None = None) -> Budget:
    """A budget; what the table does not say is as in `base` (the defaults of `Budget`).

    Raises:
        SettingError: naming the key, and what it may be.
    """
    known_keys(table, where, tuple(_LIMITS))
    if "max_duration_ms" in table and "max_duration_seconds" in table:
        raise SettingError(f"{where}.max_duration_ms: max_duration_seconds is given too; give one of them")
    found = base or Budget()
    for key, given in table.items():
        hint, expected = _LIMITS[key]
        name = "max_duration_seconds" if key == "max_duration_ms" else key
        try:
            found = msgspec.structs.replace(found, **{name: _limit(key, given, hint)})
            check(found)
        except (ArithmeticError, UsageError, msgspec.ValidationError) as error:
            raise SettingError(f'{where}.{key}: expected {expected}, or "none", got {given!r:.80}') from error
    return found


def _limit(key: str, given: object, hint: Any) -> Any:
    if given == NO_LIMIT:
        return None
    value = msgspec.convert(given, hint)
    if key == "max_cost_usd":
        return Decimal(str(given))
    return value / 1000 if key == "max_duration_ms" else value


def configured(tables: Mapping[str, Any], rules: Rules = NO_RULES) -> Rules:
    """`rules`, with what the tables say instead or, for policies, besides.

    Raises:
        SettingError, PolicyError, UnknownProfile, BadProfile: naming the table or the key.
    """
    if "guardrails" in tables:
        rules = _guarded(table_at(tables["guardrails"], "guardrails"), rules)
    if "policy" in tables:
        rules = replace(rules, policies=(*rules.policies, *policies_from(tables["policy"])))
    if "classifier" in tables:
        rules = _classified(table_at(tables["classifier"], "classifier"), rules)
    return rules


def _guarded(table: Mapping[str, Any], rules: Rules) -> Rules:
    rest = dict(table)
    base = get_profile(rest.pop("profile", None) or rules.guardrail, rules.guardrails)
    made = profile_of(rest, base=base) if rest else base
    return replace(rules, guardrail=made.name, guardrails={**rules.guardrails, made.name: made})


def _classified(table: Mapping[str, Any], rules: Rules) -> Rules:
    known_keys(table, "classifier", ("use", "normal_from", "complex_from", "simple", "normal"))
    use = table.get("use", "rules")
    if use not in ("rules", "off"):
        raise SettingError(f"classifier.use: expected 'rules' or 'off', got {use!r:.80}")
    if use == "off":
        return replace(rules, classifier=None)
    base = rules.classifier if isinstance(rules.classifier, RuleClassifier) else RuleClassifier()
    changed: dict[str, Any] = {}
    for key in ("normal_from", "complex_from"):
        if key in table:
            try:
                changed[key] = msgspec.convert(table[key], float)
            except msgspec.ValidationError:
                raise SettingError(f"classifier.{key}: expected a number, got {table[key]!r:.80}") from None
    for key, own in (("simple", base.simple), ("normal", base.normal)):
        if key in table:
            where = f"classifier.{key}"
            changed[key] = budget_from(table_at(table[key], where), where, own)
    return replace(rules, classifier=replace(base, **changed))
