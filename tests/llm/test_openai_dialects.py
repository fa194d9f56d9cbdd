"""What servers that call themselves compatible do differently, and the client takes all the same."""

import json
from typing import Any

import httpx
import pytest

from callboard.actors.llm.client import LLMResponse, PermanentModelError, TransientModelError
from callboard.actors.llm.openai import OpenAICompatibleClient

from .providers import QUESTION

pytestmark = pytest.mark.anyio

SSE = "text/event-stream; charset=utf-8"


def delta(*calls: dict[str, Any], finish: str | None = None, **fields: Any) -> str:
    body = {"choices": [{"delta": {"tool_calls": list(calls), **fields}, "finish_reason": finish}]}
    return f"data: {json.dumps(body)}\n\n"


def part(arguments: object = "", id: str = "", name: str = "", **fields: Any) -> dict[str, Any]:
    return {"id": id, "function": {"name": name, "arguments": arguments}, **fields}


async def ask(body: str, kind: str = SSE, *, stream: bool = True, status: int = 200) -> LLMResponse:
    transport = httpx.MockTransport(lambda _: httpx.Response(status, text=body, headers={"content-type": kind}))
    async with OpenAICompatibleClient("http://models.example/v1", "m", transport=transport) as llm:
        return await (llm.stream(QUESTION, [], "", lambda _: None) if stream else llm.call(QUESTION, []))


@pytest.mark.parametrize(
    "deltas",
    [
        # parts without an index belong to the call before them
        [part('{"x":', "a", "look"), part(" 1}"), part('{"x": 2}', "b", "look")],
        # every call under the same index
        [part('{"x": 1}', "a", "look", index=0), part('{"x": 2}', "b", "look", index=0)],
        # the id in every part, and interleaved
        [
            part('{"x":', "a", "look", index=0),
            part('{"x":', "b", "look", index=1),
            part(" 1}", "a", index=0),
            part(" 2}", "b", index=1),
        ],
        # arguments as objects
        [part({"x": 1}, "a", "look", index=0), part({"x": 2}, "b", "look", index=1)],
    ],
)
async def test_calls_are_put_together_from_odd_parts(deltas: list[dict[str, Any]]) -> None:
    said = await ask("".join(delta(each) for each in deltas) + delta(finish="stop"))
    assert [(call.id, call.name, call.arguments) for call in said.tool_calls] == [
        ("a", "look", {"x": 1}),
        ("b", "look", {"x": 2}),
    ]
    assert said.stop_reason == "tool_use"


async def test_a_server_that_does_not_stream_is_read_whole() -> None:
    body = {"choices": [{"message": {"content": [{"type": "text", "text": "Hi"}, {"type": "x"}]}}]}
    said = await ask(json.dumps(body), "application/json")
    assert (said.content, said.stop_reason) == ("Hi", "end_turn")


async def test_a_refusal_is_what_the_model_said() -> None:
    message = {"content": None, "refusal": "I will not."}
    whole = await ask(json.dumps({"choices": [{"message": message}]}), "application/json", stream=False)
    streamed = await ask(delta(refusal="I will not.") + "data: [DONE]\n\n")
    assert whole.content == streamed.content == "I will not."


async def test_crlf_comments_and_fields_between_events_are_skipped() -> None:
    body = "event: x\r\nid: 1\r\n" + delta(content="Hi").replace("\n", "\r\n") + ": ping\r\n\r\n" + delta(finish="stop")
    assert (await ask(body)).content == "Hi"


async def test_a_last_event_without_its_blank_line_counts() -> None:
    assert (await ask(delta(content="Hi") + delta(finish="stop").rstrip())).content == "Hi"


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"prompt_tokens": -5, "completion_tokens": 7}, (0, 7)),
        ({"prompt_tokens": "5", "completion_tokens": None}, (0, 0)),
        ({"prompt_tokens": 5.0, "completion_tokens": 1e300}, (5, 0)),
        ("many", (0, 0)),
    ],
)
async def test_usage_that_is_none_is_no_tokens(usage: object, tokens: tuple[int, int]) -> None:
    body = {"choices": [{"message": {"content": "Hi"}}], "usage": usage}
    said = await ask(json.dumps(body), "application/json", stream=False)
    assert (said.input_tokens, said.output_tokens) == tokens


@pytest.mark.parametrize(
    "body",
    ['{"choices": []}', '{"choices": null}', "{}", "[" * 100_000, '{"choices": 5}', "null", ""],
)
async def test_json_that_is_no_answer_is_asked_for_again(body: str) -> None:
    with pytest.raises(TransientModelError, match="cannot be read") as caught:
        await ask(body, "application/json", stream=False)
    assert caught.value.kind == "timeout"


@pytest.mark.parametrize("choice", ["{}", '{"message": 5}', '{"message": {"tool_calls": [5, {"function": 3}]}}'])
async def test_an_answer_of_odd_parts_is_taken_for_what_it_holds(choice: str) -> None:
    said = await ask(f'{{"choices": [{choice}]}}', "application/json", stream=False)
    assert said.content == ""
    assert [call.name for call in said.tool_calls] == ([""] if "function" in choice else [])


async def test_an_error_event_with_a_code_is_classed_by_it() -> None:
    for code, kind, wanted in ((429, TransientModelError, "rate_limit"), (402, PermanentModelError, "quota")):
        event = f"data: {json.dumps({'error': {'code': code, 'message': 'no'}})}\n\n"
        with pytest.raises(kind) as caught:
            await ask(delta(content="Hi") + event)
        assert caught.value.kind == wanted


async def test_no_content_is_no_answer() -> None:
    with pytest.raises(PermanentModelError, match="HTTP 204"):
        await ask("", status=204)
