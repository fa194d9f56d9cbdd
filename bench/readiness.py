"""Is /readyz right? What it answers, asked ten times a second, is held against what was done to its daemon.

    before a node serves                503, or nobody listens yet
    well for WELL_SECONDS               200: a node of it serves, the database is there, nobody asked it to end
    asked to end, after ENDING_SECONDS  503, or nobody listens any more
    no database, after OUTAGE_SECONDS   503 until there is one

What lies between (its last node was lost a moment ago, the database has just come back) is either. `judge` is pure:
answers and facts in, what was wrong out.
"""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise

import anyio
import msgspec

from callboard.bench.daemons import Life, Post

EVERY_SECONDS = 0.1
ANSWER_SECONDS = 5.0
ENDING_SECONDS = 2.0
OUTAGE_SECONDS = 4.0
WELL_SECONDS = 8.0
SLACK_SECONDS = 0.5
"""What a line on a pipe may take until it is read here, on a busy machine."""


class Answer(msgspec.Struct, frozen=True):
    """One answer of /readyz: when it was asked for, when it came, and what it was (0: nobody listens)."""

    asked: float
    came: float
    code: int


class Outage(msgspec.Struct):
    """A time without a database; `until` is infinite while it lasts."""

    since: float
    until: float = float("inf")


class Facts(msgspec.Struct, frozen=True):
    """What was done to one daemon, and what it said."""

    began: float
    first_ready: float
    """When the first node of it said that it serves; infinite for never."""
    asked_to_end: float
    over: float
    """When it was killed or had ended."""
    troubles: list[tuple[float, str]]
    """Nodes that went (`down N`) and came (`up N`), in order."""


class Readiness(msgspec.Struct):
    """What a watch has found."""

    answers: int = 0
    transitions: int = 0
    """How often the answer of one daemon changed."""
    lives: int = 0
    ready_lives: int = 0
    """Daemons that have answered 200."""
    seen_ending: int = 0
    """Daemons that answered 503 after they were asked to end."""
    seen_outages: int = 0
    """Outages during which a daemon answered 503."""
    wrong: list[str] = msgspec.field(default_factory=list)


@dataclass
class Watch:
    """Asks every life of some posts for as long as it lasts."""

    posts: Sequence[Post]
    outages: list[Outage] = field(default_factory=list)
    heard: dict[int, tuple[Life, list[Answer]]] = field(default_factory=dict)
    """By the identity of a life."""

    async def run(self) -> None:
        """Ask, until cancelled."""
        async with anyio.create_task_group() as group:
            for post in self.posts:
                group.start_soon(self._follow, post)

    async def _follow(self, post: Post) -> None:
        while True:
            if post.lives and post.life.health and post.life.ended is None:
                life = post.life
                _, answers = self.heard.setdefault(id(life), (life, []))
                asked = time.monotonic()
                code = await ask(life.health)
                answers.append(Answer(asked, time.monotonic(), code))
            await anyio.sleep(EVERY_SECONDS)

    def verdict(self) -> Readiness:
        """What was right and wrong about all lives."""
        found = Readiness()
        for life, answers in self.heard.values():
            facts = _facts(life)
            judge(answers, facts, self.outages, found)
        return found


def _facts(life: Life) -> Facts:
    never = float("inf")
    over = min(life.killed or never, life.ended or never)
    return Facts(life.began, life.first_ready or never, life.asked_to_end or never, over, life.troubles)


def judge(answers: Sequence[Answer], facts: Facts, outages: Sequence[Outage], found: Readiness) -> None:
    """Add to `found` what the answers of one daemon show."""
    heard = [answer for answer in answers if answer.came < facts.over]
    codes = [answer.code for answer in heard]
    found.lives += 1
    found.answers += len(heard)
    found.transitions += sum(one != next_ for one, next_ in pairwise(codes))
    found.ready_lives += 200 in codes
    found.seen_ending += any(answer.code == 503 and answer.asked > facts.asked_to_end for answer in heard)
    for outage in outages:
        found.seen_outages += any(a.code == 503 and outage.since < a.asked and a.came < outage.until for a in heard)
    for answer in heard:
        wrong = _wrong(answer, facts, outages)
        if wrong:
            found.wrong.append(f"{answer.asked - facts.began:.2f} s after its start: {answer.code}, {wrong}")


def _wrong(answer: Answer, facts: Facts, outages: Sequence[Outage]) -> str:
    """Why an answer is wrong; "" if it is not."""
    if answer.code not in (0, 200, 503):
        return "which is no answer of /readyz"
    if answer.code == 200:
        if answer.came < facts.first_ready - SLACK_SECONDS:
            return "and no node served yet"
        if answer.asked > facts.asked_to_end + ENDING_SECONDS:
            return f"{answer.asked - facts.asked_to_end:.1f} s after it was asked to end"
        for outage in outages:
            if outage.since + OUTAGE_SECONDS < answer.asked and answer.came < outage.until:
                return f"{answer.asked - outage.since:.1f} s after the database went"
        return ""
    return f"though all has been well for {WELL_SECONDS:g} s" if _is_well(answer, facts, outages) else ""


def _is_well(answer: Answer, facts: Facts, outages: Sequence[Outage]) -> bool:
    since = answer.asked - WELL_SECONDS
    last: dict[str, tuple[float, str]] = {}
    for at, text in facts.troubles:
        if at <= answer.came:
            what, place = text.split()
            last[place] = (at, what)
    serves = any(what == "up" and at < since for at, what in last.values())
    outage = any(one.since < answer.came and one.until > since for one in outages)
    return serves and not outage and answer.came < facts.asked_to_end


async def ask(address: str) -> int:
    """The code of `GET /readyz` at `host:port`; 0 where nobody listens."""
    host, _, port = address.rpartition(":")
    with suppress(OSError, anyio.EndOfStream, anyio.BrokenResourceError, ValueError, IndexError):
        with anyio.fail_after(ANSWER_SECONDS):
            async with await anyio.connect_tcp(host, int(port)) as stream:
                await stream.send(f"GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n".encode())
                first = (await stream.receive(4_096)).decode("latin-1").partition("\r\n")[0]
                return int(first.split()[1])
    return 0
