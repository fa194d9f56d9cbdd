"""`DeskModel`: a model that follows the desk's policy by rules, so that the demo and its tests need no network.

It plays all of the desk's agents, each by its own module: which one it is, its system prompt says. It is a pure
function of (messages, tools, system prompt), as a real model is to its runtime: it reads the limits from the policy in
its system prompt, the ticket and the records from tool results, and nothing from anywhere else. The same conversation
gets the same answer on any node, before and after a crash.

Invariant: a money tool is called once per run. Whatever comes back, the model never tries again by itself; repeating
is the runtime's business, under one key.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from callboard.actors.llm.client import ChatMessage, LLMClient, LLMResponse, ToolCall, ToolSpec
from callboard.crm.model_billing import billing_step
from callboard.crm.model_knowledge import knowledge_step
from callboard.crm.model_retention import retention_step
from callboard.crm.model_support import support_step
from callboard.crm.model_triage import triage_step
from callboard.crm.policy import parse_policy
from callboard.crm.roles import Role, role_of
from callboard.crm.steps import Step, Steps
from callboard.crm.transcript import Transcript

_STEPS: Final[Mapping[Role, Callable[[Steps], Step]]] = {
    "support": support_step,
    "triage": triage_step,
    "billing": billing_step,
    "retention": retention_step,
    "knowledge": knowledge_step,
}


class DeskModel(LLMClient):
    """Works one ticket at a time. Costs nothing; token counts are estimated as a quarter of the characters."""

    async def call(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system_prompt: str = ""
    ) -> LLMResponse:
        """Give the next tool calls, or the final words. Raises PolicyUnreadable where the prompt has no limits."""
        transcript = Transcript(messages)
        step = _STEPS[role_of(system_prompt)](Steps(transcript, tools, parse_policy(system_prompt)))
        asked = len(system_prompt) + sum(len(message.content) for message in messages)
        if isinstance(step, str):
            return LLMResponse(content=step, input_tokens=asked // 4, output_tokens=len(step) // 4)
        calls = [
            ToolCall(id=f"call-{transcript.calls_before + number}", name=name, arguments=arguments)
            for number, (name, arguments) in enumerate(step, start=1)
        ]
        answered = sum(len(call.name) + len(json.dumps(call.arguments)) for call in calls)
        return LLMResponse(
            tool_calls=calls, stop_reason="tool_use", input_tokens=asked // 4, output_tokens=answered // 4
        )
