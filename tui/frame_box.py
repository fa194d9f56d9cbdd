"""A box of widgets with titles in its border, which change as often as what is in it.

Textual's own titles have the box and all that is in it drawn again whenever they are set. Here nothing is drawn where a
title says what it said before, and else the line of the border that it stands in.
"""

from textual.containers import Vertical
from textual.content import Content
from textual.geometry import Region
from textual.widget import Widget


class _Title:
    """One of the two titles, kept where Textual keeps its own."""

    def __init__(self, *, top: bool) -> None:
        self._top = top
        self._kept = "_border_title" if top else "_border_subtitle"

    def __get__(self, box: Widget | None, owner: type[Widget] | None = None) -> str | None:
        title: Content | None = getattr(box, self._kept, None)
        return None if title is None else title.markup

    def __set__(self, box: Widget, title: Content | None) -> None:
        before: Content | None = getattr(box, self._kept, None)
        if title is not None and before is not None and title.is_same(before):
            return
        setattr(box, self._kept, title)
        width, height = box.outer_size
        left, above = box.content_offset
        box.refresh(*[Region(-left, (0 if self._top else height - 1) - above, width, 1)] * bool(width and height))


class Box(Vertical):
    """A box; its titles are given as `content(...)`."""

    border_title = _Title(top=True)
    border_subtitle = _Title(top=False)
