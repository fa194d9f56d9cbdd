"""Renewal notices by hand-driven time: one of each number for a subscription and a date, wherever a node dies."""

from dataclasses import dataclass, field

import pytest

from callboard.actors.spec import Child, Supervisor
from callboard.actors.testing import TestKit
from callboard.crm.renewals import PAGE, Due, Notifier, Renewals, RenewalsState
from callboard.persistence.memory.invariants import violations

from .dying import Death

pytestmark = pytest.mark.anyio

RENEWALS = "/crm/renewals"
DAY = 20.0
"""Months pass here, so days are short."""


@dataclass
class Shelf:
    """Subscriptions by the second at which they renew, seen from a clock that somebody drives."""

    renews: dict[str, float]
    now: float = 0.0
    stopped: set[str] = field(default_factory=set)
    mails: list[tuple[str, int, float]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    async def due(self, ahead_days: int, after: str, limit: int) -> list[Due]:
        self.asked.append(after)
        found = []
        for name in sorted(name for name in self.renews if name > after):
            number = 1 + sum(one == name for one, _, _ in self.mails)
            at = self.renews[name] - (30 * DAY, 7 * DAY)[min(number, 2) - 1]
            soon = at - self.now <= ahead_days * DAY and self.now < self.renews[name]
            if number < 3 and name not in self.stopped and soon:
                found.append(Due(name, "2027-01-31", number, max(0.0, at - self.now)))
        return found[:limit]

    async def write(self, subscription: str, renews_on: str, number: int) -> bool:
        if subscription in self.stopped:
            return False
        if (subscription, number) not in [(one, known) for one, known, _ in self.mails]:
            self.mails.append((subscription, number, self.now))
        return True


def tree(shelf: Shelf) -> Supervisor:
    worker = Child(Notifier, "notifier", args=(shelf,))
    actor = Child(Renewals, "renewals", args=("/crm/notifier", DAY))
    return Supervisor("crm", strategy="rest_for_one", children=(worker, actor))


async def pass_days(kit: TestKit, shelf: Shelf, days: int, *, death: Death | None = None) -> None:
    for _ in range(days):
        await kit.advance(seconds=DAY)
        shelf.now = kit.port.elapsed
        if death is not None:
            await death.mend()


async def test_there_is_a_mail_thirty_days_before_and_one_seven_days_before_and_no_other() -> None:
    shelf = Shelf({"S-1": 60 * DAY})
    async with TestKit(tree(shelf)) as kit:
        await pass_days(kit, shelf, 29)
        assert shelf.mails == []
        await pass_days(kit, shelf, 35)
        assert [(name, number) for name, number, _ in shelf.mails] == [("S-1", 1), ("S-1", 2)]
        days = [at / DAY for _, _, at in shelf.mails]
        assert 29 <= days[0] <= 31 and 52 <= days[1] <= 54
        assert (await kit.state(RENEWALS, RenewalsState)).written == 2


async def test_nobody_is_told_once_the_subscription_has_stopped_though_its_timer_fires() -> None:
    shelf = Shelf({"S-1": 60 * DAY, "S-2": 60 * DAY})
    async with TestKit(tree(shelf)) as kit:
        await pass_days(kit, shelf, 29)
        shelf.stopped.add("S-1")
        await pass_days(kit, shelf, 3)
        shelf.stopped.add("S-2")
        await pass_days(kit, shelf, 30)
        assert [(name, number) for name, number, _ in shelf.mails] == [("S-2", 1)]
        assert (await kit.state(RENEWALS, RenewalsState)).skipped >= 1


async def test_more_than_a_page_of_subscriptions_have_their_timers_after_one_look() -> None:
    shelf = Shelf({f"S-{n:04d}": 60 * DAY for n in range(2 * PAGE + 1)})
    async with TestKit(tree(shelf)) as kit:
        await kit.advance(seconds=1.5 * DAY)
        assert shelf.asked == ["", f"S-{PAGE - 1:04d}", f"S-{2 * PAGE - 1:04d}"]
        assert len(await kit.store.timers(RENEWALS, limit=1_000)) == len(shelf.renews) + 1


async def test_the_same_mails_are_there_wherever_the_node_dies() -> None:
    nth, died = 0, True
    while died:
        nth += 1
        shelf = Shelf({"S-1": 34 * DAY, "S-2": 10 * DAY})
        async with TestKit(tree(shelf)) as kit:
            death = Death(kit, nth)
            for _ in range(40):
                await pass_days(kit, shelf, 1, death=death)
            kit.store.before = None
            names = [(name, number) for name, number, _ in shelf.mails]
            assert sorted(names) == [("S-1", 1), ("S-1", 2), ("S-2", 1), ("S-2", 2)], f"killed before commit {nth}"
            assert await kit.store.dead_letters() == []
            assert violations(kit.store.tables, kit.store.cluster, kit.store.clock(), at_rest=False) == []
            died = death.victim is not None and nth < 14
    assert nth > 8
