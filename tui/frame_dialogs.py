"""Which screens are dialogs, asked without loading what dialogs are made of before there is one."""

from typing import TYPE_CHECKING, Any

from textual.screen import ModalScreen

if TYPE_CHECKING:
    from .dialog import Dialog


def dialog_of(screen: object) -> "Dialog[Any] | None":
    """The screen, if it is one of ours that are answered."""
    if not isinstance(screen, ModalScreen):
        return None
    from .dialog import Dialog

    return screen if isinstance(screen, Dialog) else None
