"""The retail tools as a good service has them: an effect once for each key, whatever happens to whoever asks.

A `Shop` is where they work: one in memory (below), or one in PostgreSQL (`retail_sql.py`). A key that comes again gets
the answer of the first time. A careless shop does not look at keys: what then happens twice has to be noticed.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

from callboard.actors.agent.tool import Tool
from callboard.evals.retail_desk import RetailDesk, Tables
from callboard.evals.retail_tools import EFFECTS, declared_tools, functions_of


class Shop(Protocol):
    """Where the tools of one run work."""

    async def call(self, name: str, arguments: Mapping[str, Any], key: str) -> dict[str, Any]:
        """What a tool answers. `key`: of a call with an effect; reads have ""."""
        ...


class MemoryShop:
    """A desk in memory with a book of keys."""

    def __init__(self, desk: RetailDesk, *, careless: bool = False) -> None:
        self._desk = desk
        self._functions = functions_of(desk)
        self._careless = careless
        self._answers: dict[str, dict[str, Any]] = {}
        self.keys: list[str] = []
        """Of each effect, in order; one that is there twice was made twice."""

    async def call(self, name: str, arguments: Mapping[str, Any], key: str) -> dict[str, Any]:
        """See `Shop.call`."""
        if name not in EFFECTS:
            return await self._answer(name, arguments)
        if key in self._answers and not self._careless:
            return self._answers[key]
        self.keys.append(key)
        self._answers[key] = await self._answer(name, arguments)
        return self._answers[key]

    def tables(self) -> Tables:
        """What it holds now."""
        return self._desk.tables()

    async def _answer(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = await self._functions[name](**arguments)
        return answer


def keyed_tools(shop: Shop) -> tuple[Tool, ...]:
    """The sixteen tools, at work in this shop."""
    return tuple(_writing(shop, one) if one.side_effect else _reading(shop, one) for one in declared_tools())


def _writing(shop: Shop, one: Tool) -> Tool:
    async def write(*, idempotency_key: str, **arguments: Any) -> dict[str, Any]:
        return await shop.call(one.name, arguments, idempotency_key)

    return replace(one, function=write, takes_key=True, on_doubt="retry")


def _reading(shop: Shop, one: Tool) -> Tool:
    async def read(**arguments: Any) -> dict[str, Any]:
        return await shop.call(one.name, arguments, "")

    return replace(one, function=read)
