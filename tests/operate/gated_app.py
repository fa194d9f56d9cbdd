"""The desk of `tests.service.desk_app`, which no node opens before a file is there: `gate` in its folder."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from callboard import App, Supervisor, Surroundings
from tests.service import desk_app


@asynccontextmanager
async def open_desk(surroundings: Surroundings) -> AsyncIterator[Supervisor]:
    while not (Path(surroundings.options["folder"]) / "gate").exists():  # noqa: ASYNC110 - the test makes it
        await anyio.sleep(0.02)
    async with desk_app.open_desk(surroundings) as tree:
        yield tree


app = App("desk", open_desk, runs="/desk/run", system_prompt="Be brief.")
