"""A tool's checks: what they find about a call that waits for a person, whatever they do."""

import asyncio
import sys
import threading
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from callboard import tool
from callboard.actors.agent.checks import CHECK_SECONDS
from callboard.actors.agent.events import Finding
from callboard.actors.agent.messages import CallChecked, CheckCall
from callboard.actors.agent.schema import BadTool
from callboard.actors.agent.tool import Tool
from callboard.actors.agent.tool_worker import ToolWorker
from callboard.actors.context import WorkerContext
from callboard.actors.testing import ManualPort, all_tasks_wait
from callboard.mailbox.envelope import seal
from callboard.mailbox.lane import Lane

pytestmark = pytest.mark.anyio


def refund(*checks: Callable[..., Any], made: list[int] | None = None) -> Tool:
    @tool(side_effect=True, checks=checks)
    async def issue_refund(order_id: str, amount: int) -> int:
        """Refund."""
        (made if made is not None else []).append(amount)
        return amount

    return issue_refund


async def at_once(function: Callable[[], Any]) -> Any:
    return function()


async def findings(*checks: Callable[..., Any], amount: int = 5) -> list[tuple[str, bool, str]]:
    made = refund(*checks)
    found = await made.run_checks(made.validate({"order_id": "A-1", "amount": amount}), at_once)
    return [(one.check, one.ok, one.detail) for one in found]


class Evil(BaseException):
    pass


class Mute:
    def __str__(self) -> str:
        raise RuntimeError("no words")

    def __bool__(self) -> bool:
        raise RuntimeError("no truth")


@pytest.mark.parametrize(
    ("said", "ok", "detail"),
    [
        (None, True, ""),
        (True, True, ""),
        (False, False, ""),
        ("", True, ""),
        ("already refunded", False, "already refunded"),
        ((True, "42 left"), True, "42 left"),
        ((False, "none left"), False, "none left"),
        ([0, None], False, ""),
        ({"ok": True, "detail": "fine"}, True, "fine"),
        ({"detail": "hm"}, False, "hm"),
        ({}, False, ""),
        (17, False, "the check said neither yes nor no: 17"),
        (("a", "b", "c"), False, "the check said neither yes nor no: ('a', 'b', 'c')"),
        ("nul\x00 and \ud800", False, "nul and \ufffd"),
        ("x" * 5_000, False, "x" * 1_000),
        ((Mute(), "x"), False, "the check failed: RuntimeError: no truth"),
        ((True, Mute()), True, "<tests"),
    ],
)
async def test_what_a_check_says_is_a_finding(said: Any, ok: bool, detail: str) -> None:
    def check() -> Any:
        return said

    (found,) = await findings(check)
    assert found[:2] == ("check", ok)
    assert found[2].startswith(detail) if detail == "<tests" else found[2] == detail


async def test_a_check_gets_the_arguments_it_names_sync_and_async_in_order() -> None:
    def in_stock(order_id: str) -> tuple[bool, str]:
        return True, order_id

    async def small(amount: int, limit: int = 3) -> str:
        return f"{amount} is above {limit}" if amount > limit else ""

    def everything(**given: Any) -> tuple[bool, str]:
        return True, str(sorted(given))

    assert await findings(in_stock, small, everything) == [
        ("in_stock", True, "A-1"),
        ("small", False, "5 is above 3"),
        ("everything", True, "['amount', 'order_id']"),
    ]


@pytest.mark.parametrize("kind", ["raises", "exits", "evil", "cancels", "hangs", "times out"])
async def test_a_check_that_fails_is_a_finding_and_the_others_are_made(kind: str) -> None:
    async def check() -> None:
        match kind:
            case "raises":
                raise ValueError("no\ud800")
            case "exits":
                sys.exit(3)
            case "evil":
                raise Evil("out")
            case "cancels":
                task = asyncio.ensure_future(asyncio.sleep(60))
                task.cancel()
                await task
            case "hangs":
                await anyio.sleep_forever()
        raise TimeoutError

    async def other() -> None: ...

    port = ManualPort()
    made = refund(check, other)
    found: list[Finding] = []

    async def run() -> None:
        arguments = made.validate({"order_id": "A-1", "amount": 5})
        found.extend(await made.run_checks(arguments, port.in_thread, port.deadline))

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await all_tasks_wait()
        await port.advance(CHECK_SECONDS + 1)
    assert [(one.check, one.ok) for one in found] == [("check", False), ("other", True)]
    assert found[0].detail


@pytest.mark.parametrize(
    ("checks", "reason"),
    [
        (lambda nonsense: True, "nonsense"),
        (lambda idempotency_key: True, "idempotency_key"),
        ((1,), "checks"),
        ("look", "checks"),
        ([len], "obj"),
        ([lambda: True] * 33, "32"),
    ],
)
def test_checks_that_cannot_be_made_are_refused_when_declared(checks: Any, reason: str) -> None:
    def pay(amount: int, idempotency_key: str) -> None:
        """Pay."""

    with pytest.raises(BadTool, match=reason):
        tool(pay, checks=checks)


def context(message: CheckCall) -> WorkerContext:

    envelope = seal(
        message,
        id=1,
        shard=0,
        recipient="/agents/tool",
        sender="/agents/run:1",
        lane=Lane.NORMAL,
        sender_seq=1,
        reply_to="/agents/run:1",
        causation=0,
        sent_by_node=1,
    )
    return WorkerContext(envelope, 1, ManualPort(), lambda *_: None)  # type: ignore[arg-type]


async def test_the_tool_worker_answers_what_the_checks_find_and_makes_no_call() -> None:
    made: list[int] = []
    threads: list[int] = []

    def check(amount: int) -> str:
        threads.append(threading.get_ident())
        return f"{amount} is much"

    pay = refund(check, made=made)
    worker = ToolWorker({pay.name: pay})
    asked = CheckCall("r.1", 1, pay.name, {"order_id": "A-1", "amount": "5"}, at_release=True)
    answer = await worker.check(asked, context(asked))
    assert answer == CallChecked("r.1", 1, [Finding("check", False, "5 is much")], at_release=True)
    assert made == []
    assert not worker.records_start(asked)


async def test_checks_of_a_call_that_cannot_be_made_are_a_finding() -> None:
    pay = refund()
    worker = ToolWorker({pay.name: pay})
    for name, arguments, detail in (("gone", {}, "unknown tool"), (pay.name, {"amount": 1}, "invalid arguments")):
        asked = CheckCall("r.1", 1, name, arguments)
        answer = await worker.check(asked, context(asked))
        assert isinstance(answer, CallChecked)
        assert [(one.ok, detail in one.detail) for one in answer.findings] == [(False, True)]


async def test_checks_that_were_given_up_are_a_finding_too() -> None:
    asked = CheckCall("r.1", 1, "pay", {})
    answer = ToolWorker({}).given_up(asked, "its node died", context(asked))
    assert answer == CallChecked("r.1", 1, [Finding("checks", False, "no answer: its node died")])
