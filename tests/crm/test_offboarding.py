"""The saga that closes accounts: whatever dies wherever, each step is taken once, or taken back once, in its order."""

from collections import Counter
from dataclasses import dataclass, field

import pytest

from callboard.actors.spec import Child, Supervisor
from callboard.actors.testing import CALM, TestKit
from callboard.crm.offboarding import (
    LOOK_SECONDS,
    MAX_OPEN,
    STEPS,
    TELL_AFTER,
    Offboarder,
    Offboarding,
    OffboardingState,
    Opened,
    Refused,
    Step,
)
from callboard.mailbox.errors import StoreUnavailable
from callboard.persistence.memory.invariants import violations

from .dying import Death

pytestmark = pytest.mark.anyio

SAGA = "/crm/offboarding"


@dataclass
class House:
    """What `Closing` does at a desk, in memory: under a key, and nothing once the undoing has begun."""

    accounts: list[str]
    refuses: set[tuple[str, Step]] = field(default_factory=set)
    fails: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often a step, or the undoing of one, fails with an error that is nobody's decision."""
    error: Exception = field(default_factory=lambda: ConnectionError("no route"))
    after_effect: bool = False
    """It fails when the effect is made already, as where a connection breaks before the answer."""
    status: dict[str, str] = field(default_factory=dict)
    effects: list[tuple[str, str]] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    whys: dict[str, str] = field(default_factory=dict)

    async def asked(self, limit: int) -> list[Opened]:
        found = [Opened(one, self._is(one, "undoing"), self.whys.get(one, "")) for one in self.accounts]
        return [one for one in found if self.status.get(one.offboarding) not in ("done", "undone")][:limit]

    async def take(self, offboarding: str, step: Step) -> None:
        if self.status.get(offboarding) in ("undoing", "undone", "done"):
            return
        if (offboarding, step) in self.refuses:
            raise Refused("an order is on its way")
        if not self.after_effect:
            self._fail(offboarding, step)
        if (offboarding, step) not in self.effects:
            self.effects.append((offboarding, step))
        self._fail(offboarding, step)

    async def undo(self, offboarding: str, step: Step, why: str) -> None:
        self.status[offboarding] = "undoing"
        self.whys[offboarding] = why
        self._fail(offboarding, f"undo {step}")
        if (offboarding, step) in self.effects and (offboarding, f"undo {step}") not in self.effects:
            self.effects.append((offboarding, f"undo {step}"))

    async def finish(self, offboarding: str, why: str) -> None:
        if self.status.get(offboarding) in ("done", "undone"):
            return
        self.status[offboarding] = "undone" if why else "done"
        if why:
            self.told.append(f"{offboarding}: {why}")

    async def tell_stuck(self, offboarding: str, step: Step, why: str) -> None:
        if offboarding not in self.stuck:
            self.stuck.append(offboarding)

    def of(self, account: str) -> list[str]:
        return [effect for one, effect in self.effects if one == account]

    def _is(self, account: str, status: str) -> bool:
        return self.status.get(account) == status

    def _fail(self, account: str, step: str) -> None:
        if self.fails[account, step] > 0:
            self.fails[account, step] -= 1
            raise self.error


def tree(house: House) -> Supervisor:
    children = (
        Child(Offboarder, "offboarder", args=(house,)),
        Child(Offboarding, "offboarding", args=("/crm/offboarder",)),
    )
    return Supervisor("crm", strategy="rest_for_one", children=children)


async def until_over(kit: TestKit, house: House, *, seconds: float = 900.0) -> None:
    async def over() -> bool:
        row = await kit.row(SAGA)
        ended = all(house.status.get(account) in ("done", "undone") for account in house.accounts)
        return ended and row is not None and not (await kit.state(SAGA, OffboardingState)).open

    await kit.until(over, seconds=seconds)


ALL = list(STEPS)
BACK = [*ALL[:2], "undo export", "undo cancel_subscriptions"]


async def test_the_steps_are_taken_one_after_the_other_and_once() -> None:
    house = House(["a"])
    async with TestKit(tree(house)) as kit:
        await until_over(kit, house)
        await kit.advance(seconds=10 * LOOK_SECONDS)
        assert (house.of("a"), house.status, house.told) == (ALL, {"a": "done"}, [])
        assert (await kit.state(SAGA, OffboardingState)).done == 1


@pytest.mark.parametrize(
    ("step", "effects"),
    [("cancel_subscriptions", []), ("export", [ALL[0], "undo cancel_subscriptions"]), ("close", BACK)],
)
async def test_a_step_that_is_refused_has_those_before_it_taken_back_the_last_one_first(
    step: Step, effects: list[str]
) -> None:
    house = House(["a"], refuses={("a", step)})
    async with TestKit(tree(house)) as kit:
        await until_over(kit, house)
        assert (house.of("a"), house.status) == (effects, {"a": "undone"})
        assert house.told == [f"a: {step}: an order is on its way"]


async def test_a_step_that_fails_for_a_while_is_tried_again_and_not_taken_back() -> None:
    house = House(["a"], fails=Counter({("a", "export"): 4}))
    async with TestKit(tree(house)) as kit:
        await until_over(kit, house)
        assert (house.of("a"), house.status) == (ALL, {"a": "done"})


async def test_a_step_that_fails_for_good_is_taken_back_too_as_nobody_knows_whether_it_had_an_effect() -> None:
    house = House(["a"], fails=Counter({("a", "close"): 100}), after_effect=True)
    async with TestKit(tree(house)) as kit:
        await until_over(kit, house)
        assert house.of("a") == [*ALL, "undo close", "undo export", "undo cancel_subscriptions"]
        assert "no route" in house.told[0]


async def test_a_database_that_is_away_costs_nothing_but_time() -> None:
    house = House(["a"], fails=Counter({("a", "export"): 20}), error=StoreUnavailable("it restarts"))
    async with TestKit(tree(house)) as kit:
        await until_over(kit, house, seconds=3_600)
        assert (house.of("a"), house.status) == (ALL, {"a": "done"})


async def test_taking_back_is_never_given_up_and_a_person_is_told_that_it_is_stuck() -> None:
    house = House(["a"], refuses={("a", "close")}, fails=Counter({("a", "undo export"): 4 * TELL_AFTER}))
    async with TestKit(tree(house)) as kit:
        await until_over(kit, house, seconds=7_200)
        assert (house.of("a"), house.status, house.stuck) == (BACK, {"a": "undone"}, ["a"])


async def test_what_is_waiting_beyond_the_limit_is_taken_up_later_and_none_is_forgotten() -> None:
    house = House([f"a{n}" for n in range(MAX_OPEN + 20)], refuses={("a7", "close")})
    async with TestKit(tree(house)) as kit:
        await until_over(kit, house)
        assert Counter(house.status.values()) == {"done": MAX_OPEN + 19, "undone": 1}
        assert all(house.of(one) == (BACK if one == "a7" else ALL) for one in house.accounts)


async def test_a_step_said_again_by_a_node_that_was_thought_dead_changes_nothing_once_it_is_taken_back() -> None:
    house = House(["a"], refuses={("a", "export")})
    async with TestKit(tree(house)) as kit:
        await until_over(kit, house)
        before = list(house.effects)
        await house.take("a", "cancel_subscriptions")
        assert house.effects == before


STORIES = {
    "it goes through": lambda: House(["a"]),
    "the last step is refused": lambda: House(["a"], refuses={("a", "close")}),
    "the first step is refused": lambda: House(["a"], refuses={("a", "cancel_subscriptions")}),
    "a step fails after its effect": lambda: House(["a"], fails=Counter({("a", "export"): 100}), after_effect=True),
    "two at once, one refused": lambda: House(["a", "b"], refuses={("b", "close")}),
}


async def played(house: House, nth: int, nodes: int) -> bool:
    """Whether a node died before commit `nth`; all that must hold then is looked at."""
    async with TestKit(tree(house), nodes=nodes, settings=CALM) as kit:
        death = Death(kit, nth)

        async def over() -> bool:
            await death.mend()
            return all(house.status.get(account) in ("done", "undone") for account in house.accounts)

        await kit.until(over)
        await kit.advance(seconds=3 * LOOK_SECONDS)
        await death.mend()
        await kit.advance(seconds=60)
        kit.store.before = None
        state = await kit.state(SAGA, OffboardingState)
        assert not state.open
        assert state.done + state.undone == len(house.accounts)
        assert len(set(house.effects)) == len(house.effects), "an effect was made twice"
        assert await kit.store.dead_letters() == []
        assert violations(kit.store.tables, kit.store.cluster, kit.store.clock(), at_rest=False) == []
        return death.victim is not None


@pytest.mark.parametrize(("name", "nodes"), [*((name, 1) for name in STORIES), ("the last step is refused", 2)])
async def test_an_account_ends_the_same_wherever_a_node_dies(name: str, nodes: int) -> None:
    calm = STORIES[name]()
    assert not await played(calm, 0, nodes)
    nth, died = 0, True
    while died:
        nth += 1
        house = STORIES[name]()
        try:
            died = await played(house, nth, nodes)
            for account in house.accounts:
                assert house.of(account) == calm.of(account)
            assert (house.status, sorted(house.told)) == (calm.status, sorted(calm.told))
        except BaseException as error:
            error.add_note(f"{name}: killed before commit {nth}")
            raise
    assert nth > len(STEPS)
