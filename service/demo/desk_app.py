"""The demonstration desk as an application: the CRM desk, with terms, checks, a model that thinks, and a back office.

Options: `think_seconds` is about how long the simulated model takes for an answer (0: no time). `hang_once=FILE`: the
first node to make FILE writes its process id and the refund's key into it and hangs between the refund's commit and its
return; the demonstration kills it there, so that a run shows what a crash and a recovery look like.
"""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio

from callboard.actors.app import App, Surroundings
from callboard.actors.llm.client import ChatMessage, LLMClient, LLMResponse, ToolSpec, TransientModelError
from callboard.actors.spec import Supervisor
from callboard.crm.app import AGENTS, DESK_RULES, OWN_DSN, desk_tree
from callboard.crm.model import DeskModel
from callboard.crm.money import AfterEffect
from callboard.crm.policy import policy_text
from callboard.crm.schema import APP_ROLE
from callboard.crm.tools import desk_tools
from callboard.persistence.port import Port, RealPort
from callboard.persistence.postgres.database import Database

from .desk_office import office
from .desk_terms import POLICIES, checked

OVERLOADED_EVERY = 9
"""So many first answers of the model, and the next is refused once, as providers do."""


class ThinkingModel(LLMClient):
    """The desk's offline model, with the pace and the moods of a real one."""

    model = "desk-model"

    def __init__(self, port: Port, seconds: float) -> None:
        self._port = port
        self._seconds = seconds
        self._inner = DeskModel()
        self._asked = 0

    async def call(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system_prompt: str = ""
    ) -> LLMResponse:
        """As `DeskModel`, after a while.

        Raises:
            TransientModelError: it is overloaded for a moment.
        """
        self._asked += 1
        await self._port.sleep(self._seconds * (0.5 + len(messages) % 3 / 2))
        if self._seconds and self._asked % OVERLOADED_EVERY == 0:
            raise TransientModelError("the model is overloaded (529)", retry_after_seconds=self._seconds)
        return await self._inner.call(messages, tools, system_prompt)


@asynccontextmanager
async def open_demo_desk(surroundings: Surroundings) -> AsyncIterator[Supervisor]:
    """The tree, over a database that is prepared already (`desk_house`)."""
    own = os.environ.get(OWN_DSN, "")
    hang = surroundings.options.get("hang_once")
    seconds = float(surroundings.options.get("think_seconds", "0"))
    async with await Database.open(own or surroundings.dsn, role=None if own else APP_ROLE) as database:
        tools = desk_tools(database, node=surroundings.node, after_effect=_hang_once(Path(hang)) if hang else None)
        desk = desk_tree(
            database,
            surroundings.node,
            rules=replace(DESK_RULES, policies=POLICIES),
            llm=ThinkingModel(RealPort(), seconds),
            tools=checked(tools, database),
        )
        yield replace(desk, children=(*desk.children, office()))


def _hang_once(mark: Path) -> AfterEffect:
    async def hang(key: str) -> None:
        try:
            with mark.open("x") as file:
                file.write(f"{os.getpid()} {key}\n")
        except FileExistsError:
            return
        await anyio.sleep_forever()

    return hang


app = App("crm", open_demo_desk, runs=AGENTS, system_prompt=policy_text())
