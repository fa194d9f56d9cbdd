"""The models that need no network, and the values that all clients share."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from callboard.actors.llm.client import ChatMessage, LLMClient, LLMResponse, ToolCall, ToolSpec
from callboard.actors.llm.scripted import FunctionLLM, ScriptedLLM

USER = (ChatMessage(role="user", content="hello"),)
TOOLS = (ToolSpec("look", "", {"type": "object"}),)


@pytest.mark.anyio
async def test_a_script_is_played_in_order() -> None:
    llm = ScriptedLLM(
        [
            Exception("429 Too Many Requests"),
            LLMResponse("one"),
            lambda messages: LLMResponse(messages[-1].content),
            TimeoutError,
        ]
    )
    with pytest.raises(Exception, match="429"):
        await llm.call(USER, TOOLS, "be kind")
    assert (llm.call_count, llm.last_system_prompt, llm.last_messages, llm.last_tools) == (1, "be kind", USER, TOOLS)
    assert (await llm.call(USER, ())).content == "one"
    assert (await llm.call(USER, ())).content == "hello"
    with pytest.raises(TimeoutError):
        await llm.call(USER, ())
    with pytest.raises(IndexError, match="4 responses and this is call 5"):
        await llm.call(USER, ())
    assert llm.call_count == 5
    assert llm.last_system_prompt == ""


def test_a_script_with_something_else_in_it_is_refused() -> None:
    for wrong in ("hello", dict, {"content": "x"}):
        with pytest.raises(TypeError, match="response 1"):
            ScriptedLLM([LLMResponse(), wrong])  # type: ignore[list-item]


@pytest.mark.anyio
async def test_a_function_answers_blocking_or_async() -> None:
    def answer(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system_prompt: str) -> LLMResponse:
        return LLMResponse(f"{messages[-1].content} {tools[0].name} {system_prompt}")

    async def answer_later(*asked: Any) -> LLMResponse:
        return answer(*asked)

    for llm in (FunctionLLM(answer), FunctionLLM(answer_later)):
        assert (await llm.call(USER, TOOLS, "now")).content == "hello look now"
        assert llm.call_count == 1
    with pytest.raises(TypeError, match="str where an LLMResponse is due"):
        await FunctionLLM(lambda *_: "text").call(USER, ())  # type: ignore[arg-type]


@pytest.mark.anyio
async def test_a_client_of_ones_own_is_one_method() -> None:
    class Mine(LLMClient):
        async def call(self, messages: Any, tools: Any, system_prompt: str = "") -> LLMResponse:
            return LLMResponse(
                content=None,
                tool_calls=[{"id": "1", "name": "look", "arguments": {"x": 1}}, ToolCall("2", "look", {})],
                stop_reason="tool_use",
                input_tokens=3,
                output_tokens=4,
                cost_usd=0.002,
                latency_ms=5,
                provider_request_id="r",
            )

    response = await Mine().call(USER, ())
    assert response.tool_calls == (ToolCall("1", "look", {"x": 1}), ToolCall("2", "look", {}))
    assert (response.content, response.cost_usd) == ("", Decimal("0.002"))
    assert msgspec.json.decode(msgspec.json.encode(response), type=LLMResponse) == response


@pytest.mark.parametrize(
    "wrong",
    [
        {"input_tokens": -1},
        {"output_tokens": 1.5},
        {"cost_usd": -1},
        {"cost_usd": float("nan")},
        {"cost_usd": "free"},
        {"tool_calls": ["look"]},
        {"tool_calls": [{"id": "1"}]},
    ],
)
def test_a_response_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong)).removesuffix("s").replace("_call", ".call")):
        LLMResponse(**wrong)


@pytest.mark.parametrize(
    ("wire", "arguments", "problem"),
    [
        ('{"x": 1}', {"x": 1}, ""),
        ({"x": 1}, {"x": 1}, ""),
        ("", {}, ""),
        (None, {}, ""),
        ('{"x": ', {}, "not valid JSON"),
        ('{"x": NaN}', {}, "NaN is not a JSON value"),
        ("[1]", {}, "must be a JSON object, not an array"),
        ("null", {}, "must be a JSON object, not null"),
        (5, {}, "must be a JSON object, not a number"),
        ("[" * 100_000, {}, "not valid JSON"),
        ('{"x": ' + "1" * 5_000 + "}", {}, "not valid JSON"),
        (" " * 2_000_000, {}, "2000000 characters"),
    ],
)
def test_w16_malformed_arguments_become_a_problem_for_the_model(wire: object, arguments: Any, problem: str) -> None:
    call = ToolCall.from_wire("1", "look", wire, opaque="sig")
    assert (call.id, call.name, call.arguments, call.opaque) == ("1", "look", arguments, "sig")
    assert problem in call.problem
    assert bool(problem) == bool(call.problem)
    assert LLMResponse(tool_calls=[{"name": "look", "arguments": wire}]).tool_calls[0].problem == call.problem
