"""What in a call's arguments may mislead an eye: characters that hide, and letters of two alphabets in one word."""

from callboard.service.operations.suspect import suspects_in
from callboard.service.operations.views import ApprovalView

from ..text import plain


def warnings_of(view: ApprovalView) -> list[str]:
    """A few words for each argument that is not what it looks like."""
    return [plain(one) for one in suspects_in(view.arguments)]
