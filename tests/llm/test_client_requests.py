"""What the clients send: addresses, keys, conversations, tools; and how often one client can be used."""

import asyncio
import queue
import threading
from typing import Any

import pytest

from callboard.actors.llm.client import ChatMessage, PermanentModelError, ToolCall
from callboard.actors.llm.errors import BadClientSettings
from callboard.actors.llm.google import GoogleClient
from callboard.actors.llm.ollama import OllamaClient
from callboard.actors.llm.openai import OpenAICompatibleClient
from callboard.actors.llm.pairing import paired

from .protocols import SIGNATURE
from .providers import KEY, PROVIDERS, QUESTION, TOOLS, answer, client
from .stub import Stub, running_stub

pytestmark = pytest.mark.anyio

# As a journal may hold it: repeated and empty ids, a made-up name, an answer out of order, a half character.
TALK = [
    ChatMessage("user", "Hello \ud83d"),
    ChatMessage("assistant", "", (ToolCall("x", "look", {"x": 1}, opaque=SIGNATURE), ToolCall("y", "go there!", {}))),
    ChatMessage("tool", '{"found": 1}', tool_name="look", tool_call_id="x"),
    ChatMessage("tool", "Error: no such tool", tool_name="go there!", tool_call_id="y"),
    ChatMessage("assistant", "Again.", (ToolCall("", "add", {"a": 1}), ToolCall("", "add", {"a": 2}))),
    ChatMessage("tool", "3", tool_name="add"),
    ChatMessage("tool", "4", tool_name="add"),
    ChatMessage("user", "Well?"),
]


async def test_da172_the_openai_request_is_what_the_protocol_says(stub: Stub) -> None:
    made = client("openai", stub, "ok", max_tokens=99, temperature=0.5, extra_body={"seed": 7})
    await answer(made, False, TALK)
    body = stub.last.body
    assert stub.last.path == "/v1/chat/completions"
    assert stub.last.headers["authorization"] == f"Bearer {KEY}"
    assert (body["model"], body["max_tokens"], body["temperature"], body["seed"]) == ("ok", 99, 0.5, 7)
    assert body["tools"][0] == {
        "type": "function",
        "function": {"name": "look", "description": "Look it up.", "parameters": TOOLS[0].parameters},
    }
    system, hello, asked, found, failed, again, three, four, well = body["messages"]
    assert system == {"role": "system", "content": "Be brief."}
    assert hello == {"role": "user", "content": "Hello ?"}
    assert asked["content"] is None
    assert [(call["id"], call["function"]) for call in asked["tool_calls"]] == [
        ("x", {"name": "look", "arguments": '{"x": 1}'}),
        ("y", {"name": "go_there_", "arguments": "{}"}),
    ]
    assert found == {"role": "tool", "tool_call_id": "x", "content": '{"found": 1}'}
    assert failed["tool_call_id"] == "y"
    ids = [call["id"] for call in again["tool_calls"]]
    assert all(ids) and len(set(ids)) == 2
    assert [three["tool_call_id"], four["tool_call_id"]] == ids
    assert well == {"role": "user", "content": "Well?"}


async def test_da172_a_stream_asks_for_its_usage(stub: Stub) -> None:
    await answer(client("openai", stub, "ok"), True)
    assert (stub.last.body["stream"], stub.last.body["stream_options"]) == (True, {"include_usage": True})


async def test_da172_slashes_queries_and_headers_of_the_user_are_kept(stub: Stub) -> None:
    headers = {"Api-Key": "of-azure-0123", "X-Title": "t"}
    made = OpenAICompatibleClient(f"{stub.url}/v1/?api-version=3", "ok", extra_headers=headers)
    await answer(made, False)
    assert stub.last.path == "/v1/chat/completions?api-version=3"
    assert (stub.last.headers["api-key"], stub.last.headers["x-title"]) == ("of-azure-0123", "t")
    assert "authorization" not in stub.last.headers
    assert "tools" not in (await _bare(OpenAICompatibleClient(f"{stub.url}/v1//", "ok"), stub))


async def _bare(made: OpenAICompatibleClient, stub: Stub) -> dict[str, Any]:
    async with made:
        await made.call(QUESTION, [])
    assert stub.last.path == "/v1/chat/completions"
    return stub.last.body


async def test_the_ollama_request_forbids_cutting_and_keeps_schemas_whole(stub: Stub) -> None:
    made = client("ollama", stub, "ok", num_ctx=4_096, options={"seed": 7}, keep_alive="5m", think=False)
    await answer(made, False, TALK)
    body = stub.last.body
    assert (body["truncate"], body["shift"], body["stream"]) == (False, False, False)
    assert (body["options"], body["keep_alive"], body["think"]) == ({"seed": 7, "num_ctx": 4_096}, "5m", False)
    assert body["tools"][0]["function"]["parameters"] == TOOLS[0].parameters
    assert body["messages"][2]["tool_calls"][0] == {"id": "x", "function": {"name": "look", "arguments": {"x": 1}}}
    assert body["messages"][3] == {
        "role": "tool", "content": '{"found": 1}', "tool_name": "look", "tool_call_id": "x",
    }  # fmt: skip
    assert body["messages"][1]["content"] == "Hello ?"


async def test_the_google_request_echoes_signatures_and_gathers_answers(stub: Stub) -> None:
    await answer(client("google", stub, "ok", max_tokens=99, temperature=0.5), False, TALK)
    body = stub.last.body
    assert stub.last.path == "/v1beta/models/ok:generateContent"
    assert stub.last.headers["x-goog-api-key"] == KEY
    assert body["systemInstruction"]["parts"] == [{"text": "Be brief."}]
    assert body["tools"][0]["functionDeclarations"][0]["parameters_json_schema"] == TOOLS[0].parameters
    assert (body["generationConfig"]["maxOutputTokens"], body["generationConfig"]["temperature"]) == (99, 0.5)
    roles = [content["role"] for content in body["contents"]]
    assert roles == ["user", "model", "user", "model", "user", "user"]
    asked, answered = body["contents"][1]["parts"], body["contents"][2]["parts"]
    assert asked[0]["thoughtSignature"] == SIGNATURE
    assert "thoughtSignature" not in asked[1]
    assert asked[0]["functionCall"] == {"id": "x", "name": "look", "args": {"x": 1}}
    assert answered[0]["functionResponse"] == {"id": "x", "name": "look", "response": {"found": 1}}
    assert answered[1]["functionResponse"]["response"] == {"error": "no such tool"}
    assert body["contents"][4]["parts"][1]["functionResponse"]["response"] == {"output": "4"}


async def test_a_signature_of_another_provider_stays_at_home(stub: Stub) -> None:
    talk = [*QUESTION, ChatMessage("assistant", "", (ToolCall("x", "look", {}, opaque="no base64!"),))]
    await answer(client("google", stub, "ok"), False, [*talk, ChatMessage("tool", "1", tool_name="look")])
    assert "thoughtSignature" not in stub.last.body["contents"][1]["parts"][0]


@pytest.mark.parametrize("scenario", ["truncated", "full"])
async def test_a_prompt_that_ollama_cut_in_silence_is_noticed(stub: Stub, scenario: str) -> None:
    talk = [ChatMessage("user", "word " * 4_000)] if scenario == "truncated" else QUESTION
    made = client("ollama", stub, scenario, num_ctx=4_096)
    with pytest.raises(PermanentModelError, match="raise num_ctx") as caught:
        await answer(made, False, talk)
    assert caught.value.kind == "context"


async def test_a_prompt_whose_beginning_was_in_ollama_s_cache_is_not_taken_for_cut(stub: Stub) -> None:
    """Ollama 0.30 counted only what was new since the call before."""
    talk = [ChatMessage("user", "word " * 4_000)]
    said = await answer(client("ollama", stub, "truncated", num_ctx=16_384), False, talk)
    assert (said.content, said.input_tokens) == ("Hello.", 90)


@pytest.mark.parametrize("line", ["=", "-", "_", " ", "─"])
async def test_lines_that_somebody_draws_are_not_taken_for_tokens(stub: Stub, line: str) -> None:
    talk = [ChatMessage("user", f"From: mallory\n{line * 20_000}")]
    assert (await answer(client("ollama", stub, "truncated"), False, talk)).content == "Hello."
    assert (await answer(client("ollama", stub, "ok", num_ctx=1_024), False, talk)).content == "Hello, friend."


async def test_a_prompt_that_cannot_fit_is_not_sent_to_ollama(stub: Stub) -> None:
    with pytest.raises(PermanentModelError, match="num_ctx is 512") as caught:
        await answer(client("ollama", stub, "ok", num_ctx=512), False, [ChatMessage("user", "word " * 4_000)])
    assert (caught.value.kind, stub.asked) == ("context", [])


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_many_calls_at_once_and_after_closing(stub: Stub, provider: str) -> None:
    made = client(provider, stub, "ok")
    said = await asyncio.gather(*(made.call(QUESTION, TOOLS) for _ in range(30)))
    await made.aclose()
    said.append(await made.call(QUESTION, TOOLS))
    await made.aclose()
    assert {answered.content for answered in said} == {"Hello, friend."}
    assert len(stub.asked) == 31


@pytest.mark.parametrize("provider", PROVIDERS)
def test_one_client_serves_one_event_loop_after_another(provider: str) -> None:
    started: queue.Queue[tuple[Stub, asyncio.AbstractEventLoop, asyncio.Event]] = queue.Queue()

    async def serve() -> None:
        async with running_stub() as stub:
            end = asyncio.Event()
            started.put((stub, asyncio.get_running_loop(), end))
            await end.wait()

    server = threading.Thread(target=asyncio.run, args=(serve(),))
    server.start()
    stub, loop, end = started.get()
    made = client(provider, stub, "ok")

    async def once(*, last: bool) -> str:
        said = await made.call(QUESTION, TOOLS)
        if last:
            await made.aclose()
        return said.content

    try:
        assert asyncio.run(once(last=False)) == asyncio.run(once(last=True)) == "Hello, friend."
    finally:
        loop.call_soon_threadsafe(end.set)
        server.join()


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_request_that_json_cannot_hold_is_permanent(stub: Stub, provider: str) -> None:
    talk = [*QUESTION, ChatMessage("assistant", "", (ToolCall("x", "look", {"x": float("nan")}),))]
    with pytest.raises(PermanentModelError, match="cannot be written") as caught:
        await answer(client(provider, stub, "ok"), False, talk)
    assert (caught.value.kind, stub.asked) == ("bad_request", [])


def test_clients_show_neither_key_nor_password() -> None:
    url = "https://models.example/v1?token=t0k3n-t0k3n"
    clients = [
        OpenAICompatibleClient(url, "m", KEY),
        OllamaClient("m", url.replace("//", "//user:hunter2@")),
        GoogleClient("m", KEY, base_url=url),
    ]
    for made in clients:
        assert "models.example" in repr(made)
        assert not any(secret in repr(made) for secret in (KEY, "hunter2", "t0k3n", "sk-secret"))


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: OpenAICompatibleClient("models.example/v1", "m"), "begins with http"),
        (lambda: OpenAICompatibleClient("http://[x/v1", "m"), "begins with http"),
        (lambda: OpenAICompatibleClient("http://x:99999/v1", "m"), "begins with http"),
        (lambda: OpenAICompatibleClient("http://ann:hunter2@x/v1", "m"), "password in it"),
        (lambda: OpenAICompatibleClient("http://x/v1", "m", "sk-1\nsk-2"), "characters that no key has"),
        (lambda: OpenAICompatibleClient("http://x/v1", ""), "name of a model"),
        (lambda: OpenAICompatibleClient("http://x/v1", "m", timeout_seconds=0), "more than 0 seconds"),
        (lambda: OllamaClient(""), "name of a model"),
        (lambda: GoogleClient("m"), "needs an api_key"),
        (lambda: GoogleClient("m", "k", base_url="ftp://x"), "begins with http"),
    ],
)
def test_a_client_that_cannot_work_is_not_made(make: Any, complaint: str) -> None:
    with pytest.raises(BadClientSettings, match=complaint):
        make()


def wired(*turns: tuple[str, ...]) -> list[list[str]]:
    """The ids on the wire of turns whose calls have these ids, each answered; they agree with the answers'."""
    messages: list[ChatMessage] = [QUESTION[0]]
    for ids in turns:
        messages.append(ChatMessage("assistant", "", tuple(ToolCall(own, "look", {}) for own in ids)))
        messages += [ChatMessage("tool", str(n), tool_name="look", tool_call_id=own) for n, own in enumerate(ids)]
    found: list[list[str]] = []
    for message, ids in paired(messages):
        if message.role == "assistant":
            found.append(list(ids))
        elif message.role == "tool":
            assert ids == (found[-1][int(message.content)],)
    return found


@pytest.mark.parametrize(
    "turns",
    [
        [("c1", "c2"), ("c1", "c2")],
        [("c1",), ("c2",), ("c1", "c3")],
        [("", ""), ("",)],
        [("call_3_0",), ("",)],  # made at that place before the conversation was made shorter
        [("call_4_0", "call_4_1"), ("", ""), ("call_4_0",)],
    ],
)
def test_no_two_calls_of_a_conversation_have_the_same_id_on_the_wire(turns: list[tuple[str, ...]]) -> None:
    ids = [sent for turn in wired(*turns) for sent in turn]
    assert len(set(ids)) == len(ids) and all(ids)
    assert ids[0] == turns[0][0] or not turns[0][0]
