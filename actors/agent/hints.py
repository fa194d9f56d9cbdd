"""Annotations of tools, brought into the form that the JSON library reads.

    Annotated[int, Field(ge=1)]      limits and descriptions of pydantic and annotated-types count, as msgspec's own do
    Annotated[str, "what it is"]     a description
    classes inside of functions      that name each other as text (`from __future__ import annotations`) are settled

Invariant: what an annotation asks for is checked, or the tool is refused; nothing is ignored in silence.
"""

import dataclasses
import functools
import operator
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, ForwardRef, Union

import msgspec

_LIMITS: Final = ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "pattern")
_UNIONS: Final = (Union, types.UnionType)

Resolve = Callable[[Any], Any]
"""The type that an annotation means; raises where it means none."""


def understood(hint: Any) -> Any:
    """`hint`, with every limit and description in it as msgspec's.

    Raises:
        ValueError: for metadata that asks for something which would not be done.
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _annotated(understood(arguments[0]), hint.__metadata__)
    if not arguments or origin is typing.Literal:
        return hint
    read = tuple(understood(part) if _is_hint(part) else part for part in arguments)
    if all(new is old for new, old in zip(read, arguments, strict=True)):
        return hint
    if origin in _UNIONS:
        return functools.reduce(operator.or_, read[1:], Union[read[0], read[0]])  # noqa: UP007 - of whatever they are
    copy = getattr(hint, "copy_with", None)
    return copy(read) if copy is not None else origin[read]


def settle(hint: Any, resolve: Resolve, names: Mapping[str, Any]) -> None:
    """Replace text by types in the classes of `hint` that are written inside of a function.

    Nobody else could: the names are those of a scope that is gone once it returns.

    Raises:
        Exception: what `resolve` raises.
    """
    seen: set[Any] = set()
    todo = [hint]
    while todo:
        for kind in _classes_of(todo.pop()):
            if kind in seen or "<locals>" not in kind.__qualname__:
                continue
            seen.add(kind)
            rebuild = getattr(kind, "model_rebuild", None)
            if rebuild is not None and hasattr(kind, "model_validate"):
                rebuild(_types_namespace=dict(names))
                continue
            written = vars(kind).get("__annotations__", {})
            for name, annotation in written.items():
                if isinstance(annotation, str | ForwardRef):
                    written[name] = resolve(annotation)
            if dataclasses.is_dataclass(kind):
                for field in dataclasses.fields(kind):
                    field.type = written.get(field.name, field.type)
            todo.extend(written.values())


def _classes_of(hint: Any) -> Iterator[type]:
    if isinstance(hint, type) and typing.get_origin(hint) is None:
        yield hint
    for part in (typing.get_origin(hint), *typing.get_args(hint)):
        if part is not None and part is not Annotated and (isinstance(part, type) or typing.get_args(part)):
            yield from _classes_of(part)


def _is_hint(part: Any) -> bool:
    return isinstance(part, type) or bool(typing.get_args(part))


def _annotated(base: Any, metadata: Sequence[Any]) -> Any:
    """`base` with the limits that `metadata` names."""
    found: dict[str, Any] = {}
    kept = []
    for item in metadata:
        if isinstance(item, msgspec.Meta):
            kept.append(item)
        elif isinstance(item, str):
            found["description"] = item
        elif type(item).__module__.partition(".")[0] in {"pydantic", "annotated_types"}:
            _read(item, found)
        elif isinstance(documentation := getattr(item, "documentation", None), str):  # typing_extensions.Doc
            found["description"] = documentation
    if found:
        try:
            kept.append(msgspec.Meta(**found))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{found} cannot be checked: {error}") from error
    return Annotated[(base, *kept)] if kept else base


def _read(item: Any, found: dict[str, Any]) -> None:
    """Take in one of pydantic's or annotated-types' objects."""
    parts = getattr(item, "metadata", None)
    if isinstance(parts, list):  # pydantic.Field(...): a description, and the limits in a list
        required = getattr(item, "is_required", None)
        if required is not None and not required():
            raise ValueError("a default inside of Field(...) is not read; write it as the parameter's own: `= 3`")
        if getattr(item, "alias", None) or getattr(item, "validation_alias", None):
            raise ValueError("Field(alias=...) is not read; name the parameter itself so")
        if text := getattr(item, "description", None):
            found["description"] = str(text)
        for part in parts:
            _read(part, found)
        return
    limits = {name: value for name in _LIMITS if (value := getattr(item, name, None)) is not None}
    if not limits:
        raise ValueError(f"{item!r:.100} would not be checked; use limits (ge=, max_length=, pattern=), or a class")
    found.update(limits)
