"""A plan: which tools a run is meant to use, fixed before it has read a word from outside.

Whatever the conversation says later, a call beyond the plan needs a person.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

MAX_TOOLS = 256


class Plan(msgspec.Struct, frozen=True):
    """Tools that may be called without asking."""

    tools: dict[str, int]
    """name → at most so many calls; 0: any number"""

    @classmethod
    def of(cls, tools: "Plan | Mapping[str, int] | Iterable[str]") -> "Plan":
        """A plan from names, or from names with counts.

        Raises:
            ValueError: a negative count, or more than 256 tools.
        """
        if isinstance(tools, Plan):
            return tools
        made = dict(tools) if isinstance(tools, Mapping) else dict.fromkeys(tools, 0)
        if len(made) > MAX_TOOLS or any(count < 0 for count in made.values()):
            raise ValueError(f"a plan names at most {MAX_TOOLS} tools, each with a count from 0 on")
        return cls(made)


Planner = Callable[[str, Sequence[str]], Plan | Iterable[str] | None]
"""Of a goal and the names of the tools there are; pure. None: no plan for this goal."""
