"""What is suspect about a text (`service.operations.suspect`), as a widget may show it: through the door of `text`."""

from callboard.service.operations import suspect

from .text import plain


def suspicions(text: str) -> list[str]:
    """A few words for each thing that is suspect about a text, to be read after its name; none, as a rule."""
    return [plain(one) for one in suspect.suspicions(text)]
