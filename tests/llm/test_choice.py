"""A model by its name in a command line or the environment."""

import pytest

from callboard.actors.llm.choice import client_from
from callboard.actors.llm.errors import BadClientSettings
from callboard.actors.llm.prices import prices_from
from callboard.actors.llm.wire import HttpModel

KEY = {"LLM_API_KEY": "k-123456"}


@pytest.mark.parametrize(
    ("spec", "environ", "shown"),
    [
        ("openai:gpt-4o-mini", KEY, "OpenAICompatibleClient('https://api.openai.com/v1', 'gpt-4o-mini')"),
        ("openai:m", {"LLM_BASE_URL": "http://host:8000/v1/"}, "OpenAICompatibleClient('http://host:8000/v1', 'm')"),
        ("openai+http://host:8000/v1:qwen3:8b", {}, "OpenAICompatibleClient('http://host:8000/v1', 'qwen3:8b')"),
        ("openai+https://host/a/v1:org/m", KEY, "OpenAICompatibleClient('https://host/a/v1', 'org/m')"),
        ("ollama:qwen3:8b", {}, "OllamaClient('qwen3:8b')"),
        ("ollama:m", {"OLLAMA_HOST": "http://host:1"}, "OllamaClient('m', 'http://host:1')"),
        ("google:gemini-x", {"GOOGLE_API_KEY": "g-123456"}, "GoogleClient('gemini-x')"),
        ("", {"LLM_MODEL": "google:gemini-x", "GOOGLE_API_KEY": "g"}, "GoogleClient('gemini-x')"),
        (
            " ",
            {"LLM_MODEL": "llama3:8b", "LLM_BASE_URL": "http://h/v1"},
            "OpenAICompatibleClient('http://h/v1', 'llama3:8b')",
        ),
    ],
)
def test_a_client_is_made_from_its_name(spec: str, environ: dict[str, str], shown: str) -> None:
    assert repr(client_from(spec, environ=environ)) == shown


@pytest.mark.parametrize(
    ("spec", "environ", "complaint"),
    [
        ("openai:m", {}, "LLM_API_KEY"),
        ("google:m", {}, "GOOGLE_API_KEY"),
        ("", {}, "LLM_MODEL"),
        ("openai:", KEY, "names no model"),
        ("ollama: ", {}, "names no model"),
        ("mistral:m", {}, "no provider is called 'mistral'"),
        ("openai+http://host:8000", {}, "ends with a path and the model"),
        ("openai+http://host/v1", {}, "ends with a path and the model"),
        ("openai+http:///v1:m", {}, "ends with a path and the model"),
    ],
)
def test_what_is_missing_is_named(spec: str, environ: dict[str, str], complaint: str) -> None:
    with pytest.raises(BadClientSettings, match=complaint):
        client_from(spec, environ=environ)


def test_prices_go_to_the_client_by_the_models_name() -> None:
    prices = prices_from({"models": {"m": {"input": 1}}})
    priced = client_from("openai:m", environ=KEY, prices=prices)
    free = client_from("openai:n", environ=KEY, prices=prices)
    assert isinstance(priced, HttpModel) and isinstance(free, HttpModel)
    assert priced.price.input == 1
    assert free.price.input == 0
