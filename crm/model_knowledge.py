"""`DeskModel` as knowledge: finds the sentence of the desk's articles that answers a question."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from callboard.crm.requests import KnowledgeRequest
from callboard.crm.steps import Step, Steps

NEEDED: Final = 2
"""So many words of a question have to be in a sentence that answers it, or in its article's title."""

_COMMON: Final = re.compile(
    r"a|about|accept|also|am|an|and|any|are|as|at|be|been|but|by|can|could|do|does|for|from|get|had|has|have|how|i|if"
    r"|in|is|it|long|many|may|me|much|my|of|on|or|our|out|should|so|some|take|that|the|their|them|there|they|this|to|us"
    r"|was|we|what|when|where|which|who|why|will|with|would|you|your"
)
_FOR_AGENTS: Final = re.compile(r"(?<!\w)(?:ticket|ask which|you)(?!\w)|\|", re.IGNORECASE)
"""Sentences that tell agents what to do are no answer to a customer, and neither is the table of limits."""


def knowledge_step(desk: Steps) -> Step:
    """The search to make now, or the answer."""
    try:
        question = msgspec.json.decode(desk.transcript.request, type=KnowledgeRequest).question
    except msgspec.MsgspecError:
        return _spoken("")
    words = _words(question)
    if not words:
        return _spoken("")
    if wanted := desk.missing([("search_kb", {"query": " or ".join(words)})]):
        return wanted
    found = desk.found("search_kb")
    return _spoken("" if found is None else _best(words, found["articles"]))


def _best(words: Sequence[str], articles: Sequence[Mapping[str, Any]]) -> str:
    """The sentence that has the most of these words, the first of several; "" where none has enough."""
    scored = [(_hits(words, sentence, title), sentence) for title, sentence in _sentences(articles)]
    most, sentence = max(scored, key=lambda one: one[0], default=(0, ""))
    return sentence if most >= NEEDED else ""


def _sentences(articles: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    for article in articles:
        text = " ".join(str(article["body"]).split())
        for sentence in re.split(r"(?<=[.!?]) ", text):
            if not _FOR_AGENTS.search(sentence):
                yield str(article["title"]), sentence


def _hits(words: Sequence[str], sentence: str, title: str) -> int:
    found = {_stem(word) for word in re.findall(r"[a-z]+", f"{title} {sentence}".lower())}
    return sum(_stem(word) in found for word in words)


def _words(question: str) -> list[str]:
    return [word for word in dict.fromkeys(re.findall(r"[a-z]+", question.lower())) if not _COMMON.fullmatch(word)]


def _stem(word: str) -> str:
    """What words of one family begin with, roughly."""
    return re.sub(r"(?:ations?|ings?|ed|es|s|e)$", "", word) if len(word) > 4 else word


def _spoken(answer: str) -> str:
    return msgspec.json.encode({"found": bool(answer), "answer": answer}).decode()
