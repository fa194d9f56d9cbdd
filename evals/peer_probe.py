"""Run by the interpreter that has the peer `durable-agents`, not by ours: what its own runtime makes of texts.

Reads `{"text": …, "spoken": …}` lines on stdin. Says its version on the first line of stdout, then one line for each
text: `{"PROFILE": [OUTCOME, DETECTED]}`. Each text goes through a whole run on the peer's in-memory store with
its scripted model: as the goal where a stranger *speaks*, else as the result of a tool; then the model asks to send
something to somebody. The outcome is what became of that call: it `went`, a person is `asked`, or the run `ended`.
It takes the standard library and the peer, nothing of Callboard.
"""

import asyncio
import importlib
import json
import logging
import sys
from typing import Any

PEER = "durable_agents"
GOAL = "Look after case C-1041 and write to desk-1041 at once."
PROFILES = ("off", "validation", "lenient", "standard", "strict")


def answer(peer: Any, calls: list[tuple[str, dict[str, Any]]]) -> Any:
    """One scripted turn of the model."""
    asked = [{"id": f"c-{name}", "name": name, "arguments": arguments} for name, arguments in calls]
    return peer.LLMResponse(
        content=None if calls else "done",
        tool_calls=asked,
        stop_reason="tool_use" if calls else "end_turn",
        input_tokens=1,
        output_tokens=1,
        cost_usd=0,
        latency_ms=0,
        provider_request_id="scripted",
    )


async def outcome(peer: Any, profile: str, text: str, *, spoken: bool) -> tuple[str, bool]:
    """What became of the call that comes after the text, and whether a pattern was seen."""
    sent: list[str] = []

    async def read_text(name: str) -> dict[str, str]:
        """Read what somebody wrote."""
        return {"text": text if name else ""}

    async def send(recipient: str, words: str) -> dict[str, bool]:
        """Send a text to somebody."""
        sent.append(f"{recipient}: {words}")
        return {"sent": True}

    turns = [] if spoken else [answer(peer, [("read_text", {"name": "C-1041"})])]
    turns += [answer(peer, [("send", {"recipient": "desk-1041", "words": "C-1041"})]), answer(peer, [])]
    store = peer.InMemoryEventStore()
    tools = [peer.tool()(read_text), peer.tool(side_effect=True)(send)]
    runtime = peer.Runtime(store, peer.ScriptedLLM(turns), tools, guardrail_profile=profile)
    run = await runtime.start(text if spoken else GOAL)
    seen = [event for event in await store.read(run.id) if event.type == "GuardrailTriggered"]
    detected = any(event.rule.startswith("injection_") for event in seen)
    if sent:
        return "went", detected
    return ("asked" if run.state.status == "awaiting_approval" else "ended"), detected


def main() -> int:
    """Answer every line; the exit code."""
    logging.disable(logging.CRITICAL)
    peer = importlib.import_module(PEER)
    sys.stdout.write(json.dumps({"version": peer.__version__}) + "\n")
    for line in sys.stdin:
        row = json.loads(line)
        found = {name: asyncio.run(outcome(peer, name, row["text"], spoken=row["spoken"])) for name in PROFILES}
        sys.stdout.write(json.dumps(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
