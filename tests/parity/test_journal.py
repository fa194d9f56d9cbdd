"""The journal: before and after each act, never changed, and readable when an older release wrote it (A2, AF-02)."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import anyio
import msgspec
import psycopg
import pytest

from callboard import FunctionLLM, LLMResponse, NodeSettings, PostgresStore, Runtime, create_schema, tool
from callboard.actors.agent.events import LLMCallCompleted, LLMCallRequested, ToolCallCompleted, ToolCallRequested
from callboard.actors.llm.client import ChatMessage, ToolSpec
from callboard.mailbox import codec
from callboard.persistence.postgres.session import PostgresSession
from tests.agent.stage import Stage, asks, results, says, script, verified
from tests.agent.test_run_hostile import RETURNED

pytestmark = pytest.mark.anyio

STEPS = 6


async def test_da022_af02_whatever_is_called_finds_all_before_it_on_disk() -> None:
    """Seen from inside of each model call and each tool: its own intent, and every outcome before it."""
    seen: list[tuple[str, int, int, int, int]] = []

    async def look_at_disk(who: str) -> None:
        counts = [len(await stage.of("r", kind)) for kind in (LLMCallRequested, LLMCallCompleted)]
        counts += [len(await stage.of("r", kind)) for kind in (ToolCallRequested, ToolCallCompleted)]
        seen.append((who, counts[0], counts[1], counts[2], counts[3]))

    @tool(side_effect=True)
    async def act(n: int) -> int:
        """Act."""
        await look_at_disk("tool")
        return n

    async def answer(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system: str) -> LLMResponse:
        await look_at_disk("model")
        step = sum(message.role == "assistant" for message in messages)
        return says("done") if step == STEPS else asks(("act", {"n": step}))

    async with Stage(FunctionLLM(answer), [act]) as stage:
        await stage.begin(run_id="r")
        assert (await stage.state("r")).final_answer == "done"
        expected = [("model", 1, 0, 0, 0)]
        for n in range(1, STEPS + 1):
            expected += [("tool", n, n, n, n - 1), ("model", n + 1, n, n, n)]
        assert seen == expected
        row = await stage.store.actor(stage.runs.address("r"))
        assert row is not None and row.version >= STEPS, "a snapshot for each iteration at least"


async def test_da011_a_journal_of_an_older_release_repeats_nothing_and_keeps_the_ids_of_calls() -> None:
    """All fields that may be missing are, in every event that was written so far, when another node takes over."""
    made: list[str] = []

    @tool(side_effect=True, requires_approval=lambda a: a["amount"] > 50)
    async def pay(amount: int, idempotency_key: str) -> int:
        """Pay."""
        made.append(f"pay {amount}")
        return amount

    llm = script(asks(("pay", {"amount": 1}), ("pay", {"amount": 100})), says("ok"))
    async with Stage(llm, [pay]) as stage:
        run = await stage.begin()
        assert made == ["pay 1"]
        await stage.kill()
        rows = stage.store.tables.events[stage.runs.address(run)]
        for row, event in zip(list(rows), await stage.events(run), strict=True):
            required = {field.name for field in msgspec.structs.fields(type(event)) if field.required}
            kept = {k: v for k, v in msgspec.to_builtins(event).items() if k in {*required, "type"}}
            # the calls that the model asked for are no later addition
            kept |= {"tool_calls": msgspec.to_builtins(event.tool_calls)} if isinstance(event, LLMCallCompleted) else {}
            rows[row.seq - 1] = msgspec.structs.replace(row, body=codec.encode(kept))
        again = script(asks(("pay", {"amount": 1}), ("pay", {"amount": 100})), says("ok"))
        await stage.add_node(stage.beside(again, [pay]))
        await stage.advance(5)
        await stage.approve(run)
        assert (made, again.call_count) == (["pay 1", "pay 100"], 1)
        assert results(again.last_messages) == ['{"result":1}', '{"result":100}']
        assert [m.tool_call_id for m in again.last_messages if m.role == "tool"] == ["c1", "c2"]
        assert (await stage.state(run)).status == "completed"
        stage.checked = False  # what was taken out of the past is not in the state's fold


def desk(dsn: str, llm: Any, tools: Any) -> Runtime:
    return Runtime(PostgresStore(dsn), llm, tools, settings=NodeSettings(drain_seconds=0.1))


async def test_da020_after_work_of_every_kind_no_row_of_the_journal_was_changed_or_deleted(dsn: str) -> None:
    @tool(side_effect=True, requires_approval=lambda a: a["amount"] > 50)
    async def pay(amount: int, idempotency_key: str) -> int:
        """Pay."""
        if amount == 13:
            raise ValueError("unlucky")
        return amount

    await create_schema(dsn)
    llm = script(asks(*(("pay", {"amount": n}) for n in (1, 13, 100))), says("ok"))
    async with desk(dsn, llm, [pay]) as runtime:
        for name in ("approved", "denied", "cancelled", "waits"):
            await runtime.start("go", run_id=name)
        await runtime.approve("approved", "ann")
        await runtime.deny("denied", "ann", "no")
        await runtime.cancel("cancelled", by="ann")
        for name in ("approved", "denied", "cancelled"):
            await runtime.resume(name)
        written = sum([len(await runtime.events(name)) for name in ("approved", "denied", "cancelled", "waits")])
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        # What a session has done is in the statistics when it has ended, which is a moment after it was closed.
        others = (
            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            " AND backend_type = 'client backend'"
        )
        with anyio.fail_after(60):
            while await (await connection.execute(others)).fetchone():  # noqa: ASYNC110 - it raises no event here
                await anyio.sleep(0.02)
        for table in ("journal", "turn", "audit"):
            found = await connection.execute(
                "SELECT n_tup_ins, n_tup_upd, n_tup_del FROM pg_stat_user_tables"
                " WHERE schemaname = 'callboard' AND relname = %s",
                [table],
            )
            inserted, updated, deleted = await found.fetchone() or (0, 0, 0)
            assert inserted > 0 and (updated, deleted) == (0, 0), table
        with pytest.raises(psycopg.errors.RestrictViolation, match=r"callboard\.journal are never changed"):
            await connection.execute("UPDATE callboard.journal SET body = '{}' WHERE seq = 1")
        [count] = await (
            await connection.execute("SELECT count(*) FROM callboard.journal WHERE address LIKE '/agents/run:%'")
        ).fetchone() or [0]
        assert count == written


async def test_w28_a_step_with_a_tool_takes_fewer_than_four_commits(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    commits: list[int] = []
    commit = PostgresSession.commit

    async def counted(self: PostgresSession, units: Any) -> Any:
        commits.append(len(units))
        return await commit(self, units)

    @tool(side_effect=True)
    async def act(n: int, idempotency_key: str) -> int:
        """Act."""
        return n

    await create_schema(dsn)
    llm = script(*[asks(("act", {"n": n})) for n in range(20)], says("ok"))
    async with desk(dsn, llm, [act]) as runtime:
        await runtime.start("warm")
        monkeypatch.setattr(PostgresSession, "commit", counted)
        run = await runtime.start("go")
        assert (run.state.status, run.state.tool_calls) == ("completed", 20)
    assert 20 <= len(commits) < 4 * 20, len(commits)


async def test_da046_whatever_a_tool_returns_comes_back_from_postgres_as_finite_json(dsn: str) -> None:
    made: list[str] = []
    kinds = [kind for kind in RETURNED if "large" not in kind]

    @tool(side_effect=True)
    async def act(kind: str) -> Any:
        """Act, without a key."""
        made.append(kind)
        return RETURNED[kind]

    await create_schema(dsn)
    async with desk(dsn, script(asks(*(("act", {"kind": kind}) for kind in kinds)), says("ok")), [act]) as runtime:
        run = await runtime.start("go")
        assert run.state.status == "completed"
        assert sorted(made) == sorted(kinds) and len(kinds) >= 11
        done = [one.event for one in await runtime.events(run.id) if isinstance(one.event, ToolCallCompleted)]
        assert sorted(event.call for event in done) == list(range(1, len(kinds) + 1))
        by_kind = {kinds[event.call - 1]: event.result for event in done}
        assert (by_kind["nan"], by_kind["infinity"]) == ({"result": "nan"}, {"result": ["inf"]})
        assert (by_kind["nul"], by_kind["surrogate"]) == ({"result": "\x00"}, {"result": "\ud800"})
        assert by_kind["decimal"] == {"result": str(Decimal("1.5"))}
        await verified(runtime, run.id)
