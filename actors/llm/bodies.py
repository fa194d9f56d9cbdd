"""What a provider sends, before anybody reads it: bounded in size, in lines, as JSON.

Invariants: no answer takes more memory than its bound, also where it comes packed; and what an error shows is not cut
in here, since a key can only be hidden in a text that holds it whole (`wire.Secrets`).
"""

import asyncio
import json
import zlib
from collections.abc import AsyncIterator
from typing import Any

import httpx

MAX_BODY_BYTES = 16 << 20
"""Of one answer. A longer one is given up while it is being read."""
MAX_REFUSAL_BYTES = 64 << 10
"""Of what an error says. The rest is left unread: its status has said what matters."""
REFUSAL_SECONDS = 5.0
"""For how long it is read."""

PLAIN = {"accept-encoding": "identity"}
"""Headers of every request: packed answers only cost time here. They come all the same (gateways)."""
_PACKINGS = frozenset({"gzip", "x-gzip", "deflate"})
_UNPACK_BYTES = 1 << 16


class BodyTooLong(Exception):
    """The answer does not end."""


class _Bounded(httpx.AsyncByteStream):
    """A body as it was before it was packed, up to a length. A refusal's is never at fault: it ends where it breaks."""

    def __init__(self, stream: httpx.AsyncByteStream, packing: str, *, refusal: bool) -> None:
        self._stream = stream
        self._packing = packing
        self._refusal = refusal

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = MAX_REFUSAL_BYTES if self._refusal else MAX_BODY_BYTES
        until = asyncio.get_running_loop().time() + REFUSAL_SECONDS if self._refusal else None
        chunks = self._unpacked()
        try:
            while True:
                async with asyncio.timeout_at(until):
                    chunk = await anext(chunks, None)
                if chunk is None:
                    return
                left -= len(chunk)
                if left < 0:
                    raise BodyTooLong(f"the answer is longer than {MAX_BODY_BYTES:,} bytes")
                yield chunk
        except (BodyTooLong, ValueError, TimeoutError, httpx.TransportError):
            if not self._refusal:
                raise

    async def _unpacked(self) -> AsyncIterator[bytes]:
        if self._packing in {"", "identity"}:
            async for chunk in self._stream:
                yield chunk
            return
        if self._packing not in _PACKINGS:
            raise ValueError(f"it is packed as {self._packing[:40]!r}, which was not asked for")
        unpacker = zlib.decompressobj(wbits=47)  # either of the two formats
        try:
            async for chunk in self._stream:
                packed = chunk
                while packed:  # in small steps: a few bytes may become gigabytes
                    yield unpacker.decompress(packed, _UNPACK_BYTES)
                    packed = unpacker.unconsumed_tail
            yield unpacker.flush()
        except zlib.error as error:
            raise ValueError(f"it cannot be unpacked: {error}") from None

    async def aclose(self) -> None:
        await self._stream.aclose()


async def bounded(response: httpx.Response) -> None:
    """For `event_hooks`, where it also works inside other people's SDKs: the body ends at `MAX_BODY_BYTES`."""
    if isinstance(response.stream, httpx.AsyncByteStream):
        packing = response.headers.pop("content-encoding", "").strip().lower()  # else httpx would unpack it again
        response.stream = _Bounded(response.stream, packing, refusal=response.status_code >= 300)


async def lines(response: httpx.Response) -> AsyncIterator[str]:
    """The lines of a body. Not `aiter_lines`: that also breaks at U+2028 and U+0085, which JSON holds as they are."""
    begun: list[bytes] = []
    async for chunk in response.aiter_bytes():
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            yield _line([*begun, end])
            begun.clear()
        begun.append(rest)
    if any(begun):
        yield _line(begun)


def _line(parts: list[bytes]) -> str:
    return b"".join(parts).removesuffix(b"\r").decode("utf-8", "replace")


def read_json(text: str | bytes) -> dict[str, Any]:
    """A JSON object.

    Raises:
        ValueError: when it is none, with all of it.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON ({error}): {_said(text)}") from None
    if not isinstance(value, dict):
        raise ValueError(f"not a JSON object: {_said(text)}")  # noqa: TRY004 - one class for whatever came
    return value


def _said(text: str | bytes) -> str:
    return text if isinstance(text, str) else text.decode("utf-8", "replace")
