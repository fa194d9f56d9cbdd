"""What an MCP server answers to a call, as a tool's result. Total: the effect has happened by then.

    only text                        {"text": "..."}
    structured content               that object, when what comes beside it is only its text
    images, sound, resources         {"text": ..., "structured": ..., "content": [{"type", "mimeType", "bytes", ...}]}

Of what is no text, the journal gets the type, size and sha256, not the bytes.
"""

import base64
import binascii
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from .mcp_schema import plain_text

MAX_ERROR_CHARS = 2_000


def result_of(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The result of a call that succeeded."""
    blocks = _blocks(answer)
    texts = [block["text"] for block in blocks if _is_text(block)]
    others = [_described(block) for block in blocks if not _is_text(block)]
    structured = answer.get("structuredContent")
    if isinstance(structured, Mapping) and not others:
        return dict(structured)
    found: dict[str, Any] = {}
    if texts or not (others or structured is not None):
        found["text"] = "\n".join(texts)
    if structured is not None:
        found["structured"] = structured
    if others:
        found["content"] = others
    return found


def error_of(answer: Mapping[str, Any]) -> str | None:
    """What the server says went wrong; None where it says that nothing did."""
    if not answer.get("isError"):
        return None
    texts = [block["text"] for block in _blocks(answer) if _is_text(block)]
    return plain_text("\n".join(texts), MAX_ERROR_CHARS) or "the MCP server reports an error and does not say which"


def _blocks(answer: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    content = answer.get("content")
    return [block for block in content if isinstance(block, Mapping)] if isinstance(content, list | tuple) else []


def _is_text(block: Mapping[str, Any]) -> bool:
    return block.get("type") == "text" and isinstance(block.get("text"), str)


def _described(block: Mapping[str, Any]) -> dict[str, Any]:
    inner = block.get("resource")
    about = {**block, **inner} if isinstance(inner, Mapping) else dict(block)
    found = {name: about[name] for name in ("type", "mimeType", "uri", "name", "title") if about.get(name) is not None}
    found["type"] = block.get("type")
    if inner is not None and isinstance(about.get("text"), str):
        found["text"] = about["text"]
    data = about.get("data", about.get("blob"))
    if isinstance(data, str):
        raw = _decoded(data)
        found |= {"bytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
    return found


def _decoded(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return data.encode(errors="surrogatepass")
