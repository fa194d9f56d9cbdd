"""A tool's options, gate and call. Signatures: test_schema.py; arguments: test_arguments.py."""

import functools
import threading
from collections.abc import Callable
from typing import Any

import anyio.to_thread
import msgspec
import pytest

from callboard.actors.agent.events import RequestedCall
from callboard.actors.agent.gate import Hold, judge
from callboard.actors.agent.policies import PolicyCall, policy
from callboard.actors.agent.policy import Terms
from callboard.actors.agent.rules import Rules
from callboard.actors.agent.schema import BadTool
from callboard.actors.agent.tool import Tool, tool
from callboard.actors.llm.client import ToolSpec


class Item(msgspec.Struct):
    sku: str
    tags: list[str] = []


async def in_thread(function: Callable[[], Any]) -> Any:
    return await anyio.to_thread.run_sync(function)


@tool(side_effect=True, requires_approval=lambda a: a["amount"] > 5000)
async def issue_refund(order_id: str, amount: int, idempotency_key: str) -> dict[str, Any]:
    """Refund an order.

    Needs approval above 5000.
    """
    return {"order": order_id, "amount": amount, "key": idempotency_key}


# declaring


def test_a_bare_tool_has_the_defaults() -> None:
    @tool
    def look(x: int) -> int:
        """Look."""
        return x

    assert look.spec() == ToolSpec("look", "Look.", look.parameters)
    assert (look.side_effect, look.requires_approval, look.timeout_seconds, look.attempts) == (False, False, None, 3)
    assert (look.on_doubt, look.takes_key, look.returns_trust, look.checks) == ("retry", False, "untrusted", ())
    assert look.source_module == __name__
    assert look(5) == 5


def test_the_description_is_the_docstring_without_its_indentation() -> None:
    assert issue_refund.description == "Refund an order.\n\nNeeds approval above 5000."


def test_short_and_long_option_names() -> None:
    def f() -> None: ...

    def check() -> None: ...

    long = tool(f, timeout_seconds=2, attempts=5, name="g", returns_trust="trusted", checks=(check,))
    short = tool(timeout=2, retry=5, name="g")(f)
    assert (
        (long.timeout_seconds, long.attempts, long.name) == (short.timeout_seconds, short.attempts, "g") == (2, 5, "g")
    )
    assert (long.returns_trust, long.checks) == ("trusted", (check,))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "retry"),
        ({"side_effect": True}, "park"),
        ({"side_effect": True, "on_doubt": "retry"}, "retry"),
        ({"side_effect": True, "reconcile": lambda: None}, "reconcile"),
        ({"side_effect": True, "reconcile": lambda: None, "on_doubt": "park"}, "park"),
    ],
)
def test_w22_what_happens_in_doubt_is_chosen_per_tool(options: dict[str, Any], expected: str) -> None:
    def f() -> None: ...

    assert tool(f, **options).on_doubt == expected
    assert issue_refund.on_doubt == "retry"  # it takes a key


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"timeout_seconds": 0}, "timeout_seconds"),
        ({"timeout_seconds": float("nan")}, "timeout_seconds"),
        ({"timeout_seconds": 1, "timeout": 1}, "timeout"),
        ({"attempts": 0}, "attempts"),
        ({"retry": True}, "attempts"),
        ({"attempts": 2, "retry": 2}, "retry"),
        ({"on_doubt": "pray"}, "on_doubt"),
        ({"on_doubt": "reconcile"}, "on_doubt"),
        ({"reconcile": lambda nonsense: None}, "reconcile"),
        ({"requires_approval": ""}, "requires_approval"),
        ({"requires_approval": 3}, "requires_approval"),
        ({"requires_approval": issue_refund.function}, "requires_approval"),
        ({"returns_trust": "maybe"}, "returns_trust"),
        ({"checks": (1,)}, "checks"),
        ({"name": "two words"}, "two words"),
    ],
)
def test_options_that_cannot_work_are_refused(options: dict[str, Any], option: str) -> None:
    def f() -> None: ...

    with pytest.raises(BadTool, match=option):
        tool(f, **options)


def test_lambdas_generators_and_tools_are_refused() -> None:
    def generate() -> Any:
        yield 1

    async def generate_async() -> Any:
        yield 1

    with pytest.raises(ValueError, match="lambda"):
        tool(lambda: 1)
    for function in (generate, generate_async):
        with pytest.raises(ValueError, match="generator"):
            tool(function)
    with pytest.raises(ValueError, match="made of a function"):
        tool(issue_refund)
    with pytest.raises(ValueError, match="made of a function"):
        tool(5)  # type: ignore[call-overload]


def test_w41_the_version_is_that_of_the_code() -> None:
    def declared(body: str) -> Tool:
        names: dict[str, Any] = {}
        exec(body, names)
        return tool(names["f"])

    first = "def f(x: int) -> bool:\n    return x in {'a', 'b'} or (lambda: 1)() == 1\n"
    assert declared(first).version == declared(first).version
    assert declared(first).version != declared(first.replace("== 1", "== 2")).version
    assert declared(first).version != declared(first.replace("x: int", "x: str")).version
    # equal sets may be listed in another order, and are, from process to process
    sets = [
        declared(f"def f(x: int) -> bool:\n    return x in {members}\n").version for members in ("{0, 8}", "{8, 0}")
    ]
    assert sets[0] == sets[1]
    assert len(issue_refund.version) == 12
    assert int(issue_refund.version, 16) >= 0


# the gate


def test_g5_the_gate_sees_typed_values_and_defaults() -> None:
    seen: list[dict[str, Any]] = []

    def rule(a: dict[str, Any]) -> bool:
        seen.append(a)
        return bool(a["amount"] > 5000)

    @tool(requires_approval=rule)
    def pay(item: Item, amount: int = 6000) -> None: ...

    assert pay.gate(pay.validate({"item": {"sku": "a"}, "amount": "10"})) is None
    assert pay.gate(pay.validate({"item": {"sku": "a"}})) == "pay needs approval for these arguments"
    assert seen[0] == {"item": Item("a"), "amount": 10}


def test_g5_the_gate_cannot_change_what_is_executed() -> None:
    def rule(a: dict[str, Any]) -> bool:
        a["items"].clear()
        a["anything"]["x"] = 2
        return False

    @tool(requires_approval=rule)
    def pay(items: list[str], anything: Any) -> None: ...

    arguments = pay.validate({"items": ["a"], "anything": {"x": 1}})
    assert pay.gate(arguments) is None
    assert arguments.values == {"items": ["a"], "anything": {"x": 1}} == arguments.plain


def _raises(_: object) -> bool:
    raise KeyError("amount")


class _Unsayable(Exception):
    def __str__(self) -> str:
        raise self


def _raises_unsayable(_: object) -> bool:
    raise _Unsayable


class _NoTruth:
    def __bool__(self) -> bool:
        raise TypeError("no truth")


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        (False, None),
        (True, "f always needs approval"),
        ("money leaves", "money leaves"),
        (lambda a: None, None),
        (lambda a: "", None),
        (lambda a: 1, "f needs approval for these arguments"),
        (lambda a: "too much", "too much"),
        (lambda a: " ", "f needs approval for these arguments"),
        (_raises, "approval predicate failed: KeyError: 'amount'"),
        (_raises_unsayable, "approval predicate failed: _Unsayable: _Unsayable()"),
        (lambda a: _NoTruth(), "approval predicate failed: TypeError: no truth"),
        (lambda: True, "approval predicate failed: TypeError"),
        (lambda a: Terms("two of you", needed=2), "two of you"),
        (lambda a: Terms(" "), "f needs approval for these arguments"),
        (lambda a: Terms("nobody", needed=0), "approval predicate asks for what cannot be: needed=0"),
    ],
)
def test_w05_a_gate_never_raises_and_never_opens_by_mistake(rule: Any, reason: str | None) -> None:
    @tool(requires_approval=rule)
    def f() -> None: ...

    got = f.gate(f.validate({}))
    assert got == reason if reason is None else got is not None and got.startswith(reason)


@policy
def one_person(call: PolicyCall) -> Terms:
    return Terms("one of you", risk="low")


def test_a_rule_may_say_on_what_terms_people_decide_and_a_stricter_one_cannot_loosen_them() -> None:
    @tool(requires_approval=lambda a: Terms("two of you", "own", "high", needed=2))
    def f() -> None: ...

    assert f.terms(f.validate({})) == Terms("two of you", "tool", "high", needed=2)
    verdict = judge(RequestedCall("c", "f", {}), {"f": f}, None, Rules(policies=(one_person,)))
    assert isinstance(verdict, Hold)
    assert (verdict.terms.needed, verdict.terms.risk) == (2, "high")


def test_a_reason_is_bounded() -> None:
    @tool(requires_approval=lambda a: "x" * 100_000)
    def f() -> None: ...

    assert len(f.gate(f.validate({})) or "") == 500


# the call


@pytest.mark.anyio
async def test_an_async_tool_gets_typed_values_and_the_key() -> None:
    arguments = issue_refund.validate({"order_id": "A", "amount": "5"})
    assert await issue_refund.call(arguments, "k", in_thread) == {"order": "A", "amount": 5, "key": "k"}


@pytest.mark.anyio
async def test_w07_a_blocking_tool_runs_once_in_a_thread() -> None:
    threads: list[int] = []

    @tool
    def block(item: Item) -> str:
        threads.append(threading.get_ident())
        return item.sku

    assert await block.call(block.validate({"item": {"sku": "a"}}), "k", in_thread) == {"result": "a"}
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()


@pytest.mark.anyio
async def test_what_a_blocking_wrapper_or_an_object_returns_is_awaited() -> None:
    async def inner(x: int) -> int:
        return x + 1

    @tool
    @functools.wraps(inner)
    def wrapper(x: int) -> Any:
        return inner(x)

    class Adder:
        async def __call__(self, x: int) -> int:
            return x + 2

    assert await wrapper.call(wrapper.validate({"x": 1}), "k", in_thread) == {"result": 2}
    adder = tool(Adder(), name="adder")
    assert await adder.call(adder.validate({"x": 1}), "k", in_thread) == {"result": 3}


@pytest.mark.anyio
async def test_arguments_left_out_are_the_functions_own_defaults() -> None:
    missing: Any = object()

    @tool
    async def find(name: str = missing, limit: int = 3, *, deep: bool = False) -> Any:
        return [name is missing, limit, deep]

    assert await find.call(find.validate({"deep": True}), "k", in_thread) == {"result": [True, 3, True]}


@pytest.mark.anyio
async def test_a_tool_cannot_change_the_recorded_arguments() -> None:
    @tool
    async def drain(items: list[str], anything: Any) -> Any:
        items.clear()
        anything.clear()

    arguments = drain.validate({"items": ["a"], "anything": {"x": 1}})
    await drain.call(arguments, "k", in_thread)
    assert arguments.plain == {"items": ["a"], "anything": {"x": 1}} == arguments.values


def test_defaults_are_not_shared_between_calls() -> None:
    @tool
    def find(names: list[str] = ["a"]) -> None: ...  # noqa: B006 - as people write it

    find.validate({}).plain["names"].append("b")
    assert find.validate({}).plain == {"names": ["a"]} == find.validate({}).values


@pytest.mark.anyio
async def test_exceptions_come_out_and_stop_iteration_does_not_hang() -> None:
    @tool
    def empty() -> Any:
        return next(iter(()))

    @tool
    async def broken() -> Any:
        raise KeyError("x")

    with pytest.raises(RuntimeError, match="empty raised StopIteration"):
        await empty.call(empty.validate({}), "k", in_thread)
    with pytest.raises(KeyError):
        await broken.call(broken.validate({}), "k", in_thread)


@pytest.mark.anyio
async def test_w05_a_nul_in_the_result_is_kept() -> None:
    @tool
    async def nul() -> str:
        return "\x00\ud800"

    assert await nul.call(nul.validate({}), "k", in_thread) == {"result": "\x00\ud800"}


@pytest.mark.anyio
async def test_reconcile_is_asked_with_the_arguments_it_names() -> None:
    async def found(idempotency_key: str, amount: int, unasked: int = 7) -> Any:
        return {"key": idempotency_key, "amount": amount, "unasked": unasked}

    def not_found(**everything: Any) -> Any:
        assert set(everything) == {"amount", "order_id", "idempotency_key"}

    def pay(order_id: str, amount: int) -> None: ...

    one, two = (tool(pay, side_effect=True, reconcile=function) for function in (found, not_found))
    arguments = one.validate({"order_id": "A", "amount": "5"})
    assert await one.ask_reconcile(arguments, "k", in_thread) == {"key": "k", "amount": 5, "unasked": 7}
    assert await two.ask_reconcile(arguments, "k", in_thread) is None
    with pytest.raises(BadTool, match="no reconcile"):
        await issue_refund.ask_reconcile(arguments, "k", in_thread)
