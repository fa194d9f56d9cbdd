"""Where the values of a call's arguments come from: what the conversation's texts explain, and how far to trust these.

Texts are added as they enter the conversation, each with its source; they are indexed by word and by number, so that a
question costs the same at any length. A value that trusted and untrusted texts explain is trusted; one that nothing
explains is `novel`, and a sentence of the model's own is `composed` unless something that it carries (an address, a
link, an identifier, a number) is untrusted or novel itself.

What this cannot see: a choice. A model that untrusted text talks into picking one of two trusted values has picked a
trusted value. And short numbers are found nearly everywhere.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from .atoms import (
    PROSE_WORDS,
    canonical_number,
    carried,
    exact,
    grouped,
    holds_exactly,
    host_of,
    hundredths,
    is_address,
    is_link,
    must_be_exact,
    numbers,
    squeezed,
    words,
)
from .dates import DayOfYear, as_date, days, years
from .folding import fold

Trust = Literal["trusted", "untrusted"]
Label = Literal["trusted", "untrusted", "secret"]
"""Of a field of a result. Secret: as trusted as any, and not meant to leave the house."""
Path = tuple[str | int, ...]

MAX_VALUES: Final = 200
"""Of one call; the rest is one `unread` entry, whose path ends in `…`."""
MAX_PLACES: Final = 64
"""Texts that are remembered for a word, of each trust."""
MAX_WORD_CHARS: Final = 200
MAX_REFERENCES: Final = 8
"""Of a schema, one after the other."""
MAX_ATOMS: Final = 200
"""Of one text; one that carries more is unread."""
MAX_SECRETS: Final = 500
"""Values of secret fields that are watched for, of one conversation."""
MIN_SECRET_CHARS: Final = 4
"""A shorter value stands in too many texts to tell anything."""
MIN_RUN_CHARS: Final = 8
"""From here on a secret is found without its spaces and signs too."""
MAX_CHARS: Final = 30_000
"""Of one text that nobody wrote as it is; a longer one is unread."""


class Source(msgspec.Struct, frozen=True):
    """Where a text came from."""

    kind: str
    """`system`, `goal`, `said` or `tool`; of values also `secret`, `novel`, `composed` and `unread`."""
    trust: Trust
    origin: str = ""
    """Which message or field of a result it is; of a novel value, what kind of value where that matters."""


class Traced(msgspec.Struct, frozen=True):
    """One value of a call's arguments."""

    path: Path
    source: Source


A_DATE: Final = "a date"
AN_ADDRESS: Final = "an address"
NOVEL: Final = Source("novel", "untrusted")
NOVEL_DATE: Final = Source("novel", "untrusted", A_DATE)
"""A calendar day that no text names, and nothing else."""
NOVEL_ADDRESS: Final = Source("novel", "untrusted", AN_ADDRESS)
"""An address, a host or a link that nobody wrote."""
COMPOSED: Final = Source("composed", "untrusted")
UNREAD: Final = Source("unread", "untrusted")
"""Too much to be looked at; counts as what comes from untrusted text, or size would be a way around everything."""


class Sources:
    """All texts of one conversation."""

    def __init__(self) -> None:
        self.untrusted = False
        """Whether any of them is."""
        self._texts: list[tuple[str, Source]] = []
        self._exact: dict[int, str] = {}
        """Trusted texts in every character: what only reads like an address of ours is not ours."""
        self._places: dict[str, tuple[list[int], list[int]]] = {}
        """word → the texts that hold it: trusted ones, untrusted ones"""
        self._numbers: dict[str, int] = {}
        """number → a text that holds it, a trusted one where there is any"""
        self._cents: dict[str, int] = {}
        """The same of amounts in hundredths, which a text means and does not say."""
        self._days: dict[DayOfYear, tuple[list[int], list[int]]] = {}
        """Day of the year → the texts that mention it: trusted ones, untrusted ones"""
        self._years: dict[int, frozenset[int]] = {}
        """By text that mentions a day: the years it names"""
        self._secrets: list[tuple[str, str, Source]] = []
        """What secret fields gave: as a phrase, and without spaces"""

    def add(self, text: str, source: Source) -> None:
        """Take in a text."""
        found = words(text)
        if not found:
            return
        if source.trust == "trusted":
            self._exact[len(self._texts)] = exact(text)
        self._note_days(text, source)
        self._add(found, numbers(text), [*grouped(text)], source)

    def add_values(
        self, value: Any, trust_of: Callable[[Path], Label], origin_of: Callable[[Path], str], path: Path = ()
    ) -> None:
        """Take in every value of a tool's result, each with the trust of its field."""
        match value:
            case dict():
                for key, item in value.items():
                    place = (*path, str(key))
                    trust: Trust = "untrusted" if trust_of(place) == "untrusted" else "trusted"
                    self.add(str(key), Source("tool", trust, origin_of(place)))
                    self.add_values(item, trust_of, origin_of, place)
            case list():
                for number, item in enumerate(value):
                    self.add_values(item, trust_of, origin_of, (*path, number))
            case str():
                source = self._of_field(value, trust_of(path), origin_of(path))
                self.add(value, source)
            case int() | float() if not isinstance(value, bool):
                number_text = canonical_number(value)
                known = [] if number_text is None else [(number_text, False)]
                source = self._of_field(str(value), trust_of(path), origin_of(path))
                self._add(words(str(value)), known, [], source, marks=False)

    def _of_field(self, text: str, label: Label, origin: str) -> Source:
        if label != "secret":
            return Source("tool", label, origin)
        source, run = Source("secret", "trusted", origin), squeezed(text)
        if len(run) >= MIN_SECRET_CHARS and len(self._secrets) < MAX_SECRETS:
            self._secrets.append((f" {' '.join(words(text))} ", run, source))
        return source

    def _note_days(self, text: str, source: Source) -> None:
        number, side = len(self._texts), 0 if source.trust == "trusted" else 1
        found = days(fold(text))
        for day in found:
            places = self._days.setdefault(day, ([], []))[side]
            if len(places) < MAX_PLACES:
                places.append(number)
        if found:
            self._years[number] = years(text)

    def _add(
        self,
        found: Sequence[str],
        known: Iterable[tuple[str, bool]],
        joined: Sequence[str],
        source: Source,
        *,
        marks: bool = True,
    ) -> None:
        number = len(self._texts)
        self._texts.append((f" {' '.join(found)} ", source))
        # A number alone can say nothing to a model; only text makes a conversation tainted.
        self.untrusted |= marks and source.trust == "untrusted"
        side = 0 if source.trust == "trusted" else 1
        for word in {*(word[:MAX_WORD_CHARS] for word in found), *joined}:
            places = self._places.setdefault(word, ([], []))[side]
            if len(places) < MAX_PLACES:
                places.append(number)
        for value, meant in known:
            among = self._cents if meant else self._numbers
            before = among.get(value)
            if before is None or (side == 0 and self._texts[before][1].trust == "untrusted"):
                among[value] = number

    # --- questions -----------------------------------------------------------------------------------------------

    def of_value(self, value: Any) -> Source | None:
        """What explains a value; None where there is nothing to explain (yes, no, nothing, no words)."""
        if value is None or isinstance(value, bool):
            return None
        if not isinstance(value, str):
            return self._of_atom(str(value), canonical_number(value))
        found = words(value)
        if not found:
            return None
        whole = self._of_atom(value, canonical_number(value), found)
        if whole.kind != "novel":
            return whole
        return self._of_parts(value, found)

    def of_prose(self, text: str) -> Source | None:
        """What explains that which a text carries, whoever wrote the text; None where it has no words."""
        found = words(text)
        return self._of_parts(text, found, prose=True) if found else None

    def _of_atom(self, text: str, number: str | None = None, found: Sequence[str] | None = None) -> Source:
        """What explains a text as a whole."""
        alike = [] if number is None else [number, *hundredths(text)]
        explained = [self._texts[self._numbers[one]][1] for one in alike if one in self._numbers]
        found = words(text) if found is None else found
        to_the_letter = exact(text) if must_be_exact(text) else ""
        explained += self._holding(found, to_the_letter)
        if number in self._cents and not explained:
            # Only then: whoever pays out a hundred times what we said, because somebody else named that, was misled.
            explained.append(self._texts[self._cents[number]][1])
        if len(explained) == 0 or explained[-1].trust == "untrusted":
            # To the letter here too: "instagr.am" is no way to write the word Instagram.
            explained += self._holding([squeezed(text)], to_the_letter)
            explained += self._of_day(text)
        return min(explained, key=lambda source: source.trust == "untrusted", default=NOVEL)

    def _of_day(self, text: str) -> list[Source]:
        """A text that mentions this calendar day, however it writes it.

        A trusted one has to name the year as well: who says "January 11th" has said nothing of 2031.
        """
        day = as_date(text)
        if day is None:
            return []
        trusted, untrusted = self._days.get((day.month, day.day), ([], []))
        of_that_year = [number for number in trusted if day.year in self._years[number]]
        return [self._texts[number][1] for number in (of_that_year or untrusted)[:1]]

    def _holding(self, found: Sequence[str], to_the_letter: str = "") -> list[Source]:
        """A text that holds these words in this order, a trusted one where there is any.

        `to_the_letter`: what a trusted text has to hold in every character. Untrusted ones are found by how they read.
        """
        places = [self._places.get(word[:MAX_WORD_CHARS]) for word in found]
        if not places or any(place is None for place in places):
            return []
        phrase = f" {' '.join(found)} "
        for side in (0, 1):
            rarest = min((place[side] for place in places if place is not None), key=len)
            for number in rarest:
                text, source = self._texts[number]
                if side == 0 and to_the_letter and not holds_exactly(self._exact.get(number, ""), to_the_letter):
                    continue
                # One word was found by itself (or joined from groups, which the text has apart), if all of it was.
                if (len(found) == 1 and len(found[0]) <= MAX_WORD_CHARS) or phrase in text:
                    return [source]
        return []

    def _of_parts(self, text: str, found: Sequence[str], *, prose: bool = False) -> Source:
        """What explains a text that nobody wrote as it is: the least trusted of what it carries."""
        if len(text) > MAX_CHARS:
            return UNREAD
        atoms = carried(text, as_it_reads=False)
        disguised = [] if text.isascii() else [atom for atom in carried(text) if atom not in atoms]
        if len(atoms) + len(disguised) > MAX_ATOMS:
            return UNREAD
        prose = prose or len(text.split()) >= PROSE_WORDS
        parts = atoms if prose else [*atoms, *(word for word in found if not any(word in fold(atom) for atom in atoms))]
        sources = [self._of_part(part) for part in parts]
        # What only reads like something of ours is new, and what reads like something of theirs is theirs.
        sources += [NOVEL_ADDRESS if one.trust == "trusted" else one for one in map(self._of_part, disguised)]
        worst = max(sources, key=_distrust, default=None)
        if worst is None or (prose and worst.trust == "trusted"):
            return COMPOSED
        return worst

    def _of_part(self, atom: str) -> Source:
        whole = self._of_atom(atom, canonical_number(atom.lstrip("#@")))
        if whole.kind != "novel":
            return whole
        if is_link(atom):
            # A link that nobody wrote, on a host that somebody did: what it carries there is new all the same.
            host = self._of_atom(host_of(atom))
            return host if host.trust == "untrusted" and host.kind != "novel" else NOVEL_ADDRESS
        if is_address(atom):
            return NOVEL_ADDRESS
        return NOVEL if as_date(atom) is None else NOVEL_DATE

    def explain(
        self, arguments: Mapping[str, Any], schema: Mapping[str, Any], free: Sequence[str] = ()
    ) -> list[Traced]:
        """What explains each value of a call's arguments, those aside that the tool's schema lists one by one.

        `free`: arguments whose words decide nothing, of which only what they carry is explained.
        """
        found: list[Traced] = []
        for path, value in _leaves(arguments, schema, schema, ()):
            if len(found) == MAX_VALUES:
                found.append(Traced(("…",), UNREAD))
                break
            source = self.of_prose(value) if path[0] in free and isinstance(value, str) else self.of_value(value)
            if source is None or source.trust == "trusted" or source.kind in ("novel", "composed"):
                source = self._secret_in(value) or source
            if source is not None:
                found.append(Traced(path, source))
        return found

    def _secret_in(self, value: Any) -> Source | None:
        """Which secret field's value a value holds, unless something trusted that is no secret says the same."""
        if not self._secrets or not isinstance(value, str | int | float) or isinstance(value, bool):
            return None
        phrase, run = f" {' '.join(words(str(value)))} ", squeezed(str(value))
        for secret, secret_run, source in self._secrets:
            if secret not in phrase and (len(secret_run) < MIN_RUN_CHARS or secret_run not in run):
                continue
            if not self._said_openly(secret):
                return source
        return None

    def _said_openly(self, phrase: str) -> bool:
        places = [self._places.get(word[:MAX_WORD_CHARS], ([], []))[0] for word in phrase.split()]
        held = (self._texts[number] for number in min(places, key=len))
        return any(source.kind != "secret" and phrase in text for text, source in held)


def has_values(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> bool:
    """Whether there is anything in a call's arguments that must come from somewhere."""
    leaves = _leaves(arguments, schema, schema, ())
    return any(not (value is None or isinstance(value, bool) or value == "") for _, value in leaves)


def provenance(arguments: Mapping[str, Any], sources: Sources, schema: Mapping[str, Any] | None = None) -> list[Traced]:
    """`Sources.explain` as a function."""
    return sources.explain(arguments, schema or {})


def _distrust(source: Source) -> int:
    if source.trust == "trusted":
        return 0
    return 1 + (NOVEL_DATE, NOVEL, NOVEL_ADDRESS).index(source) if source.kind == "novel" else 4


def _leaves(value: Any, schema: Any, root: Mapping[str, Any], path: Path) -> Iterator[tuple[Path, Any]]:
    """Values that are no containers, with their places; what a schema lists in full is no value of anybody's."""
    schema = _resolved(schema, root)
    match value:
        case dict():
            properties = _table(schema, "properties")
            for key, item in value.items():
                if key not in properties and path:
                    yield (*path, key), key  # a key that the tool does not name is data
                inner = properties.get(key, schema.get("additionalProperties", {}))
                yield from _leaves(item, inner, root, (*path, key))
        case list():
            for number, item in enumerate(value):
                yield from _leaves(item, schema.get("items", {}), root, (*path, number))
        case _ if not _listed(schema, root):
            yield path, value


def _table(schema: Mapping[str, Any], keyword: str) -> Mapping[str, Any]:
    """What stands there, if it is an object: schemas come from other people's servers."""
    found = schema.get(keyword)
    return found if isinstance(found, Mapping) else {}


def _resolved(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    for _ in range(MAX_REFERENCES):
        if not isinstance(schema, Mapping):
            return {}
        reference = schema.get("$ref")
        if isinstance(reference, str):
            schema = _table(root, "$defs").get(reference.rpartition("/")[2], {})
            continue
        alternatives = [one for one in _alternatives(schema) if one.get("type") != "null"]
        if len(alternatives) != 1:
            return schema
        schema = alternatives[0]
    return {}


def _alternatives(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = schema.get("anyOf")
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list | tuple) else []


def _listed(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int = 0) -> bool:
    """Whether a schema leaves only values that it lists."""
    alternatives = _alternatives(schema)
    if alternatives:
        # One that refers to itself, and so lists nothing.
        return depth < MAX_REFERENCES and all(_listed(_resolved(one, root), root, depth + 1) for one in alternatives)
    return "enum" in schema or "const" in schema or schema.get("type") in ("boolean", "null")
