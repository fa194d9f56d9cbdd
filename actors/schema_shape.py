"""The shape of a type: its fields as text, so that two versions of a program can be compared and a person can read it.

    {"fields": {"subject": "str", "urgent?": "bool", "lines": "list[Line]"}}

A `?` behind a field's name says that it has a default, so that it may be missing. Structs within are named, and their
shapes stand beside; only what shows on the wire is in a shape (the names of classes do not).
"""

import enum
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import inspect

Flag = str
"""array: its fields are written by position. strict: refuses fields it does not know. omits: leaves out a field that
has its default. tag KEY=VALUE: how it is told from others of a union."""


class Shape(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """What a type looks like on the wire; a message, an event and a state have a version too."""

    version: int = 0
    reads: int = 0
    """The oldest version that can be read, by the upcasts there are."""
    flags: list[Flag] = []
    fields: dict[str, str] = {}


class Shapes:
    """Shapes of types and of all the structs within them."""

    def __init__(self) -> None:
        self.structs: dict[str, Shape] = {}
        """Of the structs within, by name."""
        self._names: dict[type, str] = {}

    def of(self, kind: type[msgspec.Struct], version: int, reads: int) -> Shape:
        """The shape of a versioned struct; those of the structs within it are in `structs` then."""
        info = inspect.type_info(kind)
        assert isinstance(info, inspect.StructType)
        # The tag of a message is its name and version, which are not for the shape to say.
        shape = self._shape(info, tagged=False)
        shape.version, shape.reads = version, reads
        return shape

    def _shape(self, info: Any, *, tagged: bool = True) -> Shape:
        flags: list[Flag] = []
        array = isinstance(info, inspect.NamedTupleType) or getattr(info, "array_like", False)
        if array:
            flags.append("array")
        if getattr(info, "forbid_unknown_fields", False):
            flags.append("strict")
        if isinstance(info, inspect.StructType):
            if info.cls.__struct_config__.omit_defaults:
                flags.append("omits")
            if tagged and info.tag is not None:
                flags.append(f"tag {info.tag_field}={info.tag}")
        fields = {}
        for place, field in enumerate(info.fields):
            name = f"{place} {field.encode_name}" if array else field.encode_name
            fields[name if field.required else f"{name}?"] = self._text(field.type)
        return Shape(flags=flags, fields=fields)

    def _text(self, kind: inspect.Type) -> str:
        match kind:
            case inspect.Metadata():
                return self._text(kind.type)
            case inspect.StructType() | inspect.DataclassType() | inspect.NamedTupleType() | inspect.TypedDictType():
                return self._name(kind)
            case inspect.UnionType():
                return " | ".join(sorted(self._text(part) for part in kind.types))
            case inspect.LiteralType():
                return f"Literal[{', '.join(map(repr, kind.values))}]"
            case inspect.EnumType():
                # Only the values are written; an open set of text is a Literal here, whatever class it is.
                members: Iterable[enum.Enum] = kind.cls
                return f"Literal[{', '.join(repr(member.value) for member in members)}]"
            case inspect.DictType():
                return _with(f"dict[{self._text(kind.key_type)}, {self._text(kind.value_type)}]", kind)
            case inspect.TupleType():
                return f"tuple[{', '.join(map(self._text, kind.item_types))}]"
            case inspect.CollectionType():
                # A list, a set and a tuple of any length are written alike; one cannot be told from another.
                return _with(f"list[{self._text(kind.item_type)}]", kind)
            case inspect.CustomType():
                return f"{kind.cls.__module__}.{kind.cls.__qualname__}"
            case _:
                return _with(type(kind).__name__.removesuffix("Type").lower(), kind)

    def _name(self, info: Any) -> str:
        known = self._names.get(info.cls)
        if known is not None:
            return known
        name: str = info.cls.__name__
        if name in self.structs:
            name = f"{info.cls.__module__}.{info.cls.__qualname__}"
        # Named before it is described: it may hold itself.
        self._names[info.cls], self.structs[name] = name, Shape()
        self.structs[name] = self._shape(info)
        return name


_PLAIN = ("item_type", "key_type", "value_type")


def _with(text: str, kind: inspect.Type) -> str:
    """`text` with what else is asked of a value: `int(ge=0)`."""
    said: Sequence[str] = [
        f"{name}={value!r}"
        for name in kind.__struct_fields__
        if name not in _PLAIN and (value := getattr(kind, name)) is not None
    ]
    return f"{text}({', '.join(said)})" if said else text
