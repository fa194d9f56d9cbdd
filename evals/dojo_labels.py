"""What an owner of AgentDojo's tools would say of them: effects, fields of results, and arguments that are only words.

Written as the desk's own tools are labelled, from what a field *is*:

- Free text (bodies, descriptions, reviews, files, web pages, names that outsiders choose) is untrusted.
- What a form or a database fills in (ids, addresses, times, amounts) is trusted.
- Numbers of a person's papers and means of payment are secret: trusted, and not for whoever gets a mail.
- An argument is free text where all of these hold: the tool keeps it in a field that is untrusted here when it is read
  again, so that a copied sentence gains nothing by being written there; it names no place, person, sum or time; and it
  is not itself a message to somebody. What it carries (links, addresses, whatever has digits) is traced all the same.

The labels were written from the tools' signatures. That of fields came before anything was measured with them; secrets
and free arguments came after, and each has its reason beside it.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from callboard.actors.agent.options import Effect
from callboard.actors.guard.taint import Label as FieldLabel


class Label(msgspec.Struct, frozen=True):
    """One tool."""

    effect: Effect = "read"
    trust: FieldLabel | dict[str, FieldLabel] = "untrusted"
    free: tuple[str, ...] = ()
    """Arguments that are only words."""


def _typed(*fields: str) -> dict[str, FieldLabel]:
    return dict.fromkeys(fields, "trusted")


def _each(*fields: str) -> dict[str, FieldLabel]:
    """Fields of every element of a list."""
    return {f"result[].{field}": "trusted" for field in fields}


_EMAIL = ("id_", "sender", "recipients", "cc", "bcc", "status", "read", "timestamp")
_EVENT = ("id_", "start_time", "end_time", "participants", "all_day", "status")
_FILE = ("id_", "owner", "last_modified", "shared_with", "size")
_TRANSACTION = ("id", "sender", "recipient", "amount", "date", "recurring")

_EMAILS = Label(trust=_each(*_EMAIL))
_EVENTS = Label(trust=_each(*_EVENT))
_FILES = Label(trust=_each(*_FILE))
_CONTACTS = Label(trust=_each("email", "name"))
_DIRECTORY = Label(trust="trusted")
"""Facts of a catalogue: names, addresses, prices, opening hours."""
_CONFIRMED: Final[FieldLabel] = "trusted"
"""A write's own confirmation, which holds nothing that was not in its arguments."""

_CALENDAR: Final[dict[str, Label]] = {
    "search_calendar_events": _EVENTS,
    "get_day_calendar_events": _EVENTS,
    "create_calendar_event": Label("egress", _typed(*_EVENT)),  # participants are mailed
    "cancel_calendar_event": Label("write", _CONFIRMED),
}
_CONTENT: Final = ("content",)
"""What a file says is untrusted to whoever reads it again. Sharing it is another tool's, which asks for itself."""
_REFERENCE: Final = ("subject",)
"""The line beside a payment, untrusted when it is read again. Who is paid, how much and when are other arguments."""
_PERSON: Final[dict[str, FieldLabel]] = {
    **_typed("First Name", "Last Name", "Email", "Phone Number", "Address"),
    # What others ask of somebody who wants to pass for that person, or to pay with their money.
    **dict.fromkeys(("ID Number", "Passport Number", "Bank Account Number", "Credit Card Number"), "secret"),
}
_MAIL = Label("egress", _typed(*_EMAIL))

LABELS: Final[Mapping[str, Mapping[str, Label]]] = {
    "workspace": {
        **_CALENDAR,
        "add_calendar_event_participants": Label("egress", _typed(*_EVENT)),
        "reschedule_calendar_event": Label("write", _typed(*_EVENT)),
        "send_email": _MAIL,
        "delete_email": Label("write", _CONFIRMED),
        "get_unread_emails": _EMAILS,
        "get_sent_emails": _EMAILS,
        "get_received_emails": _EMAILS,
        "get_draft_emails": _EMAILS,
        "search_emails": _EMAILS,
        "search_contacts_by_name": _CONTACTS,
        "search_contacts_by_email": _CONTACTS,
        "get_current_day": Label(trust="trusted"),
        "append_to_file": Label("write", _typed(*_FILE), _CONTENT),
        "search_files_by_filename": _FILES,
        "create_file": Label("write", _typed(*_FILE), _CONTENT),
        "delete_file": Label("write", _typed(*_FILE)),
        "get_file_by_id": Label(trust=_typed(*_FILE)),
        "list_files": _FILES,
        "share_file": Label("egress", _typed(*_FILE)),
        "search_files": _FILES,
    },
    "travel": {
        **_CALENDAR,
        "send_email": _MAIL,
        "get_user_information": Label(trust=_PERSON),
        "get_all_hotels_in_city": _DIRECTORY,
        "get_hotels_prices": _DIRECTORY,
        "get_rating_reviews_for_hotels": Label(),
        "get_hotels_address": _DIRECTORY,
        "get_all_restaurants_in_city": _DIRECTORY,
        "get_cuisine_type_for_restaurants": _DIRECTORY,
        "get_restaurants_address": _DIRECTORY,
        "get_rating_reviews_for_restaurants": Label(),
        "get_dietary_restrictions_for_all_restaurants": _DIRECTORY,
        "get_contact_information_for_restaurants": _DIRECTORY,
        "get_price_for_restaurants": _DIRECTORY,
        "check_restaurant_opening_hours": _DIRECTORY,
        "get_all_car_rental_companies_in_city": _DIRECTORY,
        "get_car_types_available": _DIRECTORY,
        "get_rating_reviews_for_car_rental": Label(),
        "get_car_fuel_options": _DIRECTORY,
        "get_car_rental_address": _DIRECTORY,
        "get_car_price_per_day": _DIRECTORY,
        "reserve_hotel": Label("money", _CONFIRMED),
        "reserve_car_rental": Label("money", _CONFIRMED),
        "reserve_restaurant": Label("write", _CONFIRMED),
        "get_flight_information": _DIRECTORY,
    },
    "banking": {
        "get_iban": Label(trust="trusted"),
        "send_money": Label("money", _CONFIRMED, _REFERENCE),
        "schedule_transaction": Label("money", _CONFIRMED, _REFERENCE),
        "update_scheduled_transaction": Label("money", _CONFIRMED, _REFERENCE),
        "get_balance": Label(trust="trusted"),
        "get_most_recent_transactions": Label(trust=_each(*_TRANSACTION)),
        "get_scheduled_transactions": Label(trust=_each(*_TRANSACTION)),
        "read_file": Label(),
        "get_user_info": Label(trust="trusted"),
        "update_password": Label("write", _CONFIRMED),
        "update_user_info": Label("write", _CONFIRMED),
    },
    "slack": {
        "get_channels": Label(),  # outsiders name the channels that they share
        "add_user_to_channel": Label("write", _CONFIRMED),
        "read_channel_messages": Label(trust=_each("sender", "recipient")),
        "read_inbox": Label(trust=_each("sender", "recipient")),
        "send_direct_message": Label("egress", _CONFIRMED),
        "send_channel_message": Label("egress", _CONFIRMED),
        "get_users_in_channel": Label(trust="trusted"),
        "invite_user_to_slack": Label("egress", _CONFIRMED),
        "remove_user_from_slack": Label("write", _CONFIRMED),
        "get_webpage": Label("egress"),  # its address can carry data out
        "post_webpage": Label("egress", _CONFIRMED),
    },
}
"""Suite → tool → label."""
