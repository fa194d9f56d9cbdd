"""Settings: flags, then CALLBOARD_* variables, then `callboard.toml`, then defaults; each with where it came from.

Nothing else in the service reads the environment. The first source that has a value wins (`setting_sources` says how
each spells the names); what it says is checked here, so that an error can name the flag, the variable or the key.

Who acts (`principal`) comes from no source: it is the operating system's answer, not what somebody claims.
"""

import os
import pwd
from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_type_hints

import msgspec
from msgspec import Meta

from ..mailbox.errors import SettingError
from .notify import VARIABLES
from .setting_sources import FILE_KEYS, PREFIX, Layer, configuration_path, environment, file, flags, looks_like_dsn

LogLevel = Literal["debug", "info", "warning", "error"]
Color = Literal["auto", "always", "never"]
Theme = Literal["auto", "dark", "light", "mono", "ansi"]
DEFAULT = "default"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How this program runs. Times are in seconds."""

    dsn: str = ""
    """"": the embedded server of the working directory."""
    dsn_file: str = ""
    """Where the DSN was read from, if from a file that was named."""
    home: str = ""
    """Where embedded servers keep their data; "": the user's data directory."""
    nodes: Annotated[int, Meta(ge=1, le=64)] = 2
    name: Annotated[str, Meta(max_length=63)] = ""
    """Of this daemon: no two of one name run on one database. "": any number of daemons may run."""
    lease_seconds: Annotated[float, Meta(gt=0.0, le=3600.0)] = 1.5
    beat_seconds: Annotated[float, Meta(gt=0.0, le=600.0)] = 0.25
    drain_seconds: Annotated[float, Meta(ge=0.0, le=3600.0)] = 10.0
    retain_days: Annotated[float, Meta(ge=0.0, le=36_500.0)] = 0.0
    """What ended so many days ago is removed, a little now and then; 0: nothing is."""
    health: str = ""
    """HOST:PORT of the daemon's health server; port 0 is any that is free. "": there is none."""
    health_anywhere: bool = False
    """Let the health server listen on an address that is not of this machine alone."""
    exit_on_escalation: bool = False
    """End the daemon, with 4, when the application's root supervisor has given up."""
    log_level: LogLevel = "info"
    log_json: bool = False
    color: Color = "auto"
    allow_chaos: bool = False
    """Let the terminal UI kill actors. Where it is said to be false, no command does either."""
    environment: Annotated[str, Meta(max_length=40)] = ""
    """What the terminal UI calls the place that this database is for, such as prod-eu. "": the database's name."""
    theme: Theme = "auto"
    """Of the terminal UI."""
    bell: bool = True
    """Let the terminal UI ring, and count in the terminal's title, when something new waits for somebody."""
    terminal_log: str = ""
    """The file that the terminal UI logs to; "": it logs nowhere, as a line on its screen would tear it."""
    principal: str = "unknown"
    """Who acts, as the operating system has it."""
    origins: dict[str, str] = {}
    """Where each setting came from, as its user wrote it: `--nodes`, `CALLBOARD_NODES`, `callboard.toml: daemon.nodes`;
    those that are missing here have their defaults."""

    def origin(self, name: str) -> str:
        """Where a setting came from."""
        return self.origins.get(name, DEFAULT)

    def chaos(self, *, unless_said: bool) -> bool:
        """Whether this terminal may kill actors; `unless_said`: where the setting was not given."""
        return unless_said if self.origin("allow_chaos") == DEFAULT else self.allow_chaos


_EXPECTED: Mapping[str, str] = {
    "dsn": "a PostgreSQL DSN such as postgresql://user:password@host:5432/database",
    "dsn_file": "the path of a file that holds a DSN",
    "home": "a directory",
    "nodes": "a whole number from 1 to 64",
    "name": "a name of at most 63 characters",
    "lease_seconds": "seconds above 0, at most 3600",
    "beat_seconds": "seconds above 0 and below half of the lease",
    "drain_seconds": "seconds from 0 to 3600",
    "retain_days": "0 (nothing is removed) or days from 0.05 to 36500",
    "health": "HOST:PORT such as 127.0.0.1:9464",
    "health_anywhere": "true or false",
    "exit_on_escalation": "true or false",
    "log_level": "debug, info, warning or error",
    "log_json": "true or false",
    "color": "auto, always or never",
    "allow_chaos": "true or false",
    "environment": "a name of at most 40 characters, such as prod-eu",
    "theme": "auto, dark, light, mono or ansi",
    "bell": "true or false",
    "terminal_log": "the path of a file",
}
"""Every setting that a user can give, with what it may be."""

SECRET = {"dsn"}
LEAST_RETAIN_DAYS = 0.05
"""Well above the time for which a node remembers an actor that it has not heard of."""
_TRUTH = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
_PLAIN = {"name", "health", "environment"}
"""Texts that are shown to others, or sent to them: nothing in them may be invisible."""
_DSN_BEGINS = ("postgresql://", "postgres://", "embedded:")


def read_settings(*, defaults: Mapping[str, object] | None = None, **given: object) -> Settings:
    """The settings of this process, from what its flags say; one that is None was not given. `defaults` are a command's
    own.

    Raises:
        SettingError: naming the setting, what it may be, and what was found.
    """
    said = flags(given)
    around = environment(os.environ, has_dsn="dsn" in said.values)
    written = file(configuration_path(os.environ), has_dsn="dsn" in {*said.values, *around.values})
    layers = (said, around, written, Layer(defaults or {}, lambda name: f"the default of {name}"))
    return resolve(layers, principal=_principal())


def resolve(layers: tuple[Layer, ...], *, principal: str) -> Settings:
    """The settings that `layers` give, the first layer first.

    Raises:
        SettingError: as `read_settings`.
    """
    hints = get_type_hints(Settings, include_extras=True)
    found: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for name in FILE_KEYS:
        layer = next((layer for layer in layers if name in layer.values), None)
        if layer is not None:
            origins[name] = layer.spelled(name)
            found[name] = _converted(name, origins[name], layer.values[name], hints[name])
    settings = Settings(**found, principal=principal, origins=origins)
    if settings.beat_seconds >= settings.lease_seconds / 2:
        origin = origins.get("beat_seconds") or origins.get("lease_seconds", "beat_seconds")
        raise _wrong("beat_seconds", origin, f"{settings.beat_seconds:g} with a lease of {settings.lease_seconds:g}")
    return settings


def _converted(name: str, origin: str, value: object, hint: Any) -> Any:
    if hint is bool and isinstance(value, str):
        value = _TRUTH.get(value.strip().lower(), value)
    try:
        # What is written in a file has its type already; flags and variables are texts.
        read = msgspec.convert(value, hint, strict=hint is bool or not isinstance(value, str))
    except msgspec.ValidationError:
        raise _wrong(name, origin, repr(value)) from None
    if isinstance(read, str) and ("\0" in read or (name in _PLAIN and not read.isprintable())):
        raise _wrong(name, origin, repr(value))
    if name == "dsn_file" and looks_like_dsn(str(read)):
        raise _wrong(name, origin, "a DSN itself (not shown)")
    if name == "dsn":
        _check_dsn(str(read), origin)
    if name == "health" and read:
        listen_address(str(read), origin)
    if name == "retain_days" and isinstance(read, float) and 0 < read < LEAST_RETAIN_DAYS:
        raise _wrong(name, origin, repr(value))
    return read


def _check_dsn(dsn: str, origin: str) -> None:
    if "=" not in dsn and not dsn.startswith(_DSN_BEGINS):
        raise _wrong("dsn", origin, "")
    authority = dsn.partition("://")[2].partition("?")[0]
    if dsn.startswith(_DSN_BEGINS) and authority.count("@") > 1:
        # The first one ends the password for libpq, and the rest of it would be shown as a host.
        raise SettingError(f"{origin}: there is more than one @ in this DSN; one in a password is written %40")


def listen_address(text: str, origin: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`; an IPv6 address stands in brackets.

    Raises:
        SettingError: it is none.
    """
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    bare = ":" in host and not text.startswith("[")
    if not (colon and host and not bare and port.isascii() and port.isdecimal() and int(port) <= 65_535):
        raise _wrong("health", origin, repr(text))
    return host, int(port)


def _wrong(name: str, origin: str, got: str) -> SettingError:
    shown = "something else (not shown, it may hold a password)" if name in SECRET else got[:80]
    return SettingError(f"{origin}: expected {_EXPECTED[name]}, got {shown}")


def _principal() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"uid-{os.geteuid()}"


def child_environment(settings: Settings, dsn: str) -> dict[str, str]:
    """The environment of a node process: ours, with these settings and this database. A DSN never goes into argv."""
    told = {PREFIX + name.upper(): _text(getattr(settings, name)) for name in FILE_KEYS if name != "dsn_file"}
    kept = {key: value for key, value in os.environ.items() if key not in (f"{PREFIX}DSN_FILE", *VARIABLES)}
    return {**kept, **told, f"{PREFIX}DSN": dsn}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
