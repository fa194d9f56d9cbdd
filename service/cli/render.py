"""How runs and approvals look on a terminal: lists as tables, one thing as lines."""

import json
import sys
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from ..operations.views import ApprovalView, RunList, RunView
from ..safe import safe
from ..trace_text import Line, block
from .terminal import note, print_row
from .times import When, utc

if TYPE_CHECKING:
    from ..operations.decided import Decided
    from ..operations.spending import Spend


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns on a terminal, the last one cut at its edge; tab-separated values, whole, where there is none."""
    if not sys.stdout.isatty():
        for row in (columns, *rows):
            print_row(row)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        last = column == columns[-1]
        table.add_column(column, no_wrap=True, overflow="ellipsis" if last else "fold", ratio=1 if last else None)
    for row in rows:
        table.add_row(*(Text(safe(cell)) for cell in row))
    Console(highlight=False, markup=False, emoji=False).print(table)


def print_runs(found: RunList, when: When = utc) -> None:
    """A list of runs, and the sum of what they cost."""
    rows = [
        (
            line.run_id,
            line.status,
            when(line.started_at),
            str(line.step),
            str(line.tokens),
            line.cost_usd,
            (f"fork of {line.origin}: " if line.origin else "") + (line.waits_for or line.detail or line.goal),
        )
        for line in found.items
    ]
    print_table(("run", "status", "started", "iterations", "tokens", "USD", "what"), rows)
    tokens, cost = sum(line.tokens for line in found.items), sum(Decimal(line.cost_usd) for line in found.items)
    more = "" if found.complete else "; there are more, --limit shows them"
    note(f"{len(found.items)} run(s): {tokens:,} tokens, {cost:f} USD{more}")


def print_approvals(found: Sequence[ApprovalView], when: When = utc) -> None:
    """A list of approvals."""
    rows = [
        (
            one.id,
            _status(one),
            when(one.requested_at),
            one.tool,
            ", ".join([*(sum_.text for sum_ in one.money), *(f"{odd.text[:40]}?" for odd in one.unread)]),
            one.reason,
        )
        for one in found
    ]
    print_table(("approval", "status", "asked", "tool", "amount", "reason"), rows)
    waiting = next((one for one in found if one.status == "pending"), None)
    if waiting is not None:
        note(f"look at one before you decide: callboard approvals show {waiting.id}")


def print_decided(found: "Sequence[Decided]", when: When = utc) -> None:
    """What was decided, newest first."""
    rows = [
        (
            when(one.at),
            one.did,
            one.approval.id,
            one.approval.tool,
            ", ".join(sum_.text for sum_ in one.approval.money),
            f"{one.who} ({one.label})" if one.label else one.who,
            one.outcome,
            one.note,
        )
        for one in found
    ]
    print_table(("when", "decision", "approval", "tool", "amount", "by", "outcome", "note"), rows)


def _status(view: ApprovalView) -> str:
    if view.kind == "in-doubt":
        return f"{view.status} (in doubt)"
    return (
        f"{view.status} ({len(view.approved_by)} of {view.needed})" if view.missing and view.needed > 1 else view.status
    )


def approval_lines(view: ApprovalView, when: When = utc) -> Iterator[Line]:
    """One approval, with everything that a decision covers."""
    yield Line(f"approval {view.id}  {view.status}", "title")
    yield Line(f"  run        {view.run_id}, call {view.call}, asked for by {view.requested_by or 'unknown'}")
    yield Line(f"  asked      {when(view.requested_at)}")
    if view.expires_at:
        yield Line(f"  expires    {when(view.expires_at)}, which means no")
    if view.decided_at:
        yield Line(f"  decided    {when(view.decided_at)} by {view.decided_by}")
    if view.can_take_back:
        yield Line(f"  goes       {when(view.release_at)}; until then: callboard take-back {view.id}", "waits")
    yield from _terms_lines(view)
    if view.kind == "in-doubt":
        yield Line("  in doubt   approve: it did happen; deny: it did not, and is made again", "waits")
    for one in view.money:
        yield Line(f"  amount     {one.text}  ({one.field})", "waits")
    for odd in view.unread:
        yield Line(
            f"  amount?    {odd.text}  ({odd.field}: no sum that can be read; repeat it letter by letter)", "waits"
        )
    yield Line(f"  digest     {view.digest}")
    yield Line(f"  tool       {view.tool}")
    yield from block(json.dumps(view.arguments, ensure_ascii=False, indent=2))
    yield Line("  why")
    yield from block(view.reason)
    yield from _evidence_lines(view)
    if view.note:
        yield Line("  note")
        yield from block(view.note)
    if view.status == "pending":
        yield Line(f"  decide     {_how(view)}")


def _how(view: ApprovalView) -> str:
    """The commands that decide it. Its sums are for a person to repeat, so they are not put into the command."""
    how = " --amount …" * (len(view.money) + len(view.unread))
    return f"callboard approve {view.id}{how}   or   callboard deny {view.id} --reason …"


def _terms_lines(view: ApprovalView) -> Iterator[Line]:
    """What the policy wants, and how far that is."""
    if view.policy:
        yield Line(f"  policy     {view.policy}, {view.risk} risk")
    if view.needed > 1:
        names = ", ".join(one.by for one in view.approved_by) or "nobody yet"
        yield Line(f"  approved   {len(view.approved_by)} of {view.needed}: {names}", "waits")
    if view.may_not_approve:
        yield Line(f"  not by     {', '.join(view.may_not_approve)}")
    if view.hold_seconds:
        yield Line(f"  hold       {view.hold_seconds:g} s, in which an approval can be taken back")
    if view.replaces:
        yield Line(
            f"  replaces   {view.replaces}" + (f", changed by {', '.join(view.edited_by)}" if view.edited_by else "")
        )


def _evidence_lines(view: ApprovalView) -> Iterator[Line]:
    """What there is to judge by: what was changed, what was checked, where the values come from."""
    if view.diff:
        yield Line("  changed")
        for one in view.diff:
            before, after = (json.dumps(one.get(name), ensure_ascii=False) for name in ("before", "after"))
            yield from block(f"{one.get('path')}: {before} -> {after}")
    if view.checks:
        yield Line("  checks")
        for one in view.checks:
            word = "ok " if one.get("ok") else "NOT"
            yield from block(f"{word} {one.get('check')} {one.get('detail') or ''}".rstrip())
    if view.provenance:
        yield Line("  from")
        for one in view.provenance:
            origin = f" {one['origin']}" if one.get("origin") else ""
            yield from block(f"{one.get('path')}: {one.get('source')}{origin}, {one.get('trust')}")


def run_lines(view: RunView, when: When = utc, *, spent: "Sequence[Spend] | None" = None) -> Iterator[Line]:
    """One run, in short; with what it spent by model where that was read."""
    state = view.state
    yield Line(f"run {view.run_id}  {state.status}", "title")
    yield Line(f"  address    {view.address}")
    if state.started_at:
        yield Line(f"  started    {when(state.started_at)} by {state.requested_by or 'unknown'}")
    yield Line(
        f"  spent      {state.step} iteration(s), {state.tool_calls} tool call(s), {state.total_tokens:,} tokens, "
        f"{state.total_cost_usd:f} USD"
    )
    for one in spent or ():
        whose = f"run {one.run}: " if one.run else ""
        tokens = f"{one.input_tokens:,} tokens in, {one.output_tokens:,} out"
        yield Line(f"             {whose}{one.model}: {one.answers} answer(s), {tokens}, {one.cost_usd:f} USD")
    if view.why_still:
        yield Line(f"  now        {view.why_still}", "waits")
    yield Line("  goal")
    yield from block(state.goal)
    if state.final_answer is not None:
        yield Line("  answer", "good")
        yield from block(state.final_answer)
    if state.failure_reason:
        yield Line(f"  failed     {state.failure_reason}", "bad")
        yield from block(state.failure_detail)
    for waiting in view.approvals:
        yield Line("")
        yield from approval_lines(waiting, when)


def outcome_lines(view: RunView, application: str) -> Iterator[Line]:
    """What a run came to: its answer, its failure, or what it waits for and how to decide that."""
    state = view.state
    if state.status == "completed":
        yield from (Line(part) for part in (state.final_answer or "").split("\n"))
    elif state.finished:
        yield Line(f"{state.status}: {state.failure_reason or ''} {state.failure_detail}".rstrip(), "bad")
    for one in view.approvals:
        yield Line(f"waits for a person: {one.tool}: {one.reason}", "waits")
        yield Line(f"  look:    callboard approvals show {one.id}")
        yield Line(f"  decide:  {_how(one)}")
    if view.approvals:
        yield Line(f"  go on:   callboard daemon {application}   (or this command again, with --id {view.run_id})")
