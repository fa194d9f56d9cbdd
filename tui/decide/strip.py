"""The few lines at the foot of the dialog: what a key does now, what is still missing, and what became of it.

Pure functions. Glyph, word, colour: what is said in a colour is said in words too.
"""

from collections.abc import Sequence

from callboard.mailbox.errors import CallboardError
from callboard.service.operations.views import ApprovalView

from ..text import Line, Role, duration, line, piece
from .sheet import sums_line
from .subject import Subject

Lines = list[Line]
MOST_TYPED = 12
"""Sums that are typed here: a field for each of hundreds would take minutes to open, and nobody would fill them in."""


def looking(subject: Subject, unseen: int, off: str) -> Lines:
    """Nothing is being typed."""
    demand = subject.demand
    deny = (piece("n", "bad"), piece(" deny…   "))
    if off:
        return [line(piece(f"✗ {off}", "bad"), piece(" · you may look; nothing is decided here now", "dim"))]
    if demand.refused:
        glyph = "■" if demand.refused == "never" else "●" if demand.refused == "signed" else "‖"
        role: Role = "bad" if demand.refused == "never" else "needs"
        last = () if demand.refused == "rights" else (piece("  "), *deny, piece("Esc leaves it.", "dim"))
        return [line(piece(f" {glyph} {_sentence(demand.why)}", role)), *([last] if last else [])]
    if unseen:
        return [
            line(
                piece(f" ○ {unseen} lines below not seen yet ", "needs"),
                piece("G", "key"),
                piece(" · approve stays off until you have seen all arguments   ", "dim"),
                *deny,
            )
        ]
    if len(demand.repeat) > MOST_TYPED:
        said = f" ■ It moves {len(demand.repeat)} sums, too many to be typed here: deny it, or have it asked in parts. "
        return [line(piece(said, "needs")), (piece("  "), *deny, piece("Esc leaves it.", "dim"))]
    yes = line(piece("  y", "ok"), piece(" approve…   "))
    return [(*yes, *deny, piece("Enter decides nothing here; both ask once more.", "dim"))]


def approving(subject: Subject) -> Line:
    """The question of an approval."""
    view, demand = subject.view, subject.demand
    what = sums_line(view, "ok") if view.money else line(piece(view.tool, "ok"))
    asks = (piece(" Approve ", "ok"), *what, piece("?  ", "ok"))
    if view.kind == "in-doubt":
        asks = line(piece(f" Say that {view.tool} did happen?  ", "ok"))
    if not demand.repeat and not demand.note:
        return asks
    sums = sum(not one.word for one in demand.repeat)
    first = "Type the amount" if sums == 1 else "Type each amount" if sums else f"Type {view.tool}"
    why = ", say why" if demand.note else ""
    return (*asks, piece(f"{first}{why} to arm, then Enter.", "dim"))


def armed(subject: Subject, missing: str, who: str) -> Line:
    """Whether Enter approves."""
    if missing:
        return line(piece(f" ○ not armed: {missing}", "dim"))
    key = "Enter" if subject.demand.repeat or subject.demand.note else "Y"
    return line(
        piece(" ● armed: ", "ok"),
        piece(f"{key} approves", "strong"),
        piece(f" · {_brief(subject)} · recorded as {who}", "dim"),
    )


def _brief(subject: Subject) -> str:
    view, hold = subject.view, subject.demand.hold_seconds
    if view.missing > 1:
        return f"your yes is {len(view.approved_by) + 1} of {view.needed}"
    if view.kind == "in-doubt":
        return "it is not made again"
    return f"held {duration(hold)}, u takes it back" if hold else "it goes at once"


def denying(reasons: Sequence[str], at: int, kind: str) -> Line:
    """The question of a refusal, with what people often say; the one that is in the field is marked."""
    asks = "Say that it did not happen." if kind == "in-doubt" else "Deny this request."
    parts = [piece(f" {asks}  ", "bad"), piece("↓ common reasons: ", "dim")]
    for number, one in enumerate(reasons):
        parts += [piece(" · " if number else "", "dim"), piece(one, "key" if number == at else "dim")]
    return tuple(parts)


def denial_armed(missing: str) -> Line:
    """Whether Enter denies."""
    if missing:
        return line(piece(f" ○ {missing} · Esc back, nothing decided", "dim"))
    return line(piece(" ● Enter denies", "bad"), piece(" · Esc back, nothing decided", "dim"))


def stale(view: ApprovalView, now: float, typed: bool, more: bool) -> Lines:
    """Somebody else was first."""
    did = "approved" if view.status == "released" else view.status
    ago = f" {duration(max(now - view.decided_at, 1))} ago" if view.decided_at else ""
    note = f': "{view.note}"' if view.note else ""
    role: Role = "bad" if did == "denied" else "ok"
    lost = "Your input was not sent. " if typed else ""
    return [
        line(piece(f" ■ {view.decided_by or 'The runtime'} {did} this{ago}{note}", role)),
        line(piece(f" {lost}", "needs"), *_onward(more)),
    ]


def gone(why: str, more: bool) -> Lines:
    """It is not asked any more, for another reason."""
    return [line(piece(f" ■ {why}", "needs")), line(piece(" "), *_onward(more))]


def gone_back() -> Lines:
    """It was decided, and is not any more."""
    return [
        line(piece(" ↶ It was taken back: it waits for a decision again. ", "retry"), piece("Read it again: y", "dim"))
    ]


def expired(view: ApprovalView, at: str, typed: bool, more: bool) -> Lines:
    """Nobody decided in time."""
    lost = " Your input was not sent." if typed else ""
    said = f" ◌ Expired {at}, denied by policy {view.policy or 'tool'}. The agent was told.{lost} "
    return [line(piece(said, "needs"), *_onward(more))]


def changed(differences: Sequence[tuple[str, str, str]], what: str, who: str, ago: float, typed: bool) -> Lines:
    """The call is another one now."""
    disarmed = " Disarmed." if typed else ""
    first = line(piece(f" ▲ {who} changed {what} {duration(max(ago, 1))} ago.{disarmed} ", "needs"))
    rest = [
        line(piece(f"   {path} ", "dim"), piece(old or "—", "dim"), piece(" → ", "needs"), piece(new or "—", "needs"))
        for path, old, new in differences[:3]
    ]
    if len(differences) > 3:
        rest.append(line(piece(f"   and {len(differences) - 3} more, above", "dim")))
    return [(*first, piece("Read it again: y", "dim")), *rest]


def one_more(who: str, count: int, needed: int, ago: float, typed: bool) -> Lines:
    """Somebody else has approved, and more are needed."""
    disarmed = " Disarmed." if typed else ""
    said = f" ● {who} approved this {duration(max(ago, 1))} ago: {count} of {needed}.{disarmed} "
    return [line(piece(said, "ok"), piece("Read it again: y", "dim"))]


def signed(view: ApprovalView, at: str, more: bool) -> Lines:
    """A yes that was not the last one."""
    barred = [one for one in view.may_not_approve if one != "unknown"]
    other = ", ".join(["not you", *(f"not {one}" for one in barred)])
    expiry = f" Still expires {at}." if at else ""
    said = f" ● Your yes is {len(view.approved_by)} of {view.needed}. Waits for another approver ({other}).{expiry}"
    return [line(piece(said, "ok")), line(piece(" "), *_onward(more))]


def sending(key: str) -> Lines:
    """On its way."""
    return [line(piece(f" … sending {key}", "dim"))]


def unknown(key: str) -> Lines:
    """Sent, and nothing was heard."""
    return [
        line(
            piece(" ? The database went away while sending. ", "bad"),
            piece(f"Checking with key {key}. Do not decide again. [draft kept]", "needs"),
        )
    ]


def not_arrived() -> Line:
    """Sent, and it is known that nothing came of it."""
    return line(piece(" ○ It did not arrive: nothing was decided. Your text is kept; Enter sends it again.", "needs"))


def refused(error: CallboardError) -> Line:
    """What the operations say."""
    return line(piece(f" ▲ {error}", "bad"))


def unsafe(warnings: Sequence[str]) -> Lines:
    """What in the arguments may mislead an eye."""
    if not warnings:
        return []
    more = f" · and {len(warnings) - 2} more" if len(warnings) > 2 else ""
    return [line(piece(f" ▲ {' · '.join(warnings[:2])}{more}", "bad"))]


def _onward(more: bool) -> Line:
    onward = (piece("]", "key"), piece(" next request · ", "dim")) if more else ()
    return (*onward, piece("Esc back to the list", "dim"))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"
