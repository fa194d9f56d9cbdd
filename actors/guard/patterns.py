"""Signs that a text speaks to the model that reads it: a list of rules, each with how much it says.

A sign is never more than that. Ordinary mails say "ignore my last message", and who wants to can avoid every rule; so a
hit is recorded, and at most asks a person. Rules are matched against the folded text (`folding`), in linear time: every
gap between two words of a rule is bounded.
"""

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Final

import msgspec

from .folding import fold, original_span

MAX_MATCHES: Final = 20
MAX_PER_RULE: Final = 3
MAX_TEXT_CHARS: Final = 120
"""What is kept of a match's own text."""
MAX_BLOBS: Final = 8
MAX_BLOB_CHARS: Final = 8_192
MIN_BLOB_CHARS: Final = 40
PIECE_CHARS: Final = 16_384
"""A long text is searched piece by piece: one search cannot be interrupted, and other runs wait for it meanwhile."""
OVERLAP_CHARS: Final = 512
"""More than any rule spans, so that what lies across two pieces is found in the second."""


class Match(msgspec.Struct, frozen=True):
    """One sign in a text."""

    rule: str
    confidence: float
    """From 0 to 1: how much the rule says. Not a probability."""
    start: int
    end: int
    text: str
    """What matched, cut after 120 characters."""


_GAP = r"[^.!?\n]{0,40}?"
_PRIOR = (
    r"(?:all|any|every(?:thing)?|previous|prior|earlier|preceding|above|former|foregoing|existing|original|initial)"
)
_ORDERS = (
    r"(?:i?u?nstructions?|prompts?|directions?|guidelines?|rules|orders|commands|directives?|constraints|programming)"
)

_READER = (
    r"(?:ai|llm|chatbots?|gpt\w{0,4}|claude|language model|assistant|agents?"
    r"|(?:ai|automated) (?:assistant|agent|system))s?"
)
_TASK_VERB = r"(?:solv\w{1,3}|complet\w{1,3}|finish\w{0,3}|answer\w{0,3}|continu\w{1,3}|perform\w{0,3}|do(?:ing)?)"

_RULES: Final[tuple[tuple[str, float, str], ...]] = (
    ("ignore_instructions", 0.9, rf"\b(?:ignore|bypass|override|skip)\b{_GAP}\b{_PRIOR}\b{_GAP}\b{_ORDERS}\b"),
    ("disregard_prior", 0.85, rf"\bdisregard\b{_GAP}\b(?:{_PRIOR}|{_ORDERS}|told|said)\b"),
    (
        "forget_prior",
        0.85,
        (
            rf"\bforget\b{_GAP}\b(?:all|everything|anything|what)\b{_GAP}"
            r"\b(?:above|before|told|said|know|learned|prior|previous)\b"
            rf"|\bforget\b{_GAP}\b(?:your|all|previous|prior|these|those)\b{_GAP}\b{_ORDERS}\b"
        ),
    ),
    (
        "new_instructions",
        0.7,
        rf"\b(?:new|updated|real|actual|revised|following|additional)\s+{_ORDERS}\b\s*[:>=-]",
    ),
    (
        "system_override",
        0.9,
        (
            r"\b(?:system|admin(?:istrator)?|developer|root|security|safety)[ _-]?(?:prompt|mode|level)?[ _-]?"
            r"(?:overrid\w{1,5}|bypass|update\s*:)"
            r"|\b(?:enter|enable|activate|switch to)\b[^.!?\n]{0,20}?"
            r"\b(?:developer|debug|maintenance|admin|god|sudo)\s+mode\b"
        ),
    ),
    ("new_persona", 0.6, r"\b(?:you are|you're|you will be|you shall be)\s+(?:now|from now on|no longer)\b"),
    ("roleplay_act_as", 0.3, r"\b(?:act|behave|respond|answer|function)\s+as\s+(?:if\b|an?\b|the\b|though\b)"),
    (
        "hypothetical_no_limits",
        0.6,
        (
            r"\b(?:hypothetical\w{0,2}|imagine|suppose|in a world|fictional)\b[^.!?\n]{0,80}?"
            r"\b(?:no|without|free of|ignore)\s+(?:any\s+)?"
            r"(?:rules|limits?|restrictions?|ethic\w{0,3}|filters?|guidelines|limitations?|constraints)\b"
        ),
    ),
    (
        "lets_play_pretend",
        0.6,
        r"\b(?:let'?s\s+(?:play|pretend|roleplay|role-play)|pretend\s+(?:to be|that|you|you're))\b",
    ),
    (
        "not_bound_by_rules",
        0.7,
        (
            r"\b(?:not|no longer|never|un)\s*(?:bound|restricted|limited|constrained|governed|subject)\b[^.!?\n]{0,20}?"
            r"\b(?:by|to)\b[^.!?\n]{0,30}?"
            r"\b(?:rules|guidelines|polic(?:y|ies)|restrictions|filters|laws|ethics|limitations|openai|content)\b"
        ),
    ),
    (
        "jailbreak_mode",
        0.85,
        (
            r"\bjail ?-?break\w{0,3}\b|\bdo anything now\b|\bdan mode\b"
            r"|\b(?:unrestricted|unfiltered|uncensored|evil)\s+(?:mode|ai|assistant|bot|model|version|response)s?\b"
        ),
    ),
    (
        "reveal_prompt",
        0.7,
        (
            r"\b(?:reveal|print|show|repeat|output|display|disclose|leak|tell me|give me|share|translate|spell)\b"
            r"[^.!?\n]{0,40}?\b(?:system|initial|hidden|secret|original|above)\s*"
            r"(?:prompt|message|instructions?|password|key)s?\b"
        ),
    ),
    (
        "role_marker",
        0.8,
        (
            r"<\|?/?(?:im_start|im_end|system|assistant|endoftext|start_header_id|eot_id)\|?>|\[/?(?:inst|sys|system)\]"
            r"|<<sys>>|</?(?:tool_result|function_results?|system_prompt|untrusted\w{0,10})\b"
            r"|^\s*#{2,}\s*(?:system|instructions?)\b"
            r"|\bend of (?:data|document|input|user input|tool (?:output|result)|context)\b[^\n]{0,20}$"
        ),
    ),
    (
        "speaks_to_the_model",
        0.7,
        (
            r"\b(?:dear|hey|hello|attention|note (?:to|for)|message (?:to|for)|instructions? (?:to|for))\b[ ,:]{0,3}"
            rf"(?:the |any |all )?{_READER}\b"
            r"|\bif you(?: a|')re an? (?:ai|llm|language model|assistant|bot|automated)\b"
        ),
    ),
    (
        "before_the_task",
        0.75,
        (
            rf"\b(?:before|after|instead of|prior to|in order to) (?:you )?(?:can )?{_TASK_VERB}\b[^.!?\n]{{0,20}}?"
            r"\b(?:the|this|your|my|that)\s+(?:\w{1,12}\s+)?(?:task|request|question)s?\b"
            r"|<information>|\bthis is an important message from\b"
        ),
    ),
    (
        "keep_from_the_user",
        0.7,
        (
            r"\b(?:do not|don't|never|without)\b[^.!?\n]{0,12}?"
            r"\b(?:tell|inform|mention|notify|alert|show|reveal|ask)(?:ing)?\b[^.!?\n]{0,25}?"
            r"\b(?:the user|the customer|the owner|anyone|anybody|him|her|them|this to|confirmation)\b"
        ),
    ),
    ("link_carries_data", 0.6, r"!\[[^\]\n]{0,200}\]\(\s{0,3}https?://[^)\s?]{1,300}\?[^)\s]{1,300}\)"),
    *(
        ("ignore_other_language", 0.8, rf"\b(?:{verbs})\b{_GAP}\b(?:{orders})\b")
        for verbs, orders in (
            (  # German
                r"ignorier\w{0,3}|vergiss|vergessen sie|missachte\w{0,2}",
                r"(?:anweisung|vorgabe|regel|befehl|instruktion)\w{0,2}",
            ),
            (
                r"ignor(?:ez|er|es|ons)|oublie\w{0,2}|ne tiens pas compte",
                r"instructions?|consignes?|regles|directives?",
            ),
            (  # Spanish
                r"ignor[aei]\w{0,4}|olvid\w{1,4}|descart\w{1,4}|omit\w{1,4}",
                r"instrucci\w{1,5}|ordenes|reglas|indicaciones|directrices",
            ),
            (  # Italian, Portuguese
                r"ignor[aei]\w{0,4}|dimentica\w{0,3}|esque\w{1,4}|desconsider\w{1,4}",
                r"istruzion\w|regole|instruc\w{1,5}|regras|ordens",
            ),
            (r"negeer|vergeet", r"instructies|regels|opdrachten"),
            (
                "\u0438\u0433\u043d\u043e\u0440\u0438\u0440\\w{1,6}",
                "\u0438\u043d\u0441\u0442\u0440\u0443\u043a\\w{1,6}",
            ),
        )
    ),
    (
        "ignore_other_language",
        0.8,
        (
            "(?:\u5ffd\u7565|\u5ffd\u89c6|\u65e0\u89c6|\u7121\u8996|\u5fd8\u8bb0)[^\u3002\n]{0,20}?"
            "(?:\u6307\u4ee4|\u6307\u793a|\u8bf4\u660e|\u89c4\u5219|\u63d0\u793a)"
        ),
    ),
)
_COMPILED: Final = tuple(
    # Folded like the texts, where letters of other alphabets that look Latin have become Latin ones.
    (name, confidence, re.compile(rule if rule.isascii() else fold(rule), re.MULTILINE))
    for name, confidence, rule in _RULES
)
_BLOB = re.compile(rf"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{{{MIN_BLOB_CHARS},}}={{0,2}}")
_TAGS = re.compile(r"[\U000e0020-\U000e007f]{4,}")
"""Characters that nobody sees and models read."""


def scan(text: str) -> list[Match]:
    """The signs in a text, at most 20, the surest first."""
    return sorted(_all(text), key=lambda match: (-match.confidence, match.start))[:MAX_MATCHES]


def _all(text: str) -> Iterator[Match]:
    seen: set[tuple[str, int]] = set()
    count: dict[str, int] = {}
    for offset in range(0, max(1, len(text) - OVERLAP_CHARS), PIECE_CHARS):
        piece = text[offset : offset + PIECE_CHARS + OVERLAP_CHARS]
        folded = fold(piece)
        for name, confidence, rule in _COMPILED:
            for found in rule.finditer(folded):
                if count.get(name, 0) == MAX_PER_RULE:
                    break
                start, end = original_span(piece, *found.span())
                if (name, offset + start) not in seen:
                    seen.add((name, offset + start))
                    count[name] = count.get(name, 0) + 1
                    yield _match(name, confidence, text, offset + start, offset + end)
    yield from _hidden(text)
    yield from _blobs(text)


def _hidden(text: str) -> Iterator[Match]:
    if text.isascii():
        return
    for number, found in enumerate(_TAGS.finditer(text)):
        if number == MAX_PER_RULE:
            break
        spoken = "".join(chr(ord(c) - 0xE0000) for c in found[0])
        yield Match("invisible_text", 0.9, found.start(), found.end(), spoken[:MAX_TEXT_CHARS])


def _blobs(text: str) -> Iterator[Match]:
    """Long base64: a weak sign by itself, and as strong a one as what it holds."""
    for number, found in enumerate(_BLOB.finditer(text)):
        if number == MAX_BLOBS:
            break
        inner = _decoded(found[0][:MAX_BLOB_CHARS])
        best = max(_signs(inner), default=("base64_blob", 0.5), key=lambda sign: sign[1])
        yield _match(best[0], best[1], text, found.start(), found.end())


def _signs(text: str) -> Iterator[tuple[str, float]]:
    folded = fold(text)
    return ((f"{name}_in_base64", confidence) for name, confidence, rule in _COMPILED if rule.search(folded))


def _decoded(blob: str) -> str:
    plain = blob.rstrip("=").replace("-", "+").replace("_", "/")
    plain = plain[: len(plain) // 4 * 4]
    try:
        return base64.b64decode(plain, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _match(rule: str, confidence: float, text: str, start: int, end: int) -> Match:
    return Match(rule, confidence, start, end, text[start:end][:MAX_TEXT_CHARS])
