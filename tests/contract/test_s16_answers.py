"""S16: a request under an idempotency key is begun once in a day, and answered the same again."""

from hashlib import sha256

import anyio
import pytest

from callboard.mailbox.errors import BadRow, Conflict
from callboard.persistence.operating import KeptAnswer
from tests.contract.world import World

pytestmark = pytest.mark.anyio

REQUEST = sha256(b"POST /v1/runs").digest()
OTHER = sha256(b"POST /v1/runs, but another").digest()


async def test_s16_the_first_answers_and_the_second_gets_the_answer(world: World) -> None:
    assert await world.store.begin_answer("ann", "k", REQUEST) is None
    assert await world.store.begin_answer("ann", "k", REQUEST) == KeptAnswer(0, "")
    await world.store.keep_answer("ann", "k", KeptAnswer(201, '{"id":"r1"}'))
    assert await world.store.begin_answer("ann", "k", REQUEST) == KeptAnswer(201, '{"id":"r1"}')


async def test_s16_of_many_at_once_one_begins(world: World) -> None:
    got: list[KeptAnswer | None] = []

    async def ask() -> None:
        got.append(await world.store.begin_answer("ann", "k", REQUEST))

    async with anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(ask)
    assert got.count(None) == 1
    assert got.count(KeptAnswer(0, "")) == 7


async def test_s16_the_same_key_with_another_request_is_a_conflict(world: World) -> None:
    await world.store.begin_answer("ann", "k", REQUEST)
    with pytest.raises(Conflict, match="another request"):
        await world.store.begin_answer("ann", "k", OTHER)


async def test_s16_keys_are_their_principals_own(world: World) -> None:
    assert await world.store.begin_answer("ann", "k", REQUEST) is None
    assert await world.store.begin_answer("bob", "k", OTHER) is None


async def test_s16_what_came_to_nothing_may_be_made_again_and_what_was_answered_may_not(world: World) -> None:
    await world.store.begin_answer("ann", "k", REQUEST)
    await world.store.forget_answer("ann", "k")
    assert await world.store.begin_answer("ann", "k", REQUEST) is None
    await world.store.keep_answer("ann", "k", KeptAnswer(200, "{}"))
    await world.store.forget_answer("ann", "k")
    assert await world.store.begin_answer("ann", "k", REQUEST) == KeptAnswer(200, "{}")


async def test_s16_a_request_that_nobody_finished_is_begun_again_after_a_minute(world: World) -> None:
    await world.store.begin_answer("ann", "k", REQUEST)
    await world.pass_time(61)
    assert await world.store.begin_answer("ann", "k", REQUEST) is None
    assert await world.store.begin_answer("ann", "k", REQUEST) == KeptAnswer(0, "")


async def test_s16_a_key_is_free_again_after_a_day(world: World) -> None:
    await world.store.begin_answer("ann", "k", REQUEST)
    await world.store.keep_answer("ann", "k", KeptAnswer(200, "{}"))
    await world.pass_time(86_000)
    assert await world.store.begin_answer("ann", "k", REQUEST) == KeptAnswer(200, "{}")
    await world.pass_time(500)
    assert await world.store.begin_answer("ann", "k", OTHER) is None


@pytest.mark.parametrize(("key", "request_hash"), [("", REQUEST), ("a\0b", REQUEST), ("k", b"short")])
async def test_s16_what_cannot_be_kept_is_refused(world: World, key: str, request_hash: bytes) -> None:
    with pytest.raises(BadRow):
        await world.store.begin_answer("ann", key, request_hash)
