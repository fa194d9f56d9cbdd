"""DESIGN §9.11: a viewer decides nothing and changes nothing; each change takes one scope, and no other one will do."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from callboard import PostgresStore
from callboard.crm.app import app
from callboard.mailbox.errors import NotAllowed
from callboard.persistence.operating import MailboxSummary, MessageSearch
from callboard.persistence.postgres import create_roles
from callboard.persistence.postgres.roles import READER
from callboard.persistence.store import Store
from callboard.service.operations.decisions import Answer, Decisions
from callboard.service.operations.principal import ALL_SCOPES, SCOPES, Principal, Scope
from callboard.service.operations.pruning import Pruning
from callboard.service.operations.runs import Operations
from callboard.service.operations.tokens import Tokens
from tests.documented.stage import stage

from .every_operation import WITHOUT_PRINCIPAL, Operation, classes, operations
from .logins import login

pytestmark = pytest.mark.anyio
APPROVAL = "crm.desk.agent:T-0001.4.4"
WAITING = "/crm/desk/agent:T-0011"
SAMPLES: dict[str, Any] = {
    "address": "/crm/desk/agent:T-0001",
    "addresses": ["/crm/desk/agent:T-0001", "/crm/desk/agent:T-0011"],
    "Mailboxes.address": WAITING,
    "answer": Answer("approved", ("138.03",)),
    "app": app,
    "box": MailboxSummary(WAITING, 130, 1, 1, 0, 0, 0, 0, 1.0, 0),
    "causation": 1,
    "changed": {"amount_cents": 5_000},
    "Decisions.given": APPROVAL,
    "given": "T-0001",
    "goal": "Work ticket T-0012.",
    "key": "dec_0",
    "name": "dashboard",
    "number": 1,
    "older_than_seconds": 0.0,
    "place": "/crm",
    "numbers": [1],
    "reason": "not now",
    "recipient": "/crm/desk/agent:T-0001",
    "requeue": True,
    "scopes": ["read"],
    "text": "the customer has called again",
    "tool": "issue_refund",
    "wanted": MessageSearch(recipient="/crm/desk"),
    "Decisions.wanted": [(APPROVAL, Answer("approved", ("138.03",)))],
    "wish": Answer("denied"),
}


@pytest.fixture(scope="module")
def desk(server_dsn: str) -> Iterator[str]:
    with stage(server_dsn) as copy:
        yield copy()


@pytest.fixture
async def store(desk: str) -> AsyncIterator[Store]:
    async with PostgresStore(desk) as opened:
        yield opened


async def samples(store: Store) -> dict[str, Any]:
    [waiting] = await store.peek(WAITING)
    return {**SAMPLES, "id": waiting.envelope.id}


def scope_of(operation: Operation) -> Scope:
    return "approve" if operation.owner is Decisions else "admin" if operation.owner in (Pruning, Tokens) else "operate"


def someone(*scopes: Scope) -> Principal:
    return Principal("somebody", "http", scopes=frozenset(scopes))


@pytest.mark.parametrize("operation", operations(), ids=str)
async def test_an_operation_only_reads_or_takes_its_scope_and_no_other_one_will_do(
    operation: Operation, store: Store
) -> None:
    given = await samples(store)
    able = await operation.call(store, Principal("somebody", scopes=ALL_SCOPES), given)
    assert able in ("reached", "returned"), f"with every right, {operation} ends with {able}: what sample would do?"
    needed = scope_of(operation)
    for scope in SCOPES:
        outcome = await operation.call(store, someone(scope), given)
        if able == "reached":
            assert outcome == ("reached" if scope == needed else "refused"), f"{operation} with {scope}: {outcome}"
        else:
            assert outcome in ("returned", "refused"), f"{operation} with {scope}: {outcome}"
    if able == "reached":
        assert await operation.call(store, someone(*sorted(ALL_SCOPES - {needed})), given) == "refused"


async def test_these_are_the_changes_that_there_are(store: Store) -> None:
    """A list to be looked at: what is new in it has been thought about."""
    given = await samples(store)
    able = Principal("somebody", scopes=ALL_SCOPES)
    found = {str(one) for one in operations() if await one.call(store, able, given) == "reached"}
    assert found >= {
        "Operations.submit", "Operations.tell", "Operations.fork", "Operations.cancel",
        "Decisions.decide", "Decisions.decide_many", "Decisions.take_back", "Decisions.edit",
        "Inspection.resume", "Inspection.pause", "Inspection.cancel", "Inspection.kill",
        "Subtree.pause", "Subtree.resume",
        "DeadLetters.requeue", "DeadLetters.discard", "GivingUp.discard", "GivingUp.quarantine",
        "Tokens.create", "Tokens.revoke", "Pruning.prune",
    }  # fmt: skip


async def test_every_look_is_open_to_a_reader_of_the_database(desk: str, store: Store) -> None:
    """Also in the database: what only reads needs no more than `callboard_reader`."""
    await create_roles(desk)
    given, able = await samples(store), Principal("somebody", scopes=ALL_SCOPES)
    looks = [one for one in operations() if await one.call(store, able, given) == "returned"]
    assert len(looks) > 15
    async with login(desk, READER) as own_dsn, PostgresStore(own_dsn) as reader:
        outcomes = {str(look): await look.call(reader, able, given) for look in looks}
    assert {name: outcome for name, outcome in outcomes.items() if outcome != "returned"} == {}


def test_every_class_acts_as_a_principal_or_has_a_reason_not_to() -> None:
    acting = {operation.owner for operation in operations()}
    others = {one.__name__ for one in classes() if one not in acting}
    assert others <= set(WITHOUT_PRINCIPAL), "does it act as somebody? Then it takes Operations"


async def test_a_change_that_forgets_to_ask_would_be_found(store: Store) -> None:
    class Forgetful:
        def __init__(self, operations: Operations) -> None:
            self.operations = operations

        async def cancel(self, address: str) -> None:
            await self.operations.client.cancel(address)

    operation = Operation(Forgetful, "cancel")
    assert await operation.call(store, someone("read"), SAMPLES) == "reached"


async def test_a_viewer_decides_nothing_and_the_approval_waits_on(desk: str, store: Store) -> None:
    """The same once more without a double: a real store, a real decision, and nothing written."""
    before = await store.audit()
    viewer = Decisions(Operations(store, someone("read")))
    for given in (APPROVAL, "T-0001"):
        for answer in (Answer("approved", ("138.03",)), Answer("denied", label="the boss")):
            with pytest.raises(NotAllowed, match="'approve'"):
                await viewer.decide(given, answer)
    row = await store.decision(APPROVAL)
    assert row is not None and row.status == "pending" and not row.decided_by
    assert await store.audit() == before
