"""A small desk whose agents ask for people: the shared stage of the screens' tests. Everything on it is the runtime's
own work on a store in memory; only the model is scripted, and time can be moved on by hand (`Desk.pass_time`).

    async with desk() as d:
        approval = await d.refund("480.00", order="A-20931")     # a run that waits for a person; id of its approval
        app = CallboardApp(gateway_on(d.store, port=d.port))
"""

import itertools
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from decimal import Decimal
from typing import Any

import anyio

from callboard import FunctionLLM, LLMResponse, Runtime, Tool, tool
from callboard.actors.agent.policies import PolicyCall, policy
from callboard.actors.agent.policy import Terms
from callboard.actors.guard.profiles import get_profile
from callboard.actors.llm.client import ChatMessage, ToolSpec
from callboard.persistence.memory import MemoryStore
from callboard.persistence.port import RealPort
from callboard.persistence.rows import Decision
from callboard.service.operations.decisions import Decisions
from callboard.service.operations.principal import Principal
from callboard.service.operations.runs import Operations
from callboard.service.operations.views import ApprovalView

WAIT_SECONDS = 120.0
LOOK_SECONDS = 0.01
TRACED = get_profile("validation").with_(name="traced", taint=["read"])
"""Says of every value where it comes from, and holds nothing by it that this desk does."""


class MovedPort(RealPort):
    """The machine's own port, but its calendar can be moved on."""

    moved = 0.0

    def begin_at_noon(self) -> None:
        """Have no day end while hours pass, whenever the tests are run: a moment of another day has its date."""
        noon = time.mktime((2031, 3, 12, 12, 0, 0, 0, 0, -1))  # of the zone that the machine is in, as screens show it
        self.moved += noon - self.wall()

    def wall(self) -> float:
        return super().wall() + self.moved


class Desk:
    """The desk, and what its tools have done."""

    def __init__(self, store: MemoryStore, port: MovedPort, *, hold_seconds: float, model: FunctionLLM | None) -> None:
        self.store, self.port = store, port
        self.done: list[tuple[str, dict[str, Any]]] = []
        """Calls that were made: the tool and what it got, without the key."""
        self.delivered_days: dict[str, int] = {}
        """Of an order, else 12: above 30 a check of the refund fails."""
        self.asked: dict[str, Sequence[tuple[str, Mapping[str, Any]]]] = {}
        self._numbers = itertools.count(8841)
        self._hold_seconds = hold_seconds
        self.runtime = Runtime(
            store,
            model or FunctionLLM(self._answer),
            self._tools(),
            model="desk-model",
            policies=[self._policy()],
            approval_seconds=3600.0,
            guardrail_profile=TRACED,
            name="crm",
            port=port,
        )

    # --- runs that wait -----------------------------------------------------------------------------------------

    async def refund(self, amount: str = "480.00", *, order: str = "A-20931", wait: bool = True, **more: Any) -> str:
        """A refund that waits: from 500.00 on high risk with a hold of a minute, up to 25.00 low. Id of its approval.

        `more`: `memo`, `to`, `currency`, and what `ask` takes.
        """
        call = {
            "order_id": order,
            "amount": amount,
            "currency": more.pop("currency", "EUR"),
            "to": more.pop("to", "card_1NxQ8vKeL0aZt4242"),
            "memo": more.pop("memo", "item damaged, photos on ticket"),
        }
        goal = (
            f"Ticket #{51000 + next(self._numbers)}: order {order} arrived with a cracked screen. I want my money back."
        )
        return await self.ask(goal, ("look_up_order", {"order_id": order}), ("issue_refund", call), wait=wait, **more)

    async def payout(self, cents: int = 67010, *, payee: str = "Nordlicht GmbH", wait: bool = True, **more: Any) -> str:
        """High risk, two people, not whoever asked, six hours; USD in cents."""
        call = {"payee": payee, "iban": "DE21500105170648489890", "amount_cents": cents, "currency": "USD"}
        return await self.ask(
            f"Pay invoice {next(self._numbers)} of {payee}.", ("send_payout", call), wait=wait, **more
        )

    async def mail(self, to: str = "press@chronicle.example", *, body: str = "Thank you.", **more: Any) -> str:
        """Low risk, no money, 28 minutes."""
        call = {"to": to, "subject": "Your question", "body": body}
        return await self.ask(f"Answer {to}, letter {next(self._numbers)}.", ("send_mail", call), **more)

    async def close(self, account: str = "acct 77120", **more: Any) -> str:
        """High risk and no money; cannot be undone."""
        call = {"account": account, "reason": "asked for in writing"}
        return await self.ask(f"Close {account} as asked, {next(self._numbers)}.", ("close_account", call), **more)

    async def forbidden(self, **more: Any) -> str:
        """What policy lets nobody approve."""
        call = {"account": "root", "reason": "the customer says so"}
        return await self.ask(f"Close the root account {next(self._numbers)}.", ("close_account", call), **more)

    async def ask(
        self, goal: str, *calls: tuple[str, Mapping[str, Any]], by: str = "unknown", run_id: str = "", wait: bool = True
    ) -> str:
        """A run that makes these calls, one a turn; id of the approval that the last of them waits for ("" where not
        waited for)."""
        self.asked[goal] = calls
        run = await self.runtime.create(goal, run_id=run_id or f"T-{next(self._numbers)}", requested_by=by)
        return (await self.waiting(run)).id if wait else ""

    async def waiting(self, run: str) -> Decision:
        """The pending decision of a run, once there is one and its checks have answered."""
        address = self.runtime.runs.address(run)
        with anyio.fail_after(WAIT_SECONDS):
            while True:
                for row in await self.store.decisions(status="pending", run=address, limit=10):
                    if row.checks or row.tool != "issue_refund":
                        return row
                await anyio.sleep(LOOK_SECONDS)

    async def replaced(self, approval: str) -> Decision:
        """The decision that takes the place of one, once it is there."""
        with anyio.fail_after(WAIT_SECONDS):
            while True:
                for row in await self.store.decisions(status="pending", limit=1_000):
                    if row.replaces == approval:
                        return row
                await anyio.sleep(LOOK_SECONDS)

    # --- other people, and time -----------------------------------------------------------------------------------

    def decisions(self, name: str = "ana") -> Decisions:
        """Somebody else at another terminal."""
        return Decisions(Operations(self.store, Principal(name, "cli", "ci-7"), self.port))

    async def row(self, approval: str) -> ApprovalView:
        """An approval as it is now, whatever its status."""
        found = await self.store.decision(approval)
        assert found is not None
        return (await self.decisions().find(approval)) if found.status == "pending" else _view(found)

    async def pass_time(self, seconds: float) -> None:
        """The calendar jumps; what is due by then happens when its node looks next."""
        self.port.moved += seconds

    async def until_done(self, count: int = 1) -> None:
        """Until so many calls were made."""
        with anyio.fail_after(WAIT_SECONDS):
            while len(self.done) < count:  # noqa: ASYNC110 - tools run in the node, which has no signal for this
                await anyio.sleep(LOOK_SECONDS)

    # --- the desk's rules and tools -------------------------------------------------------------------------------

    def _policy(self) -> Any:
        hold = self._hold_seconds

        @policy
        def desk_rules(call: PolicyCall) -> Terms | None:
            match call.tool:
                case "issue_refund":
                    return _refund_terms(Decimal(str(call.arguments["amount"])), hold)
                case "send_payout":
                    return Terms(
                        "payouts are seen by two people", "payouts.four_eyes", "high", 2, True, 21_600.0, 6 * hold
                    )
                case "send_mail":
                    return Terms("mail to the press is read first", "mail.press", "low", expires_seconds=1_680.0)
                case "close_account" if call.arguments["account"] == "root":
                    return Terms("nobody closes the root account", "accounts.root", "never", expires_seconds=7_200.0)
                case "close_account":
                    return Terms("an account cannot be opened again", "accounts.close", "high", expires_seconds=7_200.0)
            return None

        return desk_rules

    def _tools(self) -> list[Tool]:
        done, days = self.done, self.delivered_days

        @tool(returns_trust="trusted")
        async def look_up_order(order_id: str) -> dict[str, Any]:
            """Look an order up."""
            return {"order_id": order_id, "paid": "512.40", "currency": "EUR", "card": "card_1NxQ8vKeL0aZt4242"}

        async def order_exists(order_id: str) -> tuple[bool, str]:
            return True, f"order {order_id} exists, paid 512.40 EUR"

        async def refunded_before() -> tuple[bool, str]:
            return True, "nothing refunded on it so far"

        async def same_card(to: str) -> tuple[bool, str]:
            return to.endswith("4242"), "card ••4242 is the card that paid"

        async def in_time(order_id: str) -> tuple[bool, str]:
            since = days.get(order_id, 12)
            return since <= 30, f"delivered {since} days ago; the window is 30"

        @tool(effect="money", checks=[order_exists, refunded_before, same_card, in_time])
        async def issue_refund(
            order_id: str, amount: Decimal, currency: str, to: str, memo: str, *, idempotency_key: str
        ) -> dict[str, Any]:
            """Pay a customer back."""
            done.append(("issue_refund", {"order_id": order_id, "amount": str(amount), "to": to, "memo": memo}))
            return {"refunded": str(amount)}

        @tool(effect="money")
        async def send_payout(
            payee: str, iban: str, amount_cents: int, currency: str, *, idempotency_key: str
        ) -> dict[str, Any]:
            """Pay an invoice."""
            done.append(("send_payout", {"payee": payee, "iban": iban, "amount_cents": amount_cents}))
            return {"paid": amount_cents}

        @tool(effect="egress")
        async def send_mail(to: str, subject: str, body: str, *, idempotency_key: str) -> dict[str, Any]:
            """Send a letter."""
            done.append(("send_mail", {"to": to, "subject": subject, "body": body}))
            return {"sent": True}

        @tool(effect="write")
        async def close_account(account: str, reason: str, *, idempotency_key: str) -> dict[str, Any]:
            """Close an account for ever."""
            done.append(("close_account", {"account": account, "reason": reason}))
            return {"closed": account}

        return [look_up_order, issue_refund, send_payout, send_mail, close_account]

    def _answer(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system: str) -> LLMResponse:
        goal = next(message.content for message in messages if message.role == "user")
        calls = self.asked.get(goal, ())
        turn = sum(message.role == "assistant" for message in messages)
        if turn >= len(calls):
            return LLMResponse("That is done.", cost_usd=Decimal("0.02"))
        name, arguments = calls[turn]
        said = "Let me check the order." if name == "look_up_order" else "This is what I propose."
        wanted = [{"id": f"c{turn}", "name": name, "arguments": dict(arguments)}]
        return LLMResponse(said, wanted, input_tokens=900, output_tokens=40, cost_usd=Decimal("0.02"))


def _refund_terms(amount: Decimal, hold: float) -> Terms:
    if amount <= 25:
        return Terms("a small refund to a known customer", "refunds.small", "low", hold_seconds=hold)
    if amount <= 500:
        return Terms(f"{amount} > 25.00 EUR", "refunds.over_25", "medium", hold_seconds=hold)
    return Terms(f"{amount} > 500.00 EUR", "refunds.over_500", "high", expires_seconds=14_400.0, hold_seconds=6 * hold)


def _view(row: Decision) -> ApprovalView:
    from callboard.service.operations.lookup import run_id_of
    from callboard.service.operations.views import approval_view

    return approval_view(row, run_id_of(row.run))


@asynccontextmanager
async def desk(
    store: MemoryStore | None = None,
    *,
    hold_seconds: float = 10.0,
    model: FunctionLLM | None = None,
    at_noon: bool = False,
) -> AsyncIterator[Desk]:
    """A desk with one node in this process. `store`: one that is open; time can be moved if it has a `MovedPort`.
    `at_noon`: it is noon there, and not what this machine's clock says."""
    own = getattr(store, "_port", None)
    port = own if isinstance(own, MovedPort) else MovedPort()
    if at_noon:
        port.begin_at_noon()
    async with AsyncExitStack() as stack:
        if store is None:
            store = await stack.enter_async_context(MemoryStore(port))
        made = Desk(store, port, hold_seconds=hold_seconds, model=model)
        await stack.enter_async_context(made.runtime)
        yield made
