"""Who takes part: each with its adapter, the packages it is measured with, and how it is set."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

HERE: Final = Path(__file__).resolve().parent

Work = Literal["step", "message", "floor"]


@dataclass(frozen=True)
class Contender:
    """One system with one way to be set."""

    name: str
    label: str
    """For people; with how it is set."""
    work: Work
    adapter: str
    requirements: tuple[str, ...] = ()
    """Of its own environment; none: it runs in ours."""
    options: tuple[str, ...] = ()
    needs: tuple[int, int] = (3, 11)
    """The oldest Python that it runs on."""
    fills: bool = False
    """Whether work has to be laid down before it is done; that is not counted."""

    @property
    def environment(self) -> str:
        """The name of its environment; two settings of one system share it."""
        return self.adapter.removeprefix("work_").removesuffix(".py")


_PSYCOPG: Final = "psycopg[binary]==3.3.*"
_DBOS: Final = ("dbos==3.4.*", _PSYCOPG)
_LANGGRAPH: Final = ("langgraph==1.2.*", "langgraph-checkpoint-postgres==3.2.*", "psycopg[binary,pool]==3.3.*")
_ABSURD: Final = ("absurd-sdk==0.5.1", "absurdctl==0.5.1", _PSYCOPG)

OURS: Final = "callboard"
STEPS: Final = (
    Contender(OURS, "Callboard", "step", "work_callboard.py", options=("steps",)),
    Contender("absurd", "Absurd, 8 workers", "step", "work_absurd.py", _ABSURD, fills=True),
    Contender("langgraph", "LangGraph, sync checkpoints", "step", "work_langgraph.py", _LANGGRAPH, ("sync",)),
    Contender("langgraph-async", "LangGraph, async checkpoints", "step", "work_langgraph.py", _LANGGRAPH, ("async",)),
    Contender(
        "durable-agents",
        "durable-agents",
        "step",
        "work_durable_agents.py",
        ("durable-agents==0.1.0", "asyncpg==0.32.*"),
        needs=(3, 12),
    ),
    Contender("dbos", "DBOS, async", "step", "work_dbos.py", _DBOS),
    Contender("dbos-pinned", "DBOS, async, on one core", "step", "work_dbos.py", _DBOS, ("pinned",)),
)
MESSAGES: Final = (
    Contender(OURS, "Callboard, mailboxes emptied", "message", "work_callboard.py", options=("drain",), fills=True),
    Contender(
        "callboard-ring",
        "Callboard, each handled message sends one",
        "message",
        "work_callboard.py",
        options=("ring",),
        fills=True,
    ),
    Contender(
        "pgqueuer",
        "pgqueuer, batches of 100, no state, no sends",
        "message",
        "work_pgqueuer.py",
        ("pgqueuer==1.6.*", "asyncpg==0.32.*"),
        fills=True,
    ),
)
FLOOR: Final = (
    Contender("single", "a transaction of 3 rows", "floor", "work_floor.py", options=("single",)),
    Contender("group", "200 messages in a transaction", "floor", "work_floor.py", options=("group",)),
)
ALL: Final = (*STEPS, *MESSAGES, *FLOOR)
PEERS: Final = tuple(dict.fromkeys(one.name for one in ALL if one.requirements))
"""What `--peers` may name."""
