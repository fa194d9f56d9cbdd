"""How the state of a message looks: a glyph, a word, a role; and why something waits, by how bad that is."""

from callboard.service.operations.why import Kind, Why
from callboard.tui.look import Look
from callboard.tui.text import Line, Piece, Role, line, piece

LOOKS: dict[str, Look] = {
    "in turn": Look("●", "ok"),
    "ready": Look("○", ""),
    "scheduled": Look("◷", "dim"),
    "retrying": Look("↻", "retry"),
    "held": Look("◆", "needs"),
    "stashed": Look("‖", "dim"),
    "dead": Look("✗", "bad"),
    "done": Look("✓", "dim"),
    "cancelled": Look("■", "dim"),
    "refused": Look("✗", "dim"),
    "late": Look("○", "dim"),
    "open": Look("✗", "bad"),
    "requeued": Look("↻", "ok"),
    "discarded": Look("■", "dim"),
}
_KINDS: dict[Kind, Role] = {"moves": "ok", "waits": "needs", "stuck": "bad", "ended": "dim"}
_GLYPHS: dict[Kind, str] = {"moves": "●", "waits": "◷", "stuck": "▲", "ended": "■"}


def state(word: str) -> Piece:
    """`↻ retrying`; a word that nobody told of here is shown without a glyph."""
    look = LOOKS.get(word)
    return piece(word) if look is None else piece(f"{look.glyph} {word}", look.role)


def why_line(why: Why) -> Line:
    """`▲ stuck: paused by ann …`."""
    return line(piece(f"{_GLYPHS[why.kind]} {why.kind}: ", _KINDS[why.kind]), piece(_one_line(why.text)))


def gist_line(why: Why) -> Line:
    """The same in short, for a list: of a mailbox, why the first message in it waits."""
    before, found, after = why.text.partition("): ")
    text = after if found and " in its mailbox; first " in before else why.text
    return line(piece(f"{_GLYPHS[why.kind]} {why.kind} ", _KINDS[why.kind]), piece(_one_line(text)))


def way_line(why: Why) -> Line:
    """`→ callboard daemon APP`; nothing where nobody has to do anything."""
    return line(piece("→ ", "key"), piece(_one_line(why.way_out), "info")) if why.way_out else ()


def short(address: str) -> str:
    """The last part of an address: `agent:T-0011` of `/crm/desk/agent:T-0011`; `outside` for none."""
    return address.rpartition("/")[2] if address else "outside"


def _one_line(text: str) -> str:
    return " ".join(text.split())
