"""A whole run over real HTTP: the model asks for a tool, the tool works, the model tells its result."""

from decimal import Decimal

import pytest

from callboard import InMemoryStore, Runtime, tool

from .protocols import SIGNATURE
from .providers import PROVIDERS, client
from .stub import Stub

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_da172_a_run_calls_a_tool_through_a_real_client(stub: Stub, provider: str) -> None:
    sums: list[tuple[int, int]] = []

    @tool
    async def add(a: int, b: int) -> dict[str, int]:
        """Add two whole numbers."""
        sums.append((a, b))
        return {"sum": a + b}

    async with client(provider, stub, "sum") as llm, Runtime(InMemoryStore(), llm, [add]) as runtime:
        run = await runtime.start("Add 47 and 89.")
    assert (run.state.status, run.state.final_answer, sums) == ("completed", "The sum is 136.", [(47, 89)])
    assert len(stub.asked) == 2
    assert run.state.total_tokens == 2 * 1_080
    assert run.state.total_cost_usd == (0 if provider == "ollama" else Decimal("0.0032"))
    if provider == "google":  # through journal and transcript, and back
        assert stub.last.body["contents"][1]["parts"][0]["thoughtSignature"] == SIGNATURE
