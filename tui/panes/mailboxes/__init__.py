"""The screen of mailboxes."""

from .pane import MailboxesPane

__all__ = ["MailboxesPane"]
