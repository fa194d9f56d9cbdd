"""Which code a run works with: what it began with is in `RunStarted`, and a change is in the journal once (W-41). Pure.

A run may outlive the program that began it. It goes on with the tools that are there; what changed is said by
`ToolsChanged` at the first iteration under them, so that whoever reads the journal knows which code made which call.
"""

from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version

from .events import ToolsChanged, ToolVersion
from .rules import Rules
from .tool import Tool
from .version import code_version


def versions_of(tools: Mapping[str, Tool]) -> dict[str, str]:
    """The tools' versions by name."""
    return {name: tool.version for name, tool in tools.items()}


def code_of(prompt_hash: str, tools: Mapping[str, Tool], rules: Rules) -> str:
    """The version of the program, as its runs record it: what the desk says, or a digest of what they are made of."""
    if rules.code_version:
        return rules.code_version[:200]
    return code_version(prompt_hash, [f"{name}@{tool.version}" for name, tool in tools.items()], _release())


def retooled(before: dict[str, str] | None, tools: Mapping[str, Tool], code: str) -> ToolsChanged | None:
    """What became of the tools since `before`; None where nothing did, or nobody knows what they were."""
    now = versions_of(tools)
    if before is None or before == now:
        return None
    return ToolsChanged(
        added=[ToolVersion(name, now[name]) for name in now if name not in before],
        removed=[ToolVersion(name, before[name]) for name in before if name not in now],
        changed=[ToolVersion(name, now[name]) for name in now if name in before and before[name] != now[name]],
        code_version=code,
    )


@lru_cache
def _release() -> str:
    """Callboard's own version; "" where it runs from a checkout that nobody installed."""
    try:
        return version("callboard")
    except PackageNotFoundError:
        return ""
