"""S15: a token is known by the hash of its secret; revoked or expired, it opens nothing from that moment on."""

from hashlib import sha256

import pytest

from callboard.mailbox.errors import BadRow, Conflict, NotFound
from callboard.persistence.operating import AuditEntry, Token
from tests.contract.world import World

pytestmark = pytest.mark.anyio

ENTRY = AuditEntry("root", "create", "token:viewer")
SECRET = sha256(b"a secret").digest()
OTHER = sha256(b"another").digest()


async def test_s15_a_token_is_found_by_its_hash_only(world: World) -> None:
    await world.store.add_token(Token("viewer", "ann", "read approve"), SECRET, ENTRY)
    found = await world.store.token(SECRET)
    assert found is not None
    assert (found.name, found.principal, found.scopes, found.created_by) == ("viewer", "ann", "read approve", "root")
    assert found.created_at == pytest.approx(await world.store.now(), abs=60)
    assert await world.store.token(OTHER) is None
    assert [row.object for row in await world.store.audit()] == ["token:viewer"]


async def test_s15_a_name_and_a_secret_are_used_once(world: World) -> None:
    await world.store.add_token(Token("viewer", "ann", "read"), SECRET, ENTRY)
    for name, secret in (("viewer", OTHER), ("second", SECRET)):
        with pytest.raises(Conflict):
            await world.store.add_token(Token(name, "bob", "admin"), secret, ENTRY)
    await world.store.revoke_token("viewer", ENTRY)
    with pytest.raises(Conflict, match="names are used once"):
        await world.store.add_token(Token("viewer", "bob", "admin"), OTHER, ENTRY)
    assert [token.principal for token in await world.store.tokens()] == ["ann"]


async def test_s15_a_revoked_token_opens_nothing(world: World) -> None:
    await world.store.add_token(Token("viewer", "ann", "read"), SECRET, ENTRY)
    first = await world.store.revoke_token("viewer", AuditEntry("root", "revoke", "token:viewer"))
    assert first.revoked_at > 0
    assert await world.store.token(SECRET) is None
    again = await world.store.revoke_token("viewer", AuditEntry("bob", "revoke", "token:viewer"))
    assert again.revoked_at == first.revoked_at
    assert [row.who for row in await world.store.audit(action="revoke")] == ["root"]  # the second did nothing
    with pytest.raises(NotFound):
        await world.store.revoke_token("nobody", ENTRY)


async def test_s15_an_expired_token_opens_nothing(world: World) -> None:
    now = await world.store.now()
    await world.store.add_token(Token("short", "ann", "read", expires_at=now + 60), SECRET, ENTRY)
    assert await world.store.token(SECRET) is not None
    await world.pass_time(61)
    assert await world.store.token(SECRET) is None
    [kept] = await world.store.tokens()
    assert kept.expires_at == pytest.approx(now + 60, abs=0.01)


async def test_s15_its_use_is_noted_to_the_minute(world: World) -> None:
    await world.store.add_token(Token("viewer", "ann", "read"), SECRET, ENTRY)
    first = await world.store.token(SECRET)
    second = await world.store.token(SECRET)
    assert first is not None
    assert second is not None
    assert second.last_used_at == first.last_used_at > 0
    await world.pass_time(90)
    later = await world.store.token(SECRET)
    assert later is not None
    assert later.last_used_at >= first.last_used_at + 60


@pytest.mark.parametrize("token", [Token("", "ann", "read"), Token("viewer", "", "read")])
async def test_s15_a_token_has_a_name_and_a_principal(world: World, token: Token) -> None:
    with pytest.raises(BadRow):
        await world.store.add_token(token, SECRET, ENTRY)
    assert await world.store.tokens() == []
    assert await world.store.audit() == []


async def test_s15_a_secret_comes_as_its_hash(world: World) -> None:
    with pytest.raises(BadRow):
        await world.store.add_token(Token("viewer", "ann", "read"), b"the secret itself", ENTRY)
