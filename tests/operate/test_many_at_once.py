"""Calls with a text that is not what it looks like are let go one by one, whoever asks in whatever way; and what a
tool declares of its sums is shown in lists, at a glance and over HTTP."""

import msgspec
import pytest

from callboard.mailbox.errors import UsageError
from callboard.persistence.rows import Decision
from callboard.persistence.watching import Asked
from callboard.service.cli.render import approval_lines, print_approvals
from callboard.service.http.approval_shapes import Amount, amounts_of, approval_out
from callboard.service.operations.decisions import Answer
from callboard.service.operations.glancing import money_text
from callboard.service.operations.principal import Principal
from callboard.service.operations.runs import Operations
from callboard.service.operations.suspect import suspects_in
from callboard.service.operations.together import together
from callboard.service.operations.views import ApprovalView, approval_document, approval_view
from callboard.service.operations.watching import Watching
from tests.agent.stage import Stage
from tests.agent.test_sums import once, pay
from tests.tui.desk import desk

LATIN, LOOKALIKE = "Nordlicht GmbH", "N\u043erdlicht GmbH"
DECLARED = '[{"path":"amount_cents","sum":"USD minor","source":"declared","trust":"trusted"}]'


def view(arguments: str = '{"amount_cents":48000}', provenance: str = DECLARED) -> ApprovalView:
    row = Decision("d.1", "/a/run:1", "1", 1, "/a/approvals", "approval", "pay", arguments, "0" * 64, "why")
    row.provenance = provenance
    return approval_view(row, "1")


# --- suspect texts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"to": LOOKALIKE}, "to mixes alphabets"),
        ({"lines": [{"sku": "a\u200bb"}]}, "lines[0].sku holds 1 hidden character"),
        ({"p\u0430yee": "ann"}, "its name mixes alphabets"),
        ({"to": "ann \u202egro.rekcatta"}, "to holds 1 hidden character"),
        ({"to": "48\uff10"}, "to holds digits of another script"),
    ],
)
def test_r7_what_is_suspect_is_said_with_its_place(arguments: dict[str, object], said: str) -> None:
    assert any(said in one for one in suspects_in(arguments))


def test_honest_names_of_any_alphabet_are_not_suspect() -> None:
    assert suspects_in({"to": "Müller & Söhne", "b": "Привет", "c": "日本語", "d": ["❤\ufe0f", 5, None]}) == []


@pytest.mark.anyio
async def test_r7_a_call_with_a_lookalike_is_left_out_of_what_is_decided_together_and_it_is_said_why() -> None:
    async with desk() as d:
        await d.refund("20.00", order="A-1")
        await d.refund("30.00", order="A-2", to="card_\u0430_4242")
        plan = together(await d.decisions().list(), Principal("mara", "tui", "desk"))
        assert [one.text for one in plan.totals] == ["20.00"]
        [out] = plan.left_out
        assert out.why == "a suspect text" and "which looks Latin and is Cyrillic" in out.suspects[0]


@pytest.mark.anyio
async def test_r7_no_command_and_no_program_lets_such_a_call_go_with_others() -> None:
    async with desk() as d:
        plain = await d.refund("20.00", order="A-1")
        odd = await d.refund("30.00", order="A-2", memo="N\u043erdlicht")
        wanted = [(plain, Answer("approved", ("20.00",))), (odd, Answer("approved", ("30.00",)))]
        first, second = await d.decisions().decide_many(wanted)
        assert first.view is not None and first.view.status == "approved"
        assert isinstance(second.error, UsageError)
        assert "memo mixes alphabets" in str(second.error) and "on its own" in str(second.error)
        assert (await d.row(odd)).status == "pending"
        [alone] = await d.decisions().decide_many(wanted[1:])
        assert alone.view is not None and alone.view.status == "approved", "on its own, by one who has looked at it"


@pytest.mark.anyio
async def test_such_calls_are_refused_together_like_any_others() -> None:
    async with desk() as d:
        ids = [await d.refund("30.00", order=f"A-{n}", memo="N\u043erdlicht") for n in range(2)]
        outcomes = await d.decisions().decide_many([(one, Answer("denied", note="no")) for one in ids])
        assert [one.view is not None and one.view.status for one in outcomes] == ["denied", "denied"]


@pytest.mark.anyio
async def test_a_sum_that_cannot_be_read_is_decided_on_its_own() -> None:
    async with desk() as d:
        await d.refund("20.00", order="A-1")
        await d.mail(body="480,00 EUR")
        plan = together(await d.decisions().list(), Principal("mara", "tui", "desk"))
        assert len(plan.chosen) == 1 and [one.why for one in plan.left_out] == ["a sum that cannot be read"]


# --- what a tool has declared ------------------------------------------------------------------------------------


def test_a_declared_currency_is_in_documents_and_over_http_and_is_repeated_there() -> None:
    [money] = approval_document(view())["money"]
    assert money == {"field": "amount_cents", "value": "480.00", "currency": "USD"}
    [out] = approval_out(view()).money
    assert (out.value, out.currency) == ("480.00", "USD")
    assert amounts_of(Amount("480.00", "USD"), view()) == ("480.00",)
    with pytest.raises(UsageError, match="is in USD, not in EUR"):
        amounts_of(Amount("480.00", "EUR"), view())


def test_a_sign_that_several_currencies_share_is_repeated_as_it_is_shown() -> None:
    shown = view('{"amount":"$480"}', "")
    [out] = approval_out(shown).money
    given = msgspec.convert({"value": out.value, "currency": out.currency}, Amount)
    assert amounts_of(given, shown) == ("480",)


def test_a_declared_currency_is_in_the_command_s_lists(capsys: pytest.CaptureFixture[str]) -> None:
    print_approvals([view(), view('{"amount":"480,00"}', "")])
    said = capsys.readouterr().out
    assert "USD 480.00" in said and "480,00?" in said
    assert any("amount     USD 480.00  (amount_cents)" in one.text for one in approval_lines(view()))
    odd = [one.text for one in approval_lines(view('{"amount":"480,00"}', ""))]
    assert any("amount?    480,00  (amount: no sum that can be read" in one for one in odd)
    assert any("--amount …" in one for one in odd)


def test_a_declared_currency_is_seen_at_a_glance() -> None:
    asked = Asked("d", "approval", "pending", "pay", '{"amount_cents":48000}', 0.0, 0.0, "", DECLARED)
    assert money_text(asked.arguments, asked.provenance) == " 480.00 USD"
    assert money_text(asked.arguments) == " 480.00"


@pytest.mark.anyio
async def test_a_declared_currency_is_in_the_line_of_what_waits() -> None:
    async with Stage(once(), [pay({"units": "EUR cents"})]) as stage:
        await stage.begin()
        watching = Watching(Operations(stage.store, Principal("mara"), stage.port))
        assert [one.shown for one in (await watching.attention()).sums] == ["480.00 EUR"]
