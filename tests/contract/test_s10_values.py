"""S10: what cannot be stored raises BadRow and nothing is written; what went in comes out."""

from collections.abc import Callable
from typing import Any

import pytest

from callboard.mailbox import codec
from callboard.mailbox.errors import BadRow
from callboard.mailbox.message import MAX_BODY_BYTES
from callboard.persistence.store import Session, Store
from callboard.persistence.unit import Retry, Unit
from tests.contract.build import (
    AGENT,
    OTHER,
    SHARD,
    actor,
    dead,
    decision,
    event,
    message,
    timer,
    unit,
    verdict,
    waiting,
    work,
    write,
)

pytestmark = pytest.mark.anyio

TOO_BIG = 1 << 63
BAD_TEXTS = {"nul": "a\0b", "surrogate": "a\ud800b"}

BAD_UNITS: dict[str, Callable[[str], Unit]] = {
    "message body": lambda text: unit(sends=[message(body=text)]),
    "message sender": lambda text: unit(sends=[message(sender=text)]),
    "held message": lambda text: unit(holds=[message(body=text)]),
    "event": lambda text: unit(events=[event(1, body=text)]),
    "timer": lambda text: unit(timers=[timer(body=text)]),
    "cancelled timer": lambda text: unit(timers_cancelled=[text]),
    "decision": lambda text: unit(decisions=[decision(arguments=text)]),
    "dead letter": lambda text: unit(dead=[dead(message(), detail=text)]),
    "reason": lambda text: Unit(shard=SHARD, actor=actor(reason=text)),
    "summary": lambda text: Unit(shard=SHARD, actor=actor(summary=text)),
}


@pytest.mark.parametrize("bad", BAD_TEXTS)
@pytest.mark.parametrize("where", BAD_UNITS)
async def test_s10_a_text_that_cannot_be_stored_writes_nothing(
    store: Store, node: Session, where: str, bad: str
) -> None:
    innocent = unit(OTHER, sends=[message(OTHER)])
    with pytest.raises(BadRow):
        await node.commit([innocent, BAD_UNITS[where](BAD_TEXTS[bad])])
    assert await store.actor(OTHER) is None
    assert await store.actor(AGENT) is None
    assert await waiting(node, OTHER) == []
    await write(node, innocent)


async def test_s10_an_error_text_that_cannot_be_stored_writes_nothing(node: Session) -> None:
    failing = message()
    await write(node, work(sends=[failing]))
    with pytest.raises(BadRow):
        await node.commit([work(retries=[Retry(failing.id, 0.0, 1, 1, last_error="\0")])])
    (found,) = await node.mailbox(SHARD, AGENT, limit=1)
    assert found.failures == 0


@pytest.mark.parametrize(
    "bad",
    [
        lambda: unit(sends=[message(id=TOO_BIG)]),
        lambda: unit(sends=[message(correlation=TOO_BIG)]),
        lambda: unit(sends=[message(causation=-TOO_BIG - 1)]),
        lambda: Unit(shard=SHARD, actor=actor(last_id=TOO_BIG)),
        lambda: unit(acks=[TOO_BIG]),
        lambda: unit(withdraws=[TOO_BIG]),
    ],
    ids=["id", "correlation", "causation", "last id", "acknowledged", "withdrawn"],
)
async def test_s10_a_number_beyond_64_bits_writes_nothing(store: Store, node: Session, bad: Callable[[], Unit]) -> None:
    innocent = unit(OTHER)
    with pytest.raises(BadRow):
        await node.commit([innocent, bad()])
    assert await store.actor(OTHER) is None
    await write(node, innocent)


async def test_s10_an_id_that_is_taken_writes_nothing(store: Store, node: Session) -> None:
    first = message(body='{"first":1}')
    await write(node, work(sends=[first]))
    with pytest.raises(BadRow):
        await node.commit([unit(OTHER), unit(sends=[message(id=first.id, body='{"second":2}')])])
    assert await store.actor(OTHER) is None
    (found,) = await node.mailbox(SHARD, AGENT, limit=10)
    assert found.body == '{"first":1}'


@pytest.mark.parametrize("bad", BAD_TEXTS)
async def test_s10_sending_what_cannot_be_stored_accepts_nothing(store: Store, node: Session, bad: str) -> None:
    for envelope, client_id in ((message(body=BAD_TEXTS[bad]), ""), (message(), BAD_TEXTS[bad])):
        with pytest.raises(BadRow):
            await store.send([message(OTHER), envelope], ["ok", client_id])
    assert await waiting(node, OTHER) == []
    assert await store.send([message(OTHER)], ["ok"]) == [True]


@pytest.mark.parametrize("bad", BAD_TEXTS)
async def test_s10_a_note_that_cannot_be_stored_decides_nothing(store: Store, node: Session, bad: str) -> None:
    await write(node, unit(decisions=[decision()]))
    with pytest.raises(BadRow):
        await store.decide(verdict(note=BAD_TEXTS[bad]), message(OTHER))
    found = await store.decision("d1")
    assert found is not None
    assert found.status == "pending"
    assert await waiting(node, OTHER) == []


BODIES = {
    "nul": codec.encode({"text": "a\0b"}),
    "lone surrogates": codec.encode({"text": "\ud800 and \udfff"}),
    "escaped escapes": codec.encode({"text": "\\u0000 \\ud800 \\\\"}),
    "beyond the basic plane": codec.encode({"text": "𝄞 😀", "😀": 1}),
    "key order and doubles": '{"b":1,"a":2,"b":3}',
    "white space": '{ "a" :  1.0 , "n": 1e400 }',
    "big number": codec.encode({"n": 2**70, "f": 1.5e300}),
    "empty": "",
    "quotes": codec.encode({"text": "';--\n\t\"$1 %s {}"}),
    "deep": "[" * 500 + "]" * 500,
    "a mebibyte": codec.encode({"text": "é" * (MAX_BODY_BYTES // 2 - 100)}),
}


@pytest.mark.parametrize("name", BODIES)
async def test_s10_bodies_come_out_as_they_went_in(store: Store, node: Session, name: str) -> None:
    body = BODIES[name]
    sent, gated, lost = message(body=body), message(body=body), message(body=body)
    await write(
        node,
        unit(
            sends=[sent],
            holds=[gated],
            events=[event(1, body=body)],
            timers=[timer(body=body)],
            decisions=[decision(arguments=body)],
            dead=[dead(lost)],
        ),
    )
    assert [e.body for e in await node.mailbox(SHARD, AGENT, limit=1)] == [body]
    assert [e.body for e in (await node.ready([SHARD], per_actor=1, limit=1))[0]] == [body]
    assert {view.envelope.body for view in await store.peek(AGENT)} == {body}
    assert [e.body for e in await store.journal(AGENT)] == [body]
    assert [t.body for t in await node.due([SHARD], within_seconds=1.0, limit=1)] == [body]
    assert [letter.envelope.body for letter in await store.dead_letters()] == [body]
    found = await store.decision("d1")
    assert found is not None
    assert found.arguments == body


async def test_s10_every_field_of_an_envelope_comes_out_as_it_went_in(store: Store, node: Session) -> None:
    sent = message(
        id=TOO_BIG - 1,
        sender="",
        lane=1,
        type="ticket.opened",
        version=32_000,
        sender_seq=TOO_BIG - 1,
        deliveries=3,
        failures=2,
        last_error="ValueError: “bad”",
        reply_to="/sys/client:1",
        correlation=TOO_BIG - 1,
        causation=TOO_BIG - 2,
        started=True,
        sent_by_node=1023,
    )
    await write(node, work(sends=[sent]))
    assert await node.mailbox(SHARD, AGENT, limit=1) == [sent]
    assert (await node.ready([SHARD], per_actor=1, limit=1))[0] == [sent]
    assert [view.envelope for view in await store.peek(AGENT)] == [sent]
    await write(node, work(acks=[sent.id], dead=[dead(sent)]))
    assert [letter.envelope for letter in await store.dead_letters()] == [sent]


@pytest.mark.parametrize("state", [b"", b"\0\xff\x80" * 100, bytes(range(256)) * 4_000])
async def test_s10_states_are_any_bytes(store: Store, node: Session, state: bytes) -> None:
    await write(node, Unit(shard=SHARD, actor=actor(state=state)))
    row = await store.actor(AGENT)
    assert row is not None
    assert row.state == state


@pytest.mark.parametrize("field", ["reason", "summary"])
async def test_s10_texts_of_an_actor_come_out_as_they_went_in(store: Store, node: Session, field: str) -> None:
    text = codec.encode({"goal": "“é” \0 \ud800 😀"})
    fields: dict[str, Any] = {field: text}
    await write(node, Unit(shard=SHARD, actor=actor(**fields)))
    row = await store.actor(AGENT)
    assert row is not None
    assert getattr(row, field) == text
