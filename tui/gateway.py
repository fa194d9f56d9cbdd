"""Everything the terminal UI asks and does goes through here, and through here into service.operations. No rules.

What the first frame does not need is loaded when it is asked for.
"""

from functools import cached_property
from typing import TYPE_CHECKING

from callboard.persistence.port import Port
from callboard.persistence.store import Store
from callboard.service.operations.principal import Principal
from callboard.service.operations.runs import Operations
from callboard.service.operations.watching import Watching

if TYPE_CHECKING:
    from callboard.service.operations.actors import Inspection
    from callboard.service.operations.audit import AuditTrail
    from callboard.service.operations.dead import DeadLetters
    from callboard.service.operations.decisions import Decisions
    from callboard.service.operations.mailboxes import Mailboxes


class Gateway:
    """The operations of one principal on one store."""

    def __init__(self, store: Store, principal: Principal, port: Port | None = None) -> None:
        self.store = store
        self.principal = principal
        self.operations = Operations(store, principal, port)
        self.port = self.operations.port
        self.watching = Watching(self.operations)

    @cached_property
    def decisions(self) -> "Decisions":
        """What people are asked."""
        from callboard.service.operations.decisions import Decisions

        return Decisions(self.operations)

    @cached_property
    def inspection(self) -> "Inspection":
        """One actor closely."""
        from callboard.service.operations.actors import Inspection

        return Inspection(self.operations)

    @cached_property
    def mailboxes(self) -> "Mailboxes":
        """What waits."""
        from callboard.service.operations.mailboxes import Mailboxes

        return Mailboxes(self.operations)

    @cached_property
    def dead(self) -> "DeadLetters":
        """What was given up."""
        from callboard.service.operations.dead import DeadLetters

        return DeadLetters(self.operations)

    @cached_property
    def audit(self) -> "AuditTrail":
        """Who did what."""
        from callboard.service.operations.audit import AuditTrail

        return AuditTrail(self.operations)

    @property
    def readonly(self) -> bool:
        """Whether this principal may only look."""
        return self.principal.scopes <= {"read"}
