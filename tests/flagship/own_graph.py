"""Somebody's own graph: a model node and LangGraph's own tool node, with a tool of Callboard's in it."""

import json
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from callboard import ChatMessage, NodeSettings, Tool
from callboard.actors.adapters.langgraph.runtime import GraphRuntime
from callboard.actors.adapters.langgraph.tools import graph_tool
from callboard.persistence.store import Store

from .program import policy


def _seen(message: AnyMessage) -> ChatMessage:
    roles: dict[str, Any] = {"human": "user", "ai": "assistant", "tool": "tool"}
    return ChatMessage(roles[message.type], str(message.content))


async def model(state: MessagesState) -> dict[str, Any]:
    answer = await policy([_seen(message) for message in state["messages"]], (), "")
    calls: Any = [{"id": call.id, "name": call.name, "args": call.arguments} for call in answer.tool_calls]
    return {"messages": [AIMessage(answer.content, tool_calls=calls)]}


def runtime(store: Store, tools: Sequence[Tool], settings: NodeSettings) -> GraphRuntime:
    builder = StateGraph(MessagesState)
    builder.add_node("model", model)
    builder.add_node("tools", ToolNode([graph_tool(tool) for tool in tools]))
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", tools_condition)
    builder.add_edge("tools", "model")
    return GraphRuntime(
        store,
        builder,
        tools=tools,
        name="agents",
        to_input=lambda goal: {"messages": [HumanMessage(goal)]},
        to_answer=lambda values: _compact(values["messages"][-1].content),
        settings=settings,
    )


def _compact(text: str) -> str:
    """Tool messages are JSON with spaces in LangGraph, and without in Callboard."""
    words: list[str] = []
    decoder, at = json.JSONDecoder(), 0
    while text.startswith("{", at):
        found, at = decoder.raw_decode(text, at)
        words.append(json.dumps(found, separators=(",", ":")))
        at += text[at : at + 1] == " "
    return " ".join(words) or text
