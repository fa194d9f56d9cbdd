"""`DeskModel` as triage: reads one ticket and says which queue it belongs into."""

import msgspec

from callboard.crm.reading import read_request
from callboard.crm.requests import TriageRequest
from callboard.crm.steps import Step, Steps
from callboard.crm.triage import Label, label, label_of


def triage_step(desk: Steps) -> Step:
    """The call to make now, or the label of the ticket."""
    try:
        request = msgspec.json.decode(desk.transcript.request, type=TriageRequest)
    except msgspec.MsgspecError:
        return _spoken(label("unclear"))
    if wanted := desk.missing([("read_ticket", {"ticket_id": request.ticket_id})]):
        return wanted
    ticket = desk.found("read_ticket")
    if ticket is None:
        return _spoken(label("unclear"))
    read = read_request(ticket)
    return _spoken(label_of(read.text) if read.wish == "unclear" else label(read.wish))


def _spoken(found: Label) -> str:
    return msgspec.json.encode(found).decode()
