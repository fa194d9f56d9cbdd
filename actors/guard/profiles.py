"""Guardrail profiles: how much a run's guardrails look at and ask for, as one value with every number in it.

    off          nothing is looked at and nothing recorded (a tool still takes only arguments that fit its types)
    validation   known tools, fitting arguments, the caps you set, and no endless repetition; the default
    lenient      and personal data hidden from the model, marked-off data, suspicious texts recorded
    standard     and a person is asked where untrusted text decides: calls outside of the plan, tainted arguments
    strict       and where nothing trusted explains a value, after any untrusted text, and after one suspicious text

No profile ever ends a run: what is refused goes back to the model as an error, and what is held waits for a person.
"""

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final, Literal

import msgspec

from ...mailbox.errors import UsageError

Effect = Literal["read", "write", "egress", "money"]
Loop = Literal["refuse", "hold"]

PII_KINDS: Final = ("email", "credit_card", "iban", "phone")


class Cap(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of one numeric argument of one tool; None: no such limit."""

    each: Decimal | None = None
    """Of a single call."""
    total: Decimal | None = None
    """Of all calls of a run together."""


Caps = dict[str, dict[str, Cap]]
"""tool → argument → limits"""


class UnknownProfile(UsageError, ValueError):
    """There is no guardrail profile of that name."""


class BadProfile(UsageError, ValueError):
    """A guardrail profile that cannot be."""


class GuardrailProfile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a run's guardrails do. Make one from another: `PROFILES["standard"].with_(loop_threshold=5)`."""

    name: str
    active: bool = True
    """Whether anything at all is looked at or recorded."""
    caps: Caps = {}
    """None is built in. Values above are refused or held, see `on_cap`."""
    on_cap: Loop = "refuse"
    loop_threshold: int = 3
    """The how-manieth identical call of a tool with an effect is not made by itself; 0: any number is."""
    on_loop: Loop = "refuse"
    redact: tuple[str, ...] = ()
    """Kinds of personal data that the model sees as placeholders."""
    delimit: bool = False
    """Whether untrusted texts are marked off as data."""
    patterns: bool = False
    """Whether untrusted texts are searched for injected instructions."""
    pattern_confidence: float = 0.0
    """Matches below it are not recorded."""
    hit_confidence: float = 0.7
    """Matches from here on count as hits."""
    hits_to_hold: int = 0
    """From so many hits on, every call with an effect is held; 0: hits are only recorded."""
    detector: bool = False
    """Whether the small classifier reads untrusted texts too."""
    detector_threshold: float | None = None
    """Probability from which it counts; None: what its file says."""
    plan: bool = False
    """Whether calls outside of the run's plan are held, where it has a plan."""
    taint: tuple[Effect, ...] = ()
    """Effects of which calls are held when a value comes from untrusted text."""
    free_text: dict[str, tuple[str, ...]] = {}
    """tool → arguments whose words decide nothing, such as a note: only what they carry (addresses, links, whatever has
    digits) is traced, even where a whole sentence is copied."""
    novel: tuple[Effect, ...] = ()
    """Effects of which calls are held when nothing in the conversation explains a value, dates aside."""
    novel_addresses: tuple[Effect, ...] = ()
    """The same where that value is, or carries, an address, a host or a link."""
    novel_dates: tuple[Effect, ...] = ()
    """The same where that value is a calendar date, which a model has to set itself where nobody names one."""
    secret: tuple[Effect, ...] = ()
    """Effects of which calls are held when they carry what a tool gave as secret and nobody trusted said openly."""
    composed: tuple[Effect, ...] = ()
    """Effects of which calls are held when the model wrote a text itself, in words that nothing explains."""
    context: tuple[Effect, ...] = ()
    """Effects of which calls are held once the run has read any untrusted text."""

    @property
    def traces(self) -> bool:
        """Whether the source of every value matters."""
        return bool(
            self.taint or self.novel or self.novel_addresses or self.novel_dates or self.secret or self.composed
        )

    @property
    def looks(self) -> bool:
        """Whether anything is done at the border to the model."""
        return bool(self.active and (self.redact or self.delimit or self.patterns or self.detector or self.watches))

    @property
    def watches(self) -> bool:
        """Whether it matters what untrusted text there was."""
        return bool(self.traces or self.context)

    def with_(self, **changes: Any) -> "GuardrailProfile":
        """This profile with other values. Caps may be given as plain numbers: `{"issue_refund": {"amount": 5000}}`.

        Raises:
            BadProfile: an unknown field, or a value that cannot be.
        """
        return profile_of({"name": self.name, **changes}, base=self)


_WRITES: Final[tuple[Effect, ...]] = ("write", "egress", "money")

_LENIENT: Final = GuardrailProfile("lenient", redact=PII_KINDS, delimit=True, patterns=True)
_STANDARD: Final = msgspec.structs.replace(
    _LENIENT,
    name="standard",
    hits_to_hold=3,
    plan=True,
    taint=_WRITES,
    novel=("money",),
    novel_addresses=("egress", "money"),
    secret=("egress", "money"),
)

PROFILES: Final[Mapping[str, GuardrailProfile]] = {
    "off": GuardrailProfile("off", active=False, loop_threshold=0),
    "validation": GuardrailProfile("validation"),
    "lenient": _LENIENT,
    "standard": _STANDARD,
    "strict": msgspec.structs.replace(
        _STANDARD,
        name="strict",
        loop_threshold=2,
        hits_to_hold=1,
        novel=("egress", "money"),
        novel_dates=("egress", "money"),
        composed=("egress", "money"),
        context=_WRITES,
    ),
}
DEFAULT: Final = "validation"
ALIASES: Final[Mapping[str, str]] = {"financial_v1": "standard"}


def get_profile(
    name: "str | GuardrailProfile | None", more: Mapping[str, GuardrailProfile] | None = None
) -> GuardrailProfile:
    """The profile of a name: None and "" are `validation`; of two of a name, the one in `more`.

    Raises:
        UnknownProfile: (a ValueError) listing the names there are.
    """
    if isinstance(name, GuardrailProfile):
        return name
    wanted = ALIASES.get(name or DEFAULT, name or DEFAULT)
    found = (more or {}).get(wanted) or PROFILES.get(wanted)
    if found is None:
        known = ", ".join([*PROFILES, *ALIASES, *(each for each in more or {} if each not in PROFILES)])
        raise UnknownProfile(f"no guardrail profile is called {str(name)[:80]!r}; there are {known}")
    return found


def profile_of(table: Mapping[str, Any], *, base: GuardrailProfile | None = None) -> GuardrailProfile:
    """A profile from a table such as TOML gives; `base` names, or is, the profile whose other values it takes.

    Raises:
        UnknownProfile: of `base`. BadProfile: an unknown field, or a value that cannot be.
    """
    given = dict(table)
    start = base or get_profile(given.pop("base", DEFAULT))
    if "caps" in given:
        given["caps"] = caps_of(given["caps"])
    known = start.__struct_fields__
    unknown = [field for field in given if field not in known]
    if unknown:
        raise BadProfile(f"guardrails have no {unknown[0]!r}; they have {', '.join(known)}")
    merged = {field: getattr(start, field) for field in known} | given
    try:
        made = msgspec.convert(merged, GuardrailProfile)
    except msgspec.ValidationError as error:
        raise BadProfile(f"guardrails {merged['name']!r}: {error}") from error
    _must_be_possible(made)
    return made


def caps_of(table: object) -> Caps:
    """Caps as written: a number, or a table of `each` and `total`, for an argument of a tool.

    Raises:
        BadProfile: with the place and the value.
    """
    if not isinstance(table, Mapping):
        raise BadProfile(f"caps must be a table of tools, not {table!r:.80}")
    caps: Caps = {}
    for tool, arguments in table.items():
        if not isinstance(arguments, Mapping):
            raise BadProfile(f"caps of {tool!r} must be a table of its arguments, not {arguments!r:.80}")
        caps[tool] = {name: _cap(f"{tool}.{name}", limit) for name, limit in arguments.items()}
    return caps


def _cap(place: str, limit: object) -> Cap:
    if isinstance(limit, Cap):
        return limit
    if not isinstance(limit, Mapping):
        return Cap(each=_amount(place, limit))
    if not limit or not set(limit) <= {"each", "total"}:
        raise BadProfile(f"cap {place}: expected a number, or a table of `each` and `total`, not {limit!r:.80}")
    return Cap(**{key: _amount(place, value) for key, value in limit.items()})


def _amount(place: str, value: object) -> Decimal:
    try:
        amount = Decimal(str(value)) if isinstance(value, int | float | str | Decimal) else Decimal("NaN")
    except InvalidOperation:
        amount = Decimal("NaN")
    if isinstance(value, bool) or not amount.is_finite():
        raise BadProfile(f"cap {place}: expected a number, not {value!r:.80}")
    return amount


def _must_be_possible(profile: GuardrailProfile) -> None:
    if profile.loop_threshold < 0 or profile.loop_threshold == 1:
        why = "the first call is no repetition"
        raise BadProfile(f"loop_threshold: 0, or from 2 on, not {profile.loop_threshold}: {why}")
    if profile.hits_to_hold < 0:
        raise BadProfile(f"hits_to_hold: from 0 on, not {profile.hits_to_hold}")
    for field in ("pattern_confidence", "hit_confidence", "detector_threshold"):
        value = getattr(profile, field)
        if value is not None and not 0 <= value <= 1:
            raise BadProfile(f"{field}: from 0 to 1, not {value}")
