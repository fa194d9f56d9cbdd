"""Which queue a ticket belongs into: over the desk's own wordings, and over texts that say it in other words."""

import pytest

from callboard.crm.phrasings import PHRASINGS, Rarity, Scenario
from callboard.crm.reading import WISHES, Wish, read_request
from callboard.crm.triage import QUEUE_OF, label, label_of

WISH_OF: dict[Scenario | Rarity, Wish] = {
    "damaged": "refund_damaged",
    "damaged_above_limit": "refund_damaged",
    "cancel_pending": "cancel",
    "cancel_too_late": "cancel",
    "order_status": "status",
    "exchange": "exchange",
    "close_account": "close_account",
    "change_email": "change_email",
    "subscription": "subscription",
    "question": "question",
    "unclear": "unclear",
}
FIELDS = {
    "order": "#W1234567",
    "email": "ilse@example.org",
    "first": "Ilse",
    "exact": "lamp (color red)",
    "want": "color blue",
    "new": "ilse@example.net",
    "subscription": "SUB-1001",
}
# None has a word that `reading` goes by. What no wish clearly wins, a person has to see.
OTHER_WORDS: tuple[tuple[Wish, str], ...] = (
    ("refund_damaged", "The lamp in #W1234567 has a dent and is bent. I want my money back."),
    ("refund_damaged", "The kettle from #W1234567 leaks and is useless, a refund please."),
    ("exchange", "The shirt of #W1234567 is too small. Can I have a large one instead?"),
    ("exchange", "The boots in #W1234567 are the wrong size, they do not fit. Replace them, please."),
    ("cancel", "I ordered #W1234567 by mistake and no longer want it."),
    ("cancel", "Never mind #W1234567, I do not want it, it was an accident."),
    ("close_account", "Erase all you have of me, forget me, goodbye."),
    ("change_email", "I moved, my inbox is now ilse@example.net, update your address book."),
    ("subscription", "I pay for free delivery every month and it is too much for me, make the monthly plan rest."),
    ("status", "I am still waiting for #W1234567, it has been three weeks and I have heard nothing of the parcel."),
    ("status", "#W1234567 was shipped two weeks ago and I have received nothing."),
    # The rest was written after the lists of words were, and nothing was changed for it.
    ("refund_damaged", "My new mug (#W1234567) fell apart in my hands. Pay me back."),
    ("refund_damaged", "Half of the plates in #W1234567 arrived chipped, I would like a refund."),
    ("exchange", "#W1234567: the jacket is too tight, a larger one would do."),
    ("cancel", "Please do not send #W1234567, I no longer need it, never mind the voucher."),
    ("close_account", "Remove everything you know about me, I leave you for another shop."),
    ("change_email", "Write to my work mailbox from next week, my e-mail will change."),
    ("subscription", "The repair service that I pay each period: I do not use it at all."),
    ("status", "It is ten days and no parcel of #W1234567 was seen here, I am still at the window."),
    ("status", "Has #W1234567 been delivered to a neighbour? I have not received it."),
    ("unclear", "Hello, this is about #W1234567. Ring me."),
    ("unclear", "Your shop is lovely."),
)
SAMPLES = [(scenario, template) for scenario in WISH_OF for template in PHRASINGS[scenario]]


def wish_of(subject: str, body: str) -> Wish:
    message = {"author": "customer", "body": body}
    return read_request({"subject": subject, "from_email": FIELDS["email"], "messages": [message]}).wish


@pytest.mark.parametrize(("scenario", "template"), SAMPLES, ids=[f"{one}-{n}" for n, (one, _) in enumerate(SAMPLES)])
def test_each_of_our_own_wordings_is_read_as_what_it_is(scenario: Scenario | Rarity, template: tuple[str, str]) -> None:
    subject, body = (text.format_map(FIELDS) for text in template)
    if FIELDS["order"] not in subject + body and scenario not in ("close_account", "change_email", "question"):
        body += f"\n\nOrder number: {FIELDS['order']}"
    read = wish_of(subject, body)
    assert read == WISH_OF[scenario]
    if read == "unclear":
        assert label_of(f"{subject}\n{body}") == label("unclear")


def test_other_words_are_beyond_reading_and_three_quarters_of_them_find_their_queue() -> None:
    assert {wish_of("", text) for _, text in OTHER_WORDS} == {"unclear"}
    found = {text: label_of(text) for _, text in OTHER_WORDS}
    right = [text for wish, text in OTHER_WORDS if found[text].queue == QUEUE_OF[wish]]
    wrong = [text for wish, text in OTHER_WORDS if found[text].queue not in (QUEUE_OF[wish], "person")]
    assert len(right) * 4 >= len(OTHER_WORDS) * 3, [text for text in found if text not in right]
    assert len(wrong) * 10 <= len(OTHER_WORDS), wrong  # where it is not sure, a person reads the ticket


def test_every_wish_has_a_queue() -> None:
    assert set(QUEUE_OF) == set(WISHES)
