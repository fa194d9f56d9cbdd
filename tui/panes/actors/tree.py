"""The supervision tree beside the list: supervisors, pools and single actors with what is below them, never instances.

It is a table of one column, so its cursor stays on its node. Nodes are opened one by one; counts of a closed one are
those of all below it. Choosing one (enter) is told by `Chosen`; moving in it chooses nothing.
"""

from collections.abc import Iterator
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from callboard.service.operations.watching import TreeNode, Word
from callboard.tui.look import LOOKS
from callboard.tui.table import Column, LineTable, Row
from callboard.tui.text import Line, Piece, Role, cells, line, piece

OPEN_AT_FIRST = 2
"""Levels."""
SHOWN: tuple[tuple[tuple[Word, ...], Word], ...] = (
    (("NEEDS YOU",), "NEEDS YOU"),
    (("DEAD", "FAILED"), "DEAD"),
    (("ESCALATED",), "ESCALATED"),
    (("RETRY",), "RETRY"),
    (("RECOVERING",), "RECOVERING"),
    (("PARKED", "PAUSED"), "PAUSED"),
)
"""Words that are counted beside a node, and under whose glyph."""


class SupervisionTree(LineTable):
    """The tree."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "only these"),
        Binding("right,l", "unfold(True)", "open the node", show=False),
        Binding("left,h", "unfold(False)", "close it", show=False),
    ]

    class Chosen(Message):
        """The list shall show what is at this node, and below it."""

        def __init__(self, node: TreeNode) -> None:
            super().__init__()
            self.node = node

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__([Column("node", "enter: only these", 10, grow=1)], id=id)
        self.root = TreeNode("/", "root")
        self.chosen = "/"
        self._by_place: dict[str, TreeNode] = {}
        self._turned: dict[str, bool] = {}
        """Nodes that somebody has opened, or closed."""

    def on_resize(self, _: events.Resize) -> None:
        """There is more room for counts, or less."""
        self._show()

    def put(self, root: TreeNode) -> None:
        """Show this tree."""
        self.root = root
        self._by_place = {_key(node): node for node in _walk(root)}
        self._show()

    def node(self, address: str) -> TreeNode | None:
        """The node at this place."""
        return self._by_place.get(address)

    def prefix(self, address: str) -> str:
        """What the addresses of all that is at this place and below begin with: those of a pool have keys."""
        if address == "/":
            return ""
        path = ""
        for name in address.split("/")[1:]:
            path = f"{path}/{name}"
            node = self._by_place.get(path)
            if node is not None and node.pool:
                return f"{path}:"
        return address

    def choose(self, address: str) -> None:
        """Mark a node as the chosen one."""
        self.chosen = address
        self._show()

    def action_choose(self) -> None:
        """The list shows what is below this one."""
        if (node := self._by_place.get(self.cursor_key)) is not None and not _is_rest(node):
            self.post_message(self.Chosen(node))

    def on_line_table_opened(self, event: LineTable.Opened) -> None:
        """A second click does as enter does."""
        event.stop()
        self.action_choose()

    def action_unfold(self, opened: bool) -> None:
        """Open or close the node; to the one above where it is closed already."""
        node = self._by_place.get(self.cursor_key)
        if node is None:
            return
        if opened and node.children:
            self._turned[node.address] = True
        elif not opened and node.children and self._is_open(node):
            self._turned[node.address] = False
        elif not opened and node.address != "/":
            self.select(node.address.rpartition("/")[0] or "/")
        self._show()

    def _is_open(self, node: TreeNode) -> bool:
        level = 0 if node.address == "/" else node.address.count("/")
        return self._turned.get(node.address, level < OPEN_AT_FIRST)

    def _show(self) -> None:
        self.show(list(self._rows(self.root, "", "")))

    def _rows(self, node: TreeNode, lead: str, below: str) -> Iterator[Row]:
        opened = self._is_open(node)
        yield Row(_key(node), [self._line(node, lead, opened=opened)])
        if opened:
            last = len(node.children) - 1
            for number, child in enumerate(node.children):
                yield from self._rows(
                    child, f"{below}{'└ ' if number == last else '├ '}", f"{below}{'  ' if number == last else '│ '}"
                )

    def _line(self, node: TreeNode, lead: str, *, opened: bool) -> Line:
        sign = ("▼ " if opened else "▶ ") if node.children else ""
        name: Role = "key" if node.address == self.chosen and not _is_rest(node) else ""
        head = line(piece(lead, "dim"), piece(sign, "dim"), piece(node.name, name))
        counted = node.total > 1 or node.pool
        words = list(self._counts(node))
        room = max(self.size.width - 4, 12)
        total = piece(f" {node.total:,}" if counted else "", "dim")
        if counted and cells((*head, total, *words)) > room:
            total = piece(f" {short_count(node.total)}", "dim")
        while words and cells((*head, total, *words)) > room:
            words.pop()  # the least urgent one: a count that is cut in two would be another count
        return (*head, total, *words)

    def _counts(self, node: TreeNode) -> Iterator[Piece]:
        """What needs somebody, the most urgent first."""
        for words, shown in SHOWN:
            if amount := sum(node.words.get(word, 0) for word in words):
                look = LOOKS[shown]
                yield piece(f" {look.glyph}{short_count(amount)}", look.role)


def short_count(number: int) -> str:
    """A number of things in four cells at most: `999`, `10k`, `2M`."""
    if number < 1_000:
        return str(number)
    return f"{number // 1_000}k" if number < 1_000_000 else f"{number // 1_000_000}M"


def _walk(node: TreeNode) -> Iterator[TreeNode]:
    yield node
    for child in node.children:
        yield from _walk(child)


def _is_rest(node: TreeNode) -> bool:
    """Whether it stands for those that are too many: it has the address of what they are below."""
    return node.name != ("root" if node.address == "/" else node.address.rpartition("/")[2])


def _key(node: TreeNode) -> str:
    return f"{node.address} …" if _is_rest(node) else node.address


__all__ = ["SupervisionTree"]
