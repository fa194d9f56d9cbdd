"""Settings: flags, then CALLBOARD_* variables, then defaults. Nothing else in the service reads the environment.

A layer maps the names of settings to values and says how its user spelled them, so that an error can name the flag or
the variable that is wrong. The first layer that has a value wins; an empty variable counts as not set.

Who acts (`principal`) is in no layer: it is the operating system's answer, not what somebody claims.
"""

import os
import pwd
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_type_hints

import msgspec
from msgspec import Meta

from ..mailbox.errors import SettingError

LogLevel = Literal["debug", "info", "warning", "error"]
Color = Literal["auto", "always", "never"]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How this program runs. Times are in seconds."""

    dsn: str = ""
    """"": the embedded server of the working directory."""
    home: str = ""
    """Where embedded servers keep their data; "": the user's data directory."""
    nodes: Annotated[int, Meta(ge=1, le=64)] = 2
    lease_seconds: Annotated[float, Meta(gt=0.0, le=3600.0)] = 1.5
    beat_seconds: Annotated[float, Meta(gt=0.0, le=600.0)] = 0.25
    drain_seconds: Annotated[float, Meta(ge=0.0, le=3600.0)] = 10.0
    log_level: LogLevel = "info"
    log_json: bool = False
    color: Color = "auto"
    principal: str = "unknown"
    """Who acts, as the operating system has it."""


_EXPECTED: Mapping[str, str] = {
    "dsn": "a PostgreSQL DSN such as postgresql://user:password@host:5432/database",
    "home": "a directory",
    "nodes": "a whole number from 1 to 64",
    "lease_seconds": "seconds above 0, at most 3600",
    "beat_seconds": "seconds above 0 and below half of the lease",
    "drain_seconds": "seconds from 0 to 3600",
    "log_level": "debug, info, warning or error",
    "log_json": "true or false",
    "color": "auto, always or never",
}
"""Every setting that a user can give, with what it may be."""

_SECRET = {"dsn"}
_TRUTH = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


@dataclass(frozen=True)
class Layer:
    """Where values come from."""

    values: Mapping[str, object]
    """By the names of `Settings`."""
    spelled: Callable[[str], str]
    """How the user of this layer writes a setting's name."""


_DSN_BEGINS = ("postgresql://", "postgres://", "embedded:")


def read_settings(*, defaults: Mapping[str, object] | None = None, **flags: object) -> Settings:
    """The settings of this process; a flag that is None was not given. `defaults` are a command's own.

    Raises:
        SettingError: naming the setting, what it may be, and what was found.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    unknown = sorted(given.keys() - _EXPECTED.keys())
    if unknown:
        raise SettingError(f"setting {unknown[0]!r}: expected one of {', '.join(_EXPECTED)}")
    flag = Layer(given, lambda name: "--" + name.replace("_", "-"))
    layers = (flag, _environment(os.environ), Layer(defaults or {}, lambda name: f"the default of {name}"))
    return resolve(layers, principal=_principal())


def _environment(environ: Mapping[str, str]) -> Layer:
    spelled = {name: f"CALLBOARD_{name.upper()}" for name in _EXPECTED}
    values = {name: environ[key] for name, key in spelled.items() if environ.get(key)}
    if "dsn" not in values and environ.get("DATABASE_URL"):
        spelled["dsn"], values["dsn"] = "DATABASE_URL", environ["DATABASE_URL"]
    if "color" not in values and (environ.get("NO_COLOR") or environ.get("TERM") == "dumb"):
        values["color"] = "never"
    return Layer(values, spelled.__getitem__)


def resolve(layers: tuple[Layer, ...], *, principal: str) -> Settings:
    """The settings that `layers` give, the first layer first.

    Raises:
        SettingError: as `read_settings`.
    """
    hints = get_type_hints(Settings, include_extras=True)
    found: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for name in _EXPECTED:
        layer = next((layer for layer in layers if name in layer.values), None)
        if layer is not None:
            origins[name] = layer.spelled(name)
            found[name] = _converted(name, origins[name], layer.values[name], hints[name])
    settings = Settings(**found, principal=principal)
    if settings.beat_seconds >= settings.lease_seconds / 2:
        origin = origins.get("beat_seconds") or origins.get("lease_seconds", "beat_seconds")
        raise _wrong("beat_seconds", origin, f"{settings.beat_seconds:g} with a lease of {settings.lease_seconds:g}")
    return settings


def _converted(name: str, origin: str, value: object, hint: Any) -> Any:
    if hint is bool and isinstance(value, str):
        value = _TRUTH.get(value.strip().lower(), value)
    try:
        read = msgspec.convert(value, hint, strict=hint is bool)
    except msgspec.ValidationError:
        raise _wrong(name, origin, repr(value)) from None
    if name == "dsn" and "=" not in str(read) and not str(read).startswith(_DSN_BEGINS):
        raise _wrong(name, origin, repr(value))
    return read


def _wrong(name: str, origin: str, got: str) -> SettingError:
    shown = "something else (not shown, it may hold a password)" if name in _SECRET else got[:80]
    return SettingError(f"{origin}: expected {_EXPECTED[name]}, got {shown}")


def _principal() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"uid-{os.geteuid()}"


def child_environment(settings: Settings, dsn: str) -> dict[str, str]:
    """The environment of a node process: ours, with these settings and this database. A DSN never goes into argv."""
    told = {
        f"CALLBOARD_{name.upper()}": str(getattr(settings, name)).lower()
        if name == "log_json"
        else str(getattr(settings, name))
        for name in _EXPECTED
    }
    return {**os.environ, **told, "CALLBOARD_DSN": dsn}
