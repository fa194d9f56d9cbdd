"""The supervision trees of the runs, each made once: what they host keeps nothing of a run but `WORLD`."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from callboard.actors.agent.desk import agent_children
from callboard.actors.agent.tool import tool
from callboard.actors.approval import Approvals
from callboard.actors.backoff import RestartBackoff
from callboard.actors.llm.client import ChatMessage, LLMResponse, ToolSpec, TransientModelError
from callboard.actors.llm.scripted import FunctionLLM
from callboard.actors.spec import Child, Supervisor, Tree

from .buyers import Buyer, Till
from .family import Kid
from .outside import WORLD
from .peers import Peer
from .talkers import Asker, Helper, Mayfly
from .tickers import Ticker
from .victims import Victim

QUICK = RestartBackoff(first_seconds=0.05, cap_seconds=0.3)
PATIENT = 1_000
"""Restarts within a minute that no run reaches."""


@tool(side_effect=True, requires_approval=lambda a: a["amount"] > 50)
async def refund(order: str, amount: int, idempotency_key: str) -> dict[str, str]:
    """Refund an order. Needs approval above 50."""
    WORLD.attempt(idempotency_key)
    await WORLD.effect(idempotency_key)
    return {"refunded": order}


@tool(side_effect=True)
async def post(order: str) -> dict[str, str]:
    """Send a parcel; nobody can tell afterwards whether it was sent."""
    WORLD.attempt(f"post {order}")
    await WORLD.effect(f"post {order}")
    return {"sent": order}


@tool
async def look(order: str) -> dict[str, str]:
    """Look at an order."""
    if WORLD.stumble(f"look {order}"):
        raise RuntimeError("simulated")
    return {"order": order}


def _answer(messages: Sequence[ChatMessage], _tools: Sequence[ToolSpec], _system: str) -> LLMResponse:
    """What the scripted model says, by how often it has answered and by the goal."""
    turn = sum(message.role == "assistant" for message in messages)
    goal = next((message.content for message in messages if message.role == "user"), "")
    order = goal.rpartition(" ")[2]
    if WORLD.stumble(f"answer {turn} of {order}"):
        raise TransientModelError("simulated: overloaded")
    calls: list[list[dict[str, Any]]] = [
        [_call("look", {"order": order}), _call("refund", {"order": order, "amount": 7})],
        [_call("post", {"order": order}), _call("refund", {"order": order, "amount": 70}), _call("look", {})],
    ]
    return LLMResponse("", calls[turn]) if turn < len(calls) else LLMResponse(f"done with {order}")


def _call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"id": name, "name": name, "arguments": arguments}


def _family(name: str, strategy: Any, slow: float, backoff: RestartBackoff | None = None) -> Supervisor:
    kids = (
        Child(Kid, "a", args=(slow,)),
        Child(Kid, "b", args=(0.0,), restart="transient"),
        Child(Kid, "c", args=(slow,)),
    )
    return Supervisor(name, kids, strategy=strategy, max_restarts=PATIENT, backoff=backoff)


def _parts() -> dict[str, Supervisor]:
    agents = agent_children(
        "/w/agents", FunctionLLM(_answer), [refund, post, look], model_first_seconds=0.02, tool_first_seconds=0.02
    )
    return {
        "peers": Supervisor("peers", (Child(Peer, "peer", pool=True),)),
        "shop": Supervisor(
            "shop", (Child(Approvals, "approvals"), Child(Till, "till"), Child(Buyer, "buyer", pool=True))
        ),
        "clock": Supervisor("clock", (Child(Ticker, "ticker", pool=True),)),
        "talk": Supervisor(
            "talk",
            (Child(Asker, "asker", pool=True), Child(Helper, "helper", pool=True), Child(Mayfly, "mayfly", pool=True)),
        ),
        "victims": Supervisor("victims", (Child(Victim, "victim", pool=True),), max_restarts=PATIENT, backoff=QUICK),
        "all": _family("all", "one_for_all", 0.02),
        "rest": _family("rest", "rest_for_one", 0.0, QUICK),
        "one": _family("one", "one_for_one", 0.03),
        "agents": Supervisor("agents", agents),
    }


@cache
def tree_of(parts: frozenset[str]) -> Tree:
    """The tree with these parts of the world, always in the same order."""
    return Tree(
        Supervisor(
            "w", tuple(part for name, part in _parts().items() if name in parts), max_restarts=PATIENT, backoff=QUICK
        )
    )


PARTS = ("peers", "shop", "clock", "talk", "all", "rest", "one")
"""What a run may have, apart from agents and victims, which its profile asks for."""
RUNS = "/w/agents/run"
