"""Where values of settings come from: flags, the environment, `callboard.toml`; and how each of these spells a name.

    flags         --drain-seconds
    environment   CALLBOARD_DRAIN_SECONDS; for the database also CALLBOARD_DSN_FILE, the file `dsn` of systemd's
                  CREDENTIALS_DIRECTORY, and DATABASE_URL, in this order
    file          drain_seconds in [daemon] of callboard.toml, or of the file that CALLBOARD_CONFIG names

A source maps names of settings to what was written there. A name that it does not know is an error, with the name that
was probably meant: a setting that is misspelled must not silently be the default. `settings` says what they may be.
"""

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..mailbox.errors import SettingError

PREFIX = "CALLBOARD_"
FILE = "callboard.toml"

FILE_KEYS: Mapping[str, str] = {
    "dsn": "database.dsn",
    "dsn_file": "database.dsn_file",
    "home": "database.home",
    "nodes": "daemon.nodes",
    "name": "daemon.name",
    "lease_seconds": "daemon.lease_seconds",
    "beat_seconds": "daemon.beat_seconds",
    "drain_seconds": "daemon.drain_seconds",
    "retain_days": "daemon.retain_days",
    "health": "daemon.health",
    "health_anywhere": "daemon.health_anywhere",
    "exit_on_escalation": "daemon.exit_on_escalation",
    "log_level": "log.level",
    "log_json": "log.json",
    "color": "terminal.color",
    "allow_chaos": "terminal.allow_chaos",
    "environment": "terminal.environment",
    "theme": "terminal.theme",
    "bell": "terminal.bell",
    "terminal_log": "terminal.log",
}
"""Every setting that a user can give, with its table and key in the file."""

SETTING_TABLES = ("database", "daemon", "log", "terminal")
RULE_TABLES = ("budget", "guardrails", "policy", "model", "classifier")
"""Tables that `configuration` reads: what runs may do, as opposed to how this program runs."""

OTHER_VARIABLES = ("CONFIG", "CACHE")
"""What else begins with the prefix: the file's path, and where the embedded server's programs may be kept."""

DSN_FILE_BYTES = 4096


@dataclass(frozen=True)
class Layer:
    """Where values come from."""

    values: Mapping[str, object]
    """By the names of `Settings`."""
    spelled: Callable[[str], str]
    """How the user of this layer writes a setting's name."""


def flags(given: Mapping[str, object]) -> Layer:
    """What the command line says; a flag that is None was not given.

    Raises:
        SettingError: there is no such setting.
    """
    values = {name: value for name, value in given.items() if value is not None}
    for name in sorted(values.keys() - FILE_KEYS.keys()):
        raise SettingError(f"setting {name!r}: there is none of that name{meant(name, FILE_KEYS)}")
    return Layer(values, lambda name: "--" + name.replace("_", "-"))


def environment(environ: Mapping[str, str], *, has_dsn: bool = False) -> Layer:
    """What the environment says; an empty variable counts as not set. `has_dsn`: no file with one need be read.

    Raises:
        SettingError: a variable with our prefix that means nothing, or a file of it that cannot be read.
    """
    spelled = {name: PREFIX + name.upper() for name in FILE_KEYS}
    known = {*spelled.values(), *(PREFIX + name for name in OTHER_VARIABLES)}
    for variable in sorted(environ):
        if variable.startswith(PREFIX) and variable not in known:
            likely = meant(variable.removeprefix(PREFIX), (name.removeprefix(PREFIX) for name in known), PREFIX)
            raise SettingError(f"{variable}: there is no such setting{likely}")
    values: dict[str, object] = {name: environ[key] for name, key in spelled.items() if environ.get(key)}
    if not has_dsn and "dsn" not in values and (found := _dsn_of(environ, spelled["dsn_file"])):
        values["dsn"], spelled["dsn"] = found
    if "color" not in values and environ.get("NO_COLOR"):
        values["color"], spelled["color"] = "never", "NO_COLOR"
    elif "color" not in values and environ.get("TERM") == "dumb":
        values["color"], spelled["color"] = "never", "TERM"
    return Layer(values, spelled.__getitem__)


def _dsn_of(environ: Mapping[str, str], file_variable: str) -> tuple[str, str] | None:
    """The DSN that the environment leads to, and by which variable."""
    if path := environ.get(file_variable):
        return read_dsn(Path(path), file_variable), file_variable
    if folder := environ.get("CREDENTIALS_DIRECTORY"):
        path_there = Path(folder, "dsn")
        if path_there.exists():
            return read_dsn(path_there, "CREDENTIALS_DIRECTORY"), "CREDENTIALS_DIRECTORY"
    if url := environ.get("DATABASE_URL"):
        return url, "DATABASE_URL"
    return None


def read_dsn(path: Path, origin: str) -> str:
    """The DSN in a file: its text, without the white space around it.

    Raises:
        SettingError: it cannot be read, or is empty or too long to be one.
    """
    if looks_like_dsn(str(path)):
        raise SettingError(f"{origin}: expected the path of a file, got a DSN itself (not shown)")
    try:
        with path.open("rb") as file:
            text = file.read(DSN_FILE_BYTES + 1).decode("utf-8-sig")
    except (OSError, ValueError) as error:
        raise SettingError(f"{origin}: {path} cannot be read: {error}") from None
    if not text.strip() or len(text) > DSN_FILE_BYTES:
        raise SettingError(f"{origin}: {path} should hold a DSN, and is {'too long' if text.strip() else 'empty'}")
    return text.strip()


def looks_like_dsn(path: str) -> bool:
    """Whether it is no path: whoever takes the one setting for the other must not find a password in a log."""
    return ":/" in path or "password=" in path


def configuration_path(environ: Mapping[str, str]) -> Path | None:
    """The file that was named; None for `callboard.toml` of the working directory, which need not be there."""
    named = environ.get(PREFIX + "CONFIG")
    return Path(named) if named else None


def file(path: Path | None, *, has_dsn: bool = False) -> Layer:
    """What the tables of settings in a file say; None for `callboard.toml`, which need not be there. `has_dsn`: as in
    `environment`.

    Raises:
        SettingError: naming file and key.
    """
    document, where = read_toml(path)
    values: dict[str, object] = {}
    names = {key: name for name, key in FILE_KEYS.items()}
    for table in SETTING_TABLES:
        content = document.get(table, {})
        if not isinstance(content, dict):
            # Not shown: `database = "postgresql://…"` holds a password.
            raise SettingError(f"{where}: {table}: expected a table, got a {type(content).__name__}")
        for key, value in content.items():
            name = names.get(f"{table}.{key}")
            if name is None:
                raise SettingError(f"{where}: {table}.{key}: there is no such setting{meant(f'{table}.{key}', names)}")
            values[name] = value
    spelled = {name: f"{where}: {key}" for name, key in FILE_KEYS.items()}
    if not has_dsn and "dsn" not in values and "dsn_file" in values:
        values["dsn"] = read_dsn(Path(str(values["dsn_file"])), spelled["dsn_file"])
        spelled["dsn"] = spelled["dsn_file"]
    return Layer(values, spelled.__getitem__)


def read_toml(path: Path | None) -> tuple[dict[str, Any], str]:
    """The file's tables, of which all are known, and how to call it in messages.

    Raises:
        SettingError: it was named and is not there, cannot be read, is not TOML, or has a table that is unknown.
    """
    where = path or Path(FILE)
    try:
        document = _toml(where.read_bytes().decode("utf-8-sig"), where)
    except FileNotFoundError:
        if path is None:
            return {}, str(where)
        raise SettingError(f"{where}: there is no such file") from None
    except (OSError, ValueError) as error:
        raise SettingError(f"{where}: cannot be read: {error}") from None
    tables = (*SETTING_TABLES, *RULE_TABLES)
    for table in document:
        if table not in tables:
            likely = meant(table, tables)
            raise SettingError(f"{where}: {table}: there is no such table{likely}; there are {', '.join(tables)}")
    return document, str(where)


def _toml(text: str, where: Path) -> dict[str, Any]:
    import tomllib  # most start where there is no such file

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingError(f"{where}: is not TOML: {error}") from None


def meant(given: str, known: Iterable[str], prefix: str = "") -> str:
    """The end of a sentence about a name that is unknown: which one was probably meant (said with `prefix`)."""
    found = difflib.get_close_matches(given, sorted(known), n=1)
    return f"; did you mean {prefix}{found[0]}?" if found else ""
