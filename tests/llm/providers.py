"""The three clients, each made for the stub, with one price and one conversation."""

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from callboard.actors.llm.client import ChatMessage, LLMResponse, ToolSpec
from callboard.actors.llm.google import GoogleClient
from callboard.actors.llm.ollama import OllamaClient
from callboard.actors.llm.openai import OpenAICompatibleClient
from callboard.actors.llm.prices import Price, Prices
from callboard.actors.llm.wire import HttpModel

from .scenarios import ANSWERS, REFUSALS
from .stub import Stub

KEY = 'sk-secret"key/0123456789'
PROVIDERS = ("openai", "ollama", "google")
PRICE = Price(Decimal(1), Decimal(10), Decimal("0.5"))


class _Every(dict[str, Price]):
    """A price list on which everything has the same price."""

    def get(self, key: str, default: object = None) -> Any:
        return PRICE


PRICES = Prices(_Every(), "test")
QUESTION = [ChatMessage("user", "Hello?")]
TOOLS = [
    ToolSpec("look", "Look it up.", {"type": "object", "properties": {"x": {"anyOf": [{"type": "integer"}]}}}),
    ToolSpec("add", "Add two numbers.", {"type": "object", "properties": {"a": {"type": "integer"}}}),
]


def client(provider: str, stub: Stub, model: str, **options: Any) -> HttpModel:
    options = {"timeout_seconds": 120} | options
    match provider:
        case "openai":
            return OpenAICompatibleClient(f"{stub.url}/v1", model, KEY, **{"prices": PRICES, **options})
        case "ollama":
            return OllamaClient(model, stub.url, headers={"authorization": f"Bearer {KEY}"}, **options)
    return GoogleClient(model, KEY, base_url=stub.url, **{"prices": PRICES, **options})


async def answer(
    made: HttpModel,
    stream: bool,
    messages: Sequence[ChatMessage] = QUESTION,
    on_text: Callable[[str], None] = lambda _: None,
) -> LLMResponse:
    """One answer, whole or in pieces; the connections are closed."""
    async with made:
        if stream:
            return await made.stream(messages, TOOLS, "Be brief.", on_text)
        return await made.call(messages, TOOLS, "Be brief.")


__all__ = ["ANSWERS", "KEY", "PRICE", "PROVIDERS", "QUESTION", "REFUSALS", "TOOLS", "answer", "client"]
