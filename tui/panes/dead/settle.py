"""Settling dead letters from the screen: what will happen is told, a word is typed, and each one's outcome is said."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Vertical

from callboard.mailbox.errors import Conflict
from callboard.service.operations.settling import RATE, Outcome, Prospect, Settling
from callboard.tui.dialog import Dialog, Fact, TypedWord
from callboard.tui.frame_keys import KeysLine
from callboard.tui.panes.mailboxes.body import size_text
from callboard.tui.panes.mailboxes.reader import Para, Reader, fact
from callboard.tui.panes.mailboxes.states import short
from callboard.tui.text import Line, content, line, piece

from .rows import died_of, tries

if TYPE_CHECKING:
    from callboard.tui.app import CallboardApp

CHECKED = 200
"""So many are looked at before they are settled; of more, each is looked at when its turn comes."""
SHOWN = 5
Progress = Callable[[Outcome, int, int], bool]
"""Told of each outcome, the how manieth it is and of how many; whether to go on."""


async def settle(
    frame: "CallboardApp", numbers: Sequence[int], *, requeue: bool, others: int, progress: Progress
) -> list[Outcome] | None:
    """Ask, then settle these; what became of each, or None where it was left. `others`: open ones that stay.

    Raises:
        Conflict: none of them may be settled so. As `Settling.prospects`, `Settling.settle`.
    """
    settling = Settling(frame.gateway.operations)
    checked = await settling.prospects(numbers[:CHECKED], requeue=requeue)
    fitting = [one for one in checked if not one.refusal]
    left_out = [one for one in checked if one.refusal]
    if not fitting:
        raise Conflict(left_out[0].refusal)
    chosen = [one.letter.number for one in fitting] + list(numbers[CHECKED:])
    verb = "requeue" if requeue else "discard"
    dialog = TypedWord(
        _title(fitting, len(chosen), requeue=requeue),
        _facts(fitting, left_out, len(chosen), others, requeue=requeue),
        word=verb,
        verb=f"{verb}s {'it' if len(chosen) == 1 else f'these {len(chosen):,}'}",
        reason="note" if requeue else "reason",
        reason_needed=not requeue,
    )
    note = await frame.push_screen_wait(dialog)
    if note is None:
        return None
    outcomes = [Outcome(one.letter.number, refusal=one.refusal) for one in left_out]
    done = 0
    async for outcome in settling.settle(chosen, requeue=requeue, note=note):
        outcomes.append(outcome)
        done += 1
        if not progress(outcome, done, len(chosen)):
            break
    return outcomes


def _title(fitting: Sequence[Prospect], count: int, *, requeue: bool) -> Line:
    verb = "Requeue" if requeue else "Discard"
    if count == 1:
        letter = fitting[0].letter
        return line(piece(f"{verb} dead letter · {letter.type} → {short(letter.recipient)}"))
    return line(piece(f"{verb} {count:,} dead letters"))


def _facts(
    fitting: Sequence[Prospect], left_out: Sequence[Prospect], count: int, others: int, *, requeue: bool
) -> list[Fact]:
    facts = _of_one(fitting[0], requeue=requeue) if count == 1 else _of_several(fitting, count, requeue=requeue)
    for number, one in enumerate(left_out[:SHOWN]):
        facts.append(("left out" if not number else "", piece(one.refusal, "needs")))
    if len(left_out) > SHOWN:
        facts.append(("", piece(f"and {len(left_out) - SHOWN:,} more, each told of afterwards", "needs")))
    if (stay := others - count) > 0:
        facts.append((f"other {stay:,}", "stay here" if stay > 1 else "stays here"))
    return facts


def _of_one(one: Prospect, *, requeue: bool) -> list[Fact]:
    letter = one.letter
    count = tries(letter)
    spent = f"{count} {'try' if count == 1 else 'tries'} spent" if count else "never failed"
    facts: list[Fact] = [
        ("message", line(piece(f"{letter.message_id} · {size_text(one.size)} · {spent}"))),
        ("it died of", line(piece(died_of(letter)))),
        ("before", _effects(one)),
    ]
    if requeue:
        where = f"goes to the end of {letter.recipient} ({one.waiting:,} waiting)"
        facts.append(("then", line(piece(f"{where}, with no tries spent, marked as sent again"))))
    else:
        facts.append(("then", "it is never sent again; it stays readable with those that are settled"))
    return facts


def _effects(one: Prospect) -> Line:
    return line(piece(one.known, "ok" if one.effects == "none" else "needs"))


def _of_several(fitting: Sequence[Prospect], count: int, *, requeue: bool) -> list[Fact]:
    kinds = Counter((one.letter.type, short(one.letter.recipient)) for one in fitting)
    facts: list[Fact] = []
    for number, ((type_, to), times) in enumerate(kinds.most_common(SHOWN)):
        facts.append(("messages" if not number else "", line(piece(f"{times:,} × {type_} → {to}"))))
    if len(kinds) > SHOWN:
        facts.append(("", piece(f"and of {len(kinds) - SHOWN:,} more kinds", "dim")))
    if count > len(fitting):
        facts.append(("", piece(f"the first {len(fitting):,} were looked at; each of the others when its turn comes")))
    unknown = sum(one.effects == "unknown" for one in fitting)
    known = "no effect of any was committed" if not unknown else f"of {unknown:,} it is not known what was done"
    facts.append(("before", piece(known, "needs" if unknown else "ok")))
    if requeue:
        seconds = max(1, round(count / RATE))
        then = f"each goes to the end of its own mailbox, as one that never failed; one after the other, {RATE:.0f} a "
        facts.append(("then", line(piece(then + f"second: some {seconds:,} s; esc stops it in between"))))
    else:
        facts.append(("then", "none of them is sent again; they stay readable with those that are settled"))
    return facts


def summary(outcomes: Sequence[Outcome]) -> str:
    """`2 sent again, 1 not`."""
    sent = sum(one.done is not None and bool(one.done.new_id) for one in outcomes)
    left = sum(one.done is not None and not one.done.new_id for one in outcomes)
    refused = sum(one.done is None for one in outcomes)
    parts = [
        f"{count:,} {word}" for count, word in ((sent, "sent again"), (left, "discarded"), (refused, "not")) if count
    ]
    return ", ".join(parts) or "nothing was done"


class Outcomes(Dialog[None]):
    """What became of each of several, those first that were not settled."""

    DEFAULT_CSS = """
    Outcomes { align: center middle; }
    Outcomes > Vertical {
        width: 90; max-width: 96%; height: auto; max-height: 90%; background: $panel; border: round $cb-line;
        border-title-color: $foreground; border-title-style: bold;
    }
    Outcomes Reader { height: auto; max-height: 100%; min-height: 3; background: $panel; }
    """

    def __init__(self, outcomes: Sequence[Outcome]) -> None:
        super().__init__()
        self._outcomes = sorted(outcomes, key=lambda one: (one.done is not None, one.number))

    def compose(self) -> ComposeResult:
        box = Vertical()
        box.border_title = content(summary(self._outcomes))
        with box:
            yield Reader()
            yield KeysLine()

    def on_mount(self) -> None:
        reader = self.query_one(Reader)
        reader.show([para for one in self._outcomes for para in _told(one)])
        reader.focus()


def _told(one: Outcome) -> list[Para]:
    label = f"{one.number:,}"
    if one.done is None:
        return [fact(label, line(piece("✗ ", "bad"), piece(one.refusal)))]
    to = short(one.done.letter.recipient)
    how = f"sent again to {to} as message {one.done.new_id}" if one.done.new_id else "discarded"
    return [fact(label, line(piece("✓ ", "ok"), piece(how)))]
