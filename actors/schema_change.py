"""What a change of a message, event or state type does to what is already written, and to nodes of the version before.

Both must go on working without a new version: the new program reads old bodies (all that the old one wrote), and the
old program, for as long as a deploy takes, reads new ones. `compare` says of each change whether it breaks one of them,
and what to do instead. Pure: two locks in, sentences out.
"""

import re
from collections.abc import Iterator, Mapping

import msgspec

from .schema_shape import Shape


class Lock(msgspec.Struct, forbid_unknown_fields=True):
    """Every versioned type of a program, by its wire name; `structs` holds what is within them."""

    modules: list[str] = []
    """Where they are declared."""
    retired: list[str] = []
    """Names (`ticket.opened`, `kind:ticket`), or old versions of one (`ticket.opened.v1`), that nothing is left of."""
    messages: dict[str, Shape] = {}
    events: dict[str, Shape] = {}
    states: dict[str, Shape] = {}
    structs: dict[str, Shape] = {}


class Change(msgspec.Struct, frozen=True):
    """One difference between two locks."""

    name: str
    """Of the type, with the field where there is one: `ticket.opened.subject`."""
    what: str
    way_out: str = ""
    """What to do instead; "" where nothing is broken."""

    @property
    def breaks(self) -> bool:
        """Whether what is written, or a node of the version before, cannot live with it."""
        return bool(self.way_out)

    def __str__(self) -> str:
        return f"{self.name}: {self.what}" + (f"; {self.way_out}" if self.way_out else "")


def compare(before: Lock, now: Lock) -> list[Change]:
    """What has changed, in order of names; those that break something say the way out."""
    pair = _Pair(before, now)
    spoken = pair.section({**before.messages, **before.events}, {**now.messages, **now.events}, "")
    return [*spoken, *pair.section(before.states, now.states, "kind:")]


class _Pair:
    """Two locks side by side."""

    def __init__(self, before: Lock, now: Lock) -> None:
        self.before = before
        self.now = now
        self._way_out = ""
        self._seen: set[tuple[str, str]] = set()

    def section(self, before: Mapping[str, Shape], now: Mapping[str, Shape], prefix: str) -> Iterator[Change]:
        for name in sorted({*before, *now}):
            full = prefix + name
            if name not in before:
                yield Change(full, "is new")
            elif name in now:
                yield from self._versioned(full, before[name], now[name])
            elif full not in self.now.retired:
                yield Change(
                    full,
                    "has disappeared, and what was written of it may still be waiting",
                    f"bring it back until nothing is left of it, then add {full!r} to `retired` in the lock",
                )

    def _versioned(self, name: str, before: Shape, now: Shape) -> Iterator[Change]:
        is_state = name.startswith("kind:")
        cast, bare = ("@upcast_state", name.removeprefix("kind:")) if is_state else ("@upcast", name)
        lost = [version for version in range(before.reads, now.reads) if f"{name}.v{version}" not in self.now.retired]
        if now.version < before.version:
            yield Change(name, f"went back from version {before.version} to {now.version}", "versions only go up")
        elif lost:
            yield Change(
                name,
                f"version {lost[0]} can be read no more",
                f"declare {cast}({bare!r}, {now.reads - 1}), or, once nothing is left of it, "
                f"add '{name}.v{lost[0]}' to `retired` in the lock",
            )
        elif now.version > before.version:
            yield Change(name, f"is at version {now.version} now, with upcasts from {now.reads}")
        else:
            raised = f"state_version = {now.version + 1}" if is_state else f'tag="{name}.v{now.version + 1}"'
            self._way_out = f"give it a new version ({raised}) and declare {cast}({bare!r}, {now.version})"
            self._seen.clear()
            yield from self._fields(name, before, now)

    def _fields(self, path: str, before: Shape, now: Shape) -> Iterator[Change]:
        if _only_omits(before, now):
            yield Change(path, "leaves out what has its default now")
        elif before.flags != now.flags:
            yield self._broken(path, f"is written differently: {before.flags or 'plain'}, now {now.flags or 'plain'}")
        old = {name.rstrip("?"): (name.endswith("?"), text) for name, text in before.fields.items()}
        new = {name.rstrip("?"): (name.endswith("?"), text) for name, text in now.fields.items()}
        gone = [name for name in old if name not in new]
        came = [name for name in new if name not in old]
        for name in gone:
            yield self._removed(f"{path}.{name}", old[name], {one: new[one] for one in came}, now)
        for name in came:
            yield self._added(f"{path}.{name}", new[name], before)
        for name in [name for name in old if name in new]:
            yield from self._kept(f"{path}.{name}", old[name], new[name], now)

    def _removed(self, path: str, field: tuple[bool, str], came: Mapping[str, tuple[bool, str]], now: Shape) -> Change:
        optional, text = field
        heir = next((name for name, (_, kind) in came.items() if kind == text), None)
        if heir is not None:
            return self._broken(path, f"was removed and {heir!r} came: if that is its new name, what it held is lost")
        if not optional:
            return self._broken(path, "was removed, and the version before cannot read a body without it")
        if "strict" in now.flags:
            return self._broken(path, "was removed from a type that refuses fields it does not know")
        return Change(path, "was removed; what it held is ignored")

    def _added(self, path: str, field: tuple[bool, str], before: Shape) -> Change:
        optional, _ = field
        if not optional:
            return self._broken(path, "was added without a default, and what is written does not have it", "default")
        if "strict" in before.flags:
            return self._broken(path, "was added to a type that refuses fields it does not know")
        return Change(path, "was added")

    def _kept(self, path: str, before: tuple[bool, str], now: tuple[bool, str], shape: Shape) -> Iterator[Change]:
        (was_optional, old), (is_optional, new) = before, now
        if was_optional and not is_optional:
            yield self._broken(path, "has no default any more, and what is written may not have it", "default")
        if is_optional and not was_optional:
            if "omits" in shape.flags:
                yield self._broken(path, "may be left out now, and the version before cannot read a body without it")
            else:
                yield Change(path, "has a default now")
        yield from self._type(path, old, new)

    def _type(self, path: str, old: str, new: str) -> Iterator[Change]:
        """Differences of two types: word by word, and where both words name a struct, within it."""
        ours, theirs = _WORD.findall(old), _WORD.findall(new)
        pairs = list(zip(ours, theirs, strict=False))
        structs = [(a, b) for a, b in pairs if a in self.before.structs and b in self.now.structs]
        if len(ours) != len(theirs) or any(a != b for a, b in pairs if (a, b) not in structs):
            yield self._broken(path, f"was {old} and is {new}")
            return
        for a, b in structs:
            if (a, b) not in self._seen:
                self._seen.add((a, b))
                yield from self._fields(path, self.before.structs[a], self.now.structs[b])

    def _broken(self, path: str, what: str, instead: str = "") -> Change:
        return Change(path, what, f"give it a {instead}, or {self._way_out}" if instead else self._way_out)


def _only_omits(before: Shape, now: Shape) -> bool:
    """Whether all that is new about the way a type is written is that it leaves out what the version before has the
    default of."""
    left_out = {name for name in now.fields if name.endswith("?") and name.rstrip("?") in before.fields}
    return sorted([*before.flags, "omits"]) == sorted(now.flags) and not left_out


_WORD = re.compile(r"[\w.]+|[^\w.]+")
