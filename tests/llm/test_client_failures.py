"""Whatever a provider does instead of answering becomes one error, of the right class and kind, after one request."""

import asyncio
import logging
import traceback
from decimal import Decimal

import pytest

from callboard.actors.llm.client import ErrorKind, ModelError, PermanentModelError, TransientModelError, classify

from .providers import KEY, PROVIDERS, answer, client
from .stub import Stub

pytestmark = pytest.mark.anyio

# (providers, scenario, class, kind, what the provider said about waiting, a word of the text)
REFUSED: list[tuple[str, str, str, ErrorKind, float | None, str]] = [
    ("openai ollama google", "status-400", "permanent", "bad_request", None, "HTTP 400.*plain 400"),
    ("openai ollama google", "status-401", "permanent", "auth", None, "HTTP 401.*plain 401"),
    ("openai ollama google", "status-403", "permanent", "auth", None, "plain 403"),
    ("openai ollama google", "status-404", "permanent", "auth", None, "plain 404"),
    ("openai ollama google", "status-408", "transient", "overload", None, "plain 408"),
    ("openai ollama google", "status-409", "transient", "overload", None, "plain 409"),
    ("openai ollama google", "status-413", "permanent", "context", None, "plain 413"),
    ("openai ollama google", "status-422", "permanent", "bad_request", None, "plain 422"),
    ("openai ollama google", "status-425", "transient", "overload", None, "plain 425"),
    ("openai ollama google", "status-429", "transient", "rate_limit", None, "plain 429"),
    ("openai ollama google", "status-499", "transient", "timeout", None, "plain 499"),
    *(
        ("openai ollama google", f"status-{status}", "transient", "overload", None, f"plain {status}")
        for status in (500, 502, 503, 504, 529)
    ),
    ("openai", "status-402", "permanent", "quota", None, "plain 402"),
    ("openai ollama", "rate", "transient", "rate_limit", 7.0, "HTTP 429"),
    ("google", "rate", "transient", "rate_limit", 17.5, "RESOURCE_EXHAUSTED"),
    ("openai", "rate-date", "transient", "rate_limit", 30.0, "slow down"),
    ("openai", "rate-ms", "transient", "rate_limit", 1.5, "slow down"),
    ("openai", "rate-odd", "transient", "rate_limit", None, "slow down"),
    ("openai ollama google", "quota", "permanent", "quota", None, "quota|usage limit"),
    ("ollama", "busy", "transient", "overload", None, "server busy"),
    ("google", "busy", "transient", "overload", 3.0, "overloaded"),
    ("ollama", "runner", "transient", "overload", None, "runner process"),
    ("openai ollama google", "context", "permanent", "context", None, "context length|token count"),
    ("openai", "context-text", "permanent", "context", None, "context size"),
    ("openai google", "blocked", "permanent", "filter", None, "content_filter|PROHIBITED_CONTENT"),
    ("openai ollama google", "no-model", "permanent", "auth", None, "not exist|not found"),
    ("ollama", "no-tools", "permanent", "auth", None, "does not support tools"),
    ("google", "bad-key", "permanent", "auth", None, "API key not valid"),
    ("openai ollama google", "page", "transient", "overload", None, "Bad Gateway"),
    ("openai ollama google", "list", "transient", "overload", None, "busy"),
    ("openai ollama google", "redirect", "permanent", "auth", None, "HTTP 307"),
    ("openai ollama", "error-200", "transient", "overload", None, "upstream is down"),
    ("google", "no-signature", "permanent", "bad_request", None, "MISSING_THOUGHT_SIGNATURE"),
    ("google", "bad-response", "permanent", "malformed", None, "MALFORMED_RESPONSE"),
    ("google", "other", "transient", "overload", None, "empty: OTHER"),
    ("ollama", "loading", "transient", "overload", None, "load"),
    ("openai google", "filter", "permanent", "filter", None, "filter|SAFETY"),
    ("openai ollama google", "length-empty", "permanent", "length", None, "max_tokens"),
    ("openai ollama google", "html", "transient", "timeout", None, "cannot be read"),
    ("openai ollama", "array", "transient", "timeout", None, "cannot be read"),
]
ROWS = [(provider, *row) for providers, *row in REFUSED for provider in providers.split()]


@pytest.mark.parametrize(
    ("provider", "scenario", "expected", "kind", "wait", "text"), ROWS, ids=[f"{row[0]}-{row[1]}" for row in ROWS]
)
async def test_w17_da172_a_refusal_is_classed_and_not_repeated(  # noqa: PLR0917 - a row of the table
    stub: Stub, provider: str, scenario: str, expected: str, kind: str, wait: float | None, text: str, stream: bool
) -> None:
    with pytest.raises(ModelError, match=text) as caught:
        await answer(client(provider, stub, scenario), stream)
    assert (classify(caught.value), caught.value.kind) == (expected, kind)
    if isinstance(caught.value, TransientModelError):
        assert caught.value.retry_after_seconds == wait
    assert len(stub.asked) == 1


async def _lost(stub: Stub, provider: str, scenario: str, seconds: float, *, stream: bool) -> None:
    with pytest.raises(TransientModelError) as caught:
        await answer(client(provider, stub, scenario, timeout_seconds=seconds), stream)
    assert (scenario, caught.value.kind) == (scenario, "timeout")
    # 4,096 tokens of output at $10 per million
    assert (caught.value.cost_usd > Decimal("0.04")) == (provider != "ollama")


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("scenario", ["drop", "cut", "cut-body"])
async def test_w20_a_cut_answer_is_transient_and_books_what_it_may_have_cost(
    stub: Stub, provider: str, scenario: str, stream: bool
) -> None:
    await _lost(stub, provider, scenario, 120, stream=stream)
    assert len(stub.asked) == 1


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_w20_a_silent_or_endless_answer_is_given_up_and_books_what_it_may_have_cost(
    stub: Stub, provider: str, stream: bool
) -> None:
    wrong: list[object] = []
    for seconds in (1.0, 4.0, 16.0):  # a time that is over before a request got there, on a busy machine, shows nothing
        stub.asked.clear()
        lost = (_lost(stub, provider, scenario, seconds, stream=stream) for scenario in ("mute", "stall", "endless"))
        wrong = [error for error in await asyncio.gather(*lost, return_exceptions=True) if error]
        if not wrong and len(stub.asked) == 3:
            return
    raise AssertionError(wrong, stub.asked)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_cut_answer_says_how_it_was_cut(stub: Stub, provider: str) -> None:
    with pytest.raises(TransientModelError, match="before the answer did") as caught:
        await answer(client(provider, stub, "short"), True)
    assert caught.value.kind == "timeout"


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("scenario", "expected", "kind"),
    [("broken-later", "transient", "overload"), ("too-long-later", "permanent", "context")],
)
async def test_an_error_in_mid_stream_is_classed_by_its_words_after_the_text_before_it(
    stub: Stub, provider: str, scenario: str, expected: str, kind: str
) -> None:
    heard: list[str] = []
    with pytest.raises(ModelError) as caught:
        await answer(client(provider, stub, scenario), True, on_text=heard.append)
    assert (classify(caught.value), caught.value.kind) == (expected, kind)
    assert "".join(heard) in "Hello, friend." and heard
    assert bool(caught.value.cost_usd) == (provider != "ollama")


@pytest.mark.parametrize("scenario", ["nothing", "array"])
async def test_what_google_sends_and_is_no_answer_is_asked_for_again(stub: Stub, scenario: str) -> None:
    with pytest.raises(TransientModelError, match="no candidates") as caught:
        await answer(client("google", stub, scenario), False)
    assert caught.value.kind == "overload"


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_an_answer_without_end_in_size_is_given_up(stub: Stub, provider: str, stream: bool) -> None:
    with pytest.raises(PermanentModelError, match="longer than") as caught:
        await answer(client(provider, stub, "huge"), stream)
    assert caught.value.kind == "malformed"


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_refused_connection_costs_nothing(stub: Stub, provider: str, stream: bool) -> None:
    stub.url = "http://127.0.0.1:9"  # discard: nobody listens
    with pytest.raises(TransientModelError) as caught:
        await answer(client(provider, stub, "ok"), stream)
    assert caught.value.kind == "connect"
    assert caught.value.cost_usd == 0


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("scenario", ["mute", "stall"])
async def test_a_cancelled_call_closes_its_connection(stub: Stub, provider: str, scenario: str, stream: bool) -> None:
    made = client(provider, stub, scenario)
    asking = asyncio.create_task(answer(made, stream))
    await stub.reached.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await asyncio.wait_for(stub.hung_up.wait(), 60)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_listener_that_fails_hears_no_more_and_the_answer_comes(stub: Stub, provider: str) -> None:
    heard: list[str] = []

    def broken(text: str) -> None:
        heard.append(text)
        raise TypeError(text)

    said = await answer(client(provider, stub, "ok"), True, on_text=broken)
    assert (said.content, heard) == ("Hello, friend.", ["Hello, "])


async def test_an_answer_whose_stream_breaks_after_its_end_is_kept(stub: Stub) -> None:
    said = await answer(client("openai", stub, "cut-at-the-end"), True)
    assert (said.content, said.stop_reason, said.input_tokens) == ("Looking.", "tool_use", 0)
    assert [call.arguments for call in said.tool_calls] == [{"x": "é\n"}, {"a": 1, "b": 2}]


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_the_key_is_in_no_text_that_leaves_the_client(
    stub: Stub, provider: str, stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    made = client(provider, stub, "echo")
    with pytest.raises(PermanentModelError) as caught:
        await answer(made, stream)
    assert any(KEY in value for value in stub.last.headers.values())
    shown = [str(caught.value), repr(made), caplog.text, *traceback.format_exception(caught.value)]
    for part in (KEY, "sk-secret", "0123456789"):
        assert not any(part in text for text in shown)
    assert "***" in str(caught.value)
    assert len(str(caught.value)) < 1_200
