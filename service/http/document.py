"""The OpenAPI document: made from the routes, served as `/openapi.json`, kept as docs/openapi.json.

A test compares the two; `python -m callboard.service.http > docs/openapi.json` writes it anew.
"""

import json
import re
from typing import Any

from litestar import Litestar, Request, Response, Router, get
from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler, HTTPRouteHandler
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme

from .problems import MEDIA_TYPE, ProblemError

ABOUT = (
    "Runs of LLM agents, the calls that wait for people, and what the operators of a desk look at. Every error is a "
    "problem document (RFC 9457); lists come in pages with cursors; what changes something takes an Idempotency-Key."
)
_REF = "#/components/schemas/"
_PAGE = re.compile(r"Page_(?:\w+\.)*(\w+?)(?:Out|Item)?_")


def document() -> OpenAPIConfig:
    """How the document is made: without examples, and without any of the pages that show it (their scripts come from
    elsewhere and would run beside ours)."""
    return OpenAPIConfig(
        title="Callboard",
        version="1",
        description=ABOUT,
        create_examples=False,
        use_handler_docstrings=True,
        render_plugins=[JsonRenderPlugin()],
        openapi_router=Router(
            "/openapi", route_handlers=[], guards=[_hidden], include_in_schema=False, dto=None, return_dto=None
        ),
        components=Components(
            security_schemes={
                "bearer": SecurityScheme(
                    type="http",
                    scheme="bearer",
                    description="A token of `callboard token create`; none is asked for where none was ever made.",
                )
            }
        ),
    )


def _hidden(connection: ASGIConnection[Any, Any, Any, Any], _: BaseRouteHandler) -> None:
    """Litestar's own routes for the document have HTML of theirs, and their document is not tidied."""
    raise ProblemError("no-such-route", f"there is nothing at {connection.url.path[:200]}; see /openapi.json")


def document_route() -> HTTPRouteHandler:
    """The route of the document."""
    kept: dict[str, bytes] = {}

    @get("/openapi.json", include_in_schema=False, sync_to_thread=False)
    def openapi_document(request: Request[Any, Any, Any]) -> Response[bytes]:
        """The document as it is served."""
        if not kept:
            kept[""] = written(request.app).encode()
        return Response(kept[""], media_type="application/json")

    return openapi_document


def written(app: Litestar) -> str:
    """The document of an application, as it is kept."""
    schema = tidied(app.openapi_schema.to_schema())
    return json.dumps(schema, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def tidied(schema: dict[str, Any]) -> dict[str, Any]:
    """The document that Litestar makes, where it is about us: what is refused is a 422 problem and no 400 of its own,
    bodies take no fields beside theirs, and lists are called by what is in them."""
    text = json.dumps(schema)
    names = {name: f"{found[1]}Page" for name in schema["components"]["schemas"] if (found := _PAGE.fullmatch(name))}
    for name, short in names.items():
        text = text.replace(json.dumps(name), json.dumps(short)).replace(f'"{_REF}{name}"', f'"{_REF}{short}"')
    made: dict[str, Any] = json.loads(text, parse_float=_number)
    schemas = made["components"]["schemas"]
    for operations in made["paths"].values():
        for operation in operations.values():
            _tidy(operation, schemas)
    return made


def _number(text: str) -> int | float:
    """Whole numbers as such: as a float the greatest 63-bit one is none any more."""
    number = float(text)
    return min(int(number), (1 << 63) - 1) if number.is_integer() else number


def _tidy(operation: dict[str, Any], schemas: dict[str, Any]) -> None:
    paragraphs = str(operation.get("description", "")).split("\n\n")
    operation["description"] = "\n\n".join(" ".join(one.split()) for one in paragraphs)
    bad = operation["responses"].get("400", {})
    if MEDIA_TYPE not in bad.get("content", {MEDIA_TYPE: None}):
        del operation["responses"]["400"]
    for content in operation.get("requestBody", {}).get("content", {}).values():
        _close(content["schema"], schemas)


def _close(schema: Any, schemas: dict[str, Any]) -> None:
    """No fields beside those that are named, as deep as it goes."""
    if isinstance(schema, list):
        for one in schema:
            _close(one, schemas)
    elif isinstance(schema, dict):
        if name := str(schema.get("$ref", "")).removeprefix(_REF):
            _close(schemas[name], schemas)
        elif "properties" in schema and "additionalProperties" not in schema:
            schema["additionalProperties"] = False
        _close([one for key, one in schema.items() if key != "$ref"], schemas)
