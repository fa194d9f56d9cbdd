"""One answer is the same whoever gives it, and the same in one piece or in many."""

from decimal import Decimal

import pytest

from callboard.actors.llm.client import ChatMessage, LLMResponse, PermanentModelError

from .protocols import SIGNATURE
from .providers import PRICE, PROVIDERS, QUESTION, answer, client
from .stub import Stub

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("provider", PROVIDERS)]


async def test_da170_an_answer_has_its_text_usage_cost_and_id(stub: Stub, provider: str, stream: bool) -> None:
    heard: list[str] = []
    said = await answer(client(provider, stub, "ok"), stream, on_text=heard.append)
    assert (said.content, said.tool_calls, said.stop_reason) == ("Hello, friend.", (), "end_turn")
    assert (said.input_tokens, said.output_tokens) == (1_000, 80)
    assert heard == (["Hello, ", "friend."] if stream else [])
    assert 0 < said.latency_ms < 120_000
    if provider == "ollama":
        assert said.cost_usd == 0
    else:
        # 600 at $1, 400 of the cache at $0.50, 80 at $10 per million
        assert said.cost_usd == PRICE.cost(1_000, 80, 400) == Decimal("0.0016")
        assert (said.cached_tokens, said.thought_tokens) == (400, 30)
        assert said.provider_request_id == {"openai": "chatcmpl-1", "google": "resp-1"}[provider]


async def test_two_calls_of_one_turn_come_with_the_text_before_them(stub: Stub, provider: str, stream: bool) -> None:
    heard: list[str] = []
    said = await answer(client(provider, stub, "two-tools"), stream, on_text=heard.append)
    assert (said.content, said.stop_reason) == ("Looking.", "tool_use")
    assert [(call.id, call.name, call.arguments, call.problem) for call in said.tool_calls] == [
        ("call-7", "look", {"x": "é\n"}, ""),
        ("call-8", "add", {"a": 1, "b": 2}, ""),
    ]
    assert "".join(heard) == ("Looking." if stream else "")
    assert [call.opaque for call in said.tool_calls] == ([SIGNATURE, ""] if provider == "google" else ["", ""])


async def test_calls_without_ids_get_some_that_nothing_else_has(stub: Stub, provider: str, stream: bool) -> None:
    said = await answer(client(provider, stub, "no-ids"), stream)
    later = await answer(client(provider, stub, "no-ids"), stream, [*QUESTION, ChatMessage("user", "And?")])
    ids = [call.id for call in (*said.tool_calls, *later.tool_calls)]
    assert all(ids) and len(set(ids)) == 4
    assert [call.arguments for call in said.tool_calls] == [{"x": 1}, {"x": 2}]


async def test_da172_no_arguments_are_an_empty_object(stub: Stub, provider: str, stream: bool) -> None:
    (call,) = (await answer(client(provider, stub, "no-arguments"), stream)).tool_calls
    assert (call.name, call.arguments, call.problem) == ("look", {}, "")


async def test_da172_no_usage_is_no_tokens(stub: Stub, provider: str, stream: bool) -> None:
    said = await answer(client(provider, stub, "no-usage"), stream)
    assert (said.content, said.input_tokens, said.output_tokens, said.cost_usd) == ("Hello.", 0, 0, Decimal(0))


async def test_an_answer_that_was_cut_off_says_so(stub: Stub, provider: str, stream: bool) -> None:
    said = await answer(client(provider, stub, "length"), stream)
    assert (said.content, said.stop_reason) == ("Hel", "length")


async def test_an_answer_that_is_paid_for_and_of_no_use_costs_what_it_cost(stub: Stub, provider: str) -> None:
    scenario = "length-empty" if provider == "ollama" else "filter"
    with pytest.raises(PermanentModelError) as caught:
        await answer(client(provider, stub, scenario), False)
    assert caught.value.cost_usd == (0 if provider == "ollama" else Decimal("0.0016"))


async def test_an_empty_answer_is_an_answer(stub: Stub, provider: str, stream: bool) -> None:
    said = await answer(client(provider, stub, "empty"), stream)
    assert (said.content, said.tool_calls, said.stop_reason) == ("", (), "end_turn")


async def test_a_reason_nobody_knows_is_handed_on(stub: Stub, provider: str, stream: bool) -> None:
    said = await answer(client(provider, stub, "odd-finish"), stream)
    assert (said.content, said.stop_reason.upper()) == ("Hello.", "OTHER")


async def test_w16_a_call_that_cannot_be_read_goes_back_to_the_model(stub: Stub, provider: str, stream: bool) -> None:
    for scenario in ("bad-json", "not-object", "unreadable-call") if provider == "openai" else ("bad-call",):
        said = await answer(client(provider, stub, scenario), stream)
        (call,) = said.tool_calls
        assert (call.arguments, said.stop_reason) == ({}, "tool_use")
        assert call.problem and call.id
        assert call.name == ("unreadable_call" if provider == "google" else "look")


async def test_whole_and_streamed_answers_are_equal(stub: Stub, provider: str) -> None:
    def known(said: LLMResponse) -> list[object]:
        return [value for name in said.__slots__ if name != "latency_ms" for value in [getattr(said, name)]]

    for scenario in ("ok", "two-tools", "no-ids", "length"):
        made = [await answer(client(provider, stub, scenario), stream) for stream in (False, True)]
        assert known(made[0]) == known(made[1])
