"""What the list of actors says of itself: where one is in it, how far a search has come, and why there is nothing."""

from callboard.tui.text import Line, count, line, piece

from .listing import Listing


def position(listing: Listing, sight: tuple[int, int], total: int) -> Line:
    """Which rows are in sight, of how many, for the lower border. `sight`: of the table; `total`: actors there are."""
    first, last = sight
    held, filtered = len(listing.items), bool(listing.wish.filter)
    if filtered and not listing.whole:
        return line(piece(_searched(listing, sight, total), "dim"))
    if not last:
        return line(piece("enter opens · / filters", "dim"))
    of = held if filtered or listing.whole else max(total, held)
    if not listing.start and listing.end:
        after = of - held
        return line(piece(f"{first + after:,}–{last + after:,} of {of:,}", "dim"))
    if not listing.start:
        return line(piece(f"{last - first + 1} of {of:,}, further on", "dim"))
    return line(piece(f"{first:,}–{last:,} of {of:,}", "dim"))


def _searched(listing: Listing, sight: tuple[int, int], total: int) -> str:
    first, last = sight
    rows = f"{first:,}–{last:,} of " if listing.start else ""
    found = f"{rows}{len(listing.items):,}+ found · " if last else ""
    looked = f"{count(listing.looked)} of {count(max(total, listing.looked))}"
    if listing.searching:
        return f"{found}looking, {looked} so far"
    return f"{found}looked at {looked}, more {'above' if listing.end else 'below'}"


def nothing(listing: Listing, total: int) -> list[Line]:
    """What is said where there are no rows."""
    wish = listing.wish
    if wish.filter:
        among = f"{count(total) if total else 'no'} actors"
        if not listing.whole:
            among = f"{count(listing.looked)} actors looked at so far"
        return [
            line(f"0 of {among} match ", piece(wish.filter.text, "needs")),
            line(piece("esc clears the filter", "dim")),
        ]
    if wish.place != "/":
        return [
            line(f"There is nothing at {wish.place} now."),
            line(piece("the root of the tree: all", "dim")),
        ]
    return [
        line("No actors yet. Start one:"),
        line(piece('callboard run callboard.crm.app:app "Work ticket T-0001."', "key")),
    ]


__all__ = ["nothing", "position"]
