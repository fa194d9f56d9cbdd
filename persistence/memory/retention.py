"""The memory store's retention (S22): the same rules as functions/8_retention.sql, on dicts.

Each look goes through all that a kind has: a memory store holds what fits into memory.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import msgspec

from ...mailbox.address import CLIENT_SHARD, family_of, shard_of
from ...mailbox.ids import id_at
from ..operating import AuditEntry, require_named
from ..retention import Old, OldKind, OldPage, Removed
from ..rows import ENDED, ActorRow, turn_row
from .auditing import DAY_SECONDS, MemoryAnswers
from .intake import REMEMBER_SECONDS, Intake
from .tables import GONE, Tables
from .values import check

FORKED = "run.forked"
"""The event that begins a fork; it names the run whose journal it goes on from."""
_UNARCHIVED: frozenset[OldKind] = frozenset({"client-ids", "answers", "client-mailboxes"})


class _Thing(msgspec.Struct, frozen=True):
    place: list[Any]
    """Where it is in the order of its kind."""
    key: list[Any]
    fits: bool
    """It may go."""
    rows: dict[str, list[Any]]
    """What is kept of it."""
    remove: Callable[[], object]


class MemoryRetention(ABC):
    """What is old enough to go."""

    tables: Tables
    _intake: Intake
    _answers: MemoryAnswers

    @abstractmethod
    async def _reach(self) -> None: ...

    @abstractmethod
    def clock(self) -> float:
        """The store's clock."""

    async def old(
        self, kind: OldKind, *, before: float, after: str = "", limit: int = 500, records: bool = False
    ) -> OldPage:
        """See `RetentionStore.old`."""
        await self._reach()
        things = sorted(self._things(kind, before), key=lambda thing: thing.place)
        if after:
            place = msgspec.json.decode(after)
            things = [thing for thing in things if thing.place > place]
        looked = things[: max(1, limit)]
        items = [_old(thing, records=records and kind not in _UNARCHIVED) for thing in looked if thing.fits]
        return OldPage(items, _text(looked[-1].place) if looked else after, len(looked) == len(things))

    async def remove_old(self, kind: OldKind, keys: Sequence[str], *, before: float, entry: AuditEntry) -> Removed:
        """See `RetentionStore.remove_old`."""
        await self._reach()
        require_named([entry])
        check(entry)
        wanted = set(keys)
        gone = [thing for thing in self._things(kind, before) if thing.fits and _text(thing.key) in wanted]
        for thing in gone:
            thing.remove()
        olds = [_old(thing, records=False) for thing in gone]
        removed = Removed(len(olds), sum(old.rows for old in olds), sum(old.bytes for old in olds))
        if gone:
            after = f"{removed.items} {kind} gone, {removed.rows} rows, {removed.bytes} bytes"
            self.tables.note(msgspec.structs.replace(entry, after=after), self.clock())
        return removed

    def _things(self, kind: OldKind, before: float) -> list[_Thing]:
        ways: dict[OldKind, Callable[[float], Iterator[_Thing]]] = {
            "runs": self._old_runs,
            "turns": self._old_turns,
            "dead-letters": self._old_dead,
            "decisions": self._old_decisions,
            "client-ids": self._old_client_ids,
            "answers": self._old_answers,
            "client-mailboxes": self._old_client_mailboxes,
            "audit": self._old_audit,
        }
        return list(ways[kind](before))

    # -- runs

    def _old_runs(self, before: float) -> Iterator[_Thing]:
        tables = self.tables
        families: dict[str, list[ActorRow]] = {}
        for row in tables.actors.values():
            families.setdefault(family_of(row.address), []).append(row)
        forks = {
            (msgspec.json.decode(event.body)["origin"], family_of(event.address))
            for events in tables.events.values()
            for event in events
            if event.type == FORKED
        }
        for address, members in families.items():
            first = tables.actors.get((shard_of(address), address))
            if first is None or ":" not in address:
                continue
            names = sorted(row.address for row in members)
            fits = self._family_is_over(first, members, before) and not any(
                origin in names and fork != address for origin, fork in forks
            )
            yield _Thing(
                [tables.created.get((first.shard, address), 0.0), address],
                [first.shard, address, first.version],
                fits,
                self._remains(members, names),
                partial(self._remove_family, names),
            )

    def _family_is_over(self, first: ActorRow, members: Sequence[ActorRow], before: float) -> bool:
        tables = self.tables
        names, until = {row.address for row in members}, id_at(before)
        waits = any(
            stored.envelope.recipient in names or (stored.envelope.sender in names and identifier < until)
            for (shard, identifier), stored in tables.messages.items()
            if shard == first.shard
        )
        return (
            first.status in ENDED
            and all(row.status in ENDED or (row.status == "stopped" and row is not first) for row in members)
            and all(row.last_id < until for row in members)
            and all(tables.created.get((row.shard, row.address), 0.0) < before for row in members)
            and all(turn.at < before for name in names for turn in tables.turns.get(name, ()) if turn.version)
            and all(event.at < before for name in names for event in tables.events.get(name, ()))
            and not waits
            and not any(address in names for _, address, _ in tables.timers)
            and not any(d.run in names and d.status in ("pending", "approved") for d in tables.decisions.values())
            and not any(
                not letter.settled and (letter.envelope.recipient in names or letter.envelope.sender in names)
                for letter in tables.dead
            )
        )

    def _remains(self, members: Sequence[ActorRow], names: Sequence[str]) -> dict[str, list[Any]]:
        tables = self.tables
        return {
            "actors": sorted(members, key=lambda row: row.address),
            "journal": [event for name in names for event in tables.events.get(name, ())],
            "turns": [turn for name in names for turn in tables.turns.get(name, ())],
            "decisions": [one for one in tables.decisions.values() if one.run in names],
            "dead_letters": [one for one in tables.dead if one.envelope.recipient in names],
        }

    def _remove_family(self, names: Sequence[str]) -> None:
        tables = self.tables
        for name in names:
            shard = shard_of(name)
            del tables.actors[shard, name]
            tables.created.pop((shard, name), None)
            gone = {id(event) for event in tables.events.pop(name, ())}
            tables.feed = [GONE if id(event) in gone else event for event in tables.feed]
            tables.turns.pop(name, None)
            tables.full.discard((shard, name))
        tables.decisions = {key: one for key, one in tables.decisions.items() if one.run not in names}
        tables.dead[:] = [one for one in tables.dead if one.envelope.recipient not in names]

    def _has_run(self, shard: int, address: str) -> bool:
        return ":" in address and (shard, address) in self.tables.actors

    # -- the others

    def _old_turns(self, before: float) -> Iterator[_Thing]:
        for recipient, turns in self.tables.turns.items():
            for turn in turns:
                stays = self._has_run(turn.shard, recipient) or self._has_run(turn.shard, turn.sender)
                place = [turn.shard, recipient, turn.version, turn.id]
                fits = turn.at < before and not stays
                yield _Thing(place, place, fits, {"turn": [turn]}, partial(turns.remove, turn))

    def _old_dead(self, before: float) -> Iterator[_Thing]:
        dead = self.tables.dead
        for letter in dead:
            stays = self._has_run(letter.envelope.shard, letter.envelope.recipient)
            fits = bool(letter.settled) and letter.settled_at < before and not stays
            place = [letter.number]
            yield _Thing(place, place, fits, {"dead_letter": [letter]}, partial(dead.remove, letter))

    def _old_decisions(self, before: float) -> Iterator[_Thing]:
        decisions = self.tables.decisions
        for number, one in enumerate(decisions.values()):
            closed = one.status not in ("pending", "approved")
            last = max(one.requested_at, one.decided_at, one.release_at)
            fits = closed and last < before and not self._has_run(shard_of(one.run), one.run)
            yield _Thing(
                [one.requested_at, number, one.id], [one.id], fits, {"decision": [one]},
                partial(decisions.pop, one.id),
            )  # fmt: skip

    def _old_client_ids(self, before: float) -> Iterator[_Thing]:
        until = min(before, self.clock() - REMEMBER_SECONDS)
        for (recipient, client_id), at in self._intake.known():
            place = [at, recipient, client_id]
            yield _Thing(
                place, place, at < until, {"client_id": [place]},
                partial(self._intake.forget, recipient, client_id),
            )  # fmt: skip

    def _old_answers(self, before: float) -> Iterator[_Thing]:
        answers, until = self._answers, min(before, self.clock() - DAY_SECONDS)
        for (principal, key), answer in answers.items():
            place = [answer.at, principal, key]
            yield _Thing(
                place, place, answer.at < until, {"answer": [answer.body]},
                partial(answers.pop, (principal, key)),
            )  # fmt: skip

    def _old_client_mailboxes(self, before: float) -> Iterator[_Thing]:
        until = min(before, self.clock() - DAY_SECONDS)
        for (shard, identifier), stored in self.tables.messages.items():
            if shard == CLIENT_SHARD:
                yield _Thing(
                    [identifier], [identifier], stored.sent_at < until, {"message": [stored.envelope]},
                    partial(self._throw_away, identifier),
                )  # fmt: skip

    def _throw_away(self, identifier: int) -> None:
        envelope = self.tables.delete(CLIENT_SHARD, identifier)
        row = turn_row(envelope, 0, "cancelled", now=self.clock())
        self.tables.turns.setdefault(envelope.recipient, []).append(row)

    def _old_audit(self, before: float) -> Iterator[_Thing]:
        audit = self.tables.audit
        for row in audit:
            place = [row.number]
            yield _Thing(place, place, row.at < before, {"audit": [row]}, partial(audit.remove, row))


def _text(value: list[Any]) -> str:
    return msgspec.json.encode(value).decode()


def _old(thing: _Thing, *, records: bool) -> Old:
    text = msgspec.json.encode(thing.rows).decode()
    count = sum(map(len, thing.rows.values()))
    if not records:
        return Old(_text(thing.key), count, len(text))
    single = thing.rows if len(thing.rows) > 1 else next(iter(thing.rows.values()))[0]
    return Old(_text(thing.key), count, len(text), msgspec.json.encode(single).decode())
