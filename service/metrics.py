"""Metrics: what a node adds up, and what the daemon shows of it to Prometheus.

    NodeMetrics    in a node process: the runtime's `Measures`. `drain` gives what was added since the last time, as a
                   small flat JSON object, which goes to the daemon on the child's pipe once a second
    Exposition     in the daemon: adds that up over all its children, asks the database for what waits there, and
                   renders both. A child that dies takes at most the last second with it; the sums stay

Invariants: neither grows with the number of actors, messages or models (`metric_names`); nothing that a child or the
database says (or does not say) makes a scrape fail or wait for longer than `LOOK_SECONDS`.
"""

import asyncio
import logging
import math
import platform
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any

from ..actors.agent.budget import spent_ratio
from ..actors.agent.messages import (
    CallTool,
    ModelAnswered,
    SummaryWritten,
    ToolAnswered,
    ToolAsks,
    ToolDoubted,
    ToolErred,
)
from ..actors.agent.run import Run
from ..actors.cell import Cell
from ..actors.measuring import Measures
from ..actors.snapshot import decode_state
from ..mailbox.address import name_of
from ..mailbox.errors import CallboardError, StoreUnavailable
from ..mailbox.message import Message
from ..persistence.operating import Census
from ..persistence.port import Port, RealPort
from ..persistence.rows import ActorRow, TurnRow
from ..persistence.store import Store
from ..persistence.unit import Unit
from .metric_names import COUNTED, FAMILIES, LOOKED_UP, PREFIX, SHOWN, Family, Labels, key_of, read_key

if TYPE_CHECKING:
    from prometheus_client.core import Metric

log = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
"""How long a scrape waits for the database."""
LOOK_AGAIN_SECONDS = 5.0
"""What was counted in the database is shown for so long before it is counted again; and for `LOOK_SHARE` times as long
as counting took, so that it takes no more than that part of the server's time, however much there is to count."""
LOOK_SHARE = 20.0
HEARD_SECONDS = 10.0
"""A child that has said nothing for so long does not serve, as far as is known."""
SILENT_SECONDS = 10.0
"""A node of any daemon without a beat for so long."""
RECOVERIES_LIMIT = 16
"""Take-overs under way that are timed at once."""

_DECISIONS = {
    "approval.release": "approved",
    "approval.denied": "denied",
    "approval.edited": "edited",
    "approval.recalled": "taken_back",
}
"""What the approval actor tells runs, and what that makes of a decision."""
_RUN_ENDS = frozenset({"run.completed", "run.failed", "run.cancelled"})
_TOOL_OUTCOMES: Mapping[type[Any], str] = {
    ToolAnswered: "answered",
    ToolErred: "failed",
    ToolDoubted: "in_doubt",
    ToolAsks: "asks",
}
_EDGES = FAMILIES["handler_seconds"].buckets


class NodeMetrics(Measures):
    """Adds up for one node process. Everything is called from its event loop."""

    __slots__ = ("_counts", "_histograms", "_keys", "_labels", "_lag", "_monotonic", "_recovering", "_times")

    counts = True

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._counts: defaultdict[str, float] = defaultdict(float)
        self._histograms: dict[str, list[float]] = {}
        self._times: dict[str, list[float]] = {}
        """Of handlers, by the kind as it is called: the hottest of all, so its name is made when it is drained."""
        self._keys: dict[tuple[str, ...], str] = {}
        """Series by name and raw label values, those that were seen already: what a hot path looks up."""
        self._labels = {family.name: Labels(family) for family in COUNTED}
        self._recovering: list[tuple[float, set[int]]] = []
        self._lag: float | None = None

    def drain(self) -> dict[str, Any]:
        """What was added since the last time, by series: a number, or the counts of a histogram's buckets and its sum.

        At most some 30 KB, whatever runs.
        """
        for kind, times in self._times.items():
            sums = self._histogram("handler_seconds", kind)
            sums[:] = [before + more for before, more in zip(sums, times, strict=True)]
        drained: dict[str, Any] = {**self._counts, **self._histograms}
        self._counts, self._histograms, self._times = defaultdict(float), {}, {}
        if self._lag is not None:
            drained["listener_lag_seconds"] = self._lag
        return drained

    # --- what the runtime says ---------------------------------------------------------------------------------

    def began(self) -> float:
        return self._monotonic()

    def ran(self, kind: str, began: float) -> None:
        seconds = self._monotonic() - began
        times = self._times.get(kind) or self._first(kind)
        times[bisect_left(_EDGES, seconds)] += 1
        times[-1] += seconds

    def handled(self, cell: Cell) -> None:
        self.ran(cell.kind(), cell.used)

    def _first(self, kind: str) -> list[float]:
        self._times[kind] = times = [0] * (len(_EDGES) + 1) + [0.0]
        return times

    def committed(self, unit: Unit) -> None:
        counts = self._counts
        for turn in unit.turns:
            counts["messages_total " + turn.outcome] += 1
        if unit.moves:
            expired = sum(move.after == "expired" for move in unit.moves)
            self._count("approval_decisions_total", expired, "expired")
        actor = unit.actor
        if actor is None:
            return
        if actor.kind == "run":
            for event in unit.events:
                if event.type in _RUN_ENDS:
                    self._ended(actor, unit.turns)
        elif actor.kind == "approvals":
            for sent in unit.sends:
                if sent.type in _DECISIONS:
                    self._count("approval_decisions_total", 1, _DECISIONS[sent.type])
        elif actor.kind == "supervisor":
            for event in unit.events:
                if event.type == "sys.supervision.gave_up":
                    self._count("escalations_total", 1)

    def answered(self, message: Message, reply: Message | None) -> None:
        outcome = _TOOL_OUTCOMES.get(type(reply))
        if outcome is not None:
            if isinstance(message, CallTool):
                # A tool that does not exist is called what the model likes.
                invented = isinstance(reply, ToolErred) and reply.error == f"unknown tool: {message.tool}"
                self._count("tool_calls_total", 1, "unknown" if invented else message.tool, outcome)
        elif isinstance(reply, ModelAnswered):
            model = reply.model or "unnamed"
            self._count("model_calls_total", 1, model)
            self._spent(model, reply)
        elif isinstance(reply, SummaryWritten):
            self._spent("summaries", reply)

    def _spent(self, model: str, reply: ModelAnswered | SummaryWritten) -> None:
        self._count("model_tokens_total", reply.input_tokens, model, "input")
        self._count("model_tokens_total", reply.output_tokens, model, "output")
        if reply.cost_usd:
            self._count("model_cost_usd_total", float(reply.cost_usd), model)

    def retried(self, kind: str) -> None:
        self._count("retries_total", 1, kind)

    def restarted(self, kind: str) -> None:
        self._count("restarts_total", 1, kind)

    def took_over(self, shards: AbstractSet[int], noticed: float) -> None:
        self._recovering = [*self._recovering, (noticed, set(shards))][-RECOVERIES_LIMIT:]

    def swept(self, shards: AbstractSet[int]) -> None:
        if not self._recovering:
            return
        left: list[tuple[float, set[int]]] = []
        for noticed, waiting in self._recovering:
            if unread := waiting - shards:
                left.append((noticed, unread))
            else:
                self._observe("recovery_seconds", self._monotonic() - noticed)
        self._recovering = left

    def echoed(self, seconds: float) -> None:
        self._lag = seconds

    # --- adding up ---------------------------------------------------------------------------------------------

    def _count(self, name: str, amount: float, *labels: str) -> None:
        if amount:
            self._counts[self._key(name, *labels)] += amount

    def _observe(self, name: str, value: float, *labels: str) -> None:
        found = self._histogram(name, *labels)
        found[bisect_left(FAMILIES[name].buckets, value)] += 1
        found[-1] += value

    def _histogram(self, name: str, *labels: str) -> list[float]:
        key = self._key(name, *labels)
        found = self._histograms.get(key)
        if found is None:
            found = self._histograms[key] = [0] * (len(FAMILIES[name].buckets) + 1) + [0.0]
        return found

    def _key(self, name: str, *labels: str) -> str:
        key = self._keys.get((name, *labels))
        if key is None:
            told = self._labels[name].of(*labels)
            key = key_of(name, told)
            if len(self._keys) < 2_000:  # what comes after that is "other" in nearly every label
                self._keys[name, *labels] = key
        return key

    def _ended(self, row: ActorRow, turns: Sequence[TurnRow]) -> None:
        try:
            run = decode_state(Run, row.state_version, row.state).run
        except CallboardError as error:
            log.debug("%s: what it spent is not counted: %s", row.address, error)
            return
        at = max((turn.at for turn in turns), default=run.started_at)
        self._observe("budget_spent_ratio", spent_ratio(run.budget, run, at))


class Exposition:
    """What a daemon shows to whoever scrapes it."""

    def __init__(self, store: Store | None = None, port: Port | None = None, *, version: str = "") -> None:
        self.store = store
        """Where to look; None: nowhere, and the database counts as away. May be set at any time."""
        self.port: Port = port or RealPort()
        self.version = version
        self.answers: Callable[[], bool] | None = None
        """Whether the database answers now, where somebody asks it more often than it is counted in; None: as it did
        when it was last counted."""
        self._numbers: dict[str, dict[tuple[str, ...], float]] = {}
        self._histograms: dict[str, dict[tuple[str, ...], list[float]]] = {}
        self._labels = {family.name: Labels(family) for family in COUNTED}
        self._heard: dict[int, float] = {}
        self._serves: dict[int, bool] = {}
        self._lags: dict[int, float] = {}
        self._restarts = 0
        self._census: Census | None = None
        self._database_up = False
        self._look_at = -math.inf
        self._looking: asyncio.Task[None] | None = None
        self._registry: Any = None

    # --- what children say -------------------------------------------------------------------------------------

    def add(self, place: int, metrics: object) -> None:
        """What the child at a place has drained. What makes no sense is passed over."""
        self._heard[place] = self.port.monotonic()
        if not isinstance(metrics, Mapping):
            return
        for key, value in metrics.items():
            if key == "listener_lag_seconds" and _is_amount(value):
                self._lags[place] = float(value)
            elif isinstance(key, str) and (found := read_key(key)) is not None:
                family, labels = found
                self._add(family, self._labels[family.name].of(*labels), value)

    def _add(self, family: Family, labels: tuple[str, ...], value: object) -> None:
        if family.type == "histogram":
            size = len(family.buckets) + 2
            if isinstance(value, list) and len(value) == size and all(_is_amount(one) for one in value):
                sums = self._histograms.setdefault(family.name, {}).setdefault(labels, [0.0] * size)
                sums[:] = [before + one for before, one in zip(sums, value, strict=True)]
        elif _is_amount(value):
            numbers = self._numbers.setdefault(family.name, {})
            numbers[labels] = numbers.get(labels, 0.0) + float(value)  # type: ignore[arg-type]

    def serves(self, place: int, *, ready: bool) -> None:
        """Whether the child at a place says that it serves."""
        self._serves[place] = ready

    def ended(self, place: int) -> None:
        """The child at a place has ended, and another one is started."""
        self._restarts += 1
        self._heard.pop(place, None)
        self._serves.pop(place, None)
        self._lags.pop(place, None)

    # --- showing -----------------------------------------------------------------------------------------------

    async def text(self) -> bytes:
        """All of it, as Prometheus reads it. Never raises for what is wrong elsewhere, and waits `LOOK_SECONDS`."""
        from prometheus_client import CollectorRegistry, generate_latest

        await self._look()
        if self._registry is None:
            self._registry = CollectorRegistry(auto_describe=False)
            self._registry.register(self)
        return generate_latest(self._registry)

    async def _look(self) -> None:
        """Count in the database, unless that was just done. One count at a time, however many scrape.

        A task that is left alone when it takes too long: what is under way in a connection cannot be interrupted.
        """
        if self.store is None:
            self._census, self._database_up, self._look_at = None, False, -math.inf
            return
        looking = self._looking
        if looking is None:
            if self.port.monotonic() < self._look_at:
                return
            looking = self._looking = asyncio.create_task(self._take_census(self.store), name="census")
        await asyncio.wait({looking}, timeout=LOOK_SECONDS)
        if not looking.done():
            self._census, self._database_up = None, False

    async def _take_census(self, store: Store) -> None:
        began = self.port.monotonic()
        found: Census | None = None
        up = False
        try:
            try:
                found = await store.census()
            except StoreUnavailable as error:
                log.warning("metrics: what waits in the database cannot be counted: %s", error)
                await store.now()  # it answers: there is too much to count
            up = True
        except CallboardError as error:
            log.warning("metrics: the database does not answer: %s", error)
        except Exception:  # a bug, and no reason to answer nothing at all
            log.exception("metrics: counting in the database failed")
        finally:
            now = self.port.monotonic()
            self._census, self._database_up, self._looking = found, up, None
            # The server gives it up after that time; what took longer was waiting for a server that was away.
            counting = min(now - began, LOOK_SECONDS) if up else 0.0
            self._look_at = now + max(LOOK_AGAIN_SECONDS, LOOK_SHARE * counting)

    def collect(self) -> "Iterator[Metric]":
        """For the registry: every metric with what is known of it now."""
        waits = _looked_up(self._census) if self._census is not None and self._is_up() else {}
        shown = {**self._numbers, **self._own(), **waits}
        for family in (*COUNTED, *SHOWN, *LOOKED_UP):
            series = shown.get(family.name)
            if family.type == "histogram":
                yield _histogram(family, self._histograms.get(family.name, {}))
            elif series is not None or family in COUNTED:
                if not family.labels:
                    series = series or {(): 0.0}
                yield _plain(family, series or {})

    def _is_up(self) -> bool:
        return self._database_up if self.answers is None else self.answers()

    def _own(self) -> dict[str, dict[tuple[str, ...], float]]:
        soon = self.port.monotonic() - HEARD_SECONDS
        heard = {place for place, at in self._heard.items() if at >= soon}
        serving = sum(self._serves.get(place, True) for place in heard)
        lags = [lag for place, lag in self._lags.items() if place in heard]
        schema = str(self._census.schema_version) if self._census is not None else "unknown"
        own: dict[str, dict[tuple[str, ...], float]] = {
            "up": {(): float(serving > 0)},
            "database_up": {(): float(self._is_up())},
            "build_info": {(self.version or _version(), platform.python_version(), schema): 1.0},
            "node_processes": {(): float(len(heard))},
            "node_process_restarts_total": {(): float(self._restarts)},
        }
        return own | ({"listener_lag_seconds": {(): max(lags)}} if lags else {})


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("callboard")
    except PackageNotFoundError:
        return "unknown"


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


def _looked_up(census: Census) -> dict[str, dict[tuple[str, ...], float]]:
    """The gauges that a census gives."""
    labels = {name: Labels(FAMILIES[name]) for name in ("mailbox_depth", "mailbox_messages", "actors")}
    shown: dict[str, dict[tuple[str, ...], float]] = {"mailbox_depth": {}, "mailbox_messages": {}, "actors": {}}

    def add(name: str, amount: float, *values: str) -> None:
        told = labels[name].of(*values)
        shown[name][told] = shown[name].get(told, 0.0) + amount

    # The greatest first: those are told apart where there are more than can be.
    for kind, depth in sorted(census.depths.items(), key=lambda item: (-item[1], item[0])):
        add("mailbox_depth", depth, name_of(kind) if kind.startswith("/") else kind)
    for state in ("ready", "scheduled", "retrying", "held", "stashed"):
        add("mailbox_messages", census.messages.get(state, 0), state)
    for kind, statuses in sorted(census.actors.items(), key=lambda item: (-sum(item[1].values()), item[0])):
        for status, count in statuses.items():
            add("actors", count, kind, status)
    nodes = dict.fromkeys(("up", "draining", "silent", "gone"), 0.0)
    for member in census.members:
        serves = member.status in ("up", "draining")
        silent = serves and member.beat_age_seconds > SILENT_SECONDS
        nodes["silent" if silent else member.status if serves else "gone"] += 1
    pending = census.decisions.get("pending", 0)
    return shown | {
        "nodes": {(status,): count for status, count in nodes.items()},
        "mailbox_oldest_seconds": {(): _age(census, census.oldest_ready_at)},
        "dead_letters": {(): float(census.dead)},
        "approvals_pending": {(): float(pending)},
        "approval_wait_seconds": {(): _age(census, census.oldest_pending_at) if pending else 0.0},
        "shards_without_owner": {(): float(census.shards_unowned)},
    }


def _age(census: Census, at: float) -> float:
    return max(0.0, census.at - at) if at else 0.0


def _plain(family: Family, series: Mapping[tuple[str, ...], float]) -> "Metric":
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    make = CounterMetricFamily if family.type == "counter" else GaugeMetricFamily
    metric = make(PREFIX + family.name, family.help, labels=family.labels)
    for labels, value in series.items():
        metric.add_metric(labels, value)
    return metric


def _histogram(family: Family, series: Mapping[tuple[str, ...], list[float]]) -> "Metric":
    from prometheus_client.core import HistogramMetricFamily

    metric = HistogramMetricFamily(PREFIX + family.name, family.help, labels=family.labels)
    edges = [*(str(edge) for edge in family.buckets), "+Inf"]
    for labels, (*counts, total) in series.items():
        below, buckets = 0.0, []
        for edge, count in zip(edges, counts, strict=True):
            below += count
            buckets.append((edge, below))
        metric.add_metric(labels, buckets, total)
    return metric
