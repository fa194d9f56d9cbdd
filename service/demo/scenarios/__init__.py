"""Stories of the desk, each of which ends with its proof: `callboard demo --scenario NAME`.

Each is a file here with one `Story` (`demo/story.py`), and a line in `STORIES`. To write one:

    class RefundApproved(Story):
        name = "refund-approved"
        about = "a refund above the limit waits for a person, who approves it"

        async def play(self, stage: Stage) -> None:
            await stage.writes("T-0001", "kwame@example.org", "Broken", "My chair is broken …")   # the customer; told
            async with stage.desk():                    # the whole desk, on PostgreSQL, in this process
                await stage.begin("T-0001")             # the agent's run has the id of its ticket
                held = await stage.asked("T-0001", "issue_refund")  # tells the question; TurnMissed if there is none
                await stage.decides(held, "approved", by="dana")    # tells it
                await stage.over("T-0001")              # TurnMissed if it does not complete
            await stage.tell_mail("T-0001")

        async def prove(self, stage: Stage) -> list[Check]:             # after the desk has closed
            return [Check("one refund of 249.50 USD", len(await stage.rows("SELECT …")) == 1, "")]

- `stage` (`demo/story_stage.py`) is on a fresh database with the small desk's records (`crm/small_desk.json`), whatever
  is installed. `stage.owner` and `stage.rows(sql, *params)` have all rights there, `stage.runs`, `stage.store` are the
  runtime's. Whoever needs other records inserts them.
- Another model for all agents: `stage.desk(llm=FunctionLLM(…))`; other tools: `tools=lambda tables: desk_tools(…)`;
  other rules: `rules=replace(DESK_RULES, …)`; more children: `tree=lambda supervisor, tables: replace(supervisor, …)`.
- Time: `await stage.passes(days=30)` moves the clocks of that database (`callboard.clock()`, `crm.clock()`) while the
  desk is open or shut; what is due happens then, so wait for it: `await stage.until(look, "what is expected")`.
- Real processes and a kill -9: `story_nodes.py`.
- `stage.tale.tell(who, text)` tells anything else: a dozen lines in all, for somebody who has never seen the desk.
- What holds with any model is proved for every story (`demo/story_proof.py`). `prove` adds what this one must end with,
  and is not asked where a real model played (`--model`). Set `scripted = True` where the story brings its own model.
- Never count calls: wait for a question (`asked`), an end (`over`) or a row (`until`).
"""

from collections.abc import Mapping
from importlib import import_module

from callboard.mailbox.errors import UsageError

from ..story import Story

STORIES: Mapping[str, str] = {
    "refund-approved": "refund_approved:RefundApproved",
    "refund-denied": "refund_denied:RefundDenied",
    "refund-expired": "refund_expired:RefundExpired",
    "split-refund": "split_refund:SplitRefund",
    "sibling-calls": "sibling_calls:SiblingCalls",
    "two-agents": "two_agents:TwoAgents",
    "crash-in-refund": "crash_in_refund:CrashInRefund",
    "wrong-customer": "wrong_customer:WrongCustomer",
    "offboarding": "offboarding:Offboarding",
    "renewals": "renewals:Renewals",
    "injection": "injection:Injection",
    "rate-limit-storm": "rate_limit_storm:RateLimitStorm",
    "budget-handoff": "budget_handoff:BudgetHandoff",
    "bounced-mail": "bounced_mail:BouncedMail",
}
"""Name -> module and class, in the order in which they are played."""


def find_story(name: str) -> type[Story]:
    """The story of this name.

    Raises:
        UsageError: there is none; it names those that are.
    """
    if name not in STORIES:
        raise UsageError(f"no story is called {name[:60]!r}; there are: {', '.join(STORIES)}, or all of them: all")
    module, _, kind = STORIES[name].partition(":")
    found: type[Story] = getattr(import_module(f"{__name__}.{module}"), kind)
    return found
