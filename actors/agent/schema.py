"""From a function's signature to what a tool takes, and to the JSON schema that models see.

Everything that cannot work is refused here, when the tool is declared, with the names of tool and parameter: a tool
that fails only when a model first calls it fails in production. Annotations may be strings (`from __future__ import
annotations`) that name types of the module, of a closure, or of the functions and classes around the tool.
"""

import functools
import inspect
import json
import math
import sys
import typing
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any, Final, NamedTuple, Optional

import msgspec

from callboard.mailbox.errors import UsageError

from .arguments import Parameter, from_plain, to_plain
from .hints import settle, understood
from .result import text_of

KEY_PARAMETER: Final = "idempotency_key"
"""The parameter that the runtime fills; models never see it."""
APPROVAL_PARAMETER: Final = "approval"
"""The same with the decision that released the call; "" or None where nobody was asked."""
HIDDEN_PARAMETERS: Final = frozenset({KEY_PARAMETER, APPROVAL_PARAMETER})


class BadTool(UsageError, ValueError):
    """A tool declared in a way that cannot work; the message names the tool, the parameter and the way out."""


class Signature(NamedTuple):
    """What a tool's function takes."""

    inputs: tuple[Parameter, ...]
    """From a model."""
    takes_key: bool
    takes_approval: bool
    unasked: str | None
    """The approval where nobody was asked: None where its annotation allows that, else ""."""


def parameters_of(function: Callable[..., Any], tool: str) -> Signature:
    """The arguments that `function` takes from a model, and which it takes from the runtime.

    Raises:
        BadTool: for parameters that cannot be passed by name or have no usable annotation.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError, NameError) as error:
        raise BadTool(f"tool {tool!r}: it has no readable signature ({error})") from error
    names = _visible_names(function)
    found = []
    fixed = _fixed(function)
    hidden = {name: signature.parameters[name] for name in HIDDEN_PARAMETERS & signature.parameters.keys() - fixed}
    for parameter in signature.parameters.values():
        if parameter.name in fixed:
            continue
        where = f"tool {tool!r}, parameter {parameter.name!r}"
        _require_passed_by_name(parameter, where)
        if parameter.name in hidden:
            _require_text(parameter, names, where)
        elif parameter.annotation is inspect.Parameter.empty:
            raise BadTool(f"{where}: it has no annotation; models are told its type, so give it one")
        else:
            hint = _resolved(parameter.annotation, names, where)
            settle(hint, lambda annotation: _resolved(annotation, names, where), names)  # noqa: B023 - called here
            found.append(_parameter(parameter, hint, where))
    asked = hidden.get(APPROVAL_PARAMETER)
    unasked = None if asked is not None and _takes(None, asked, names) else ""
    return Signature(tuple(found), KEY_PARAMETER in hidden, asked is not None, unasked)


def body_of(function: Callable[..., Any]) -> Any:
    """The function that does the work: without what wraps it, fixes arguments of it, or binds it to an object."""
    inner: Any = inspect.unwrap(function)
    while isinstance(inner, functools.partial):
        inner = inspect.unwrap(inner.func)
    return getattr(inner, "__func__", inner)


def description_of(function: Callable[..., Any]) -> str:
    """What models read about the tool: the docstring of the function; of an object, that of its class or its method."""
    inner = body_of(function)
    if inspect.isroutine(inner):
        return inspect.getdoc(inner) or ""
    return inspect.getdoc(type(inner)) or inspect.getdoc(inner.__call__) or ""


def _fixed(function: Callable[..., Any]) -> frozenset[str]:
    """Arguments that a `functools.partial` gives by name: whoever made it has decided, and no model decides again."""
    return frozenset(function.keywords) if isinstance(function, functools.partial) else frozenset()


def object_schema(parameters: Sequence[Parameter]) -> dict[str, Any]:
    """The JSON schema of the arguments: an object without further properties, shared types under `$defs`."""
    hints = [parameter.hint for parameter in parameters]
    schemas, definitions = msgspec.json.schema_components(
        hints, ref_template="#/$defs/{name}", schema_hook=_foreign_schema
    )
    properties: dict[str, Any] = {}
    for parameter, schema in zip(parameters, schemas, strict=True):
        _lift_definitions(schema, definitions)
        defaulted = parameter.default is not msgspec.UNSET
        properties[parameter.name] = {**schema, "default": parameter.default} if defaulted else schema
    result: dict[str, Any] = {"type": "object", "properties": properties}
    required = [parameter.name for parameter in parameters if parameter.required]
    if required:
        result["required"] = required
    result["additionalProperties"] = False
    if definitions:
        result["$defs"] = definitions
    _drop_unspeakable(result)
    return result


def _drop_unspeakable(schema: Any) -> None:
    """Take out defaults that JSON has no word for (NaN, infinity); the types apply them all the same."""
    if isinstance(schema, dict):
        default = schema.get("default")
        if isinstance(default, float) and not math.isfinite(default):
            del schema["default"]
        for part in schema.values():
            _drop_unspeakable(part)
    elif isinstance(schema, list):
        for part in schema:
            _drop_unspeakable(part)


def _require_passed_by_name(parameter: inspect.Parameter, where: str) -> None:
    match parameter.kind:
        case inspect.Parameter.VAR_POSITIONAL | inspect.Parameter.VAR_KEYWORD:
            raise BadTool(f"{where}: a model cannot be told what *args and **kwargs take; name each parameter")
        case inspect.Parameter.POSITIONAL_ONLY:
            raise BadTool(f"{where}: it is positional-only, and arguments are passed by name; remove the '/'")


def _require_text(parameter: inspect.Parameter, names: dict[str, Any], where: str) -> None:
    if parameter.annotation is inspect.Parameter.empty:
        return
    _resolved(parameter.annotation, names, where)
    if not _takes("key", parameter, names):
        raise BadTool(f"{where}: the runtime fills it with text; annotate it with str")


def _takes(value: object, parameter: inspect.Parameter, names: dict[str, Any]) -> bool:
    if parameter.annotation is inspect.Parameter.empty:
        return isinstance(value, str)
    try:
        msgspec.convert(value, _resolved(parameter.annotation, names, parameter.name))
    except (msgspec.MsgspecError, TypeError):
        return False
    return True


def _parameter(parameter: inspect.Parameter, hint: Any, where: str) -> Parameter:
    if type(parameter.default).__module__.partition(".")[0] == "pydantic" and hasattr(parameter.default, "metadata"):
        raise BadTool(f"{where}: Field(...) is no default of a function; write `Annotated[..., Field(...)] = 3`")
    required = parameter.default is inspect.Parameter.empty
    return parameter_of(parameter.name, hint, msgspec.NODEFAULT if required else parameter.default, where)


def parameter_of(name: str, hint: Any, default: object, where: str) -> Parameter:
    """What a model gives under this name. `default`: NODEFAULT where it has to give it.

    Raises:
        BadTool: beginning with `where`, for a type that cannot be read from JSON.
    """
    if hint is object:
        hint = Any
    required = default is msgspec.NODEFAULT
    if default is None:
        hint = Optional[hint]  # `x: str = None` means it  # noqa: UP045 - `|` cannot take every hint
    try:
        hint = understood(hint)
        msgspec.json.schema_components([hint], schema_hook=_foreign_schema)
        msgspec.json.Decoder(hint, dec_hook=_never)
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise BadTool(
            f"{where}: {hint!r} cannot be read from JSON ({reason}); use built-in types, dataclasses, msgspec Structs, "
            "TypedDicts, Literals or Enums, declared in a module where they refer to each other"
        ) from error
    plain = msgspec.UNSET if required else _plain_default(default, hint)
    return Parameter(name=name, hint=hint, required=required, default=plain)


def _plain_default(default: object, hint: Any) -> Any:
    try:
        plain = to_plain(default)
        from_plain(plain, hint)
    except Exception:  # noqa: BLE001 - a sentinel, say: the function applies it itself, records do without it
        return msgspec.UNSET
    return plain


def _resolved(annotation: Any, names: dict[str, Any], where: str) -> Any:
    def carrier() -> None: ...

    carrier.__annotations__ = {"it": annotation}
    try:
        return typing.get_type_hints(carrier, names, names, include_extras=True)["it"]
    except Exception as error:
        raise BadTool(
            f"{where}: the annotation {annotation!r} cannot be resolved ({error}); "
            "import or define the type where the tool can see it, before the tool and not only for type checkers"
        ) from error


def _visible_names(function: Callable[..., Any]) -> dict[str, Any]:
    """What a name in the function's annotations can mean, inner scopes last so that they win."""
    inner = body_of(function)
    if not inspect.isroutine(inner):  # an object that can be called
        inner = body_of(type(inner).__call__)
    names: dict[str, Any] = dict(getattr(inner, "__globals__", None) or vars(sys.modules[type(inner).__module__]))
    for frame in reversed(list(_enclosing_frames(inner))):
        names.update(frame.f_locals)
    code = getattr(inner, "__code__", None)
    for name, cell in zip(code.co_freevars if code else (), getattr(inner, "__closure__", None) or (), strict=False):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # declared, not assigned yet
            continue
    return names


def _enclosing_frames(function: Any) -> Iterator[FrameType]:
    """The running functions and class bodies that the tool is written in, innermost first.

    Only those: a caller that merely happens to be on the stack must not lend its names.
    """
    qualname = getattr(function, "__qualname__", "").replace(".<locals>", "")
    frame = inspect.currentframe()
    while frame is not None:
        scope = frame.f_code.co_qualname.replace(".<locals>", "")
        if frame.f_globals is getattr(function, "__globals__", None) and qualname.startswith(f"{scope}."):
            yield frame
        frame = frame.f_back


def _foreign_schema(kind: type) -> dict[str, Any]:
    """The schema of a pydantic model, without importing pydantic."""
    make = getattr(kind, "model_json_schema", None)
    if make is None or not hasattr(kind, "model_validate"):
        raise NotImplementedError  # what msgspec wants to hear for "not mine"
    if "by_name" not in inspect.signature(kind.model_validate).parameters:
        raise TypeError("models of pydantic before 2.11 are not supported")
    schema: dict[str, Any] = make(ref_template="#/$defs/{model}")
    if '"writeOnly": true' in json.dumps(schema, default=text_of):
        raise TypeError("a secret's value would be recorded as stars, and called with them; use str")
    definitions = schema.get("$defs", {})
    choices = {f"#/$defs/{name}": definitions.pop(name) for name in list(definitions) if "enum" in definitions[name]}
    return typing.cast(dict[str, Any], _with_inline(schema, choices))


def _with_inline(schema: Any, choices: dict[str, Any]) -> Any:
    """`schema` with its enumerations where they are used: an Enum has another schema beside a model than within one,
    and both would be called by its name."""
    if isinstance(schema, dict):
        inlined = choices.get(schema.get("$ref", ""), {}) if isinstance(schema.get("$ref", ""), str) else {}
        rest = {name: part for name, part in schema.items() if not (inlined and name == "$ref")}
        return {**inlined, **{name: _with_inline(part, choices) for name, part in rest.items()}}
    return [_with_inline(part, choices) for part in schema] if isinstance(schema, list) else schema


def _lift_definitions(schema: Any, definitions: dict[str, Any]) -> None:
    """Move the `$defs` inside `schema` to where its references point: the top."""
    if isinstance(schema, dict):
        for name, definition in schema.pop("$defs", {}).items():
            if definitions.setdefault(name, definition) != definition:
                raise BadTool(f"two different types of its arguments are called {name!r}; rename one")
            _lift_definitions(definition, definitions)
        for part in schema.values():
            _lift_definitions(part, definitions)
    elif isinstance(schema, list):
        for part in schema:
            _lift_definitions(part, definitions)


def _never(kind: type, value: object) -> object:  # pragma: no cover - the decoder is built to see whether it can be
    raise TypeError(kind, value)
