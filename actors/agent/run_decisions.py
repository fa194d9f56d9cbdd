"""A run and the people who decide: what becomes of a held call when it is released, denied, expired, or changed."""

import msgspec

from ...persistence.unit import Move
from ..actor import on
from ..approval import Denied, Edited, Expired, Recalled, Release
from ..context import Context
from . import record
from .approval_events import ApprovalChecked, ApprovalEdited, ApprovalEditRefused, ApprovalSuperseded, ApprovalTakenBack
from .arguments import Arguments
from .digest import call_digest, canonical, decision_id
from .events import (
    ApprovalDenied,
    ApprovalExpired,
    ApprovalGranted,
    Finding,
    RequestedCall,
    ToolCallSettled,
)
from .facts import Facts
from .forking import unlike
from .gate import Go, Hold, Refuse, judge
from .messages import CallChecked, CallTool
from .policy import Terms, merged
from .question import Question, changes, said_by, terms_of_tool, worse
from .run_questions import RunQuestions
from .state import Call
from .text import row_text, said, well_formed_values

MAX_EDITED_BYTES = 512 << 10
"""Of arguments that a person gives; leaves room for what is recorded with them."""


class RunDecisions(RunQuestions, kind="run"):
    """Acts on what people decide."""

    @on
    def released(self, message: Release, ctx: Context) -> None:
        call = self._decided(message)
        if call is None or (call.question is not None and call.question.approver):
            return
        by, note = row_text(message.by), said(message.note)
        if call.status == "in_doubt":
            ctx.move_decision(Move(message.decision, "approved", "released"))
            self._record(ToolCallSettled(call.step, call.call, call.tool, True, by, note), ctx)
            self._go_on(ctx)
        elif call.question is not None and self._has_checks(call):
            self._check(call, ctx, approver=by, note=note)
        else:
            self._let_go(call, by, note, ctx)

    def _let_go(self, call: Call, by: str, note: str, ctx: Context) -> None:
        ctx.move_decision(Move(call.decision, "approved", "released"))
        self._record(ApprovalGranted(call.call, call.decision, by, note), ctx)
        if call.tool not in self.rules.agents:
            ctx.release(call.message)
            self._record(record.tool_released(call, call.decision, ctx.node), ctx)
            return
        ctx.drop(call.message)  # no worker answers it, a run does
        if self._is_as_approved(call):
            asked = CallTool(
                self.state.run.name, call.call, call.tool, call.arguments, call.idempotency_key, digest=call.digest
            )
            self._ask_agent(asked, call.step, call.tool_call_id, ctx, decision=call.decision)
        else:
            why = "superseded: the agent has changed since this call was approved"
            self._record(record.tool_failed(call, why, 0), ctx)
        self._go_on(ctx)

    def _is_as_approved(self, call: Call) -> bool:
        """Whether the agent is the one that people were asked about; of a tool its worker makes sure."""
        tool, name = self._toolset().get(call.tool), decision_id(self.state.run.name, call.call)
        return tool is not None and call.digest == call_digest(name, call.tool, tool.version, canonical(call.arguments))

    @on
    def denied(self, message: Denied, ctx: Context) -> None:
        call = self._decided(message)
        if call is None:
            return
        run, by, reason = self.state.run, row_text(message.by), said(message.reason)
        if call.status == "in_doubt":
            # It did not happen: made again, and if it was approved, as exactly what was approved then.
            again = CallTool(
                run.name, call.call, call.tool, call.arguments, call.idempotency_key, call.approved, call.released
            )
            identifier = ctx.send(self.parts.tool, again)
            self._record(ToolCallSettled(call.step, call.call, call.tool, False, by, reason, identifier, ctx.node), ctx)
            return
        self._drop(call, ctx)
        self._record(ApprovalDenied(call.step, call.call, call.tool, message.decision, by, reason), ctx)
        self._go_on(ctx)

    @on
    def expired(self, message: Expired, ctx: Context) -> None:
        call = self._decided(message)
        if call is None or call.status != "held" or (call.question is not None and call.question.approver):
            return  # the last: it was approved in time, and the checks are run once more
        # Should somebody have decided in this very moment, the row is not pending any more, this turn is not taken,
        # and the decision that is on its way is handled first.
        ctx.move_decision(Move(message.decision, "pending", "expired"))
        self._drop(call, ctx)
        self._record(ApprovalExpired(call.step, call.call, call.tool, message.decision), ctx)
        self._go_on(ctx)

    def _drop(self, call: Call, ctx: Context) -> None:
        ctx.drop(call.message)
        self._check_no_more(call, ctx)

    @on
    def recalled(self, message: Recalled, ctx: Context) -> None:
        call = self._decided(message)
        if call is not None:
            note = ApprovalTakenBack(call.call, call.decision, row_text(message.by), said(message.note))
            self._record(note, ctx)

    @on
    def checked(self, message: CallChecked, ctx: Context) -> None:
        call = self.state.run.pending.get(message.call)
        question = None if call is None or call.decision != message.decision else call.question
        if call is None or question is None or not question.check or message.at_release != bool(question.approver):
            return
        by, note, findings = question.approver, question.note, message.findings
        changed = worse(question, findings)
        self._record(ApprovalChecked(call.call, call.decision, findings, message.at_release), ctx)
        if not message.at_release:
            found = msgspec.json.encode(findings).decode()
            ctx.move_decision(Move(call.decision, "pending", "pending", must=False, checks=found))
        elif changed:
            self._ask_about_a_changed_world(call, by, changed, findings, ctx)
        else:
            self._let_go(call, by, note, ctx)

    def _ask_about_a_changed_world(
        self, call: Call, by: str, changed: list[Finding], findings: list[Finding], ctx: Context
    ) -> None:
        why = row_text(f"since {by} approved, a check has changed: {self._words(changed)}")
        ctx.move_decision(Move(call.decision, "approved", "superseded", why))
        requested = self._hold_again(call, None, why, ctx, findings=findings)
        self._record(ApprovalSuperseded(call.call, call.decision, by, why), ctx)
        self._put(requested, ctx)

    def _checks_unanswered(self, asked: int, error: str, ctx: Context) -> None:
        """The checks could not be run at all: nothing else would ever come. What is not known is not fine."""
        for call in list(self.state.run.pending.values()):
            question = call.question
            if question is not None and asked and question.check == asked:
                findings = [Finding("checks", False, error)]
                at_release = bool(question.approver)
                self.checked(CallChecked(call.decision, call.call, findings, at_release), ctx)

    # --- edits -------------------------------------------------------------------------------------------------

    @on
    def edited(self, message: Edited, ctx: Context) -> None:
        """A person wants other arguments. Their word has superseded the question, so one is asked in any case."""
        call = self._decided(message)
        if call is None or call.status != "held" or (call.question is not None and call.question.approver):
            return
        by, note, old = row_text(message.by), said(message.note), call.decision
        verdict, error = self._as_edited(call, message, by)
        if verdict is None:
            why = row_text(f"{by} wanted to change it, and that does not fit: {error}")
            requested = self._hold_again(call, None, why, ctx)
            self._record(ApprovalEditRefused(call.call, old, requested.decision, by, row_text(error)), ctx)
            self._put(requested, ctx)
            return
        diff = changes(call.arguments, verdict.arguments.plain)
        was = call.question or Question(verdict.terms)
        editors = [*(one for one in was.edited_by if one != by), by]
        sources = said_by(by, diff, was.provenance)
        requested = self._hold_again(call, verdict, "", ctx, edited_by=editors, provenance=sources, tally=verdict.tally)
        self._record(ApprovalEdited(call.call, old, requested.decision, by, diff, note), ctx)
        self._put(requested, ctx, diff)

    def _as_edited(self, call: Call, message: Edited, by: str) -> tuple[Hold | None, str]:
        """What the gate says to the changed call, which is asked for whatever it says; or why it cannot be made."""
        try:
            wanted = well_formed_values(message.arguments)
        except ValueError as error:
            return None, str(error)
        if (size := len(msgspec.json.encode(wanted))) > MAX_EDITED_BYTES:
            return None, f"the arguments take {size:,} bytes; at most {MAX_EDITED_BYTES:,} are allowed"
        was = call.question or Question(Terms(call.reason))
        diff = changes(call.arguments, wanted)
        sources = said_by(by, diff, was.provenance)
        asked = RequestedCall(call.tool_call_id, call.tool, wanted, provenance=sources)
        verdict = self._judge(asked, instead_of=call.decision)
        if isinstance(verdict, Refuse):
            return None, verdict.error
        if self._same(call, verdict.arguments):
            return None, "nothing was changed"
        edit = Terms(f"{by} changed the arguments", "edit", "low")
        gate = [verdict.terms] if isinstance(verdict, Hold) else []
        # What the tool wanted it cannot be asked again before it is called, and then it has its approval.
        of_tool = [] if was.by_tool is None else [terms_of_tool(was.by_tool)]
        return Hold(verdict.tool, verdict.arguments, merged([edit, *gate, *of_tool]) or edit, verdict.tally), ""

    @staticmethod
    def _same(call: Call, arguments: Arguments) -> bool:
        return not changes(call.arguments, arguments.plain)

    def _judge(self, asked: RequestedCall, instead_of: str = "") -> Refuse | Hold | Go:
        """What the gate says to one call, as the run is now. `instead_of`: the decision on what it replaces."""
        run = self.state.run
        facts = Facts.of(run, self.rules, without=instead_of)
        return unlike(judge(asked, self._toolset(), facts, self.rules), run.elsewhere)

    def _decided(self, message: Release | Denied | Expired | Edited | Recalled) -> Call | None:
        """The call that a decision is about, if it still waits for exactly that."""
        call = self.state.run.pending.get(int(message.call)) if message.call.isdecimal() else None
        waits = call is not None and call.decision == message.decision and call.digest == message.digest
        return call if waits and call is not None and call.status != "running" else None
