"""The node dies before its n-th commit, for every n of a whole story, and another one goes on: the end is the same,
every effect is made once under its key, nothing is lost, and nobody is left waiting for nobody.

Each story is told to people's acts, each done when nothing moves; a node that died is followed by another one.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest

from callboard import AgentSpec, LLMResponse, NeedsApproval, Tool, tool
from callboard.actors.agent.compaction import Compaction
from callboard.actors.agent.events import ToolCallCompleted
from callboard.actors.agent.policies import PolicyCall, policy
from callboard.actors.agent.policy import Terms
from callboard.actors.llm.client import ChatMessage
from callboard.mailbox.errors import CallboardError
from callboard.persistence.memory.invariants import violations

from .stage import Answer, Stage, asks, says, script

pytestmark = pytest.mark.anyio

Act = Callable[[Stage], Awaitable[Any]]


@dataclass
class World:
    """What happened outside."""

    effects: list[tuple[Any, str]] = field(default_factory=list)
    approvals: set[str] = field(default_factory=set)
    """What the tool that asks by itself was told it may go by."""
    stuck: bool = False
    """The slow tool never comes back, the first time."""

    def tools(self, stage: Callable[[], Stage], checked: bool) -> list[Tool]:
        async def enough(amount: int) -> bool:
            return stage().port.elapsed < 200

        @tool(side_effect=True, requires_approval=True, checks=[enough] if checked else [])
        async def pay(amount: int, *, idempotency_key: str) -> str:
            """Pay."""
            self.effects.append((amount, idempotency_key))
            return f"paid {amount}"

        @tool(side_effect=True, requires_approval=True)
        async def wire(amount: int) -> str:
            """Pay by a bank that knows no keys."""
            self.effects.append((amount, f"wire {len(self.effects)}"))
            if self.stuck:
                self.stuck = False
                await stage().port.sleep(1e6)
            return f"wired {amount}"

        @tool(side_effect=True, checks=[enough] if checked else [])
        async def bill(amount: int, *, idempotency_key: str, approval: str) -> str:
            """Pay, and know by itself when people are to be asked."""
            if not approval:
                raise NeedsApproval("a bill", risk="high", needed=2)
            self.effects.append((amount, idempotency_key))
            self.approvals.add(approval)
            return f"paid {amount}"

        @tool
        async def look(n: int) -> str:
            """Look."""
            return "x" * n

        return [pay, wire, bill, look]


@dataclass
class Story:
    """Who says what, and how it ends."""

    answers: Sequence[Answer]
    acts: Sequence[Act]
    status: str
    amounts: Sequence[int]
    child: Sequence[Answer] = ()
    checked: bool = False
    """The tool has a check that says yes for the first two hundred seconds."""
    stuck: bool = False
    terms: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    doubtful: bool = False
    """A death in the middle of an effect may leave a doubt that a person has to settle."""


def approve(who: str = "ann", run: str = "r", **options: Any) -> Act:
    return lambda stage: stage.runtime.approve(run, who, **options)


def deny(run: str = "r", who: str = "ann") -> Act:
    return lambda stage: stage.runtime.deny(run, who, "no")


def edit(amount: int, who: str = "ann", run: str = "r") -> Act:
    return lambda stage: stage.runs.edit(run, {"amount": amount}, who)


def take_back(who: str = "ann") -> Act:
    return lambda stage: stage.runtime.take_back("r", who)


def cancel(run: str = "r") -> Act:
    return lambda stage: stage.runtime.cancel(run, by="ann", reason="enough")


def kill_run(run: str = "r") -> Act:
    return lambda stage: stage.runtime.client.cancel(stage.runs.address(run), by="ann", reason="enough")


def fork(at: int | None = None, run: str = "r", new: str = "f", **options: Any) -> Act:
    return lambda stage: stage.runtime.fork(run, at, new_id=new, **options)


def tell(run: str = "r") -> Act:
    return lambda stage: stage.runtime.tell(run, "hello", by="ann")


def wait(seconds: float) -> Act:
    return lambda stage: stage.advance(seconds)


async def new_node(stage: Stage) -> None:
    await stage.kill()
    await stage.add_node()
    await stage.advance(20)


PAY = asks(("pay", {"amount": 9}))
BILL = asks(("bill", {"amount": 9}))
EXPERT = asks(("expert", {"goal": "pay"}))


def pays_at_last(messages: Sequence[ChatMessage]) -> LLMResponse:
    """Until it was paid; a conversation that was made shorter has fewer turns."""
    if any("paid" in message.content for message in messages):
        return says("ok")
    return asks(("look", {"n": 3_000}), ("pay", {"amount": 9}))


STORIES: dict[str, Story] = {
    "edited, then approved": Story([PAY, says("ok")], [edit(4), approve("bob")], "completed", [4]),
    "edited twice, then denied": Story([PAY, says("ok")], [edit(4), edit(5, "bob"), deny()], "completed", []),
    "edited to what does not fit": Story(
        [PAY, says("ok")],
        [lambda stage: stage.runs.edit("r", {"amount": "x"}, "ann"), approve()],
        "completed",
        [9],
    ),
    "edited, then cancelled": Story([PAY, says("ok")], [edit(4), cancel()], "cancelled", []),
    "taken back in its hold, approved anew": Story(
        [PAY, says("ok")],
        [approve(), wait(10), take_back("bob"), approve("bob"), wait(150)],
        "completed",
        [9],
        terms={"hold_seconds": 100.0},
    ),
    "taken back, edited, approved": Story(
        [PAY, says("ok")],
        [approve(), take_back(), edit(4), approve("bob"), wait(150)],
        "completed",
        [4],
        terms={"hold_seconds": 100.0},
    ),
    "cancelled in its hold": Story(
        [PAY, says("ok")], [approve(), wait(5), cancel(), wait(150)], "cancelled", [], terms={"hold_seconds": 100.0}
    ),
    "three of three": Story(
        [PAY, says("ok")], [approve("a"), approve("b"), approve("c")], "completed", [9], terms={"needed": 3}
    ),
    "checks at the release": Story([PAY, says("ok")], [approve()], "completed", [9], checked=True),
    "a check that changes its mind": Story(
        [PAY, says("ok")], [wait(10), wait(200), approve()], "awaiting_approval", [], checked=True
    ),
    "expired": Story([PAY, says("ok")], [wait(100)], "completed", [], options={"approval_seconds": 60.0}),
    "edited, then expired": Story(
        [PAY, says("ok")], [edit(4), wait(100)], "completed", [], options={"approval_seconds": 60.0}
    ),
    "in doubt after an edit, it did not happen": Story(
        [asks(("wire", {"amount": 9})), says("ok")],
        [edit(4), approve("bob"), new_node, deny()],
        "completed",
        [4, 4],
        stuck=True,
        doubtful=True,
    ),
    "in doubt, then cancelled": Story(
        [asks(("wire", {"amount": 9})), says("ok")],
        [approve("bob"), new_node, cancel()],
        "cancelled",
        [9],
        stuck=True,
        doubtful=True,
    ),
    "a child's call, edited": Story(
        [EXPERT, says("ok")], [edit(4, run="r.1"), approve("bob", "r.1")], "completed", [4], child=[PAY, says("ok")]
    ),
    "a parent cancelled while its child's call waits": Story(
        [EXPERT, says("ok")], [cancel()], "cancelled", [], child=[PAY, says("ok")]
    ),
    "a parent cancelled at once while its child's call waits": Story(
        [EXPERT, says("ok")], [kill_run()], "cancelled", [], child=[PAY, says("ok")]
    ),
    "a parent cancelled while its child's call is in doubt": Story(
        [EXPERT, says("ok")],
        [approve("bob", "r.1"), new_node, cancel()],
        "cancelled",
        [9],
        child=[asks(("wire", {"amount": 9})), says("ok")],
        stuck=True,
        doubtful=True,
    ),
    "cancelled and cancelled at once": Story([PAY, says("ok")], [cancel(), tell()], "cancelled", []),
    "a fork of a run whose call waits, and one of that": Story(
        [PAY, lambda messages: says(messages[-1].content), says("and so on")],
        [fork(), fork(run="f", new="g", say="well?"), deny("r")],
        "completed",
        [],
    ),
    "a fork of a run whose call was edited": Story(
        [PAY, lambda messages: says(messages[-1].content)],
        [edit(4), fork(), approve("bob")],
        "completed",
        [4],
    ),
    "a fork that is told something while its call waits": Story(
        [PAY, says("ok")],
        [fork(1), tell("f"), deny("f"), deny("r")],
        "completed",
        [],
    ),
    "made shorter while a call waited": Story(
        [asks(("look", {"n": 3_000})), *[pays_at_last] * 5],
        [edit(4), approve("bob")],
        "completed",
        [4],
        options={"compaction": Compaction(max_bytes=7_000, keep_turns=1)},
    ),
    "a tool that asks by itself, approved by two": Story(
        [BILL, says("ok")], [approve("ann"), approve("bob")], "completed", [9]
    ),
    "a tool that asks by itself, edited, approved by two": Story(
        [BILL, says("ok")], [edit(4), approve("ann"), approve("bob")], "completed", [4], checked=True
    ),
    "a tool that asks by itself, denied": Story([BILL, says("ok")], [deny()], "completed", []),
    "a tool that asks by itself, expired": Story(
        [BILL, says("ok")], [wait(100)], "completed", [], options={"approval_seconds": 60.0}
    ),
    "a tool that asks by itself, cancelled": Story([BILL, says("ok")], [cancel()], "cancelled", []),
    "a tool that asks by itself in a child, beside one that waits": Story(
        [EXPERT, says("ok")],
        [approve("ann", "r.1", call=1), approve("bob", "r.1", call=1), deny("r.1")],
        "completed",
        [9],
        child=[asks(("bill", {"amount": 9}), ("pay", {"amount": 5})), says("ok")],
    ),
    "a fork of a run whose tool has asked": Story(
        [BILL, lambda messages: says(messages[-1].content)], [fork(), deny("r")], "completed", []
    ),
    "a child's budget ends": Story(
        [EXPERT, lambda messages: says(messages[-1].content)],
        [wait(1)],
        "failed",
        [],
        child=[asks(("look", {"n": 1}))] * 60,
        options={"max_steps": 6},
    ),
}


class Cut:
    """Kills the node before its n-th commit."""

    def __init__(self, stage: Stage, nth: int) -> None:
        self.stage, self.nth, self.count, self.fired, self.revived = stage, nth, 0, False, False
        stage.store.before = self.before

    async def before(self, number: int, operation: str) -> None:
        if operation != "commit" or self.fired:
            return
        self.count += 1
        if self.count == self.nth:
            self.fired = True
            life = self.stage.nodes[-1].life
            assert life is not None
            life.session.crash()  # type: ignore[attr-defined]

    async def mend(self) -> None:
        await self.stage.settle()
        if self.fired and not self.revived:
            self.revived = True
            await self.stage.kill()
            await self.stage.add_node()
            await self.stage.advance(40)


async def told(story: Story, nth: int) -> bool:
    """Whether the node died."""
    world = World(stuck=story.stuck)
    box: list[Stage] = []

    @policy
    def rule(call: PolicyCall) -> Terms | None:
        return Terms("as the story wants", **story.terms) if story.terms else None

    tools = world.tools(lambda: box[0], story.checked)
    expert = AgentSpec("expert", "An expert.", tools=tuple(tools), llm=script(*story.child)) if story.child else None
    options = {**story.options, **({"agents": [expert]} if expert else {})}
    steps = options.pop("max_steps", None)
    async with Stage(script(*story.answers), tools, policies=[rule], **options) as stage:
        box.append(stage)
        cut = Cut(stage, nth)
        await stage.runtime.create("go", run_id="r", max_steps=steps)
        await cut.mend()
        for act in story.acts:
            try:
                await act(stage)
            except CallboardError:
                # A call that was let go is in doubt where its node died: then people are asked another question.
                if not story.doubtful and story.status != "cancelled":
                    raise
            await cut.mend()
        await stage.advance(5)
        await cut.mend()
        stage.store.before = None
        await ends_well(stage, story, world)
        return cut.fired


async def ends_well(stage: Stage, story: Story, world: World) -> None:
    while story.doubtful:
        waiting = [(run, (await stage.state(run)).pending_approval) for run, _ in await stage.runs.list()]
        asked = [(run, call) for run, call in waiting if call is not None]
        if not asked:
            break
        await stage.deny(asked[0][0], call=asked[0][1].call)
        await stage.advance(5)
    state = await stage.state("r")
    if story.status:
        assert state.status == story.status, (state.status, await stage.kinds("r"))
    amounts = [amount for amount, _ in world.effects]
    assert len(world.approvals) <= 1
    if story.doubtful:
        assert set(amounts) <= set(story.amounts) and len(amounts) <= len(story.amounts) + 1
    else:
        assert set(amounts) == set(story.amounts)
        keys = Counter(key for _, key in world.effects)
        assert len(keys) == len(story.amounts)
        done = await stage.of("r", ToolCallCompleted)
        assert len({one.call for one in done}) == len(done)
    for run, _ in await stage.runs.list():
        await rests(stage, run)
    tables, cluster = stage.store.tables, stage.store.cluster
    assert violations(tables, cluster, stage.store.clock(), at_rest=False) == []


async def rests(stage: Stage, run: str) -> None:
    """Whoever waits for it to rest comes back."""
    found: list[str] = []

    async def wait_for_it() -> None:
        found.append((await stage.runs.rest(run, seconds=60.0)).status)

    async with anyio.create_task_group() as group:
        group.start_soon(wait_for_it)
        await stage.advance(5)
        group.cancel_scope.cancel()
    assert found and found[0] in ("completed", "cancelled", "failed", "awaiting_approval")


@pytest.mark.parametrize("name", STORIES)
async def test_a_story_ends_the_same_wherever_its_node_dies(name: str) -> None:
    nth, died = 0, True
    while died:
        nth += 1
        try:
            died = await told(STORIES[name], nth)
        except BaseException as error:
            error.add_note(f"{name}: killed before commit {nth}")
            raise
    assert nth > 4
