"""G5, the approval actor's part: it tells the run what was decided, once, after the hold, or that nobody decided."""

import pytest

from callboard.actors.actor import Actor, on
from callboard.actors.approval import Approvals, Decided, Denied, Expired, ExpiryWanted, Release
from callboard.actors.context import Context
from callboard.actors.spec import Child, Supervisor
from callboard.actors.testing import TestKit
from callboard.mailbox.errors import AlreadyDecided, Conflict
from callboard.mailbox.lane import Lane
from callboard.mailbox.message import Message
from callboard.persistence.rows import Decision, Verdict
from tests.actors.world import SETTINGS, Notes

pytestmark = pytest.mark.anyio

RUN = "/t/run:1"
APPROVALS = "/t/approvals"


class Gate(Message, tag="engine_test.gate"):
    """To a run: ask for a decision."""

    expires_seconds: float = 0.0


class Waiting(Actor[Notes], kind="engine-test-waiting"):
    """A run that has asked."""

    @on(creates=True)
    def gate(self, message: Gate, ctx: Context) -> None:
        ctx.ask_decision(
            Decision(
                "d1", RUN, "c1", 0, APPROVALS, "approval", "refund", "{}", "digest", "because",
                expires_seconds=message.expires_seconds,
            )
        )  # fmt: skip
        if message.expires_seconds:
            ctx.send(APPROVALS, ExpiryWanted("d1", "c1", "digest", message.expires_seconds))

    @on
    def told(self, message: Release | Denied | Expired, ctx: Context) -> None:
        self.state.notes.append(type(message).__name__)
        said = (getattr(message, "by", ""), getattr(message, "reason", ""))
        self.state.answers.append(" ".join(said).strip())


TREE = Supervisor("t", (Child(Approvals, "approvals"), Child(Waiting, "run", pool=True)))


def verdict(status: str, *, by: str = "jo", hold_seconds: float = 0.0, digest: str = "digest") -> Verdict:
    return Verdict("d1", status, digest, by, note="as agreed", hold_seconds=hold_seconds)  # type: ignore[arg-type]


async def told(kit: TestKit) -> list[str]:
    return (await kit.state(RUN, Notes)).notes


@pytest.mark.parametrize(
    ("status", "message", "answer"), [("approved", "Release", "jo"), ("denied", "Denied", "jo as agreed")]
)
async def test_g5_a_decision_reaches_its_run_once(status: str, message: str, answer: str) -> None:
    async with TestKit(TREE) as kit:
        await kit.send(RUN, Gate())
        decision = await kit.client.decide(verdict(status))
        assert (decision.status, decision.decided_by) == (status, "jo")
        await kit.advance(seconds=5)
        assert await told(kit) == [message]
        assert (await kit.state(RUN, Notes)).answers == [answer]
        with pytest.raises(AlreadyDecided, match="jo"):
            await kit.client.decide(verdict("denied", by="sam"))
        await kit.advance(seconds=5)
        assert await told(kit) == [message]


async def test_g5_other_arguments_than_those_shown_are_refused() -> None:
    async with TestKit(TREE) as kit:
        await kit.send(RUN, Gate())
        with pytest.raises(Conflict):
            await kit.client.decide(verdict("approved", digest="other"))
        await kit.advance(seconds=2)
        assert await told(kit) == []


async def test_g5_an_approval_waits_out_its_hold_across_a_take_over() -> None:
    async with TestKit(TREE, nodes=2, settings=SETTINGS) as kit:
        await kit.advance(seconds=2)
        await kit.send(RUN, Gate(expires_seconds=5))
        await kit.client.decide(verdict("approved", hold_seconds=30))
        await kit.advance(seconds=10)
        await kit.crash(kit.nodes[0])
        await kit.advance(seconds=19)
        assert await told(kit) == [], "neither released nor expired"
        await kit.advance(seconds=2)
        assert await told(kit) == ["Release"]


async def test_g5_a_decision_taken_back_within_its_hold_releases_nothing() -> None:
    async with TestKit(TREE) as kit:
        await kit.send(RUN, Gate())
        await kit.client.decide(verdict("approved", hold_seconds=30))
        await kit.advance(seconds=10)
        back = Decided("d1", RUN, "c1", "digest", "denied", "jo", "on second thoughts")
        await kit.client.send(APPROVALS, back, lane=Lane.REPLY)
        await kit.advance(seconds=60)
        assert await told(kit) == ["Denied"]


async def test_g5_what_nobody_decided_expires_and_a_decision_ends_the_wait() -> None:
    async with TestKit(TREE) as kit:
        await kit.send(RUN, Gate(expires_seconds=60))
        await kit.advance(seconds=59)
        assert await told(kit) == []
        await kit.advance(seconds=2)
        assert await told(kit) == ["Expired"]
    async with TestKit(TREE) as kit:
        await kit.send(RUN, Gate(expires_seconds=60))
        await kit.advance(seconds=30)
        await kit.client.decide(verdict("approved"))
        await kit.advance(seconds=60)
        assert await told(kit) == ["Release"]


async def test_g5_a_decision_made_while_no_node_runs_is_told_when_one_does() -> None:
    async with TestKit(TREE) as kit:
        await kit.send(RUN, Gate())
        await kit.leave(kit.nodes[0])
        await kit.client.decide(verdict("approved"))
        await kit.join()
        await kit.advance(seconds=2)
        assert await told(kit) == ["Release"]
