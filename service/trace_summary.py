"""What stands between and after the events of a run that is told: waits, changes of node, time and cost. Pure.

Neighbours: `trace_marks` and `operations.spending` find it, `trace` tells the events themselves.
"""

from collections.abc import Iterator, Sequence
from decimal import Decimal

from .operations.spending import Spend
from .trace_marks import Account, Move, Wait
from .trace_text import Line, duration


def moved_lines(move: Move) -> Iterator[Line]:
    """A change of node: what was kept, and what goes on."""
    after = f", {duration(move.seconds)} after its last word"
    yield Line(f"  ── node {move.after} goes on where node {move.before} stopped{after} ──", "waits")
    yield Line(f"      kept, not done again: {move.answers} model answer(s), {move.calls} call(s)", "waits")
    for one in move.under_way:
        yield Line(f"      was under way: {one}", "waits")


_WAITED: dict[str, str] = {
    "decision": "for a decision",
    "in-doubt": "for somebody to say what became of call {call}",
    "provider": "for the provider",
    "retry": "before another attempt",
}


def waited_lines(wait: Wait) -> Iterator[Line]:
    """A wait, folded into a line."""
    what = _WAITED[wait.kind].format(call=wait.call)
    yield Line(f"  ┄┄ waited {duration(wait.seconds)} {what}: {wait.outcome} ┄┄", "waits")


def account_lines(account: Account) -> Iterator[Line]:
    """Where the time went."""
    parts = sorted(account.parts.items(), key=lambda part: -part[1])
    shares = ", ".join(f"{what} {duration(seconds)}" for what, seconds in parts if seconds >= 0.0005)
    yield Line(f"time  {duration(account.seconds)}" + (f": {shares}" if shares else ""), "section")
    again = [
        f"{count} {what}"
        for count, what in (
            (account.failed_answers, "failed model attempt(s)"),
            (account.failed_calls, "failed or refused tool attempt(s)"),
            (account.recovered, "outcome(s) recovered by another node"),
        )
        if count
    ]
    nodes = ", ".join(str(node) for node in account.nodes)
    if len(account.nodes) > 1:
        again.append(f"went through nodes {nodes}")
    if again:
        yield Line(f"      {', '.join(again)}")


def spending_lines(spent: Sequence[Spend]) -> Iterator[Line]:
    """What it cost, by model."""
    yield Line(f"cost  {sum((one.cost_usd for one in spent), Decimal(0)):f} USD", "section")
    for one in spent:
        whose = f"run {one.run}: " if one.run else ""
        failed = f", {one.failed} failed attempt(s)" if one.failed else ""
        tokens = f"{one.input_tokens:,} tokens in, {one.output_tokens:,} out"
        yield Line(f"      {whose}{one.model}: {one.answers} answer(s){failed}, {tokens}, {one.cost_usd:f} USD")
