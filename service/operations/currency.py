"""Currencies: their codes, the signs that people write for them, and sums that are written out (`US$480`, `480 PLN`).

Nothing is guessed. A sign that several currencies share stays what it is (`$`, `kr`), unless something beside it says
which of them is meant; and a number that could be read in two ways (`1.234 EUR`, `480,00 EUR`) is not read at all.
Neighbours: `money`, which knows where in a call's arguments sums stand.
"""

import re
from functools import lru_cache
from typing import Any, NamedTuple

_THREE = re.compile("[A-Z]{3}")
_CODES = frozenset(
    _THREE.findall(
        "AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF "
        "CHF CLF CLP CNH CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ "
        "GYD HKD HNL HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD "
        "LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP "
        "PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND "
        "TOP TRY TTD TWD TZS UAH UGX USD UYU UZS VED VES VND VUV WST XAF XCD XOF XPF YER ZAR ZMW ZWG ZWL"
    )
)
"""ISO 4217."""
_WORDS = frozenset(_THREE.findall("ALL AMD BAM BOB COP CUP GEL LAK MAD MOP PEN PHP RON SOS TOP TRY"))
"""Codes that are words as well: with those, only what is called a sum is one."""
_UNMISTAKEN = _CODES - _WORDS
_WHOLE_ONLY = frozenset(_THREE.findall("BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"))
_THOUSANDTHS = frozenset(_THREE.findall("BHD IQD JOD KWD LYD OMR TND"))
_NAMES = {"dollars": "USD", "euros": "EUR"}
"""Words within names of fields."""
MINOR = frozenset({"cents", "minor", "pence"})
"""How the name of a field ends that is in the smallest unit of its currency."""
_OLD_NAMES = {"chf", "eur", "gbp", "jpy", "usd"}
"""Codes that are meant wherever they stand in a name; of others, which may be short for something else, only at its
end."""
_SIGNS: dict[str, tuple[str, ...]] = {
    "€": ("EUR",), "euro": ("EUR",), "euros": ("EUR",), "£": ("GBP",),
    "US$": ("USD",), "U$": ("USD",), "U.S.$": ("USD",), "C$": ("CAD",), "CA$": ("CAD",), "CAN$": ("CAD",),
    "CDN$": ("CAD",), "A$": ("AUD",), "AU$": ("AUD",), "NZ$": ("NZD",), "HK$": ("HKD",), "S$": ("SGD",),
    "SG$": ("SGD",), "R$": ("BRL",), "MX$": ("MXN",), "MEX$": ("MXN",), "NT$": ("TWD",), "TT$": ("TTD",),
    "JP¥": ("JPY",), "CN¥": ("CNY",), "Fr.": ("CHF",), "SFr.": ("CHF",), "SFr": ("CHF",), "sFr.": ("CHF",),
    "zł": ("PLN",), "Kč": ("CZK",), "Ft": ("HUF",), "₹": ("INR",), "₺": ("TRY",), "₴": ("UAH",), "₽": ("RUB",),
    "₩": ("KRW",), "₪": ("ILS",), "₫": ("VND",), "฿": ("THB",), "₱": ("PHP",), "₦": ("NGN",), "₡": ("CRC",),
    "₲": ("PYG",), "₸": ("KZT",), "₼": ("AZN",), "₾": ("GEL",), "₵": ("GHS",), "₮": ("MNT",), "៛": ("KHR",),
    "$": tuple(_THREE.findall(
        "USD AUD BBD BMD BND BSD BZD CAD CLP COP FJD GYD HKD JMD KYD LRD MXN NAD NZD SGD SRD TTD TWD XCD"
    )),
    "¥": ("JPY", "CNY", "CNH"), "Rs": ("INR", "LKR", "MUR", "NPR", "PKR", "SCR"),
    "Rs.": ("INR", "LKR", "MUR", "NPR", "PKR", "SCR"), "kr": ("SEK", "NOK", "DKK", "ISK"),
    "kr.": ("DKK", "SEK", "NOK", "ISK"), "Kr": ("SEK", "NOK", "DKK", "ISK"), "Kr.": ("DKK", "SEK", "NOK", "ISK"),
}  # fmt: skip
SYMBOLS = "$¢£¤¥֏؋৲৳৻૱௹฿៛₠₡₢₣₤₥₦₧₨₩₪₫€₭₮₯₰₱₲₳₴₵₶₷₸₹₺₻₼₽₾₿⃀꠸﷼﹩＄￠￡￥￦"
_FOLDED = {sign.casefold(): sign for sign in _SIGNS}
_NUMBER = r"\d+(?:\.(?:\d\d?|\d{4,}))?|\d{1,3}(?:,\d{3})+\.\d\d"
"""Three digits after a point may be thousands to whoever wrote them, and so may be those after a comma."""
_MARK = rf"[A-Za-z.]{{0,5}}[{SYMBOLS}]|[A-Za-złč]{{2,5}}\.?"
_MAX_CHARS = 60
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_BESIDE = frozenset({"currency", "currency_code", "currencycode"})


class Written(NamedTuple):
    """A sum with its currency, as a text says it."""

    number: str
    """As Python reads it."""
    currency: str
    """A code; or the sign that was written, where several currencies share it."""


def read_written(text: str, code: str = "") -> Written | None:
    """The sum that this text is, with a currency before or behind it; None where it is none, could be read in two ways,
    or is not of the currency `code` that is said elsewhere ("" where nothing is)."""
    found = _written().fullmatch(" ".join(text.split())) if len(text) <= _MAX_CHARS else None
    if found is None or not (found["before"] or found["after"]) or (found["minus"] and found["inner"]):
        return None
    marks = [mark for mark in (found["before"], found["after"]) if mark]
    meant = [_meant(mark) for mark in marks]
    if not all(meant):
        return None
    common = [one for one in meant[0] if all(one in more for more in meant)]
    if code:
        common = [one for one in common if one == code]
    if not common:
        return None
    number = ("-" if found["minus"] or found["inner"] else "") + found["number"].replace(",", "")
    return Written(number, common[0] if len(common) == 1 else _sign(marks[0]))


def _meant(mark: str) -> tuple[str, ...]:
    """The currencies that a sign or a code may stand for."""
    if mark.upper() in _CODES:
        return (mark.upper(),)
    return _SIGNS.get(_sign(mark), ())


def _sign(mark: str) -> str:
    return mark if mark in _SIGNS else _FOLDED.get(mark.casefold(), mark)


def without_marks(text: str, *, certain: bool = False) -> tuple[str, bool]:
    """A text without everything in it that names a currency, or may; and whether there was any. `certain`: only what
    can hardly be anything else, so that its text is a sum whatever its field is called."""
    rest, count = (_certain() if certain else _any_mark()).subn("", text)
    return rest, count > 0


_LETTERED = "|".join(sorted((re.escape(one) for one in _SIGNS if one[-1] not in SYMBOLS), key=len, reverse=True))


@lru_cache
def _written() -> re.Pattern[str]:
    # Made when the first sum is read, like the next two: whoever starts a screen waits for every module.
    return re.compile(
        rf"(?P<minus>[-−]?)\s*(?P<before>{_MARK})?\s*(?P<inner>[-−]?)\s*(?P<number>{_NUMBER})\s*(?P<after>{_MARK})?",
        re.ASCII,
    )


@lru_cache
def _certain() -> re.Pattern[str]:
    return re.compile(
        rf"[A-Za-z.]{{0,5}}[{SYMBOLS}]|(?<!\S)(?:{'|'.join(sorted(_UNMISTAKEN))})(?!\S)"
        r"|(?<![^\W\d_])(?:S?Fr\.|kr\.?|zł|Kč|euros?)(?![^\W\d_])"
    )


@lru_cache
def _any_mark() -> re.Pattern[str]:
    return re.compile(
        rf"[A-Za-z.]{{0,5}}[{SYMBOLS}]|(?<![^\W\d_])(?:{'|'.join(sorted(_CODES))}|{_LETTERED}|R|ct|cts|cents?|pence"
        r"|dollars?|bucks|pounds?|sterling|francs?|kron[eo]r|krona|krone|z[lł]oty(?:ch|s)?|yen|yuan|rupees?|pesos?"
        r"|rubles?)(?![^\W\d_])",
        re.IGNORECASE,
    )


def is_beside(name: object) -> bool:
    """Whether a field of this name says a currency."""
    return str(name).lower() in _BESIDE


def code_beside(value: dict[Any, Any]) -> str:
    """The code that an object names as its currency; "" where it names none."""
    return next((code for key, one in value.items() if is_beside(key) and (code := _code(one))), "")


def code_of(field: str, beside: str) -> str:
    """The code of what a field holds: its name says it, else what is said beside it."""
    return code_named(field) or beside


def code_named(field: str) -> str:
    """The code that the name of a field says: `amount_usd`, `price_euros`; "" where it says none."""
    words = [word.lower() for word in _WORD.findall(field)]
    if words and words[-1] in MINOR:
        words.pop()
    found = next((word for word in words[-2:] if word in _OLD_NAMES or word in _NAMES), "")
    if not found and len(words) > 1 and is_code(words[-1]):
        found = words[-1]
    return _NAMES.get(found, found.upper())


def is_code(word: str) -> bool:
    """Whether this word of a field's name is a currency's code, and nothing else."""
    return word.upper() in _UNMISTAKEN


def minor_digits(code: str) -> int:
    """How many digits the smallest unit of a currency is behind the point: 2 for most and for what is not said."""
    return 0 if code in _WHOLE_ONLY else 3 if code in _THOUSANDTHS else 2


def _code(value: Any) -> str:
    if not isinstance(value, str):
        return ""
    text = value.strip()
    meant = _SIGNS.get(text, ())
    return meant[0] if len(meant) == 1 else text.upper() if re.fullmatch("[A-Za-z]{3}", text) else ""
