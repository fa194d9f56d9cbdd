"""Typed requests: what an agent is asked for as a struct, and as the goal that its run gets.

    class Refund(msgspec.Struct):
        order_id: str
        wish: Literal["refund", "exchange"]

A model that calls such an agent sees a tool with these parameters. What it sends is checked as any tool's arguments
are, and by the struct itself. The goal of the child run is the canonical text of what came out, with every field in it:
`{"order_id":"A-1","wish":"refund"}`. A goal is therefore a function of the recorded call alone.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from .arguments import Arguments, InvalidArguments, Parameter, from_plain, to_plain, validate
from .result import text_of
from .schema import HIDDEN_PARAMETERS, BadTool, parameter_of
from .tool import Tool

_FACTORIES: Final = (list, dict, set, frozenset, tuple)
"""Defaults that are the same each time they are made."""


@dataclass(frozen=True, eq=False)
class RequestTool(Tool):
    """An agent with a typed request, as models see it."""

    request: type[msgspec.Struct] = msgspec.Struct

    def validate(self, arguments: object) -> Arguments:
        """As of any tool; the struct has a word as well (`__post_init__`).

        Raises:
            InvalidArguments: with a sentence for the model.
        """
        checked = validate(self.inputs, arguments)
        settled = self._settled(checked)
        if self._settled(settled).canonical != settled.canonical:
            raise InvalidArguments(f"{self.name}: the request cannot be used: its type does not keep its own value")
        return settled

    def _settled(self, arguments: Arguments) -> Arguments:
        try:
            plain = to_plain(from_plain(arguments.plain, self.request))
        except Exception as error:
            raise InvalidArguments(f"{self.name}: {text_of(error)}") from error
        return validate(self.inputs, plain)


def fields_of(request: object, agent: str) -> tuple[Parameter, ...]:
    """The fields of a struct as the parameters that a model gives.

    Raises:
        BadTool: it is no struct, is written in another way than as an object of its fields, or has a field that cannot
            be read from JSON or that the runtime fills itself.
    """
    where = f"agent {agent!r}, request"
    if not (isinstance(request, type) and issubclass(request, msgspec.Struct)):
        raise BadTool(f"{where}: it must be a class made of msgspec.Struct, not {text_of(request):.200}")
    where = f"{where} {request.__name__}"
    written = request.__struct_config__
    if written.array_like or written.tag is not None:
        raise BadTool(f"{where}: models give an object with its fields, so it can have neither array_like nor a tag")
    try:
        fields = msgspec.structs.fields(request)
    except Exception as error:
        raise BadTool(
            f"{where}: its annotations cannot be resolved ({text_of(error)}); "
            "declare it, and what it names, in a module and not only for type checkers"
        ) from error
    if not fields:
        raise BadTool(f"{where}: it has no fields; an agent has to be told what to do")
    return tuple(_parameter(field, where) for field in fields)


def _parameter(field: msgspec.structs.FieldInfo, where: str) -> Parameter:
    where = f"{where}, field {field.name!r}"
    if {field.name, field.encode_name} & HIDDEN_PARAMETERS:
        raise BadTool(f"{where}: the runtime fills a parameter of that name, and models never see it; rename the field")
    if not field.required and field.default is msgspec.NODEFAULT and field.default_factory not in _FACTORIES:
        hint = parameter_of(field.encode_name, field.type, msgspec.NODEFAULT, where).hint
        return Parameter(field.encode_name, hint, required=False)  # the struct makes it, and it is recorded then
    default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
    return parameter_of(field.encode_name, field.type, default, where)


def goal_of(request: Mapping[str, Any]) -> str:
    """The goal that says a request: one line of JSON with sorted keys, in readable letters."""
    return json.dumps(request, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def values_in(goal: str) -> Sequence[str]:
    """The values of a goal that is a request, each as a text; none of a goal in words.

    In the JSON a value may be written otherwise than it is (`\\n`, `[1,250]`), and nobody would find it there.
    """
    if not goal.startswith("{"):
        return ()
    try:
        return tuple(_leaves(msgspec.json.decode(goal)))
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return ()


def _leaves(value: object) -> Sequence[str]:
    found: list[str] = []
    todo = [value]
    while todo:
        match todo.pop():
            case dict() as inner:
                todo += reversed([*inner.values()])
            case list() as items:
                todo += reversed(items)
            case str() as text:
                found.append(text)
            case int() | float() as number if not isinstance(number, bool):
                found.append(str(number))
    return found
