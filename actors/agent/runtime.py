"""The runtime: agents as a library, in a few lines.

    async with Runtime(store=InMemoryStore(), llm=llm, tools=[issue_refund]) as runtime:
        run = await runtime.start(goal="Refund order A-8891, item arrived damaged.")
        run.state.status, run.state.final_answer

Within `async with` this process is a node and works on every run. Without it, each call that has to do work makes this
process a guest node for as long as the call lasts, which serves the shards of that one run and nothing else. (With
`agents`, whose runs may be in any shard, it is a node like others meanwhile.)
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any, Self
from uuid import UUID

import anyio
import anyio.abc
import msgspec

from ...mailbox.address import shard_of
from ...persistence.port import Port, RealPort
from ...persistence.rows import Decision
from ...persistence.store import Store
from ..client import Client
from ..guard.pii import Detect
from ..guard.plan import Plan, Planner
from ..guard.profiles import GuardrailProfile, get_profile
from ..llm.client import LLMClient
from ..node import Node, NodeSettings
from ..spec import Tree
from ..tracing import OFF, Tracing
from .agents import AgentSpec, BadAgents, check_agents
from .budget import Budget
from .classifier import Classifier
from .compaction import Compaction
from .desk import APPROVALS, RUN, agent_tree
from .events import Trust
from .messages import StartRun
from .planning import guardrails_of
from .policies import Policy
from .rules import Rules
from .runs import Recorded, RunNotFound, Runs, StateSnapshot, Verification
from .state import RunState
from .streaming import Delta, watch
from .tool import Tool
from .tool_worker import toolbox

RunId = str | UUID


class RunHandle(msgspec.Struct, frozen=True):
    """A run and its state when it last rested."""

    id: str
    state: RunState


class Runtime:
    """Runs agents with one model and one set of tools over a store.

    `budget` replaces `max_steps` and `max_cost_usd`. `max_llm_attempts` bounds the attempts at one model call (0: until
    it succeeds or fails for good). `approval_seconds` is how long a decision may take (0: for ever). `name` is the root
    of its tree; every runtime of one name over one store works on the same runs. `agents` are what the model may call
    besides tools; `classifier` says before the first model call how much of its budget a run may spend. `policies` say
    which calls need people, and on what terms (`@policy`, `policies_from`).
    `max_tool_attempts` and `tool_seconds` (of one attempt; None: for ever) hold for tools that do not say;
    `code_version` is what runs record of the program, by default a digest of prompt, tools and Callboard's version.
    `guardrail_profile` is the profile of runs that name none (default: `validation`), by its name or one of your own;
    `guardrail_profiles` are further ones that runs may name; `pii_detectors` find kinds of personal data that a profile
    of yours hides; `planner` says from a run's goal which tools it may call without asking (docs/GUARDRAILS.md).
    `compaction` bounds conversations; `provider_down_seconds` is in docs/MODELS.md; `stream` is what `watch` needs;
    `tracing` is in docs/TRACING.md.

    Raises:
        UnknownProfile: (a ValueError) listing the profiles there are.
    """

    def __init__(
        self,
        store: Store,
        llm: LLMClient,
        tools: Sequence[Tool] = (),
        *,
        model: str = "unspecified",
        system_prompt: str = "",
        max_steps: int = 25,
        max_cost_usd: Decimal | None = Decimal("1.00"),
        budget: Budget | None = None,
        max_llm_attempts: int = 3,
        retry_base_delay_seconds: float = 1.0,
        approval_seconds: float = 0.0,
        agents: Sequence[AgentSpec] = (),
        classifier: Classifier | None = None,
        policies: Sequence[Policy] = (),
        max_tool_attempts: int = 3,
        tool_seconds: float | None = 600.0,
        code_version: str = "",
        guardrail_profile: str | GuardrailProfile | None = None,
        guardrail_profiles: Sequence[GuardrailProfile] = (),
        pii_detectors: Mapping[str, Detect] | None = None,
        planner: Planner | None = None,
        compaction: Compaction | None = Compaction(),  # noqa: B008 - frozen
        provider_down_seconds: float = 3600.0,
        stream: bool = False,
        name: str = "agents",
        settings: NodeSettings | None = None,
        port: Port | None = None,
        tracing: Tracing = OFF,
    ) -> None:
        self.store, self.tracing = store, tracing
        self.port: Port = port or RealPort()
        self.model, self.system_prompt = model, system_prompt
        self.budget = budget or Budget(max_iterations=max_steps, max_cost_usd=max_cost_usd, max_tokens=None)
        self.max_llm_attempts = max_llm_attempts
        self.settings = settings or NodeSettings()
        self.agents = check_agents(agents, toolbox(tuple(tools)))
        guarded = guardrails_of(guardrail_profile, guardrail_profiles, pii_detectors, planner)
        self.rules = Rules(
            agents=self.agents,
            classifier=classifier,
            policies=tuple(policies),
            tool_attempts=max_tool_attempts,
            tool_seconds=tool_seconds,
            code_version=code_version,
            compaction=compaction,
            provider_down_seconds=provider_down_seconds,
            stream=store.whisper if stream else None,
            **guarded,
        )
        delays = dict.fromkeys(("model_first_seconds", "tool_first_seconds"), retry_base_delay_seconds)
        tree = agent_tree(name, llm, tuple(tools), rules=self.rules, approval_seconds=approval_seconds, **delays)
        self.tree = Tree(tree)
        self.client = Client(store, self.port)
        self.runs = Runs(self.client, f"/{name}/{RUN}")
        self._node: Node | None = None
        self._group: anyio.abc.TaskGroup | None = None
        self._uses = 0

    # --- being a node ------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self._open()
        self._group = anyio.create_task_group()
        await self._group.__aenter__()
        self._node = self._make_node(None)
        self._group.start_soon(self._node.run)
        await self._node.ready.wait()
        return self

    async def __aexit__(self, *error: Any) -> bool | None:
        assert self._group is not None and self._node is not None
        self._node.stop()
        # The user's own exception goes through as it is; the group would wrap it.
        reported = (None, None, None) if isinstance(error[1], Exception) else error
        try:
            return await self._group.__aexit__(*reported)
        finally:
            self._node = self._group = None
            await self._close()

    async def serve(self) -> None:
        """Be a node until cancelled: work on all runs, together with whatever other nodes there are."""
        async with self._opened():
            await self._make_node(None).run()

    def _make_node(self, serves: frozenset[int] | None) -> Node:
        return Node(self.store, self.tree, self.port, self.settings, serves=serves, tracing=self.tracing)

    @asynccontextmanager
    async def _serving(self, run_id: str) -> AsyncIterator[None]:
        """See that somebody works on a run: the node that this process is, or a guest for a while."""
        if self._node is not None:
            yield
            return
        root, run = self.tree.address, self.runs.address(run_id)
        shards = None if self.agents else frozenset({shard_of(root), shard_of(run), shard_of(f"{root}/{APPROVALS}")})
        failure: Exception | None = None
        async with self._opened(), anyio.create_task_group() as group:
            node = self._make_node(shards)
            group.start_soon(node.run)
            await node.ready.wait()
            try:
                yield
            except Exception as error:  # noqa: BLE001 - raised again below, outside of the group that would wrap it
                failure = error
            finally:
                node.stop()
        if failure is not None:
            raise failure

    async def _open(self) -> None:
        self._uses += 1
        if self._uses == 1:
            await self.store.__aenter__()

    async def _close(self) -> None:
        self._uses -= 1
        if not self._uses:
            await self.store.__aexit__(None, None, None)

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[None]:
        await self._open()
        try:
            yield
        finally:
            await self._close()

    # --- runs --------------------------------------------------------------------------------------------------

    async def create(
        self,
        goal: str,
        *,
        run_id: RunId | None = None,
        requested_by: str = "unknown",
        system_prompt: str | None = None,
        max_steps: int | None = None,
        max_cost_usd: Decimal | None = None,
        budget: Budget | None = None,
        agent: str = "",
        trust: Trust = "trusted",
        guardrail_profile: str | None = None,
        plan: Plan | Mapping[str, int] | Iterable[str] | None = None,
    ) -> str:
        """Record a run; its id. It is executed by whoever serves: `resume`, a daemon, an `async with` runtime.

        `agent`: which of `agents` it is, with that one's prompt and budget; "": the runtime's own. `trust`: untrusted
        where the goal was written by somebody outside. `guardrail_profile`: the name of a profile, else the runtime's.
        `plan`: tools that it may call without asking, where its profile has plans.

        Raises:
            UnknownProfile: (a ValueError) listing the profiles there are.
            UsageError: no goal, or a budget that allows nothing. BadAgents: there is no such agent.
            Conflict: the id is taken by a run with another beginning.
        """
        start = self._beginning(
            goal,
            requested_by=requested_by,
            system_prompt=system_prompt,
            max_steps=max_steps,
            max_cost_usd=max_cost_usd,
            budget=budget,
            agent=agent,
            trust=trust,
            guardrail_profile=guardrail_profile,
            plan=plan,
        )
        async with self._opened():
            return await self.runs.create(start, str(run_id or ""))

    def _beginning(
        self,
        goal: str,
        *,
        requested_by: str = "unknown",
        system_prompt: str | None = None,
        max_steps: int | None = None,
        max_cost_usd: Decimal | None = None,
        budget: Budget | None = None,
        agent: str = "",
        trust: Trust = "trusted",
        guardrail_profile: str | None = None,
        plan: Plan | Mapping[str, int] | Iterable[str] | None = None,
    ) -> StartRun:
        if guardrail_profile:
            get_profile(guardrail_profile, self.rules.guardrails)
        spec = self.agents.get(agent)
        if agent and spec is None:
            raise BadAgents(f"there is no agent {agent!r} here; known are: {', '.join(self.agents) or 'none'}")
        limits = budget or (self.budget if spec is None else spec.budget)
        if max_steps is not None:
            limits = msgspec.structs.replace(limits, max_iterations=max_steps)
        if max_cost_usd is not None:
            limits = msgspec.structs.replace(limits, max_cost_usd=max_cost_usd)
        own = self.system_prompt if spec is None else spec.system_prompt
        prompt = own if system_prompt is None else system_prompt
        model = self.model if spec is None else spec.model or self.model
        return StartRun(
            goal,
            limits,
            model,
            prompt,
            requested_by,
            self.max_llm_attempts,
            agent=agent,
            goal_trust=trust,
            guardrails=guardrail_profile or "",
            plan=None if plan is None else Plan.of(plan).tools,
        )

    async def start(self, goal: str, *, run_id: RunId | None = None, **options: Any) -> RunHandle:
        """Create a run and work on it until it rests (ended, or waiting for a person). Options as `create`."""
        start, name = self._beginning(goal, **options), str(run_id or self.port.token())
        async with self._opened(), self._serving(name):
            return RunHandle(name, await self.runs.start(start, name))

    async def resume(self, run_id: RunId, *, seconds: float = 3600.0) -> RunState:
        """Work on a run until it rests; safe to call at any time, from any process, as often as you like.

        Raises:
            RunNotFound: (a ValueError) there is none.
        """
        name = str(run_id)
        async with self._opened():
            state = await self.runs.state(name)
            if state.status == "not_started":
                raise RunNotFound(f"no run {name!r} to resume: create it first")
            if state.finished:
                return state
            async with self._serving(name):
                return await self.runs.rest(name, seconds=seconds)

    async def state(self, run_id: RunId) -> RunState:
        """Where a run is; `not_started` where there is none."""
        async with self._opened():
            return await self.runs.state(str(run_id))

    get_state = state

    async def watch(self, run_id: RunId) -> AsyncIterator[Delta]:
        """The words of a run's answers while they are written, from now on, until it has ended (see `streaming`)."""
        async with self._opened():
            async for delta in watch(self.runs, str(run_id)):
                yield delta

    async def events(self, run_id: RunId) -> list[Recorded]:
        """A run's journal."""
        async with self._opened():
            return await self.runs.events(str(run_id))

    async def snapshot(self, run_id: RunId) -> StateSnapshot:
        """A run as one document."""
        async with self._opened():
            return await self.runs.snapshot(str(run_id))

    async def verify(self, run_id: RunId) -> Verification:
        """Whether a run's state is the fold of its journal."""
        async with self._opened():
            return await self.runs.verify(str(run_id))

    async def list(self, *, limit: int = 100, after: str = "") -> "list[tuple[str, dict[str, Any]]]":
        """(run id, summary) of runs that were begun, in the order of their ids, beyond the id `after`."""
        async with self._opened():
            return await self.runs.list(limit=limit, after=after)

    async def tell(self, run_id: RunId, text: str, *, by: str = "", trust: Trust = "trusted") -> None:
        """Say something to a live run; the model reads it at its next iteration.

        Raises:
            RunNotFound; Conflict: it has ended. Fork it, and `say` it there.
        """
        async with self._opened():
            await self.runs.tell(str(run_id), text, by=by, trust=trust)

    async def fork(
        self,
        run_id: RunId,
        at: int | None = None,
        *,
        new_id: RunId | None = None,
        say: str = "",
        note: str = "",
        by: str = "unknown",
        budget: Budget | None = None,
    ) -> str:
        """Record a run that goes on from event `at` of this one (None: its last); its id, for `resume`.

        See `docs/AGENTS.md`. Raises as `Runs.fork`.
        """
        async with self._opened():
            return await self.runs.fork(
                str(run_id), at, new_id=str(new_id or ""), say=say, note=note, by=by, budget=budget
            )

    async def cancel(self, run_id: RunId, *, by: str = "", reason: str = "") -> None:
        """Ask a run to begin nothing more and end."""
        async with self._opened():
            await self.runs.cancel(str(run_id), by=by, reason=reason)

    async def approve(
        self,
        run_id: RunId,
        approver: str,
        *,
        call: int | None = None,
        digest: str = "",
        note: str = "",
        hold_seconds: float = 0.0,
    ) -> Decision:
        """Record that the call may go; `resume`, or whoever serves, does it. One of several calls must be named. Where
        a policy wants several people, the decision that comes back is pending until the last of them has approved.

        Raises:
            RunNotFound, NotAwaiting, AlreadyDecided (by somebody else, by time, or by you), Conflict (`digest` is not
            that of the arguments on record). NotAllowed: a policy wants somebody else.
        """
        async with self._opened():
            return await self.runs.decide(
                str(run_id), "approved", approver, call=call, digest=digest, note=note, hold_seconds=hold_seconds
            )

    async def deny(
        self, run_id: RunId, approver: str, reason: str, *, call: int | None = None, digest: str = ""
    ) -> Decision:
        """Record that the call never goes; the model gets the reason. Raises as `approve`."""
        async with self._opened():
            return await self.runs.decide(str(run_id), "denied", approver, call=call, digest=digest, note=reason)

    async def take_back(self, run_id: RunId, by: str, *, call: int | None = None, note: str = "") -> Decision:
        """Take back an approval that is in its release hold: the call waits for people again, and nobody has approved.

        Raises:
            RunNotFound, NotAwaiting. AlreadyDecided: it was let go; the message says when.
        """
        async with self._opened():
            return await self.runs.take_back(str(run_id), by, call=call, note=note)

    async def edit(
        self,
        run_id: RunId,
        editor: str,
        arguments: Mapping[str, Any],
        *,
        call: int | None = None,
        digest: str = "",
        note: str = "",
        seconds: float = 60.0,
    ) -> Decision:
        """Have a held call asked for with these arguments (all of them) instead; the new decision, with its own digest.
        Where they do not fit the tool it is the old call that is asked for anew, and the decision's reason says so.

        Raises:
            RunNotFound, NotAwaiting, AlreadyDecided, Conflict: as `approve`. TimeoutError: whoever serves the run has
            not asked anew within `seconds`; it will.
        """
        name = str(run_id)
        async with self._opened():
            old = await self.runs.edit(name, arguments, editor, call=call, digest=digest, note=note)
            async with self._serving(name):
                found = await self.runs.replacement(old, seconds=seconds)
        if found is None:
            raise TimeoutError(f"run {name} has not asked anew within {seconds:g} s: is a node serving it?")
        return found
