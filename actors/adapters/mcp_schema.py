"""The JSON schema of an MCP server's tool: bounded, and checked against without giving the server a way to stall us.

The server says what its tools take; a schema is a small program that runs here. So nothing is fetched, no regular
expression of the server's is run (it checks those itself), and the work of one check is counted.
"""

import json
import unicodedata
from collections.abc import Iterator
from typing import Any, Final

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend
from referencing import Registry

from callboard.actors.agent.text import well_formed

MAX_SCHEMA_CHARS: Final = 64 << 10
MAX_DEPTH: Final = 32
MAX_DESCRIPTION_CHARS: Final = 2_000
MAX_WORK: Final = 100_000
"""Keywords, and values in them, that one check may look at."""
_REFERENCE_WORK: Final = 40  # of looking one up, in keywords
_WORDS_FOR_WORK: Final = 200  # characters of a message that cost as much as a keyword
MAX_ERRORS: Final = 5
_MAX_ERROR_CHARS: Final = 300

# Left to the server: its regular expressions could take for ever, and so could comparing all of a list with all.
_NOT_RUN: Final = frozenset({"pattern", "patternProperties", "format", "uniqueItems", "$dynamicRef", "$schema", "$id"})


class BadSchema(ValueError):
    """A schema that is not used."""


def plain_text(text: object, limit: int = MAX_DESCRIPTION_CHARS) -> str:
    """What a server says about itself, as text that a person would see too: no control or invisible characters."""
    kept = "".join(
        character if character in "\n\t" or unicodedata.category(character)[0] != "C" else " "
        for character in well_formed(str(text))[: limit * 2]
    )
    return kept.strip() if len(kept) <= limit else kept[:limit].strip() + " …"


def bounded(schema: object) -> dict[str, Any]:
    """A server's schema, if it is one that can be shown and used, with plain texts.

    Raises:
        BadSchema: it is no schema of an object, too large, or too deep.
    """
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        raise BadSchema("it is no schema of an object")
    try:
        text = json.dumps(schema, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadSchema(f"it is no JSON: {error}") from error
    if len(text) > MAX_SCHEMA_CHARS:
        raise BadSchema(f"it takes {len(text)} characters; at most {MAX_SCHEMA_CHARS} are read")
    found: dict[str, Any] = _plain(schema, 0)
    found["type"] = "object"
    return found


def _plain(value: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise BadSchema(f"it is nested deeper than {MAX_DEPTH} levels")
    match value:
        case dict():
            return {
                well_formed(key): (
                    plain_text(part)
                    if key in {"description", "title"} and isinstance(part, str)
                    else _plain(part, depth + 1)
                )
                for key, part in value.items()
            }
        case list():
            return [_plain(part, depth + 1) for part in value]
        case str():
            return well_formed(value)
    return value


class Check:
    """Tells what is wrong with arguments."""

    def __init__(self, schema: dict[str, Any]) -> None:
        closed = _closed(_checkable(schema))
        try:
            Draft202012Validator.check_schema(closed)
        except Exception as error:
            raise BadSchema(f"it is no valid schema: {plain_text(error, 200)}") from error
        self._schema = closed

    def problem(self, arguments: dict[str, Any]) -> str:
        """A sentence for the model; "" where nothing is wrong."""
        counter = _Counter()
        try:
            errors = []
            for error in counter.validator(self._schema).iter_errors(arguments):
                errors.append(_sentence(error))
                if len(errors) == MAX_ERRORS:
                    break
        except (_TooMuchWork, RecursionError):  # which of them comes first depends on how deep the stack is here
            return "the arguments are too large or too nested to be checked"
        except Exception as error:  # noqa: BLE001 - a reference to nowhere or to itself: the schema is at fault
            return f"the arguments cannot be checked against the tool's schema ({type(error).__name__})"
        return "; ".join(errors)


class _TooMuchWork(Exception):
    pass


class _Counter:
    """Counts what one check looks at."""

    def __init__(self) -> None:
        self.left = MAX_WORK
        counted = {name: self._counted(name, function) for name, function in Draft202012Validator.VALIDATORS.items()}
        self._class = extend(Draft202012Validator, counted)

    def validator(self, schema: dict[str, Any]) -> Any:
        return self._class(schema, registry=Registry())  # an empty one: nothing is fetched

    def _counted(self, name: str, function: Any) -> Any:
        own = _REFERENCE_WORK if name == "$ref" else 1

        def checked(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
            self.left -= own + (len(value) if isinstance(value, list | dict) else 0)
            if self.left < 0:
                raise _TooMuchWork
            for error in function(validator, value, instance, schema) or ():
                # It spells out the whole value, and a union makes one for each of its ways that it throws away.
                self.left -= len(error.message) // _WORDS_FOR_WORK
                yield error

        return checked


def _checkable(schema: Any, *, names: bool = False) -> Any:
    """The schema without what is not run here. `names`: the keys are names of properties, not keywords."""
    if isinstance(schema, list):
        return [_checkable(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: part
        if key in {"const", "enum", "default", "examples"} and not names
        else _checkable(part, names=not names and key in {"properties", "$defs", "definitions", "dependentSchemas"})
        for key, part in schema.items()
        if names or key not in _NOT_RUN
    }


def _closed(schema: dict[str, Any]) -> dict[str, Any]:
    """Without unknown names, unless the schema asks for them: what nobody declared is a mistake of the model's."""
    open_ended = {"additionalProperties", "unevaluatedProperties", "allOf", "anyOf", "oneOf", "$ref", "if"}
    return schema if open_ended & schema.keys() else {**schema, "additionalProperties": False}


def _sentence(error: ValidationError) -> str:
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path).lstrip(".")
    where = f"argument {path!r:.200}: " if path else ""
    return where + plain_text(error.message, _MAX_ERROR_CHARS)
