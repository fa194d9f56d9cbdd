"""Requests: messages that somebody waits for an answer to, typed by what answers them.

    class GetQuote(Request["Quote"], tag="desk.get_quote"):
        order: str

Only a `Request` can be asked (`Context.ask`, `Client.ask`), so that a type checker refuses to wait for the answer to a
message that has none. The type parameter is for checkers and readers only: nothing of it is stored.
"""

from typing import Generic, TypeVar

from .message import Message

R_co = TypeVar("R_co", bound=Message, covariant=True)


class Request(Message, Generic[R_co]):
    """Base of messages that are answered with an `R_co`."""
