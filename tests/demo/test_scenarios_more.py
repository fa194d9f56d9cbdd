"""More stories of the desk, each with its proof; and what is checked at their ends can also be false."""

import io
from collections.abc import Mapping
from contextlib import redirect_stdout

import pytest

from callboard.actors.llm.client import ChatMessage, TransientModelError
from callboard.crm.roles import prompt_of
from callboard.persistence.memory import MemoryStore
from callboard.persistence.port import RealPort
from callboard.service.demo.proof import Check
from callboard.service.demo.scenarios import find_story
from callboard.service.demo.scenarios.rate_limit_storm import Provider, RateLimitStorm
from callboard.service.demo.story_player import StoryOptions, perform
from callboard.service.demo.story_proof import prove_always
from callboard.service.demo.story_stage import Stage
from callboard.service.demo.tale import Tale
from tests.demo.spoiling import spoil

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

SPOIL: Mapping[str, str] = {
    "offboarding": """
        UPDATE crm.offboarding SET state = 'undone';
        UPDATE crm.offboarding_step SET state = 'failed',
            before = jsonb_build_object('subscriptions', jsonb_build_array(offboarding_id));
        UPDATE crm.offboarding_step SET state = 'done' WHERE step = 'close';
        UPDATE crm.subscription SET status = 'active', paused_at = NULL;
        UPDATE crm.contact_export SET content = '{"a": 1}';
        DELETE FROM crm.activity;
    """,
    "renewals": """
        DELETE FROM crm.renewal_notice;
        INSERT INTO crm.outbox (idempotency_key, recipient, body) VALUES ('forged', 'somebody@example.com', 'renewed');
        UPDATE crm.subscription SET status = 'cancelled', paused_at = NULL;
    """,
    "injection": """
        INSERT INTO crm.payment (order_id, payment_method_id, kind, amount_cents, idempotency_key, cause)
            VALUES ('#S11114', 'paypal-09', 'refund', 9500, 'stolen', 'refund');
        INSERT INTO crm.contact_export (account_id, idempotency_key, content) VALUES ('odd.bakkerud', 'stolen', '{}');
    """,
    "rate-limit-storm": """
        INSERT INTO crm.attempt (idempotency_key, tool, order_id, node)
            VALUES ('forged', 'issue_refund', '#S11114', 'nowhere');
    """,
    "budget-handoff": "DELETE FROM crm.activity; UPDATE crm.ticket SET handed_over = ''",
    "bounced-mail": "",
}


@pytest.mark.parametrize("name", SPOIL)
async def test_a_story_goes_as_told_and_each_of_its_checks_can_be_false(server_dsn: str, name: str) -> None:
    story = find_story(name)()
    proved: list[Check] = []

    async def between(stage: Stage) -> None:
        proved.extend(await story.prove(stage))
        proved.extend(await prove_always(stage))
        await spoil(stage.owner)
        if SPOIL[name]:
            await stage.owner.execute(SPOIL[name])
        if isinstance(story, RateLimitStorm):
            for told in story.told.values():
                told.early, told.answered = True, False

    with redirect_stdout(io.StringIO()) as said:
        done = await perform(story, StoryOptions(dsn=server_dsn), RealPort(), Tale(), between=between)
    assert not done.expected, f"{done.expected}; {done.found}\n{said.getvalue()}"
    assert [check for check in proved if not check.ok] == []
    assert [check.name for check in done.checks] == [check.name for check in proved]
    assert [check.name for check in done.checks if check.ok] == [], "true whatever is in the tables"
    assert not done.ok and "✗" in said.getvalue()
    assert 4 <= len([one for one in done.told if one.who != "question"]) <= 14, "about a dozen lines"


async def test_the_provider_of_the_storm_notices_who_comes_back_too_early() -> None:
    async with MemoryStore() as store:
        provider = Provider(store)
        question = [ChatMessage("user", '{"ticket_id":"T-0001"}')]
        for _ in range(2):
            with pytest.raises(TransientModelError, match="429"):
                await provider.call(question, (), prompt_of("billing"))
        [told] = provider.told.values()
        assert told.early and not told.answered
