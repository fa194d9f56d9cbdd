"""The support desk as an application: `callboard daemon callboard.crm.app:app`.

    /crm                    supervisor
      approvals             tells runs what people decided
      model, tool, mailer   workers: the model's calls, the desk's tools, the mail
      outbox                sees that mail is sent                         (looks every second)
      offboarding           closes accounts, step by step or back         (looks every 5 s; worker: offboarder)
      renewals              announces renewals                            (looks every day; worker: notifier)
      unfinished            leaves tickets of failed runs to people       (is told; worker: caretaker)
      desk                  supervisor of the agents
        agent:RUN           one run for each ticket, and for each agent that it calls (roles.py)

The tools work under the desk's own database role, which has no rights on the runtime's schema: as the user of CRM_DSN
where the environment has one, so that there is no way back, else by SET ROLE. Without a model of its own the desk works
offline with `DeskModel`, which reads the policy and the tools' results.
"""

import json
import os
import sys
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio

from callboard.actors.agent.agents import check_agents, everything
from callboard.actors.agent.classifier import RuleClassifier
from callboard.actors.agent.configured import configured
from callboard.actors.agent.model_worker import FIRST_SECONDS, ModelWorker
from callboard.actors.agent.rules import Rules
from callboard.actors.agent.run import Parts, Run
from callboard.actors.agent.tool_worker import FIRST_SECONDS as TOOL_FIRST_SECONDS
from callboard.actors.agent.tool_worker import ToolWorker, toolbox
from callboard.actors.app import App, Surroundings
from callboard.actors.approval import Approvals
from callboard.actors.llm.choice import client_from
from callboard.actors.llm.client import LLMClient
from callboard.actors.llm.prices import prices_from
from callboard.actors.spec import Child, Supervisor
from callboard.mailbox.errors import UsageError
from callboard.persistence.postgres.database import Database

from .closing import DeskClosing
from .guardrails import GUARDRAIL, GUARDRAILS, own_ticket
from .load import load
from .model import DeskModel
from .money import AfterEffect
from .notices import DeskNotices
from .offboarding import Offboarder, Offboarding
from .outbox import Mailer, Outbox
from .policy import parse_policy, policy_text
from .renewals import Notifier, Renewals
from .roles import agents_of, prompt_of, tools_of
from .schema import install
from .tickets import make_tickets
from .tools import Toolset, desk_tools
from .unfinished import ADDRESS as UNFINISHED
from .unfinished import Caretaker, Unfinished

AGENTS = "/crm/desk/agent"
MAX_TICKETS = 1_000
OWN_DSN = "CRM_DSN"
"""Variable of the environment: how the desk's tools connect, as a user that was granted the desk's role and no other. A
variable, because it may hold a password."""
DESK_RULES = Rules(classifier=RuleClassifier(), guardrail=GUARDRAIL, guardrails=GUARDRAILS)
"""What `callboard.toml` does not say otherwise: a short question gets a small budget."""
PARTS = Parts(model="/crm/model", tool="/crm/tool", approvals="/crm/approvals", unfinished=UNFINISHED)


@asynccontextmanager
async def open_desk(surroundings: Surroundings) -> AsyncIterator[Supervisor]:
    """The desk's tree over the database of `surroundings`, whose records are loaded if they are not there.

    Options: `tickets=N` writes N tickets, `T-0001` and on, into a desk that has none. `hang_once=FILE` makes the first
    node to create FILE hang between the commit of a refund and its return, after saying so in a line on standard
    output: the demonstration and the tests kill it there. `model=SPEC` names a real model (see `llm.choice`), as does
    `[model]` of `callboard.toml`.

    Raises:
        UsageError: an option that cannot be.
    """
    async with await Database.open(surroundings.dsn) as owner:
        installation = await install(owner)
        await load(owner)
        if count := surroundings.options.get("tickets"):
            await make_tickets(owner, _whole(count), only_first=True)
    hang = surroundings.options.get("hang_once")
    after_effect = _hang_once(Path(hang)) if hang else None
    own = os.environ.get(OWN_DSN, "")
    async with await Database.open(own or surroundings.dsn, role=None if own else installation.role) as database:
        rules = configured(surroundings.configuration, DESK_RULES)
        yield desk_tree(database, surroundings.node, after_effect, rules, _model(surroundings))


def _model(surroundings: Surroundings) -> LLMClient:
    """The model that an option or `callboard.toml` names; the offline one where neither does."""
    table = surroundings.configuration.get("model", {})
    spec = surroundings.options.get("model") or str(table.get("spec", ""))
    if not spec:
        return DeskModel()
    return client_from(spec, environ=os.environ, prices=prices_from(table.get("prices", {})))


def desk_tree(
    database: Database,
    node: str,
    after_effect: AfterEffect | None = None,
    rules: Rules = DESK_RULES,
    llm: LLMClient | None = None,
    *,
    tools: Toolset | None = None,
) -> Supervisor:
    """The desk's supervision tree; `llm`: the model, by default the offline one; `tools`: instead of the desk's own."""
    made = tools or desk_tools(database, node=node, after_effect=after_effect)
    own = toolbox(tools_of("support", made))
    agents = check_agents(agents_of(made).values(), own)
    every = everything(own, agents.values())
    rules = replace(rules, tools=every, agents=agents, policies=(*rules.policies, own_ticket))
    specs = tuple(tool.spec() for tool in own.values())
    # A run that fails stands failed, with its reason: there is nothing that a restart would mend.
    runs = Child(Run, "agent", restart="temporary", pool=True, args=(PARTS, own, rules))
    return Supervisor(
        "crm",
        strategy="rest_for_one",
        children=(
            Child(Approvals, "approvals"),
            Child(ModelWorker, "model", args=(llm or DeskModel(), specs, FIRST_SECONDS, rules)),
            Child(ToolWorker, "tool", args=(every, TOOL_FIRST_SECONDS, rules)),
            Child(Mailer, "mailer", args=(database,)),
            Child(Outbox, "outbox", args=("/crm/mailer",)),
            *_beside(database, [name for name, tool in every.items() if not tool.side_effect]),
            Supervisor("desk", (runs,)),
        ),
    )


def _beside(database: Database, reads: Collection[str]) -> tuple[Child, ...]:
    """What works beside the agents. There is one of each actor, however many nodes there are, and so of its timer."""
    notices = DeskNotices(database, parse_policy(policy_text()))
    return (
        Child(Offboarder, "offboarder", args=(DeskClosing(database),)),
        Child(Offboarding, "offboarding", args=("/crm/offboarder",)),
        Child(Notifier, "notifier", args=(notices,)),
        Child(Renewals, "renewals", args=("/crm/notifier",)),
        Child(Caretaker, "caretaker", args=(database, reads)),
        Child(Unfinished, "unfinished", pool=True, args=("/crm/caretaker",)),
    )


def _hang_once(mark: Path) -> AfterEffect:
    async def hang(key: str) -> None:
        if not _first_at(mark):
            return
        sys.stdout.write(json.dumps({"event": "in_refund", "pid": os.getpid(), "key": key}) + "\n")
        sys.stdout.flush()
        await anyio.sleep_forever()

    return hang


def _whole(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= MAX_TICKETS:
        raise UsageError(f"option tickets: expected a whole number from 1 to {MAX_TICKETS}, got {text[:40]!r}")
    return int(text)


def _first_at(mark: Path) -> bool:
    """Whether nobody, in whatever process, was here before."""
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


app = App("crm", open_desk, runs=AGENTS, system_prompt=prompt_of("support"))
