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
run that behaves oddly. How this program itself runs (database, nodes, logs) is in `settings`, not here.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from ..actors.agent.budget import Budget
from ..actors.agent.configured import budget_from, configured, known_keys, table_at
from ..actors.llm.prices import prices_from
from ..mailbox.errors import CallboardError, SettingError

FILE = "callboard.toml"
TABLES = ("budget", "guardrails", "policy", "model", "classifier")


class Configuration(msgspec.Struct, frozen=True):
    """What a file says."""

    budget: Budget | None = None
    """Of new runs; None: the file does not say."""
    tables: dict[str, Any] = {}
    """`guardrails`, `policy`, `model` and `classifier`, checked, as applications get them in their surroundings."""
    path: str = ""
    """"": there is no file."""


def read_configuration(path: Path | None = None) -> Configuration:
    """The file at `path`, or `callboard.toml` of the working directory; nothing where there is none of that name.

    Raises:
        SettingError: naming the file, the key, and what it may be.
    """
    file = path or Path(FILE)
    try:
        text = file.read_bytes().decode()
    except FileNotFoundError:
        if path is None:
            return Configuration()
        raise SettingError(f"{file}: there is no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(f"{file}: cannot be read: {error}") from None
    try:
        return _read(tomllib.loads(text), str(file))
    except tomllib.TOMLDecodeError as error:
        raise SettingError(f"{file}: is not TOML: {error}") from None
    except CallboardError as error:
        raise SettingError(f"{file}: {error}") from error


def _read(document: Mapping[str, Any], path: str) -> Configuration:
    for key in document:
        if key not in TABLES:
            raise SettingError(f"{key}: there is no such table; there are {', '.join(TABLES)}")
    budget = budget_from(table_at(document["budget"], "budget")) if "budget" in document else None
    tables = {key: document[key] for key in TABLES if key in document and key != "budget"}
    configured(tables)
    model = table_at(tables.get("model", {}), "model")
    known_keys(model, "model", ("spec", "prices"))
    if not isinstance(model.get("spec", ""), str):
        raise SettingError(f"model.spec: expected a text such as 'ollama:qwen3', got {model['spec']!r:.80}")
    prices_from(table_at(model.get("prices", {}), "model.prices"))
    return Configuration(budget, tables, path)
