"""A tool's version: 12 hexadecimal digits that change with its name, its schema and its code.

Invariant: the same code has the same version in every process.
"""

import hashlib
import inspect
from collections.abc import Callable, Iterable
from types import CodeType
from typing import Any

from .digest import canonical
from .schema import body_of


def version_of(*parts: str) -> str:
    """What names these texts, in 12 hexadecimal digits."""
    return hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()[:12]


def code_version(prompt_hash: str, versions: Iterable[str], release: str) -> str:
    """What names the program a run is started by, as far as a run sees it: prompt, tools, and Callboard itself."""
    return version_of(prompt_hash, *sorted(versions), release)


def tool_version(function: Callable[..., Any], name: str, schema: dict[str, Any]) -> str:
    """The version of a tool made of `function`."""
    inner = body_of(function)
    try:
        body = inspect.getsource(inner)
    except (OSError, TypeError):  # made by exec, in a shell, in C, or an object that can be called
        body = _body(inner) or getattr(inner, "__qualname__", name)
    return version_of(name, canonical(schema), body)


def _body(function: object) -> str:
    code = getattr(function, "__code__", None)
    if isinstance(code, CodeType):
        return _code_text(code)
    method = getattr(type(function), "__call__", None)  # noqa: B004 - the function itself is wanted
    try:
        return inspect.getsource(method) if method is not None else ""
    except (OSError, TypeError):
        return ""


def _code_text(code: CodeType) -> str:
    """What `code` does, without the addresses and file names that differ between processes."""
    constants = [
        _code_text(constant) if isinstance(constant, CodeType) else _stable(constant) for constant in code.co_consts
    ]
    return repr((code.co_code, code.co_names, constants))


def _stable(constant: object) -> str:
    return repr(sorted(map(repr, constant))) if isinstance(constant, frozenset) else repr(constant)
