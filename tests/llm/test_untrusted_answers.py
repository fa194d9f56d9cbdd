"""Whatever stands in an answer, it stays bounded, tells no key, and is never taken for less than it says."""

import gzip
import json
import math
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import anyio
import anyio.abc
import httpx
import pytest

from callboard.actors.llm import bodies
from callboard.actors.llm.bodies import MAX_BODY_BYTES, lines
from callboard.actors.llm.client import LLMResponse, ModelError, PermanentModelError, ToolCall, TransientModelError
from callboard.actors.llm.errors import BadClientSettings, retry_after
from callboard.actors.llm.google import GoogleClient
from callboard.actors.llm.openai import OpenAICompatibleClient

from .protocols import PROTOCOLS, Answer
from .providers import KEY, PROVIDERS, QUESTION, answer, client
from .stub import Stub

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def serving(
    body: bytes, kind: str = "application/json", *, status: int = 200, stalls: bool = False, **headers: str
) -> AsyncIterator[Stub]:
    """A server that answers everything with these bytes. `stalls`: then it says nothing more, and does not hang up."""
    named = {"content-type": kind, "content-length": str(len(body)), "connection": "close"}
    named |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = f"HTTP/1.1 {status} X\r\n" + "".join(f"{name}: {value}\r\n" for name, value in named.items()) + "\r\n"

    async def serve(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            try:
                await stream.receive()
                await stream.send(head.encode() + body)
                if stalls:
                    await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):  # the other side has had enough
                return

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, serve)
        yield Stub(f"http://127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}")
        group.cancel_scope.cancel()


def unescaped(provider: str, text: str, *, stream: bool) -> tuple[bytes, str]:
    """An answer in which `text` stands as it is, as most servers write it; and its type."""
    protocol, marker = PROTOCOLS[provider], "@@"
    pieces = (
        protocol.pieces(Answer(2 * marker)) if stream else [json.dumps(protocol.whole(Answer(2 * marker))).encode()]
    )
    return b"".join(pieces).replace(
        marker.encode(), text.encode()
    ), protocol.stream_type if stream else "application/json"


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("text", ["\u2028", "\u2029", "\x85", "\u00e9\U0001f600"])
async def test_w05_a_text_with_any_line_end_of_unicode_arrives_whole(provider: str, text: str, stream: bool) -> None:
    heard: list[str] = []
    body, kind = unescaped(provider, f"a{text}b", stream=stream)
    async with serving(body, kind) as server:
        said = await answer(client(provider, server, "m"), stream, on_text=heard.append)
    assert said.content == f"a{text}ba{text}b"
    assert "".join(heard) == (said.content if stream else "")


@pytest.mark.parametrize("cut", range(1, 12))
async def test_lines_are_the_same_wherever_the_network_cuts_them(cut: int) -> None:
    whole = "ab\r\n\n\u2028é\nlast".encode()

    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(whole), cut):
            yield whole[start : start + cut]

    assert [line async for line in lines(httpx.Response(200, content=chunks()))] == ["ab", "", "\u2028é", "last"]


@cache
def bomb(packing: str) -> bytes:
    """A few bytes that unpack to twice as much as an answer may have."""
    blanks = b" " * (2 * MAX_BODY_BYTES)
    return gzip.compress(blanks, 1) if packing == "gzip" else zlib.compress(blanks, 1)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("packing", ["gzip", "deflate"])
async def test_a_packed_answer_is_unpacked_only_as_far_as_its_bound(provider: str, packing: str, stream: bool) -> None:
    pack = gzip.compress if packing == "gzip" else zlib.compress
    body, kind = unescaped(provider, "packed", stream=stream)
    async with serving(pack(body), kind, content_encoding=packing) as server:
        assert (await answer(client(provider, server, "m"), stream)).content == "packedpacked"
    async with serving(bomb(packing), kind, content_encoding=packing) as server:
        with pytest.raises(PermanentModelError, match="longer than") as caught:
            await answer(client(provider, server, "m"), stream)
    assert caught.value.kind == "malformed"


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("packing", ["zstd", "gzip, gzip", "gzip"])
async def test_a_packing_that_nobody_asked_for_or_that_is_broken_is_an_answer_that_cannot_be_read(
    provider: str, packing: str
) -> None:
    async with serving(b"junk", content_encoding=packing) as server:
        with pytest.raises(TransientModelError, match="cannot be read") as caught:
            await answer(client(provider, server, "m"), False)
    assert caught.value.kind == "timeout"


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"x" * (MAX_BODY_BYTES + 1), {}),
        (b"x", {"content_length": "500"}),
        (b"junk", {"content_encoding": "gzip"}),
        (b"junk", {"content_encoding": "br"}),
    ],
    ids=["endless", "cut", "broken", "packed"],
)
async def test_w17_a_refusal_is_what_its_status_says_however_its_text_breaks(
    provider: str, body: bytes, headers: dict[str, Any], stream: bool
) -> None:
    async with serving(body, status=429, retry_after="9", **headers) as server:
        with pytest.raises(TransientModelError) as caught:
            await answer(client(provider, server, "m"), stream)
    assert (caught.value.kind, caught.value.retry_after_seconds) == ("rate_limit", 9.0)
    assert caught.value.cost_usd == 0


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_w20_a_refusal_whose_text_never_ends_is_no_answer_that_may_have_been_bought(
    provider: str, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "REFUSAL_SECONDS", 0.2)
    async with serving(b'{"error"', status=503, stalls=True, retry_after="9", content_length="500") as server:
        with pytest.raises(TransientModelError) as caught:
            await answer(client(provider, server, "m"), stream)
    assert (caught.value.kind, caught.value.retry_after_seconds) == ("overload", 9.0)
    assert caught.value.cost_usd == 0


PLAIN_KEY = KEY.replace('"', "")


def shapes(before: int) -> dict[str, object]:
    """Bodies that are no answer, with a key in them after so many letters."""
    text = "x" * before + PLAIN_KEY + " and so on" * 200
    return {
        "page": text,
        "object": {"message": text},
        "array": [text],
        "error": {"error": {"message": text}},
        "typed": {"candidates": [{"content": text}], "message": text},
    }


async def test_no_part_of_a_key_is_told_wherever_an_error_is_cut() -> None:
    body = ""

    def respond(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, text=body, headers={"content-type": "application/json"})

    async with OpenAICompatibleClient("http://x/v1", "m", PLAIN_KEY, transport=httpx.MockTransport(respond)) as llm:
        for before in range(100, 1_000, 5):
            for shape, value in shapes(before).items():
                body = value if isinstance(value, str) else json.dumps(value)
                with pytest.raises(ModelError) as caught:
                    await llm.call(QUESTION, [])
                assert PLAIN_KEY[:4] not in str(caught.value), (shape, before)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("before", [3, 185, 985])
@pytest.mark.parametrize("shape", shapes(0))
async def test_no_part_of_a_key_is_told_whatever_its_package_says(
    provider: str, before: int, shape: str, stream: bool
) -> None:
    value = shapes(before)[shape]
    body = value if isinstance(value, str) else json.dumps(value)
    async with serving(body.encode()) as server:
        made = client(provider, server, "m")
        made._secrets = type(made._secrets)([PLAIN_KEY])
        with pytest.raises(ModelError) as caught:
            await answer(made, stream)
    assert PLAIN_KEY[:4] not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["htps://ann:hunter2@models.example/v1", "http://ann:hunter2@x:99999/v1", "models.example/v1?key=hunter2"]
)
def test_an_address_that_is_none_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(BadClientSettings, match="begins with http") as caught:
        OpenAICompatibleClient(url, "m")
    assert "hunter2" not in str(caught.value)


async def test_a_google_config_that_cannot_be_is_permanent_and_sends_nothing(stub: Stub) -> None:
    made = GoogleClient("ok", KEY, base_url=stub.url, config={"temperature": f"hot {KEY}"})
    with pytest.raises(PermanentModelError, match="the request cannot be written: temperature") as caught:
        await answer(made, False)
    assert KEY[:9] not in str(caught.value)
    assert stub.asked == []


def choices(*deltas: dict[str, Any], index: int = 0, finish: str | None = None) -> str:
    events = [{"choices": [{"index": index, "delta": delta, "finish_reason": finish}]} for delta in deltas]
    return "".join(f"data: {json.dumps(event)}\n\n" for event in events)


async def ask(body: str, kind: str = "text/event-stream") -> LLMResponse:
    transport = httpx.MockTransport(lambda _: httpx.Response(200, text=body, headers={"content-type": kind}))
    async with OpenAICompatibleClient("http://models.example/v1", "m", transport=transport) as llm:
        return await llm.stream(QUESTION, [], "", lambda _: None)


@pytest.mark.parametrize("arguments", [[1], 5, True, 1.5, "[1]", "null", '{"a": 1e999}', '{"a": NaN}', "[" * 10_000])
async def test_w16_arguments_that_are_no_object_are_a_problem_and_never_no_arguments(arguments: object) -> None:
    call = {"index": 0, "id": "c", "function": {"name": "wipe", "arguments": arguments}}
    streamed = await ask(choices({"tool_calls": [call]}) + choices({}, finish="tool_calls"))
    message = {"message": {"tool_calls": [call]}, "finish_reason": "tool_calls"}
    whole = await ask(json.dumps({"choices": [message]}), "application/json")
    for said in (streamed, whole):
        [asked] = said.tool_calls
        assert (asked.name, asked.arguments) == ("wipe", {})
        assert "the arguments" in asked.problem


async def test_of_several_answers_the_first_is_taken_also_in_pieces() -> None:
    said = await ask(
        choices({"content": "one"})
        + choices({"content": "two", "tool_calls": [{"id": "c", "function": {"name": "wipe"}}]}, index=1)
        + choices({}, index=1, finish="tool_calls")
        + choices({"content": "."}, finish="stop")
    )
    assert (said.content, said.tool_calls, said.stop_reason) == ("one.", (), "end_turn")


async def test_calls_with_neither_id_nor_index_are_told_apart_by_their_names() -> None:
    parts = [("look", '{"x":'), ("", " 1}"), ("look", '{"x": 2}'), ("add", "{}")]
    calls = [{"function": {"name": name, "arguments": text}} for name, text in parts]
    said = await ask(choices(*({"tool_calls": [call]} for call in calls)) + choices({}, finish="tool_calls"))
    assert [(call.name, call.arguments) for call in said.tool_calls] == [
        ("look", {"x": 1}),
        ("look", {"x": 2}),
        ("add", {}),
    ]
    assert len({call.id for call in said.tool_calls}) == 3


@pytest.mark.parametrize(
    "message",
    [
        {"tool_calls": {"id": "c"}},
        {"tool_calls": ["wipe"]},
        {"function_call": {"name": "wipe", "arguments": "{}"}},
        {"content": None},
    ],
)
async def test_w16_a_call_that_is_announced_and_not_there_is_told_to_the_model(message: dict[str, Any]) -> None:
    body = {"choices": [{"message": message, "finish_reason": "tool_calls"}], "usage": {"prompt_tokens": 5}}
    with pytest.raises(PermanentModelError, match="no call that can be read") as caught:
        await ask(json.dumps(body), "application/json")
    assert caught.value.kind == "malformed"


async def test_no_more_is_cached_than_was_asked() -> None:
    usage = {"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 900}}
    said = await ask(json.dumps({"choices": [{"message": {"content": "Hi"}}], "usage": usage}), "application/json")
    assert (said.input_tokens, said.cached_tokens) == (5, 5)


DATE = "Mon, 30 Nov 2026 10:00:00 GMT"


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7),
        ("0.5", 0.5),
        ("Mon, 30 Nov 2026 10:00:30 GMT", 30),
        # "at once" from somebody who has just refused would be a storm: the ordinary back-off holds
        ("0", None),
        ("-5", None),
        ("-0.0", None),
        ("Mon, 30 Nov 2026 09:59:00 GMT", None),
        # what nobody can mean: no more than a day
        ("1e300", 86_400),
        ("1796032830", 86_400),
        ("Mon, 30 Nov 9999 10:00:00 GMT", 86_400),
        ("nan", None),
        ("inf", None),
        ("soon", None),
        ("", None),
    ],
)
def test_w17_what_a_provider_asks_for_is_a_time_somebody_can_wait(header: str, seconds: float | None) -> None:
    error = TransientModelError("429", retry_after({"retry-after": header, "date": DATE}), kind="rate_limit")
    assert error.retry_after_seconds == seconds


@pytest.mark.parametrize(("asked", "seconds"), [(math.nan, None), (math.inf, 86_400), (-math.inf, None), (0, None)])
def test_w17_the_same_holds_for_clients_of_ones_own(asked: float, seconds: float | None) -> None:
    assert TransientModelError("429", asked).retry_after_seconds == seconds


def test_a_call_s_arguments_are_finite() -> None:
    assert "1e999" in ToolCall.from_wire("c", "look", '{"x": [1.5, -1e999]}').problem
    assert ToolCall.from_wire("c", "look", '{"x": [1.5, -1e9]}').arguments == {"x": [1.5, -1e9]}


@pytest.mark.parametrize("odd", ["\x0b", "\r\n", "\x7f", "\x00", '"\x01'])
async def test_a_key_that_no_header_can_hold_is_in_no_text(odd: str) -> None:
    made = OpenAICompatibleClient("http://127.0.0.1:9/v1", "m", extra_headers={"x-api-key": f"s3cr3t{odd}k3y{odd}"})
    async with made:
        with pytest.raises(ModelError) as caught:
            await made.call(QUESTION, [])
    assert "s3cr3t" not in str(caught.value) and "k3y" not in str(caught.value)


@pytest.mark.parametrize(
    ("provider", "options"),
    [
        ("openai", {"max_tokens": 100_000}),
        ("openai", {"extra_body": {"max_completion_tokens": 100_000}}),
        ("openai", {"max_tokens": 5, "extra_body": {"max_tokens": 100_000}}),
        ("google", {"max_tokens": 100_000}),
        ("google", {"config": {"max_output_tokens": 100_000}}),
    ],
)
def test_w20_the_worst_cost_is_that_of_the_longest_answer_however_it_was_allowed(
    provider: str, options: dict[str, Any]
) -> None:
    made = client(provider, Stub("http://x"), "m", **options)
    assert 1 < made.worst_cost(QUESTION, [], "") < 1.01  # 100,000 tokens at $10 per million
