"""What an actor is tied to, as text in its row."""

import pytest

from callboard.actors import bonds
from callboard.actors.bonds import COUNTED, TIMER_LIMIT, Bonds, Deferred, OpenAsk
from callboard.mailbox.errors import UsageError
from callboard.mailbox.ids import IdClock
from callboard.persistence.rows import ActorRow


def row(text: str, status: str = "active") -> ActorRow:
    return ActorRow(1, "/t/p:1", "p", version=1, bonds=text, status=status)  # type: ignore[arg-type]


def test_no_bonds_are_no_text() -> None:
    assert bonds.written(Bonds()) == ""
    assert bonds.read(row("")) == Bonds()


def test_bonds_survive_being_written() -> None:
    full = Bonds(drawn=4, stashed=2)
    full.arm("once", periodic=False)
    full.arm("often", periodic=True)
    full.asks[1 << 50] = OpenAsk("/t/p:2", 1.5)
    full.requests[1 << 51] = Deferred("/t/p:3", 2.5, waits=False)
    full.watchers["/t/p:4"] = full.draw()
    full.watching["/t/p:5"] = full.draw()
    assert bonds.read(row(bonds.written(full))) == full


def test_fields_of_a_newer_version_are_no_obstacle() -> None:
    assert bonds.read(row('{"drawn":3,"unheard_of":[1]}')) == Bonds(drawn=3)


def test_a_copy_is_a_copy() -> None:
    one = row('{"drawn":1,"timers":{"k":1}}')
    bonds.read(one).disarm("k")
    assert bonds.read(one).timers == {"k": 1}


def test_counted_generations_and_ids_are_told_apart() -> None:
    assert Bonds().draw() < COUNTED < IdClock(0, lambda: 1_710_000_000.0).next()


def test_a_key_has_one_timer_of_one_kind() -> None:
    some = Bonds()
    first = some.arm("k", periodic=False)
    second = some.arm("k", periodic=True)
    assert (some.timers, some.tickers) == ({}, {"k": second}) and second > first
    for n in range(TIMER_LIMIT - 1):
        some.arm(str(n), periodic=n % 2 == 0)
    with pytest.raises(UsageError, match="1,000 timers already"):
        some.arm("one more", periodic=False)
    some.arm("k", periodic=False)


def test_deferred_requests_are_forgotten_when_nobody_waits_and_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bonds, "REQUEST_PRUNE", 3)
    monkeypatch.setattr(bonds, "REQUEST_LIMIT", 5)
    some = Bonds()
    for ask in range(3):
        some.defer(ask, Deferred("/t/p:1", deadline=10.0 + ask), now=0.0)
    some.defer(3, Deferred("/t/p:1", deadline=50.0), now=11.5)
    assert set(some.requests) == {2, 3}
    for ask in range(4, 9):
        some.defer(ask, Deferred("/t/p:1", deadline=100.0 - ask), now=11.5)
    assert len(some.requests) == 5 and {4, 5, 6} <= set(some.requests), "those that are waited for longest"


def test_only_a_failed_actor_can_be_gone() -> None:
    gone = bonds.written(Bonds(gone=True))
    assert [bonds.is_gone(row(gone, status)) for status in ("failed", "active", "parked")] == [True, False, False]
    assert not bonds.is_gone(row("", "failed"))
