"""What can be asked of the actor under the cursor, by its keys; the rules are the operations', the words are `acts`."""

from abc import abstractmethod
from typing import ClassVar

from textual import work
from textual.binding import Binding, BindingType

from callboard.mailbox.address import parent_of
from callboard.service.operations.watching import ActorGlance, TreeNode
from callboard.tui.filter_bar import FilteredPane
from callboard.tui.table import LineTable
from callboard.tui.text import piece

from .tree import SupervisionTree


class AskingPane(FilteredPane):
    """A pane with a list of actors and a tree."""

    CHANGES: ClassVar[frozenset[str]] = frozenset({"pause", "pause_below", "kill"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "decide", "decide"),
        Binding("p", "pause", "pause"),
        Binding("P", "pause_below", "subtree…"),
        Binding("K", "kill", "kill…"),
        Binding("m", "mailbox", "mailbox"),
        Binding("r", "run", "run"),
        Binding("o", "owner", "its supervisor", show=False),
    ]

    @property
    @abstractmethod
    def table(self) -> LineTable:
        """The list."""

    @property
    @abstractmethod
    def supervision(self) -> SupervisionTree:
        """The tree."""

    @property
    @abstractmethod
    def current(self) -> ActorGlance | None:
        """The actor under the cursor."""

    @property
    @abstractmethod
    def decisions(self) -> list[str]:
        """Ids of what the actors of the list ask people for, in order of the list."""

    @property
    @abstractmethod
    def place(self) -> str:
        """Of the tree: what the list shows."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys that have something to work on."""
        if action in ("decide", "run", "pause", "mailbox", "owner", "kill"):
            current = self.current if self.is_mounted else None
            if current is None:
                return False
            if action == "kill":
                return self.gateway.principal.chaos
            return {"decide": bool(current.decision), "run": bool(current.run_id)}.get(action, True)
        return super().check_action(action, parameters)

    def action_mailbox(self) -> None:
        """Its mailbox."""
        self.frame.open_screen("mailboxes", self.table.cursor_key)

    def action_run(self) -> None:
        """Its run."""
        if (current := self.current) is not None:
            self.frame.open_screen("runs", current.run_id)

    @work(group="actors-owner", exclusive=True)
    async def action_owner(self) -> None:
        """The supervisor that started it."""
        owner = parent_of(self.table.cursor_key)
        if not owner:
            self.frame.say("nobody is above it: it is the root")
            return
        with self.frame.complaining():
            await self.go_to(owner)

    @work(group="actors-decide", exclusive=True)
    async def action_decide(self) -> None:
        """Look at what it asks people for; deciding takes more keys there."""
        from callboard.tui.decide import decide

        if (current := self.current) is not None and current.decision:
            await decide(self.frame, current.decision, self.decisions)
            await self.frame.look()

    @work(group="actors-pause", exclusive=True)
    async def action_pause(self) -> None:
        """Let it take no more messages, or let it go on."""
        address = self.table.cursor_key
        with self.frame.complaining():
            known = await self.gateway.inspection.actor(address)
            if known.status == "active":
                await self.gateway.inspection.pause(address, "")
                self.frame.say(f"{address}: told to pause; p lets it go on")
            elif known.status in ("paused", "parked", "failed"):
                await self.gateway.inspection.resume(address)
                self.frame.say(f"{address}: told to go on")
            else:
                self.frame.say(f"{address} is {known.status or 'not there yet'}: there is nothing to pause")
            await self.frame.look()

    @work(group="actors-pause", exclusive=True)
    async def action_pause_below(self) -> None:
        """Pause, or resume, all that is at a place of the tree and below."""
        from .acts import RESUME, PauseBelow

        place = self.supervision.cursor_key if self.supervision.has_focus else self.place
        node = self.supervision.node(place) or TreeNode(place, place)
        dialog = PauseBelow(node)
        reason = await self.frame.push_screen_wait(dialog)
        if reason is None:
            return
        with self.frame.complaining():
            from callboard.service.operations.subtree import Subtree

            subtree = Subtree(self.gateway.operations)
            resumes = dialog.asked == RESUME
            told = await (subtree.resume(node.address) if resumes else subtree.pause(node.address, reason))
            more = "" if told.complete else "; there are more, P once more goes on"
            self.frame.say(f"{told.place}: {told.actors:,} told to {'go on' if resumes else 'pause'}{more}")
            await self.frame.look()

    @work(group="actors-kill", exclusive=True)
    async def action_kill(self) -> None:
        """End it as a crash would."""
        from .acts import kill_dialog

        glance = self.current
        if glance is None:
            return
        with self.frame.complaining():
            view = await self.gateway.inspection.mailbox(glance.address)
            if view.actor.status is None:
                self.frame.say(f"{glance.address} is not there yet: there is nothing to kill")
                return
            if await self.frame.push_screen_wait(kill_dialog(glance, view)) is None:
                return
            await self.gateway.inspection.kill(glance.address)
            self.frame.say(piece(f"{glance.address}: killed; its supervisor decides what follows", "bad"))
            await self.frame.look()
