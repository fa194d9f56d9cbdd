"""`callboard.toml` of the working directory: what runs may spend, what is guarded, who approves what, what models cost.

    [budget]                       # of new runs: `callboard submit`, `callboard run`
    max_iterations = 50
    max_tokens = 150000
    max_duration_ms = 300000       # or max_duration_seconds
    max_cost_usd = "2.50"
    max_tool_calls = 100

    [guardrails]
    profile = "standard"
    caps = { "issue_refund.amount_cents" = 50000 }

    [[policy]]
    tool = "issue_refund"
    needed = 2

    [model]
    spec = "ollama:qwen3"
    [model.prices.models."gpt-4o-mini"]
    input = 0.15
    output = 0.60

    [classifier]
    use = "rules"                  # or "off"

The whole file is read and checked at once, so that a mistake is one sentence that names the file and the key, and not a
run that behaves oddly. How this program itself runs (tables `database`, `daemon`, `log` and `terminal`) is in
`settings`, not here.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from ..actors.agent.budget import Budget
from ..actors.agent.configured import budget_from, configured, known_keys, table_at
from ..actors.llm.prices import prices_from
from ..mailbox.errors import CallboardError, SettingError
from .setting_sources import FILE, RULE_TABLES, configuration_path, read_toml


class Configuration(msgspec.Struct, frozen=True):
    """What a file says."""

    budget: Budget | None = None
    """Of new runs; None: the file does not say."""
    tables: dict[str, Any] = {}
    """`guardrails`, `policy`, `model` and `classifier`, checked, as applications get them in their surroundings."""
    path: str = ""
    """"": there is no file."""


def read_configuration(path: Path | None = None) -> Configuration:
    """The file at `path`, the one that CALLBOARD_CONFIG names, or `callboard.toml` of the working directory; nothing
    where there is none of that name.

    Raises:
        SettingError: naming the file, the key, and what it may be.
    """
    path = path or configuration_path(os.environ)
    document, where = read_toml(path)
    if path is None and not Path(FILE).exists():
        return Configuration()
    try:
        return _read(document, where)
    except CallboardError as error:
        raise SettingError(f"{where}: {error}") from error


def _read(document: Mapping[str, Any], path: str) -> Configuration:
    budget = budget_from(table_at(document["budget"], "budget")) if "budget" in document else None
    tables = {key: document[key] for key in RULE_TABLES if key in document and key != "budget"}
    configured(tables)
    model = table_at(tables.get("model", {}), "model")
    known_keys(model, "model", ("spec", "prices"))
    if not isinstance(model.get("spec", ""), str):
        raise SettingError(f"model.spec: expected a text such as 'ollama:qwen3', got {model['spec']!r:.80}")
    prices_from(table_at(model.get("prices", {}), "model.prices"))
    return Configuration(budget, tables, path)
