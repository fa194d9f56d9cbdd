"""What most commands do: read the settings, open the store, run something with the operations, close."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

from ..settings import Settings, read_settings

if TYPE_CHECKING:
    from ...persistence.store import Store
    from ..operations.runs import Operations

T = TypeVar("T")


def with_operations(work: "Callable[[Operations], Awaitable[T]]", settings: Settings) -> T:
    """The result of `work` on the store that these settings mean."""
    import anyio

    from ..operations.principal import terminal_principal
    from ..operations.runs import Operations

    async def session() -> T:
        async with opened_store(settings) as store:
            who = terminal_principal(settings.principal, chaos=settings.chaos(unless_said=True))
            return await work(Operations(store, who))

    return anyio.run(session)


@asynccontextmanager
async def opened_store(settings: Settings) -> "AsyncIterator[Store]":
    """`wiring.open_store` for a person in front: the first start of an embedded server takes some seconds."""
    from ..wiring import open_store
    from .progress import progress

    async with AsyncExitStack() as stack:
        with progress("starting the database"):
            store = await stack.enter_async_context(open_store(settings))
        yield store


def operate(work: "Callable[[Operations], Awaitable[T]]", dsn: str | None) -> tuple[T, Settings]:
    """The result of `work`, and the settings it ran under."""
    settings = read_settings(dsn=dsn)
    return with_operations(work, settings), settings
