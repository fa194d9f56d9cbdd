"""Windows of actors and runs, the tree and the line of attention: the same on both stores."""

from collections.abc import AsyncIterator, Sequence
from decimal import Decimal
from typing import Any

import anyio
import pytest

from callboard import ChatMessage, FunctionLLM, LLMResponse, Runtime, ToolCall, tool
from callboard.mailbox.errors import NotAllowed, StoreUnavailable, UsageError
from callboard.persistence.memory import MemoryStore
from callboard.persistence.port import RealPort
from callboard.persistence.store import NodeInfo, Session, Store
from callboard.persistence.watching import PRESSING, Tally
from callboard.service.operations import watching as watched
from callboard.service.operations.principal import Principal
from callboard.service.operations.rolling import MAX_CHILDREN, TreeNode, rolled_up
from callboard.service.operations.runs import Operations
from callboard.service.operations.views import RunWish
from callboard.service.operations.watching import ActorWindow, Watching, Word
from tests.contract.build import DESK, dead, decision, message, next_id, retry, turn, unit, verdict, work, write
from tests.contract.conftest import contract_dsn as contract_dsn  # noqa: PLC0414 - a fixture
from tests.contract.conftest import node as node  # noqa: PLC0414 - a fixture
from tests.contract.conftest import store as store  # noqa: PLC0414 - a fixture
from tests.contract.conftest import world as world  # noqa: PLC0414 - a fixture
from tests.contract.world import World

pytestmark = pytest.mark.anyio


def agent(key: object) -> str:
    return f"/desk/agent:{key}"


@pytest.fixture
def watching(store: Store) -> Watching:
    return Watching(Operations(store, "mara"))


async def made(node: Session, *addresses: str, kind: str = "run", status: str = "active", summary: str = "") -> None:
    units = [unit(address) for address in addresses]
    for one in units:
        assert one.actor is not None
        one.actor.kind, one.actor.status, one.actor.summary = kind, status, summary  # type: ignore[assignment]
    await write(node, *units)


async def a_desk(node: Session, store: Store) -> list[str]:
    """Twelve quiet actors, and one for each word of attention but DEAD and RECOVERING; those, in their order."""
    await made(node, *(agent(f"q{number:02}") for number in range(12)))
    await made(node, agent("asks"), agent("x-holds"), agent("tries"))
    for status in ("failed", "escalated", "parked", "paused"):
        await made(node, agent(status), status=status)
    await write(node, work(decisions=[decision("d1", next_id(), run=agent("x-holds"))]))
    await write(node, work(decisions=[decision("d2", next_id(), run=agent("asks"))]))
    await store.decide(verdict("d1", hold_seconds=600.0), message(DESK))
    fails = message(agent("tries"))
    await write(node, work(fails.shard, sends=[fails]))
    await write(node, work(fails.shard, retries=[retry(fails, 600.0)]))
    return [agent(key) for key in ("asks", "failed", "escalated", "tries", "parked", "paused", "x-holds")]


WORDS_OF_THE_DESK = ["NEEDS YOU", "FAILED", "ESCALATED", "RETRY", "PARKED", "PAUSED", "HELD"]


async def not_there(node: Session, *, lost: str, tried: str) -> None:
    """Two actors whose first messages do not get through."""
    gone, fails = message(lost), message(tried)
    await write(node, work(gone.shard, sends=[gone]), work(fails.shard, sends=[fails]))
    await write(node, work(gone.shard, acks=[gone.id], turns=[turn(gone, 0, "dead")], dead=[dead(gone)]))
    await write(node, work(fails.shard, retries=[retry(fails, 600.0)]))


def addresses(window: ActorWindow) -> list[str]:
    return [one.address for one in window.items]


async def all_forward(watching: Watching, limit: int, **wanted: Any) -> list[str]:
    window = await watching.actors(limit=limit, **wanted)
    assert window.start
    found = addresses(window)
    while not window.end:
        window = await watching.actors(limit=limit, after=window.items[-1].address, **wanted)
        assert not window.start and not window.attention
        found += addresses(window)
    return found


async def all_backward(watching: Watching, limit: int, **wanted: Any) -> list[str]:
    window = await watching.actors(limit=limit, last=True, **wanted)
    assert window.end
    found = addresses(window)
    while not window.start:
        window = await watching.actors(limit=limit, before=window.items[0].address, **wanted)
        found = [*addresses(window), *found]
    return found


@pytest.mark.parametrize("limit", [1, 5, 50])
async def test_r4_attention_comes_whole_in_front_of_the_first_window_and_never_again(
    watching: Watching, node: Session, store: Store, limit: int
) -> None:
    front = await a_desk(node, store)
    quiet = [agent(f"q{number:02}") for number in range(12)]
    window = await watching.actors(limit=limit)
    assert addresses(window)[: window.attention] == front
    assert [one.word for one in window.items[: window.attention]] == WORDS_OF_THE_DESK
    assert {one.word for one in window.items[window.attention :]} == {"IDLE"}
    assert len(window.items) == len(front) + min(limit, len(quiet))
    assert await all_forward(watching, limit) == [*front, *quiet]
    assert await all_backward(watching, limit) == [*front, *quiet]


@pytest.mark.parametrize("limit", [1, 5, 50])
async def test_by_address_there_is_nothing_in_front(
    watching: Watching, node: Session, store: Store, limit: int
) -> None:
    front = await a_desk(node, store)
    everyone = sorted([*front, *(agent(f"q{number:02}") for number in range(12))])
    for read in (all_forward, all_backward):
        assert await read(watching, limit, order="address") == everyone
        some = await read(watching, limit, order="address", words=("IDLE", "RETRY", "PARKED"))
        assert some == sorted({*everyone} - {*front} | {agent("tries"), agent("parked")})
    assert (await watching.actors(order="address", limit=limit)).attention == 0


async def test_words_are_looked_for_where_they_can_be(watching: Watching, node: Session, store: Store) -> None:
    front = await a_desk(node, store)
    await made(node, agent("over"), status="completed", summary='{"status":"completed","detail":"done"}')
    await made(node, agent("broke"), status="completed", summary='{"status":"failed","detail":"too dear"}')
    await made(node, agent("asked"), summary='{"status":"running","asks_model":true}')
    for word, address in zip(WORDS_OF_THE_DESK, front, strict=True):
        assert addresses(await watching.actors(words=[word])) == [address]  # type: ignore[list-item]
    expected: list[tuple[Word, str]] = [
        ("COMPLETED", "over"), ("STOPPED", "broke"), ("RUNNING", "asked"),
    ]  # fmt: skip
    for plain, key in expected:
        window = await watching.actors(words=[plain], limit=1)
        assert (addresses(window), window.start, window.end) == ([agent(key)], True, True)
    both = await watching.actors(words=["RUNNING", "PARKED"])
    assert (addresses(both), both.attention) == ([agent("parked"), agent("asked")], 1)
    assert addresses(await watching.actors(words=["WAITING", "DEAD"])) == []


async def test_a_search_that_gives_up_says_where_and_goes_on_from_there(
    watching: Watching, node: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched, "PAGE", 3)
    monkeypatch.setattr(watched, "LOOKED_AT", 6)
    await made(node, *(agent(f"{number:02}") for number in range(20)))
    await made(node, agent("15x"), summary='{"asks_model":true}')
    for order in ("attention", "address"):
        wanted: dict[str, Any] = {"words": ["RUNNING"], "limit": 2, "order": order}
        window = await watching.actors(**wanted)
        assert (window.items, window.end, window.reached) == ([], False, agent("05"))
        window = await watching.actors(after=window.reached, **wanted)
        window = await watching.actors(after=window.reached, **wanted)
        assert addresses(window) == [agent("15x")]
        window = await watching.actors(last=True, **wanted)
        assert (addresses(window), window.start, window.reached) == ([agent("15x")], False, agent("15"))
        window = await watching.actors(before=window.reached, **wanted)
        assert (window.items, window.start, window.reached) == ([], False, agent("09"))


async def test_a_window_is_of_a_prefix_and_a_kind_also_in_front(
    watching: Watching, node: Session, store: Store
) -> None:
    await a_desk(node, store)
    await made(node, "/desk", kind="supervisor")
    await made(node, "/other/boss", kind="supervisor", status="escalated")
    assert addresses(await watching.actors(kind="supervisor")) == ["/other/boss", "/desk"]
    assert addresses(await watching.actors(prefix="/other")) == ["/other/boss"]
    assert addresses(await watching.actors(prefix=agent("p"))) == [agent("parked"), agent("paused")]


async def test_more_that_stand_than_have_room_in_front_are_found_by_their_word(
    watching: Watching, node: Session
) -> None:
    many = [agent(f"{number:04}") for number in range(PRESSING + 20)]
    await made(node, *many, status="parked")
    window = await watching.actors(limit=5)
    assert (window.attention, len(window.items)) == (PRESSING, PRESSING + 5)
    assert len(set(addresses(window))) == PRESSING + 5 and window.items[-1].word == "PARKED"
    assert await all_forward(watching, 7, words=["PARKED"]) == many


@pytest.mark.parametrize("wanted", [{"after": "/a", "before": "/b"}, {"last": True, "after": "/a"}, {"limit": 0}])
async def test_a_window_has_one_place(watching: Watching, wanted: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="a window begins"):
        await watching.actors(**wanted)
    with pytest.raises(UsageError, match="a window begins"):
        await watching.runs(**wanted)


async def test_glances_and_trends_are_of_those_that_are_named(watching: Watching, node: Session, store: Store) -> None:
    await a_desk(node, store)
    found = await watching.glances([agent("asks"), agent("q01"), "/nobody:1"])
    assert {address: one.word for address, one in found.items()} == {agent("asks"): "NEEDS YOU", agent("q01"): "IDLE"}
    assert await watching.trends([agent("tries"), agent("q01")]) == {
        agent("tries"): [0] * 7 + [1],
        agent("q01"): [0] * 8,
    }
    assert await watching.glances([]) == {} and await watching.trends([]) == {}


# --- the line -------------------------------------------------------------------------------------------------------


async def test_the_line_says_what_waits_for_whom_and_how_much_money_it_is(
    watching: Watching, node: Session, store: Store
) -> None:
    await a_desk(node, store)
    rows = [
        decision("e1", next_id(), run=agent("q01"), arguments='{"amount_cents":48000,"currency":"EUR"}'),
        decision(
            "e2", next_id(), run=agent("q02"), arguments='{"amount":"796.40","currency":"EUR"}', expires_seconds=60.0
        ),
        decision("e3", next_id(), run=agent("q03"), arguments='{"price_usd":5}'),
        decision("e4", next_id(), run=agent("q04"), arguments='{"note":"no money"}'),
    ]
    gone = message(agent("q05"))
    await write(node, work(decisions=rows), work(gone.shard, sends=[gone]))
    await write(node, work(gone.shard, acks=[gone.id], turns=[turn(gone, 0, "dead")], dead=[dead(gone)]))
    line = await watching.attention()
    assert [(one.currency, one.shown) for one in line.sums] == [
        ("", "9000"), ("EUR", "1276.40 EUR"), ("USD", "5 USD")
    ]  # fmt: skip
    assert (line.to_decide, line.dead, line.held, line.retrying) == (5, 1, 1, 1)
    assert (line.failed, line.escalated, line.parked, line.paused) == (1, 1, 1, 1)
    assert (line.total, line.running, line.idle) == (19, 1, 14)
    assert line.at >= line.oldest_at > line.at - 60 and 0 < line.next_expiry_at - line.at <= 60
    assert [member.number for member in line.nodes] == [node.number]
    await store.decide(verdict("e1"), message(DESK))
    line = await watching.attention()
    assert line.to_decide == 4 and line.sums[1].value == Decimal("796.40")


async def test_sums_of_decisions_are_read_once(watching: Watching, node: Session, store: Store) -> None:
    asked: list[str] = []
    known = store.decision

    async def decision_(id: str) -> Any:
        asked.append(id)
        return await known(id)

    store.decision = decision_  # type: ignore[method-assign]
    await write(node, work(decisions=[decision("d1"), decision("d2")]))
    for _ in range(3):
        assert [one.shown for one in (await watching.attention()).sums] == ["18000"]
    assert asked == ["d1", "d2"]
    await write(node, work(decisions=[decision(f"e{number}") for number in range(20)]))
    assert [one.shown for one in (await watching.attention()).sums] == ["198000"]
    assert asked == ["d1", "d2"], "many are read at once"


class Clock(RealPort):
    """Time that stands still but when it is told to go on."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def monotonic(self) -> float:
        return self.seconds


class Counting(MemoryStore):
    """Where counting takes its time."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock_ = clock
        self.takes_seconds = 0.0
        self.counted = 0
        self.gives_up = False

    async def tallies(self) -> list[Tally]:
        self.counted += 1
        self.clock_.seconds += self.takes_seconds
        if self.gives_up:
            raise StoreUnavailable("too many")
        return await super().tallies()


@pytest.mark.parametrize(("takes_seconds", "pause_seconds"), [(0.001, 1.0), (0.5, 25.0), (100.0, 300.0)])
async def test_counting_takes_no_more_than_its_share_of_the_time(takes_seconds: float, pause_seconds: float) -> None:
    clock = Clock()
    store = Counting(clock)
    store.takes_seconds = takes_seconds
    watching = Watching(Operations(store, "mara", clock))
    for _ in range(3):
        await watching.attention()
        await watching.tree()
    assert store.counted == 1
    clock.seconds += pause_seconds - 0.01
    await watching.attention()
    await watching.tree()
    assert store.counted == 1
    clock.seconds += 0.02
    await watching.tree()
    await watching.attention()
    assert store.counted == 2


async def test_the_line_of_each_second_does_not_wait_for_a_long_count() -> None:
    clock = Clock()
    store = Counting(clock)
    store.takes_seconds = 1.0
    watching = Watching(Operations(store, "mara", clock))
    await watching.attention()
    for seconds, counted in ((60.0, 1), (60.0, 1), (240.0, 2)):
        clock.seconds += seconds
        await watching.attention()
        assert store.counted == counted
    clock.seconds += 60.0
    await watching.tree()
    assert store.counted == 3, "who looks at the tree does"


async def test_where_counting_comes_to_no_end_the_line_is_told_all_the_same() -> None:
    clock = Clock()
    store = Counting(clock)
    watching = Watching(Operations(store, "mara", clock))
    async with store.join(NodeInfo("b"), clock) as session:
        await made(session, agent("1"), status="parked")
        assert (await watching.attention()).total == 1
        store.gives_up = True
        clock.seconds += 10
        await made(session, agent("2"), status="parked")
        line = await watching.attention()
        assert (line.total, line.parked) == (1, 2), "the last count, and what is of now"
        clock.seconds += 10
        await watching.attention()
        assert store.counted == 2, "nobody tries again at once"


# --- those that are not there yet -----------------------------------------------------------------------------------


async def test_g6_all_that_the_line_counts_is_in_the_list_though_it_is_not_there_yet(
    watching: Watching, node: Session, store: Store
) -> None:
    await made(node, agent("a"), agent("m"), agent("z"))
    await not_there(node, lost=agent("lost"), tried=agent("tried"))
    line = await watching.attention()
    assert (line.dead, line.retrying, line.total) == (1, 1, 3)
    window = await watching.actors(limit=2)
    assert addresses(window) == [agent("lost"), agent("tried"), agent("a"), agent("m")]
    assert [(one.word, one.kind, one.waiting) for one in window.items[:2]] == [("DEAD", "", 0), ("RETRY", "", 1)]
    assert window.items[1].oldest_at > 0 and "it broke · attempt 2 · next" in window.items[1].doing
    assert addresses(await watching.actors(after=agent("m"))) == [agent("z")], "and in no other window"
    assert addresses(await watching.actors(words=["DEAD"])) == [agent("lost")]
    assert addresses(await watching.actors(prefix=agent("t"))) == [agent("tried")]
    assert addresses(await watching.actors(kind="run")) == [agent("a"), agent("m"), agent("z")]
    by_address = await watching.actors(order="address", words=["DEAD", "RETRY", "IDLE"])
    assert addresses(by_address) == sorted(agent(key) for key in ("a", "lost", "m", "tried", "z"))
    assert addresses(await watching.actors(order="address")) == [agent("a"), agent("m"), agent("z")]
    assert set(await watching.glances([agent("lost"), agent("a"), agent("x")])) == {agent("lost"), agent("a")}


# --- the tree -------------------------------------------------------------------------------------------------------


def outline(node: TreeNode) -> Any:
    return (node.name, node.total, node.words, [outline(child) for child in node.children])


async def test_the_tree_has_supervisors_and_pools_and_rolls_up_what_is_below(
    watching: Watching, node: Session, store: Store
) -> None:
    await made(node, "/crm", "/crm/desk", kind="supervisor")
    await made(node, "/crm/approvals", kind="approval")
    await made(node, *(f"/crm/desk/agent:{number}" for number in range(4)), "/crm/desk/agent:0/helper:1")
    await made(node, "/crm/desk/agent:9", status="completed")
    await made(node, "/crm/desk/clerk:1", status="paused", kind="clerk")
    await write(node, work(decisions=[decision("d1", run="/crm/desk/agent:2")]))
    busy = message("/crm/desk/agent:3")
    await write(node, work(busy.shard, sends=[busy]))
    tree = await watching.tree()
    assert outline(tree) == (
        "root", 10, {"NEEDS YOU": 1, "PAUSED": 1, "RUNNING": 1, "IDLE": 6, "COMPLETED": 1},
        [("crm", 10, {"NEEDS YOU": 1, "PAUSED": 1, "RUNNING": 1, "IDLE": 6, "COMPLETED": 1}, [
            ("approvals", 1, {"IDLE": 1}, []),
            ("desk", 8, {"NEEDS YOU": 1, "PAUSED": 1, "RUNNING": 1, "IDLE": 4, "COMPLETED": 1}, [
                ("agent", 6, {"NEEDS YOU": 1, "RUNNING": 1, "IDLE": 3, "COMPLETED": 1}, []),
                ("clerk", 1, {"PAUSED": 1}, []),
            ]),
        ])],
    )  # fmt: skip
    [crm] = tree.children
    desk = crm.children[1]
    assert (tree.supervisor, crm.supervisor, desk.supervisor, crm.children[0].supervisor) == (True, True, True, False)
    assert [(one.address, one.pool) for one in desk.children] == [("/crm/desk/agent", True), ("/crm/desk/clerk", True)]


async def test_g6_the_tree_counts_those_that_are_not_there_yet_on_top(
    watching: Watching, node: Session, store: Store
) -> None:
    await made(node, "/crm", kind="supervisor")
    await made(node, "/crm/clerk:1", "/crm/clerk:2", kind="clerk")
    await not_there(node, lost="/crm/clerk:3", tried="/crm/mailer:1")
    tree = await watching.tree()
    assert outline(tree) == (
        "root", 5, {"DEAD": 1, "RETRY": 1, "IDLE": 3},
        [("crm", 5, {"DEAD": 1, "RETRY": 1, "IDLE": 3}, [
            ("clerk", 3, {"DEAD": 1, "IDLE": 2}, []),
            ("mailer", 1, {"RETRY": 1}, []),
        ])],
    )  # fmt: skip
    assert [one.pool for one in tree.children[0].children] == [True, True]


def test_a_tree_of_very_many_places_stays_short() -> None:
    tree = rolled_up([Tally(f"/boss/n{number:05}", False, "x", "active", 1, 0) for number in range(10_000)], [])
    [boss] = tree.children
    assert len(boss.children) == MAX_CHILDREN
    assert (boss.total, boss.children[-1].total) == (10_000, 10_000 - MAX_CHILDREN + 1)


async def test_an_empty_store_has_an_empty_tree(watching: Watching) -> None:
    assert outline(await watching.tree()) == ("root", 0, {}, [])
    assert (await watching.actors()) == ActorWindow([])
    assert (await watching.runs()).items == []


# --- runs -----------------------------------------------------------------------------------------------------------


async def test_runs_come_newest_first_by_window_both_ways(world: World, watching: Watching, node: Session) -> None:
    names = [f"r{number}" for number in (5, 1, 9, 3, 7, 2, 8)]
    for place, name in enumerate(names):
        await made(
            node, agent(name), summary=f'{{"status":"running","requested_by":"{"ann" if place % 2 else "bob"}"}}'
        )
        await world.pass_time(1.0)
    whole = names[::-1]
    for limit in (1, 3, 20):
        window = await watching.runs(limit=limit)
        found, places = [one.run_id for one in window.items], list(window.cursors)
        while not window.end:
            window = await watching.runs(after=window.cursors[-1], limit=limit)
            found += [one.run_id for one in window.items]
            places += window.cursors
        assert found == whole and len(set(places)) == len(whole)
        window = await watching.runs(last=True, limit=limit)
        back = [one.run_id for one in window.items]
        while not window.start:
            window = await watching.runs(before=window.cursors[0], limit=limit)
            back = [*(one.run_id for one in window.items), *back]
        assert back == whole
    found = [one.run_id for one in (await watching.runs(RunWish(requested_by="ann"), limit=2)).items]
    assert found == ["r2", "r3"]
    with pytest.raises(UsageError, match="place of a run"):
        await watching.runs(after="nowhere")


async def test_runs_begun_since_are_found_without_looking_at_the_others(
    world: World, watching: Watching, node: Session, store: Store
) -> None:
    for name in ("old", "older"):
        await made(node, agent(name), summary=f'{{"started_at":{await store.now()}}}')
    await world.pass_time(3600.0)
    since = await store.now()
    await made(node, agent("new"), summary=f'{{"started_at":{await store.now()}}}')
    window = await watching.runs(RunWish(since=since), limit=1)
    assert ([one.run_id for one in window.items], window.end, window.reached) == (["new"], True, "")


# --- a desk that works ----------------------------------------------------------------------------------------------


@tool(side_effect=True, requires_approval=True)
async def refund(order: str, amount_cents: int, idempotency_key: str) -> dict[str, Any]:
    """Refund an order."""
    return {"refunded": order}


async def model(messages: Sequence[ChatMessage], tools: object, system_prompt: str) -> LLMResponse:
    if any(message.role == "tool" for message in messages):
        return LLMResponse(content="all done")
    return LLMResponse(tool_calls=(ToolCall("c", "refund", {"order": "A-1", "amount_cents": 48_000}),))


@pytest.fixture
async def desk() -> AsyncIterator[Runtime]:
    async with Runtime(MemoryStore(), FunctionLLM(model), [refund]) as runtime:
        yield runtime


async def test_a_run_is_seen_from_its_request_to_its_end(desk: Runtime) -> None:
    watching = Watching(Operations(desk.store, "mara"))
    async with watching.changes() as ear:
        run = await desk.start("refund A-1")
        with anyio.fail_after(60):
            while not str(await ear.next(60, RealPort())).startswith("decision "):
                pass
    window = await watching.actors(kind="run")
    [one] = window.items
    assert (window.attention, one.word, one.doing, one.run_id) == (1, "NEEDS YOU", "refund 480.00", run.id)
    assert one.spent is not None and 0 < one.spent < 0.1 and one.decision and one.created_at
    assert [each.shown for each in (await watching.attention()).sums] == ["480.00"]
    await desk.approve(run.id, "ann")
    assert (await desk.resume(run.id)).status == "completed"
    [one] = (await watching.actors(kind="run")).items
    assert (one.word, one.doing, one.decision) == ("COMPLETED", "all done", "")


async def test_a_recorded_run_stands_before_all_others(desk: Runtime) -> None:
    await desk.start("refund A-1")
    operations = Operations(desk.store, "mara")
    store = MemoryStore()
    async with Runtime(store, FunctionLLM(model), [refund]) as other:
        await other.create("refund A-2")
    window = await Watching(Operations(store, "mara")).runs()
    assert [(one.status, place) for one, place in zip(window.items, window.cursors, strict=True)] == [("recorded", "")]
    assert (await operations.runs()).complete


async def test_looking_takes_the_right_to_look(store: Store) -> None:
    watching = Watching(Operations(store, Principal("nobody", scopes=frozenset({"operate"}))))
    with pytest.raises(NotAllowed, match="'read'"):
        watching.changes()
    for look in (watching.actors, watching.tree, watching.attention, watching.runs):
        with pytest.raises(NotAllowed, match="'read'"):
            await look()
    for look_at in (watching.glances, watching.trends):
        with pytest.raises(NotAllowed, match="'read'"):
            await look_at(["/a"])
