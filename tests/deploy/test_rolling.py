"""Rolling deploys on real PostgreSQL: two versions of one program in processes of their own, side by side."""

from collections import Counter
from collections.abc import Callable

import anyio
import pytest

from callboard.mailbox.message import Message

from . import v1, v2
from .conftest import KEYS, Deploy, address

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(900)]


async def test_failure_16_messages_of_the_new_version_are_handled_by_the_new_node_and_never_by_the_old_one(
    deploy: Deploy,
) -> None:
    old, new = await deploy.release("v1"), await deploy.release("v2")
    await deploy.shared(old, new)
    assert await deploy.keys_of(old), "the old node has counters too"
    await deploy.send(v2.Bonus(5))
    await deploy.send(v2.Add(7))
    await deploy.send(v1.Add(1))  # which the old node knows, but not before what came before it
    await deploy.handled()
    expected = (2, {"count": 2, "cents": 107 + 5, "bonuses": 1})
    assert await deploy.states() == {address(key): expected for key in KEYS}
    assert await deploy.handlers("deploy.bonus") == {new.number}
    await deploy.assert_clean()


async def test_g6_messages_to_a_kind_of_actor_that_only_the_new_version_has_are_no_dead_letters(
    deploy: Deploy,
) -> None:
    old, new = await deploy.release("v1"), await deploy.release("v2")
    await deploy.shared(old, new)
    await deploy.send(v2.Bonus(5), pool="saver")
    await deploy.handled()
    assert await deploy.rows("select count(*) from callboard.actor where kind = 'deploy-saver'") == [(len(KEYS),)]
    assert await deploy.handlers("deploy.bonus") == {new.number}
    await deploy.assert_clean()


async def test_g6_the_old_node_leaves_what_it_cannot_read_and_charges_nothing(deploy: Deploy) -> None:
    old = await deploy.release("v1")
    await deploy.send(v1.Add(1))
    await deploy.handled()
    before = await deploy.states()
    await deploy.send(v2.Bonus(5))
    await deploy.send(v1.Add(1), *KEYS[:3])
    # It has looked at them: one that it can read, sent later to others, is done.
    others = [key + len(KEYS) for key in KEYS]
    await deploy.send(v1.Add(1), *others)
    await deploy.counters(len(KEYS) + len(others))
    assert {where: (await deploy.states())[where] for where in before} == before
    waiting = await deploy.rows("select failures, deliveries, last_error from callboard.message")
    assert waiting == [(0, 0, "")] * (len(KEYS) + 3)
    assert await deploy.rows("select 1 from callboard.dead_letter") == []
    await deploy.drain(old)
    await deploy.release("v2")
    await deploy.handled()
    states = await deploy.states()
    assert states[address(0)] == (2, {"count": 2, "cents": 205, "bonuses": 1})
    assert states[address(3)] == (2, {"count": 1, "cents": 105, "bonuses": 1})
    await deploy.assert_clean()


class Sender:
    """Sends one message after the other to the counters, until it is told to stop; knows what it sent."""

    def __init__(self, deploy: Deploy) -> None:
        self.deploy = deploy
        self.make: Callable[[], Message] = lambda: v1.Add(1)
        self.sent: Counter[int] = Counter()
        self.stopping = False

    async def run(self) -> None:
        while not self.stopping:
            for key in KEYS:
                await self.deploy.send(self.make(), key)
                self.sent[key] += 1

    async def sent_more(self, count: int) -> None:
        """Wait until it has sent so many more."""
        goal = self.sent.total() + count

        async def enough() -> bool:
            return self.sent.total() >= goal

        await self.deploy.so(enough)

    def expected(self) -> dict[str, tuple[int, dict[str, int]]]:
        """The states after all that was sent, each worth one euro."""
        return {address(key): (2, {"count": n, "cents": 100 * n, "bonuses": 0}) for key, n in sorted(self.sent.items())}


async def test_g1_g8_a_rolling_deploy_loses_and_doubles_nothing_and_casts_states_up(deploy: Deploy) -> None:
    old = await deploy.release("v1")
    sender = Sender(deploy)
    async with anyio.create_task_group() as group:
        group.start_soon(sender.run)
        await sender.sent_more(2 * len(KEYS))
        new = await deploy.release("v2")
        await deploy.shared(old, new)
        await sender.sent_more(2 * len(KEYS))
        await deploy.drain(old)
        assert await deploy.rows("select 1 from callboard.shard where node is distinct from %s", new.number) == []
        sender.make = lambda: v2.Add(100)
        await sender.sent_more(2 * len(KEYS))
        sender.stopping = True
    await deploy.handled()
    assert await deploy.states() == sender.expected()
    assert await deploy.handlers("deploy.add") == {old.number, new.number}
    await deploy.assert_clean()


async def test_g6_an_old_node_started_by_mistake_overwrites_no_new_state(deploy: Deploy) -> None:
    new = await deploy.release("v2")
    sender = Sender(deploy)
    async with anyio.create_task_group() as group:
        group.start_soon(sender.run)
        await sender.sent_more(2 * len(KEYS))
        await deploy.counters(len(KEYS))
        mistake = await deploy.release("v1")
        await deploy.so(lambda: deploy.keys_of(mistake))  # it was given counters
        await sender.sent_more(2 * len(KEYS))
        sender.stopping = True
    await deploy.handled()  # while it is still there
    await deploy.drain(mistake)
    assert await deploy.states() == sender.expected()
    assert await deploy.handlers("deploy.add") == {new.number}
    await deploy.assert_clean()


async def test_failure_15_a_deploy_without_the_upcast_of_a_state_parks_and_one_with_it_goes_on(deploy: Deploy) -> None:
    old = await deploy.release("v1")
    await deploy.send(v1.Add(1))
    await deploy.handled()
    await deploy.drain(old)
    bytes_kept = (
        "select address, state, state_version from callboard.actor where kind = 'deploy-counter' order by address"
    )
    kept = await deploy.rows(bytes_kept)

    broken = await deploy.release("v2", forgets="states")
    await deploy.send(v2.Bonus(5))
    await deploy.send(v2.Add(7))
    await deploy.until(
        "select 1 where %s = (select count(*) from callboard.actor where status = 'parked' and reason like %s)",
        len(KEYS),
        "schema:%no upcast from version 1%",
    )
    assert await deploy.rows(bytes_kept) == kept
    assert await deploy.rows("select distinct failures from callboard.message") == [(0,)]
    await deploy.drain(broken)

    await deploy.release("v2")
    await deploy.handled()
    expected = (2, {"count": 2, "cents": 112, "bonuses": 1})
    assert await deploy.states() == {address(key): expected for key in KEYS}
    await deploy.until("select 1 where not exists (select from callboard.actor where status <> 'active')")
    await deploy.assert_clean(resumed=True)


async def test_g6_a_deploy_without_the_upcast_of_a_message_leaves_it_and_one_with_it_goes_on(deploy: Deploy) -> None:
    broken = await deploy.release("v2", forgets="messages")
    await deploy.send(v1.Add(1))
    await deploy.send(v2.Add(7), *[key + len(KEYS) for key in KEYS])
    await deploy.counters(len(KEYS))
    assert await deploy.rows("select distinct failures, version from callboard.message") == [(0, 1)]
    await deploy.drain(broken)
    await deploy.release("v2")
    await deploy.handled()
    assert len(await deploy.states()) == 2 * len(KEYS)
    await deploy.assert_clean()
