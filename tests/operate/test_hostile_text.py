"""Text of models, tools and customers, through every command: none of it moves a cursor, hides or forges a line."""

import json
import unicodedata

import anyio
import pytest

from callboard.actors.agent.messages import Tell
from callboard.actors.client import Client
from callboard.persistence.postgres import PostgresStore
from callboard.service.cli.help_texts import pages
from callboard.service.operations.principal import Principal
from callboard.service.operations.runs import Operations
from tests.operate.hostile_app import EVIL, app
from tests.service.conftest import Cli, Said, query

APP = "tests.operate.hostile_app:app"
TEXTS = pages()
ELSEWHERE = {
    "completion": "prints a script of ours",
    "config": "shows settings",
    "config show": "shows settings",
    "daemon": "tests/operate/test_daemon_*",
    "demo": "its own texts and the small desk's",
    "doctor": "its own texts",
    "eval": "measures texts of its own",
    "eval agentdojo": "measures texts of its own",
    "eval budget": "measures texts of its own",
    "eval durability": "measures texts of its own",
    "eval guardrails": "measures texts of its own",
    "eval injections": "measures texts of its own",
    "eval peers": "measures texts of its own",
    "eval retail": "measures texts of its own",
    "eval threat-model": "measures texts of its own",
    "health": "says names of checks",
    "http": "tests/http",
    "init-db": "the schema",
    "node": "a daemon's own",
    "prune": "counts by kind, and a file of the caller's own naming",
    "tui": "tests/tui",
}
"""Commands that show nothing of anybody's, or are tested elsewhere."""


@pytest.fixture(scope="module")
def staged(shared: str) -> tuple[str, dict[str, int]]:
    """A database with hostile text in whatever takes text from outside; and some ids."""
    return shared, anyio.run(_stage, shared)


async def _stage(dsn: str) -> dict[str, int]:
    async with PostgresStore(dsn) as store:
        evil = Principal(EVIL, label=EVIL, channel="cli", host=EVIL)
        operations = Operations(store, evil)
        for run in ("seen", "failing", "held", "denied", "waiting"):
            goal = ("fail " if run == "failing" else "") + EVIL
            await operations.submit(app, goal, run_id=run, client_id=f"{run} {EVIL}")
        client = Client(store, number_seconds=60.0)
        scheduled = await client.envelope("/evil/run:nobody", Tell(EVIL))
        scheduled.delay_seconds = 5_000
        lost = await client.envelope("/evil/lost:1", Tell(EVIL))
        await store.send([scheduled, lost], [EVIL, ""])
        return {"scheduled": scheduled.id, "lost": lost.id}


def _documents(text: str) -> list[dict[str, str]]:
    """One document, or one a line."""
    try:
        return [json.loads(text)]
    except ValueError:
        return [json.loads(line) for line in text.splitlines()]


def is_plain(text: str) -> bool:
    """Only what stands for itself: no control, format, separator or surrogate character but line breaks and tabs."""
    return not any(unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for c in text if c not in "\n\t")


def test_no_command_obeys_or_forges_a_line_from_hostile_text(
    cli: Cli, staged: tuple[str, dict[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    dsn, ids = staged
    used: set[str] = set()
    wrong: list[tuple[object, ...]] = []
    known = set(TEXTS)

    def look(command: str, *arguments: str, codes: tuple[int, ...] = (0,)) -> Said:
        said = cli(*command.split(), *arguments, dsn=dsn)
        used.add(command)
        if said.code not in codes:
            wrong.append((command, arguments, said.code, said.err))
        if not is_plain(said.out + said.err):
            wrong.append((command, arguments, "not plain", said))
        if any(line.startswith("forged") for line in (said.out + said.err).splitlines()):
            wrong.append((command, arguments, "forged", said))
        return said

    def both(command: str, *arguments: str, codes: tuple[int, ...] = (0,)) -> None:
        look(command, *arguments, codes=codes)
        if "--jsonl" in TEXTS[command]["options"]:
            for line in look(command, *arguments, "--jsonl", codes=(*codes, 2)).out.splitlines():
                assert json.loads(line)["schema"].startswith("callboard.")
        said = look(command, *arguments, "--json", codes=codes)
        if said.out:
            assert all(one["schema"].startswith("callboard.") for one in _documents(said.out)), (command, said)
        else:
            assert json.loads(said.err)["schema"] == "callboard.problem/1"

    both("runs")
    both("show", "waiting")
    for run in ("seen", "failing", "held", "denied"):
        goal = ("fail " if run == "failing" else "") + EVIL
        assert look("run", APP, goal, "--id", run, "--stream", codes=(0, 1)).err
    while not query(dsn, "select 1 from callboard.dead_letter"):
        look("run", APP, EVIL, "--id", "seen", "--json")  # its node had left before it came to that message
    both("mailbox show", str(ids["scheduled"]), "--reveal")
    both("mailbox show", str(ids["lost"]), "--to", "/evil/lost:1")
    [(held,)] = query(dsn, "select message_id from callboard.decision where id = 'evil.run:held.5'")
    both("mailbox show", str(held))
    both("mailbox discard", str(held), "--yes", "--reason", EVIL, codes=(5,))
    both("mailbox list")
    both("mailbox peek", "/evil/run:held")
    both("mailbox", "/evil/run:nobody", codes=(0,))
    both("mailbox search", "forged")
    look("mailbox export", "/evil/run:nobody")
    both("mailbox quarantine", str(ids["scheduled"]), "--yes", "--reason", EVIL, codes=(0, 3, 5, 7))
    both("dead")
    both("dead list", "--all")
    both("dead show", "1")
    both("dead requeue", "1", "--yes", "--note", EVIL, codes=(0, 5))
    both("dead discard", "1", "--yes", "--note", EVIL, codes=(0, 5))
    both("approvals")
    both("approvals list", "--all")
    both("approvals show", "held")
    both("edit", "held", "--set", f"to={EVIL}", "--note", EVIL, codes=(0, 5, 7))
    both("deny", "denied", "--reason", EVIL, "--by", EVIL[:100], codes=(0, 5))
    both("approve", "seen", "--amount", "129.00", "--note", EVIL, codes=(0, 5))
    both("take-back", "seen", codes=(5,))
    both("approvals", "--decided")
    for command in ("pause", "resume"):
        both(command, "held", "--reason", EVIL, codes=(0, 5))
    for command in ("actors pause", "actors resume", "actors kill", "actors cancel"):
        both(command, "/evil/run:held", codes=(0, 2, 4, 5))
    look("run", APP, EVIL, "--id", "held", "--timeout", "1", codes=(0, 1, 5, 7))
    look("run", APP, EVIL, "--id", "seen", "--json")
    for command in ("show", "replay", "record", "verify", "audit"):
        for run in ("seen", "failing", "denied"):
            if command == "record":
                look(command, run, codes=(0, 5))
            else:
                both(command, run)
    look("replay", "seen", "--diff", "denied")
    both("tell", "waiting", EVIL, "--dry-run")
    both("tell", "waiting", EVIL)
    both("cancel", "waiting", "--reason", EVIL)
    both("fork", "seen", "--say", EVIL, "--note", EVIL)
    both("submit", APP, EVIL, "--client-id", EVIL)
    both("verify", "--all")
    both("audit")
    for command in ("actors", "actors list"):
        both(command)
    both("actors", "--stuck")
    both("actors show", "/evil/run:held")
    both("status", codes=(0, 1))
    both("token list")
    both("token", codes=(0, 2))
    look("token create", EVIL, codes=(0, 2))
    look("token revoke", EVIL, codes=(2, 3))
    assert not wrong, "\n\n".join(map(str, wrong))
    assert known - used <= set(ELSEWHERE), known - used - set(ELSEWHERE)


@pytest.mark.parametrize("command", sorted(set(TEXTS) - {"http", "daemon", "node", "demo", "eval"} - set(ELSEWHERE)))
def test_a_hostile_argument_is_not_obeyed_when_it_is_refused(
    command: str, cli: Cli, staged: tuple[str, dict[str, int]]
) -> None:
    said = cli(*command.split(), EVIL, dsn=staged[0])
    assert is_plain(said.out) and is_plain(said.err), said
    assert not any(line.startswith("forged") for line in (said.out + said.err).splitlines())
    assert "this is a bug" not in said.err and "Traceback" not in said.err, said.err
