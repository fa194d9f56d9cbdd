"""The application of the chaos run: the CRM desk with its offline model, which takes its time.

The time is what makes a storm find something: models that think, tools that have done their work and have not said so
yet. It differs from the desk as it ships in two more things:

    a tool is attempted ten times   here the desk's own tables are away for seconds too, and what is asked is whether
                                    the outcome is right, not how soon the desk gives up
    a model's call takes memory     so that a node that gets no more notices
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio

from callboard.actors.actor import on
from callboard.actors.agent.messages import CallModel
from callboard.actors.agent.model_worker import ModelWorker
from callboard.actors.app import App, Surroundings
from callboard.actors.llm.client import ChatMessage, LLMClient, LLMResponse, ToolSpec
from callboard.actors.spec import Child, Supervisor
from callboard.actors.worker_context import WorkerContext
from callboard.crm.app import AGENTS, DESK_RULES, desk_tree
from callboard.crm.model import DeskModel
from callboard.crm.roles import prompt_of
from callboard.crm.schema import APP_ROLE
from callboard.mailbox.message import Message
from callboard.persistence.postgres.database import Database

THINK_SECONDS = 0.05
AFTER_EFFECT_SECONDS = 0.1
"""Between the commit of a refund and its answer, where it is worst to be killed."""
TOOL_ATTEMPTS = 10
CALL_BYTES = 64 << 20
"""What a call of a model takes in memory while it lasts: untouched pages, which cost nothing but the right to them. So
much, because what is smaller may be had of what was given back before."""


class SlowModel(LLMClient):
    """The desk's offline model after a while."""

    model = "desk-model"

    def __init__(self) -> None:
        self._inner = DeskModel()

    async def call(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system_prompt: str = ""
    ) -> LLMResponse:
        await anyio.sleep(THINK_SECONDS)
        return await self._inner.call(messages, tools, system_prompt)


class LargeModelWorker(ModelWorker, kind="large-model"):
    """Calls the model, and takes memory for it. Where there is none, that is the node's trouble and not the model's."""

    @on
    async def call(self, message: CallModel, ctx: WorkerContext) -> Message:
        memory = bytes(CALL_BYTES)  # zeros that the kernel has not given yet, which a bytearray would write
        answer = await super().call(message, ctx)
        del memory
        return answer


async def _dawdle(key: str) -> None:
    await anyio.sleep(AFTER_EFFECT_SECONDS)


def _large(child: Child | Supervisor) -> Child | Supervisor:
    if isinstance(child, Child) and child.actor is ModelWorker:
        return replace(child, actor=LargeModelWorker)
    return child


@asynccontextmanager
async def opened(surroundings: Surroundings) -> AsyncIterator[Supervisor]:
    """The desk's tree over tables that were filled before."""
    async with await Database.open(surroundings.dsn, role=APP_ROLE) as database:
        rules = replace(DESK_RULES, tool_attempts=TOOL_ATTEMPTS)
        desk = desk_tree(database, surroundings.node, _dawdle, rules, SlowModel())
        yield replace(desk, children=tuple(_large(child) for child in desk.children))


app = App("crm", opened, runs=AGENTS, system_prompt=prompt_of("support"))
