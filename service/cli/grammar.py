"""Groups of commands that are commands themselves: `mailbox` lists, `mailbox ADDRESS` looks, `mailbox show …` shows."""

from collections.abc import Iterator
from typing import Any

from typer.core import TyperGroup


def group_with(*, without: str, otherwise: str) -> type[TyperGroup]:
    """A group in which the command `without` is meant where no words are given but options ("": the group itself),
    and the command `otherwise` where the first word is no command."""

    class Group(TyperGroup):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            first = args[0] if args else ""
            if first not in self.commands and first not in ("--help", "-h"):
                words = [*_words(args)] if first.startswith("-") else args
                args = [*([otherwise] if words else [without] if without else []), *args]
            return super().parse_args(ctx, args)

    return Group


_FLAGS = frozenset({"--json", "--jsonl", "--watch", "-w", "--all", "--mine", "--decided", "--stuck"})
"""Options without a value; what follows another one is that."""


def _words(args: list[str]) -> Iterator[str]:
    """What is neither an option nor the value of one."""
    before = ""
    for one in args:
        is_value = before.startswith("-") and before not in _FLAGS and "=" not in before
        if not one.startswith("-") and not is_value:
            yield one
        before = one
