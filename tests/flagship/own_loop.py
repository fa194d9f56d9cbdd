"""Somebody's own loop, as it was before Callboard but for `run.step` and `run.answers`."""

from callboard import FunctionLLM
from callboard.actors.adapters.loop import Loop, durable_loop, said, user

from .program import policy

llm = FunctionLLM(policy)


@durable_loop(name="agents")
async def code(run: Loop, goal: str) -> str:
    messages = [user(goal)]
    while True:
        answer = await run.step("model", llm.call, messages, [])
        if not answer.tool_calls:
            return str(answer.content)
        messages += [said(answer), *await run.answers(answer.tool_calls)]
