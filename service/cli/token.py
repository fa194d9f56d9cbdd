"""`token`: make, list and revoke the bearer tokens of the HTTP API."""

import re
from typing import TYPE_CHECKING, Annotated

import typer

from ...mailbox.errors import UsageError
from .options import Dsn, Json
from .session import operate
from .terminal import note, print_json, print_line, print_row

if TYPE_CHECKING:
    from ...persistence.operating import Token
    from ..operations.runs import Operations
    from ..operations.tokens import NewToken

_Name = Annotated[str, typer.Argument(metavar="NAME", help="The token's own name; each is used once.")]
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def add_to(app: typer.Typer) -> None:
    """Add the commands of this file."""
    group = typer.Typer(rich_markup_mode=None, context_settings={"help_option_names": ["--help", "-h"]})
    group.callback()(token)
    group.command("create")(create)
    group.command("list")(list_)
    group.command("revoke")(revoke)
    app.add_typer(group, name="token")


def token() -> None:
    """Make, list and revoke the bearer tokens of the HTTP API."""


def create(
    name: _Name,
    *,
    scopes: Annotated[str, typer.Option("--scopes", metavar="LIST", help="Of read,operate,approve,admin.")],
    principal: Annotated[
        str,
        typer.Option("--principal", metavar="WHO", help="Whom it stands for in decisions and audit; NAME unless said."),
    ] = "",
    expires: Annotated[str, typer.Option("--expires", metavar="TIME", help="12h, 30d, 8w; never unless said.")] = "",
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Make a token, and show its secret once.

    The secret goes to stdout, alone; what is kept of it is a hash. read: look. operate: submit, tell, cancel, fork,
    pause, resume, requeue, discard. approve: decide. admin: tokens. None includes another.

    Exit codes: 2 a name, scope or time that cannot be, 5 there is or was a token of that name.
    """
    from ..operations.tokens import Tokens, token_document

    seconds = _seconds(expires)

    async def work(operations: "Operations") -> "NewToken":
        return await Tokens(operations).create(name, scopes.split(","), principal=principal, expires_seconds=seconds)

    made, _ = operate(work, dsn)
    if json:
        print_json({"schema": "callboard.token/1", **token_document(made.token), "secret": made.secret})
        return
    note(f"token {made.token.name} ({made.token.scopes}), for {made.token.principal}; shown now and never again:")
    print_line(made.secret)


def list_(dsn: Dsn = None, json: Json = False) -> None:
    """List all tokens, revoked ones included; no secrets."""
    from ..operations.tokens import Tokens, tokens_document

    async def work(operations: "Operations") -> "list[Token]":
        return await Tokens(operations).list()

    found, _ = operate(work, dsn)
    if json:
        print_json(tokens_document(found))
    elif found:
        for one in found:
            print_row(_row(one))
    else:
        note("no tokens yet; make one: callboard token create NAME --scopes read")


def revoke(name: _Name, dsn: Dsn = None, json: Json = False) -> None:
    """Let a token open nothing any more.

    A server that knows it forgets it within 5 seconds.

    Exit codes: 3 no such token.
    """
    from ..operations.tokens import Tokens, token_document

    async def work(operations: "Operations") -> "Token":
        return await Tokens(operations).revoke(name)

    found, _ = operate(work, dsn)
    if json:
        print_json({"schema": "callboard.token/1", **token_document(found)})
    else:
        print_line(f"{found.name}: revoked")


def _row(one: "Token") -> tuple[str, ...]:
    from ..operations.views import moment

    if one.revoked_at:
        state = f"revoked {moment(one.revoked_at)}"
    elif one.expires_at:
        state = f"until {moment(one.expires_at)}"
    else:
        state = "valid"
    used = f"used {moment(one.last_used_at)}" if one.last_used_at else "never used"
    return one.name, one.principal, one.scopes.replace(" ", ","), state, used


def _seconds(text: str) -> float:
    if not text:
        return 0.0
    found = re.fullmatch(r"(\d{1,6})([smhdw])", text.strip())
    if found is None or not int(found[1]):
        raise UsageError(f"--expires: expected a time such as 12h, 30d or 8w, got {text[:40]!r}")
    return int(found[1]) * _UNITS[found[2]]
