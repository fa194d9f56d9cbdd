"""A real server answers, streams, and has a tool called: 47 + 89 through a runtime.

    LLM_API_KEY (or LLM_BASE_URL), LLM_MODEL      any OpenAI-compatible server
    OLLAMA_HOST, OLLAMA_MODEL                     Ollama
    GOOGLE_API_KEY, GOOGLE_MODEL                  Gemini

These cost a few hundred tokens each.
"""

import os
from collections.abc import AsyncIterator

import pytest

from callboard import InMemoryStore, Runtime, tool
from callboard.actors.llm.choice import client_from
from callboard.actors.llm.client import ChatMessage
from callboard.actors.llm.wire import HttpModel

pytestmark = [pytest.mark.live, pytest.mark.anyio]

# name -> (what must be set, the model where none is named)
SERVERS = {
    "openai": (("LLM_API_KEY", "LLM_BASE_URL"), "LLM_MODEL", "gpt-4o-mini"),
    "ollama": (("OLLAMA_HOST",), "OLLAMA_MODEL", "qwen3"),
    "google": (("GOOGLE_API_KEY",), "GOOGLE_MODEL", "gemini-2.5-flash"),
}


@pytest.fixture(params=SERVERS)
async def llm(request: pytest.FixtureRequest) -> AsyncIterator[HttpModel]:
    needed, variable, default = SERVERS[request.param]
    if not any(os.environ.get(name) for name in needed):
        pytest.skip(f"set {' or '.join(needed)} to ask a real server")
    made = client_from(f"{request.param}:{os.environ.get(variable) or default}", environ=os.environ)
    assert isinstance(made, HttpModel)
    async with made:
        yield made


async def test_live_a_model_answers_whole_and_in_pieces(llm: HttpModel) -> None:
    question = [ChatMessage("user", "Say the word ready, and nothing else.")]
    whole = await llm.call(question, [])
    heard: list[str] = []
    streamed = await llm.stream(question, [], "", heard.append)
    assert "ready" in whole.content.lower()
    assert "".join(heard) == streamed.content
    assert whole.input_tokens > 0 and whole.output_tokens > 0
    assert streamed.input_tokens > 0 and streamed.output_tokens > 0


async def test_live_a_tool_is_called_and_its_result_is_told(llm: HttpModel) -> None:
    sums: list[tuple[int, int]] = []

    @tool
    async def add(a: int, b: int) -> dict[str, int]:
        """Add two whole numbers."""
        sums.append((a, b))
        return {"sum": a + b}

    async with Runtime(InMemoryStore(), llm, [add]) as runtime:
        run = await runtime.start("Use the tool to add 47 and 89, and tell me the sum.")
    assert run.state.status == "completed", run.state
    assert sorted(sums[0]) == [47, 89]
    assert "136" in (run.state.final_answer or "")
