"""A run and the questions it puts to people: a call is held, its question is a decision row, and its tool's checks are
run for whoever decides. A question that is over before it was answered is followed by the next one, about a new held
message, so that no message was ever the subject of two decisions.
"""

import msgspec

from ...mailbox.lane import Lane
from ...persistence.unit import Move
from ..approval import ExpiryWanted, Withdrawn
from ..context import Context
from . import record
from .approval_events import ApprovalCheckRequested, Change
from .arguments import InvalidArguments
from .digest import call_digest, decision_id, idempotency_key
from .events import ApprovalRequested, Finding, RequestedCall
from .facts import Facts
from .gate import Go, Hold, tally_of
from .messages import CallTool, CheckCall, ToolAsks
from .policy import Terms
from .question import Question, terms_of_tool
from .run_children import RunChildren
from .state import Call
from .text import row_text


class RunQuestions(RunChildren, kind="run"):
    """Holds calls, and asks."""

    def _call(self, number: int, verdict: Go | Hold, digest: str = "", approval: str = "") -> CallTool:
        run_id, tool, arguments = self.state.run.name, verdict.tool, verdict.arguments
        key = idempotency_key(run_id, number, tool.name, arguments.canonical)
        return CallTool(run_id, number, tool.name, arguments.plain, key, digest, approval)

    def _hold(self, asked: RequestedCall, number: int, verdict: Hold, ctx: Context) -> None:
        """Hold a call that the model asked for."""
        name, tool = decision_id(self.state.run.name, number), verdict.tool
        digest = call_digest(name, tool.name, tool.version, verdict.arguments.canonical)
        call = self._call(number, verdict, digest, name)
        identifier = ctx.hold(self.parts.tool, call)
        requested = record.approval_requested(
            self.state.run.step, call, identifier, name, verdict.terms, seconds=self._seconds(verdict.terms)
        )
        requested = msgspec.structs.replace(
            requested,
            tool_call_id=asked.id,
            provenance=list(asked.provenance),
            tally=verdict.tally,
            sums=dict(tool.sums),
        )
        self._put(requested, ctx)

    def _hold_for_tool(self, call: Call, message: ToolAsks, ctx: Context) -> None:
        """Hold a call that was made, and whose tool has done nothing but ask for people. It stays the same call, with
        its number and its key; only the message is another one, which waits."""
        tool = self._toolset().get(call.tool)
        try:
            arguments = None if tool is None else tool.validate(call.arguments)
        except InvalidArguments:
            arguments = None
        if tool is None or arguments is None:
            why = f"{message.asks.reason}; meanwhile the tool has changed, and nobody was asked"
            self._record(record.tool_failed(call, row_text(why)), ctx)
            return
        run, terms = self.state.run, terms_of_tool(message.asks)
        name = decision_id(run.name, call.call)
        digest = call_digest(name, tool.name, tool.version, arguments.canonical)
        held = CallTool(run.name, call.call, call.tool, call.arguments, call.idempotency_key, digest, name)
        identifier = ctx.hold(self.parts.tool, held)
        requested = record.approval_requested(call.step, held, identifier, name, terms, seconds=self._seconds(terms))
        requested = msgspec.structs.replace(
            requested,
            tool_call_id=call.tool_call_id,
            provenance=message.provenance,
            tally=tally_of(tool, arguments, Facts.of(run, self.rules)),
            sums=dict(tool.sums),
            by_tool=message.asks,
        )
        self._put(requested, ctx)

    def _hold_again(
        self, call: Call, changed: Hold | None, again: str, ctx: Context, **about: object
    ) -> ApprovalRequested:
        """Hold a call once more, as it was or `changed`, and ask about that; `again`: why. Before the event is
        recorded that says so, for its number names the new question."""
        name = decision_id(self.state.run.name, call.call)
        terms = changed.terms if changed else call.question.terms if call.question else Terms(call.reason)
        # Numbered by the journal: child runs are named like decisions, with one number more.
        decision = f"{name}.again-{ctx.row.events + 1}"
        if changed is None:
            run, key = self.state.run.name, call.idempotency_key
            tool = CallTool(run, call.call, call.tool, call.arguments, key, call.digest, decision)
        else:
            version, text = changed.tool.version, changed.arguments.canonical
            digest = call_digest(name, changed.tool.name, version, text)
            tool = self._call(call.call, changed, digest, decision)
        ctx.drop(call.message)
        self._check_no_more(call, ctx)
        identifier = ctx.hold(self.parts.tool, tool)
        requested = record.approval_requested(
            call.step, tool, identifier, decision, terms, seconds=self._seconds(terms), again=again
        )
        kept = call.question or Question(terms)
        sums = kept.sums if changed is None else dict(changed.tool.sums)
        given = {"provenance": kept.provenance, "edited_by": kept.edited_by, "sums": sums, "by_tool": kept.by_tool}
        given |= about
        return msgspec.structs.replace(requested, tool_call_id=call.tool_call_id, replaces=call.decision, **given)

    def _put(self, requested: ApprovalRequested, ctx: Context, diff: list[Change] | None = None) -> None:
        """Ask people, and have the checks run for them."""
        self._record(requested, ctx)
        call = self.state.run.pending[requested.call]
        self._ask(call, requested.expires_seconds, ctx, requested, diff)
        if not requested.findings and self._has_checks(call):
            self._check(call, ctx)

    def _seconds(self, terms: Terms) -> float:
        return self.parts.approval_seconds if terms.expires_seconds is None else terms.expires_seconds

    def _ask(
        self,
        call: Call,
        seconds: float,
        ctx: Context,
        requested: ApprovalRequested | None = None,
        diff: list[Change] | None = None,
    ) -> None:
        """Put a question to people: its row, and the wait for its expiry."""
        row = record.question(call, self.state.run, ctx.address, self.parts.approvals, seconds)
        if requested is not None:
            record.add_terms(row, requested, diff or [])
        elif (tool := self._toolset().get(call.tool)) is not None:
            record.add_sums(row, tool.sums)
        ctx.ask_decision(row)
        if seconds:
            ctx.send(self.parts.approvals, ExpiryWanted(call.decision, str(call.call), call.digest, seconds))

    def _ask_no_more(self, ctx: Context) -> None:
        """People are not waited for any more."""
        for call in self.state.run.pending_approvals:
            for before in ("pending", "approved"):
                ctx.move_decision(Move(call.decision, before, "superseded", "the run was cancelled", must=False))
            # The reply lane: before the end of a hold, which would wait in vain for the row to be as it was.
            ctx.send(self.parts.approvals, Withdrawn(call.decision), lane=Lane.REPLY)
            if call.status == "held":
                ctx.drop(call.message)
                self._check_no_more(call, ctx)
            doubt = f"{call.reason}; " if call.status == "in_doubt" else ""
            self._record(record.tool_failed(call, f"{doubt}the run was cancelled before anybody decided"), ctx)

    # --- checks ------------------------------------------------------------------------------------------------

    def _has_checks(self, call: Call) -> bool:
        tool = self._toolset().get(call.tool)
        return tool is not None and bool(tool.checks)

    def _check(self, call: Call, ctx: Context, *, approver: str = "", note: str = "") -> None:
        """Have the tool's checks run: for the approvers, or once more at the release by `approver`."""
        at_release = bool(approver)
        asked = CheckCall(call.decision, call.call, call.tool, call.arguments, at_release)
        self._check_no_more(call, ctx)
        identifier = ctx.send(self.parts.tool, asked)
        told = ApprovalCheckRequested(call.call, call.decision, identifier, at_release, approver, note)
        self._record(told, ctx)

    @staticmethod
    def _check_no_more(call: Call, ctx: Context) -> None:
        if call.question is not None and call.question.check:
            ctx.withdraw(call.question.check)

    @staticmethod
    def _words(findings: list[Finding]) -> str:
        return "; ".join(f"{one.check}: {one.detail or 'not fine'}" for one in findings)
