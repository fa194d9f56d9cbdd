"""One tool of an MCP server as a tool of ours.

What the server says of it (name, description, schema, hints) is untrusted: texts are made plain and bounded, the schema
is checked without running any of its patterns, and a hint never makes a tool more than a hint can:

    readOnlyHint        effect "read": no start on record, repeated after a crash
    idempotentHint      a side effect that may be repeated (`on_doubt="retry"`)
    destructiveHint     said outright: a person approves every call
    openWorldHint       said outright, and not read-only: effect "egress"
    (none)              effect "write", and in doubt it parks

Whoever uses the server knows better: `McpOptions`, by tool.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypedDict

import mcp.types as wire

from callboard.actors.agent import options as declared
from callboard.actors.agent.arguments import MAX_CANONICAL_CHARS, Arguments, InvalidArguments, Parameter
from callboard.actors.agent.digest import canonical
from callboard.actors.agent.faults import NotBegun
from callboard.actors.agent.foreign import InThread
from callboard.actors.agent.options import Doubt, Effect, Predicate, Retries
from callboard.actors.agent.result import normalise
from callboard.actors.agent.text import well_formed_values
from callboard.actors.agent.tool import Tool
from callboard.actors.agent.version import version_of

from .mcp_connection import Connection, ServerSaidError
from .mcp_result import error_of, result_of
from .mcp_schema import Check, bounded, plain_text

KEY_META: Final = "callboard/idempotency-key"
"""Under this name the key of a call goes along in the request's `_meta`, for servers that know what to do with it."""
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]+")


class McpOptions(TypedDict, total=False):
    """What the user of a server says of one of its tools; see `callboard.tool`."""

    name: str
    description: str
    effect: Effect
    side_effect: bool
    requires_approval: bool | str | Predicate
    timeout_seconds: float | None
    retry: int | Retries
    on_doubt: Doubt
    reconcile: Callable[..., Any]
    checks: Callable[..., Any] | Sequence[Callable[..., Any]]


@dataclass(frozen=True, eq=False)
class McpTool(Tool):
    """A tool that is called over MCP. Its arguments are JSON values, checked against the server's schema."""

    check: Check = field(repr=False, kw_only=True)
    connection: Connection = field(repr=False, kw_only=True)
    server_name: str = field(kw_only=True)
    """What the server calls it."""

    def validate(self, arguments: object) -> Arguments:
        if not isinstance(arguments, dict):
            raise InvalidArguments(f"the arguments must be an object, got {type(arguments).__name__}")
        try:
            plain: dict[str, Any] = well_formed_values(arguments)
            text = canonical(plain)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidArguments(f"the arguments cannot be written as JSON: {error}") from error
        if len(text) > MAX_CANONICAL_CHARS:
            raise InvalidArguments(f"the arguments take {len(text)} bytes; at most {MAX_CANONICAL_CHARS} are allowed")
        if problem := self.check.problem(plain):
            raise InvalidArguments(problem)
        return Arguments(values=well_formed_values(plain), plain=plain, canonical=text)

    def values(self, arguments: Arguments) -> dict[str, Any]:
        copied: dict[str, Any] = well_formed_values(arguments.plain)
        return copied

    async def call(self, arguments: Arguments, key: str, in_thread: InThread, approval: str = "") -> dict[str, Any]:
        link = await self.connection.link()
        offered = link.tools.get(self.server_name)
        if offered is None or fingerprint(offered) != self.version:
            raise ToolReplaced(f"the MCP server has changed its tool {self.server_name!r} since it was connected to")
        answer = await self.connection.call(self.server_name, arguments.plain, {KEY_META: key})
        if (problem := error_of(answer)) is not None:
            raise ServerSaidError(problem)
        return normalise(result_of(answer))


class ToolReplaced(NotBegun, ValueError):
    """The server offers something else under the name now; nothing was called."""


def fingerprint(offered: wire.Tool) -> str:
    """The version of a tool: it changes with all that a model is told about it, and with its hints."""
    hints = offered.annotations.model_dump_json() if offered.annotations else ""
    return version_of(offered.name, canonical(offered.inputSchema), offered.description or "", hints)


def made_of(
    offered: wire.Tool,
    *,
    connection: Connection,
    options: McpOptions,
    prefix: str,
    timeout_seconds: float | None,
    trust_hints: bool,
) -> McpTool:
    """Our tool for one of the server's.

    Raises:
        BadSchema: its schema is not used.
        BadTool: the options cannot work.
    """
    name = declared.checked_name(_uncalled, options.get("name") or _name(prefix + offered.name))
    parameters = bounded(offered.inputSchema)
    hints = (offered.annotations if trust_hints else None) or wire.ToolAnnotations()
    effect, _ = declared.checked_effect(name, *_effect(options, hints))
    approval = options.get("requires_approval", hints.destructiveHint is True and effect != "read")
    declared.require_rule(approval, name)
    properties = parameters.get("properties", {})
    required = set(parameters.get("required", ()))
    inputs = tuple(Parameter(each, Any, each in required) for each in properties)
    reconcile = options.get("reconcile")
    if reconcile is not None:
        declared.require_known_parameters(reconcile, "reconcile", inputs, name, key=True)
    repeatable = effect == "read" or hints.idempotentHint is True
    return McpTool(
        function=_uncalled,
        name=name,
        description=plain_text(options.get("description") or offered.description or offered.title or ""),
        parameters=parameters,
        inputs=inputs,
        takes_key=False,
        effect=effect,
        requires_approval=approval,
        timeout_seconds=declared.checked_seconds(name, options.get("timeout_seconds", timeout_seconds), None),
        retries=declared.checked_retries(name, None, options.get("retry")),
        on_doubt=declared.checked_doubt(name, options.get("on_doubt"), reconcile, repeatable=repeatable),
        reconcile=reconcile,
        returns_trust="untrusted",
        checks=declared.checked_checks(options.get("checks", ()), inputs, name),
        version=fingerprint(offered),
        source_module=__name__,
        check=Check(parameters),
        connection=connection,
        server_name=offered.name,
    )


def _effect(options: McpOptions, hints: wire.ToolAnnotations) -> tuple[Effect | None, bool | None]:
    """What the user says, else what the server hints, else a write."""
    if "effect" in options or "side_effect" in options:
        return options.get("effect"), options.get("side_effect")
    if hints.readOnlyHint is True and hints.destructiveHint is not True:  # of two that contradict, the worse one counts
        return "read", None
    return ("egress" if hints.openWorldHint is True else "write"), None


def _name(text: str) -> str:
    return _NOT_IN_NAMES.sub("_", text)[:64] or "_"


async def _uncalled(**arguments: Any) -> Any:
    """Stands where other tools have their function."""
    raise NotBegun("a tool of an MCP server is called by a runtime, with its key")
