"""Calls of many tasks share a statement, and none of them notices but by its cost."""

from collections.abc import Awaitable, Callable, Sequence

import anyio
import anyio.lowlevel
import pytest

from callboard.mailbox.errors import Conflict, StoreUnavailable
from callboard.persistence.postgres import PostgresStore
from callboard.persistence.postgres.shared_statement import Loan, SharedStatement
from tests.contract.build import message, next_id

pytestmark = pytest.mark.anyio

HANG_SECONDS = 60.0


class Desk:
    """Lends sessions that are none, and runs statements that a test holds up."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.free = anyio.Event()
        self.free.set()
        self.lends = anyio.Event()
        self.lends.set()
        self.lent = 0
        self.down = False
        self.statement = SharedStatement[int, int](self.lend, self.run, limit=10)

    async def lend(self) -> Loan:
        await self.lends.wait()
        if self.down:
            raise StoreUnavailable("down")
        self.lent += 1
        return self, self  # type: ignore[return-value]  # it is a pool, and a session

    async def putconn(self, connection: object) -> None:
        self.lent -= 1

    async def run(self, connection: object, questions: list[int]) -> Sequence[int]:
        self.batches.append(questions)
        with anyio.CancelScope(shield=True):
            await self.free.wait()
        if any(question < 0 for question in questions):
            raise Conflict("a negative one")
        if 99 in questions:
            raise StoreUnavailable("the answer was lost")
        return [10 * question for question in questions]


async def ask_all(desk: Desk, questions: Sequence[int]) -> dict[int, int | str]:
    """What came of each, asked by a task of its own."""
    found: dict[int, int | str] = {}

    async def ask(question: int) -> None:
        try:
            found[question] = await desk.statement.ask(question)
        except (Conflict, StoreUnavailable) as error:
            found[question] = str(error)

    with anyio.fail_after(HANG_SECONDS):
        async with anyio.create_task_group() as group:
            for question in questions:
                group.start_soon(ask, question)
            await anyio.wait_all_tasks_blocked()
            desk.lends.set()
            desk.free.set()
    return found


async def test_those_who_come_meanwhile_share_the_next_statement_up_to_the_limit() -> None:
    desk = Desk()
    desk.free = anyio.Event()
    assert await ask_all(desk, range(25)) == {question: 10 * question for question in range(25)}
    assert [len(batch) for batch in desk.batches] == [10, 10, 5]
    assert [question for batch in desk.batches for question in batch] == list(range(25)), "first come, first served"
    assert desk.lent == 0


async def test_after_a_shared_statement_the_next_call_is_served() -> None:
    desk = Desk()
    for _ in range(3):
        desk.free = anyio.Event()
        assert len(await ask_all(desk, range(5))) == 5
        with anyio.fail_after(HANG_SECONDS):
            assert await desk.statement.ask(7) == 70


async def test_what_one_is_refused_for_does_the_others_no_harm() -> None:
    desk = Desk()
    desk.free = anyio.Event()
    found = await ask_all(desk, [1, 2, -3, 4, 5, -6, 7])
    assert found == {1: 10, 2: 20, 4: 40, 5: 50, 7: 70, -3: "a negative one", -6: "a negative one"}
    assert desk.lent == 0


async def test_where_the_answer_is_lost_all_of_that_statement_are_told_and_no_others() -> None:
    desk = Desk()
    desk.free = anyio.Event()
    found = await ask_all(desk, [*range(1, 10), 99, 11, 12])
    assert {question for question, answer in found.items() if answer == "the answer was lost"} == {*range(1, 10), 99}
    assert (found[11], found[12]) == (110, 120)
    assert await desk.statement.ask(5) == 50


async def test_where_no_session_is_free_nobody_waits_twice_as_long() -> None:
    desk = Desk()
    desk.down, desk.lends = True, anyio.Event()
    assert set((await ask_all(desk, range(5))).values()) == {"down"}
    assert desk.batches == []
    desk.down = False
    assert await desk.statement.ask(5) == 50


@pytest.mark.parametrize("held", ["lends", "free"])
async def test_who_is_cancelled_leaves_the_others_their_turn(held: str) -> None:
    desk = Desk()
    setattr(desk, held, anyio.Event())
    found: list[int] = []
    scopes = [anyio.CancelScope() for _ in range(6)]

    async def ask(question: int) -> None:
        with scopes[question]:
            found.append(await desk.statement.ask(question))

    with anyio.fail_after(HANG_SECONDS):
        async with anyio.create_task_group() as group:
            for question in range(6):
                group.start_soon(ask, question)
            await anyio.wait_all_tasks_blocked()
            scopes[0].cancel()  # it has the statement, or is about to
            scopes[1].cancel()  # the next one
            scopes[4].cancel()
            await anyio.wait_all_tasks_blocked()
            getattr(desk, held).set()
    assert [each for each in found if each not in (0, 10)] == [20, 30, 50]
    assert await desk.statement.ask(9) == 90
    assert desk.lent == 0


async def test_who_is_cancelled_when_its_turn_has_come_passes_it_on() -> None:
    desk = Desk()
    desk.free = anyio.Event()
    second = anyio.CancelScope()
    found: list[int] = []

    async def ask(question: int, scope: anyio.CancelScope) -> None:
        with scope:
            found.append(await desk.statement.ask(question))
            if question == 0:
                second.cancel()

    with anyio.fail_after(HANG_SECONDS):
        async with anyio.create_task_group() as group:
            for question, scope in enumerate([anyio.CancelScope(), second, anyio.CancelScope()]):
                group.start_soon(ask, question, scope)
            await anyio.wait_all_tasks_blocked()
            desk.free.set()
    assert 0 in found and 20 in found
    assert await desk.statement.ask(9) == 90


Send = Callable[[], Awaitable[list[bool]]]


async def test_s6_sends_of_many_tasks_are_accepted_each_as_if_alone(store: PostgresStore) -> None:
    first, other = message(), message()
    name = str(next_id())
    found: dict[int, object] = {}

    async def send(place: int, call: Send) -> None:
        try:
            found[place] = await call()
        except Conflict as error:
            found[place] = type(error)

    calls: list[Send] = [
        lambda: store.send([first], [name]),
        lambda: store.send([message(), message()]),
        lambda: store.send([message(body=first.body)], [name]),
        lambda: store.send([other, message()], ["", str(next_id())]),
    ]
    async with anyio.create_task_group() as group:
        for place, call in enumerate(calls):
            group.start_soon(send, place, call)
    assert found == {0: [True], 1: [True, True], 2: [False], 3: [True, True]}
