"""What the players of a case write down while they play; the recorder reads it when their turn is over.

A handler's turn may come to nothing, so nothing of this counts by itself: a note belongs to the next turn of its actor
that is done, and shows once that turn is committed. Only that a clean-up has begun is told at once: it has, whatever
becomes of it, and it may take its time.
"""

from collections import defaultdict
from collections.abc import Callable

from .cases import Event


class Diary:
    """Notes by address."""

    def __init__(self) -> None:
        self._notes: dict[str, list[Event]] = defaultdict(list)
        self._told: set[Event] = set()
        self.at_once: Callable[[str, Event], None] = lambda address, event: None
        """Called with what shows at once."""

    def note(self, address: str, event: Event) -> None:
        """Once: a turn that is done again notes the same again."""
        if event not in self._notes[address]:
            self._notes[address].append(event)

    def tell(self, address: str, event: Event) -> None:
        """Show something now; once, as a turn that is done again tells it again."""
        if event not in self._told:
            self._told.add(event)
            self.at_once(address, event)

    def take(self, address: str) -> list[Event]:
        """What an actor has noted since."""
        return self._notes.pop(address, [])
