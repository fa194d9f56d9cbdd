"""What most commands do: read the settings, open the store, run something with the operations, close."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from ..settings import Settings, read_settings

if TYPE_CHECKING:
    from ..operations import Operations

T = TypeVar("T")


def with_operations(work: "Callable[[Operations], Awaitable[T]]", settings: Settings) -> T:
    """The result of `work` on the store that these settings mean."""
    import anyio

    from ..operations import Operations
    from ..wiring import open_store

    async def session() -> T:
        async with open_store(settings) as store:
            return await work(Operations(store, settings.principal))

    return anyio.run(session)


def operate(work: "Callable[[Operations], Awaitable[T]]", dsn: str | None) -> tuple[T, Settings]:
    """The result of `work`, and the settings it ran under."""
    settings = read_settings(dsn=dsn)
    return with_operations(work, settings), settings
