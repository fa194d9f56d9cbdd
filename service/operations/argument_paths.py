"""Changing a call's arguments by path, as people type it: `amount=40`, `address.country=FR`, `items[0].price=3`.

The value is JSON where it can be read as that, else a text; what type the tool wants is the tool's to say. A name that
could be read as a path is written in quotes, `["a.b"]`, so that no two values of a call are ever named alike.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final

from ...mailbox.errors import UsageError

REMOVED: Final = object()
"""Stands for a value that is to be taken out."""
_PART = re.compile(r"([^.\[\]]+)|\[(\d{1,6})\]|\[(\"(?:[^\"\\]|\\.)*\")\]")
_NAME = re.compile(r"[^.\[\]]+")


def parsed_changes(set_: Sequence[str], unset: Sequence[str]) -> dict[str, Any]:
    """Changes as the command line has them: `PATH=VALUE`, and paths to take out.

    Raises:
        UsageError: nothing is changed, or one path twice, or what is no PATH=VALUE.
    """
    found: dict[str, Any] = {}
    for one in set_:
        path, sign, text = one.partition("=")
        if not sign or not path.strip():
            raise UsageError(f"--set: expected PATH=VALUE, such as amount=40, got {one[:80]!r}")
        _add(found, path.strip(), _value(text))
    for path in unset:
        _add(found, path.strip(), REMOVED)
    if not found:
        raise UsageError("nothing to change: give --set PATH=VALUE or --unset PATH")
    return found


def _add(found: dict[str, Any], path: str, value: Any) -> None:
    if path in found:
        raise UsageError(f"{path[:80]!r} is changed twice; say once what it shall be")
    found[path] = value


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def path_of(outer: str, key: object) -> str:
    """The path of a value by its name in an object at `outer` ("" for the arguments themselves)."""
    name = str(key)
    if not _NAME.fullmatch(name):
        return f"{outer}[{json.dumps(name, ensure_ascii=False)}]"
    return f"{outer}.{name}" if outer else name


def values_in(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every plain value among a call's arguments by its path, in their order; an empty list or object is one."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from values_in(inner, path_of(path, key))
    elif isinstance(value, list) and value:
        for number, inner in enumerate(value):
            yield from values_in(inner, f"{path}[{number}]")
    else:
        yield path, value


def with_changes(arguments: Any, changed: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a call's arguments with other values at these paths.

    Raises:
        UsageError: a path that cannot be read, or leads nowhere; only the last name of one may be new.
    """
    result: dict[str, Any] = deepcopy(arguments)
    for path, value in changed.items():
        *way, last = [path] if path in result else _parts(path)
        inner: Any = result
        for part in way:
            inner = _step(inner, part, path)
        _put(inner, last, value, path)
    return result


def _parts(path: str) -> list[str | int]:
    parts: list[str | int] = []
    end = 0
    while end < len(path):
        dot = end > 0 and path[end] == "."
        found = _PART.match(path, end + dot)
        if found is None or (found[1] is not None and end > 0 and not dot) or (found[1] is None and dot):
            raise UsageError(f"{path[:80]!r} is no path; write amount, address.country or items[0].price")
        parts.append(_part(found, path))
        end = found.end()
    if not parts:
        raise UsageError("a path has at least one name, such as amount")
    return parts


def _part(found: re.Match[str], path: str) -> str | int:
    if found[3] is None:
        return found[1] if found[1] is not None else int(found[2])
    try:
        return str(json.loads(found[3]))
    except ValueError:
        raise UsageError(f"{path[:80]!r} is no path: {found[3][:80]} cannot be read") from None


def _step(value: Any, part: str | int, path: str) -> Any:
    if isinstance(part, int) and isinstance(value, list) and part < len(value):
        return value[part]
    if isinstance(part, str) and isinstance(value, dict) and part in value:
        return value[part]
    raise _nowhere(path, part)


def _put(value: Any, part: str | int, new: Any, path: str) -> None:
    in_object = isinstance(part, str) and isinstance(value, dict) and (new is not REMOVED or part in value)
    in_list = isinstance(part, int) and isinstance(value, list) and part < len(value)
    if not in_object and not in_list:
        raise _nowhere(path, part)
    if new is REMOVED:
        del value[part]
    else:
        value[part] = new


def _nowhere(path: str, part: str | int) -> UsageError:
    return UsageError(f"{path[:80]!r} leads nowhere in the call's arguments: there is no {part!r:.80}")
