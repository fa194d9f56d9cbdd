"""A provider on loopback that speaks the protocols of all three, well-behaved or not, as the model's name says."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from .protocols import PROTOCOLS, Answer, Protocol, Refusal
from .scenarios import ANSWERS, REFUSALS

_GOOGLE = re.compile(r"/v1beta/models/([^:/]+):(generateContent|streamGenerateContent)")


@dataclass(frozen=True)
class Asked:
    """One request."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass
class Stub:
    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    """A request is here whose answer is held back."""
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)
    """Whoever asked it has closed the connection."""

    @property
    def last(self) -> Asked:
        return self.asked[-1]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
            body = json.loads(await reader.readexactly(int(headers.get("content-length", 0))) or b"{}")
            asked = Asked(head[0].split(" ")[1], headers, body)
            self.asked.append(asked)
            await self._answer(asked, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            self.hung_up.set()
        finally:
            writer.close()

    async def _answer(self, asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        protocol, scenario, stream = _addressed(asked)
        response = Response(writer)
        if found := re.fullmatch(r"status-(\d+)", scenario):
            await response.whole(Refusal(int(found[1]), _plain(protocol, int(found[1]))))
        elif scenario in REFUSALS[protocol.name]:
            await response.whole(REFUSALS[protocol.name][scenario])
        elif scenario in ANSWERS or scenario == "sum":
            answer = ANSWERS[scenario] if scenario in ANSWERS else _summing(asked)
            if stream:
                await response.pieces(protocol.stream_type, protocol.pieces(answer))
            else:
                await response.whole(Refusal(200, protocol.whole(answer)))
        else:
            await self._misbehave(scenario, protocol, asked, response)
            if scenario in {"mute", "stall"}:
                self.reached.set()
                await reader.read()  # ends when the other side closes
                self.hung_up.set()

    async def _misbehave(  # noqa: PLR0912 - one case each
        self, scenario: str, protocol: Protocol, asked: Asked, response: "Response"
    ) -> None:
        start = protocol.pieces(ANSWERS["ok"])[:2]
        match scenario:
            case "mute" | "drop":
                pass
            case "stall" | "cut":
                await response.pieces(protocol.stream_type, start, end=False)
            case "cut-at-the-end":  # after the answer, before what follows it
                await response.pieces(protocol.stream_type, protocol.pieces(ANSWERS["two-tools"])[:-2], end=False)
            case "short":  # ends properly, before the answer does
                await response.pieces(protocol.stream_type, start)
            case "cut-body":
                await response.head(200, {"content-type": "application/json", "content-length": "5000"})
                await response.raw(b'{"id": ')
            case "broken-later":
                piece = protocol.error_piece(503, "the model is overloaded")
                await response.pieces(protocol.stream_type, [*start, piece])
            case "too-long-later":
                piece = protocol.error_piece(400, "this exceeds the context length")
                await response.pieces(protocol.stream_type, [*start, piece])
            case "endless":
                await response.head(200, {"content-type": protocol.stream_type, "transfer-encoding": "chunked"})
                nothing = {"openai": b": ping\n\n", "ollama": b" ", "google": b"\r\n"}[protocol.name]
                while True:
                    await response.chunk(nothing * 100)
                    await asyncio.sleep(0.002)  # not so much that an answer would be too long before its time is over
            case "huge":
                await response.head(200, {"content-type": "application/json", "transfer-encoding": "chunked"})
                await response.chunk(b'{"error": "')
                for _ in range(17):
                    await response.chunk(b"x" * (1 << 20))
            case "html":
                await response.whole(Refusal(200, "<html>Welcome to the hotel's network</html>"))
            case "array":
                await response.whole(Refusal(200, [1, 2]))
            case "redirect":
                await response.whole(Refusal(307, "moved", {"location": f"{self.url}/elsewhere"}))
            case "echo":  # an error that tells the caller's own key
                told = [value for name, value in asked.headers.items() if "key" in name or name == "authorization"]
                await response.whole(Refusal(401, {"error": {"message": f"bad key: {told} {'x' * 5_000}"}}))
            case _:
                raise AssertionError(f"no scenario {scenario!r}")


class Response:
    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def raw(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def head(self, status: int, headers: dict[str, str]) -> None:
        lines = [f"HTTP/1.1 {status} Whatever", "connection: close", "x-request-id: req-1"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        await self.raw("\r\n".join([*lines, "", ""]).encode())

    async def chunk(self, data: bytes) -> None:
        await self.raw(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    async def whole(self, refusal: Refusal) -> None:
        text = isinstance(refusal.body, str)
        body = str(refusal.body).encode() if text else json.dumps(refusal.body).encode()
        kind = "text/html" if text else "application/json"
        await self.head(
            refusal.status, {"content-type": kind, "content-length": str(len(body)), **dict(refusal.headers)}
        )
        await self.raw(body)

    async def pieces(self, kind: str, pieces: list[bytes], *, end: bool = True) -> None:
        await self.head(200, {"content-type": kind, "transfer-encoding": "chunked"})
        for piece in pieces:
            await self.chunk(piece)
        if end:
            await self.raw(b"0\r\n\r\n")


def _plain(protocol: Protocol, status: int) -> object:
    if protocol.name == "google":
        return {"error": {"code": status, "message": f"plain {status}", "status": "WHATEVER"}}
    return {"error": f"plain {status}"} if protocol.name == "ollama" else {"error": {"message": f"plain {status}"}}


def _summing(asked: Asked) -> Answer:
    """Asks for the tool, and tells the result once it is there."""
    last = json.dumps((asked.body.get("messages") or asked.body["contents"])[-1])
    found = re.search(r"136", last)
    return Answer("The sum is 136.") if found else ANSWERS["tool"]


def _addressed(asked: Asked) -> tuple[Protocol, str, bool]:
    """(protocol, scenario, whether in pieces)"""
    path = asked.path.partition("?")[0]
    if path == "/v1/chat/completions":
        return PROTOCOLS["openai"], asked.body["model"], bool(asked.body.get("stream"))
    if path == "/api/chat":
        return PROTOCOLS["ollama"], asked.body["model"], bool(asked.body.get("stream", True))
    found = _GOOGLE.fullmatch(path)
    assert found, f"nobody asks for {asked.path}"
    return PROTOCOLS["google"], found[1], found[2] == "streamGenerateContent"


@asynccontextmanager
async def running_stub() -> AsyncIterator[Stub]:
    stub = Stub()
    server = await asyncio.start_server(stub.serve, "127.0.0.1", 0, limit=1 << 24)
    stub.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield stub
    finally:
        server.close()
