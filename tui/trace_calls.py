"""The lines of a run's timeline, and which of them are still open. Lines are only added, and closed once.

An attempt whose beginning the journal does not have (every one after the first) is taken to have begun as long before
its outcome as it says that it took; what lies between that and the failure before is the wait.
"""

from typing import Any, Literal

import msgspec

from callboard.actors.agent.events import ApprovalDenied, ApprovalExpired
from callboard.actors.agent.runs import Recorded
from callboard.service.trace_marks import Move

from .text import Role

Fill = Literal["run", "done", "failed", "cut", "retry", "person", "taken", "work", "point"]
"""What a bar is drawn with: see `trace_bars`."""
Kind = Literal["run", "work", "again", "wait", "person", "lost", "taken", "event"]


class Stretch(msgspec.Struct):
    """A line: from when to when, what, and how it ended."""

    key: str
    label: str
    began: float
    glyph: str = ""
    role: Role = ""
    kind: Kind = "event"
    fill: Fill = "point"
    ended: float | None = None
    """None: it goes on."""
    said: str = ""
    """A few words beside the bar: who decided, what it failed with. Foreign text."""
    note_seconds: float | None = None
    """Says how long, where that is not the length of the bar."""
    failed: bool = False
    events: list[Recorded] = []
    move: Move | None = None

    def seconds(self, now: float) -> float:
        """How long it took, or has taken so far."""
        if self.note_seconds is not None:
            return self.note_seconds
        return max(0.0, (now if self.ended is None else self.ended) - self.began)


class Calls:
    """All lines, and what is under way."""

    def __init__(self) -> None:
        self.lines: list[Stretch] = []
        self.run: Stretch | None = None
        self._open: dict[str, Stretch] = {}
        """What is at work, by call: the attempt that runs, or the wait for the next one."""
        self._asked: dict[str, Stretch] = {}
        """What people are asked, by decision."""
        self._away: dict[str, Stretch] = {}
        self._names: dict[str, str] = {}
        self._agents: set[str] = set()
        self._since: dict[str, float] = {}
        """Of calls that go on elsewhere: when they were cut off."""

    def _add(self, stretch: Stretch) -> Stretch:
        stretch.key = f"r{len(self.lines)}"
        self.lines.append(stretch)
        return stretch

    def begin_run(self, run_id: str, recorded: Recorded) -> None:
        """The line of the run itself."""
        self.run = self._add(Stretch("", run_id, recorded.at, "▾", kind="run", fill="run", events=[recorded]))

    def point(
        self,
        at: float,
        label: str,
        glyph: str,
        role: Role,
        recorded: Recorded,
        *,
        kind: Kind = "event",
        failed: bool = False,
        move: Move | None = None,
    ) -> Stretch:
        """A line of something that takes no time."""
        events = [] if move is not None else [recorded]
        return self._add(
            Stretch("", label, at, glyph, role, kind, "point", ended=at, failed=failed, events=events, move=move)
        )

    # --- what is at work ---------------------------------------------------------------------------------------

    def open(self, key: str, label: str, recorded: Recorded) -> None:
        """A first attempt has begun; one that was open under the same name has come to nothing."""
        if (before := self._open.pop(key, None)) is not None:
            self._cut(before, recorded.at)
        self._names[key] = label
        self._open[key] = self._add(Stretch("", label, recorded.at, kind="work", fill="work", events=[recorded]))

    def go_on(self, key: str, label: str, at: float, *, since: float) -> None:
        """What was cut off goes on, at another node; no event of its own says so."""
        self._names[key], self._since[key] = label, since
        self._open[key] = self._add(Stretch("", label, at, "⇡", "retry", "again", "work"))

    def note(self, key: str, recorded: Recorded, *, label: str = "") -> None:
        """Something more about a call that is under way; a line of its own where it is not. `label`: its agent's."""
        line = self._open.get(key)
        if line is None:
            self.point(recorded.at, label or recorded.type.replace(".", " "), "·", "dim", recorded)
            return
        line.events.append(recorded)
        if label:
            self._names[key] = line.label = label
            self._agents.add(key)

    def failed(self, key: str, recorded: Recorded, attempt: int, error: str, *, final: bool, label: str = "") -> None:
        """An attempt has failed; unless that was the last one, the next is waited for."""
        name = self._names.get(key, label)
        line = self._attempt(key, name, recorded, attempt, 0.0)
        line.ended, line.fill, line.role, line.failed = recorded.at, "failed", "bad", True
        line.said = error.strip().split("\n", 1)[0][:200]
        if final:
            self._open.pop(key, None)
        else:
            self._names[key] = name
            wait = Stretch("", f"waits for try {attempt + 1}", recorded.at, "↻", "retry", "wait", "retry")
            self._open[key] = self._add(wait)

    def completed(
        self, key: str, recorded: Recorded, attempt: int, took: float, *, recovered: bool = False, said: str = ""
    ) -> None:
        """The call has its outcome."""
        line = self._attempt(key, self._names.get(key, key), recorded, attempt, took)
        line.ended, line.fill = recorded.at, "done"
        line.said = said or (f"recovered by node {recorded.node}" if recovered else "")
        if recovered:
            line.role = "retry"
        self._open.pop(key, None)
        if (away := self._away.pop(key, None)) is not None:
            away.ended = recorded.at

    def _attempt(self, key: str, name: str, recorded: Recorded, attempt: int, took: float) -> Stretch:
        """The line of the attempt that this event ends: the open one, or a new one after the wait for it."""
        line = self._open.get(key)
        if line is not None and line.kind != "wait":
            if line.kind == "again" and took:
                line.began = min(line.began, max(self._since.get(key, 0.0), recorded.at - took))
            if line.kind == "again" and attempt > 1:
                line.label = f"{name} try {attempt}"
            line.events.append(recorded)
            return line
        began = recorded.at
        if line is not None:
            began = min(recorded.at, max(line.began, recorded.at - took))
            line.ended = began
            line.events.append(recorded)
        label = f"{name} try {attempt}" if attempt > 1 else name
        return self._add(Stretch("", label, began, kind="work", events=[recorded]))

    def away(self, key: str, recorded: Recorded, error: str, *, down: bool) -> None:
        """The provider of a call cannot be had."""
        line = self._away.get(key)
        if line is None:
            line = self._away[key] = self._add(
                Stretch(
                    "", "provider away", recorded.at, "‖", "retry", "wait", "retry", said=error.split("\n", 1)[0][:200]
                )
            )
        line.events.append(recorded)
        if down:
            line.label, line.role, line.failed = "provider down", "bad", True

    def cut(self, at: float, *, ended: bool = False) -> list[tuple[str, str]]:
        """Whoever worked is gone: what was at work ends here without an outcome. Keys and names, to go on with.

        What waited for another attempt may have begun it: no event says when one begins. Runs of agents go on, as they
        have nodes of their own; unless the run has `ended`.
        """
        found: list[tuple[str, str]] = []
        for key, line in list(self._open.items()):
            if key in self._agents and not ended:
                continue
            del self._open[key]
            self._cut(line, at)
            found.append((key, self._names.get(key, line.label)))
        return found

    @staticmethod
    def _cut(line: Stretch, at: float) -> None:
        line.ended = max(at, line.began)
        if line.kind != "wait":
            line.fill, line.role, line.failed, line.said = "cut", "bad", True, "no outcome"

    # --- what people are asked ---------------------------------------------------------------------------------

    def held(self, decision: str, tool: str, recorded: Recorded) -> None:
        """A call waits for people."""
        self._asked[decision] = self._add(
            Stretch("", f"approval {tool}", recorded.at, "◆", "needs", "person", "person", events=[recorded])
        )

    def doubted(self, key: str, recorded: Recorded, event: Any) -> None:
        """Nobody knows what became of a call, and people are asked."""
        line = self._open.pop(key, None)
        if line is not None:
            line.ended, line.fill, line.role, line.failed, line.said = recorded.at, "cut", "bad", True, "in doubt"
        self._asked[event.decision] = self._add(
            Stretch("", f"in doubt {event.tool}", recorded.at, "?", "needs", "person", "person", events=[recorded])
        )

    def attach(self, decision: str, recorded: Recorded) -> None:
        """An event of what people are asked, such as what its checks found."""
        line = self._asked.get(decision)
        if line is None:
            self.point(recorded.at, "checked", "·", "dim", recorded)
        else:
            line.events.append(recorded)

    def decided(self, decision: str, recorded: Recorded, outcome: str, kind: str) -> bool:
        """Somebody decided, or nobody did in time. Whether it is known what they were asked."""
        line = self._asked.pop(decision, None)
        if line is None:
            return False
        line.ended, line.said = recorded.at, outcome
        line.events.append(recorded)
        if isinstance(recorded.event, ApprovalDenied | ApprovalExpired):
            line.glyph, line.role, line.failed = "✗", "bad", True
        elif kind == "decision":
            line.glyph, line.role = "✓", ""
        return True
