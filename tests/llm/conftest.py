"""The stub for every test of a client."""

from collections.abc import AsyncIterator

import pytest

from .stub import Stub, running_stub


@pytest.fixture
async def stub() -> AsyncIterator[Stub]:
    async with running_stub() as running:
        yield running


@pytest.fixture(params=[False, True], ids=["whole", "stream"])
def stream(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever stands in the environment: the loopback is reached directly, and no key is found by chance."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for name in ("OLLAMA_API_KEY", "OLLAMA_HOST", "GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"):
        monkeypatch.delenv(name, raising=False)
