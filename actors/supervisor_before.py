"""How supervisors kept their state before they kept jobs (version 1), and how that is said now.

Then there were two lists, of who is to be stopped and who started, and a reason for the end; pools were no children,
and nobody was taken off the tree. A job that was under way goes on where it was: who was told and has not answered is
awaited. The tree's digest is left out, so that the next `Boot` adopts what the supervisor did not know of: its pools.
"""

from typing import Any

from .restart import UP
from .snapshot import upcast_state
from .supervisor_state import ESCALATED

STATE_VERSION = 2
"""What `SupervisorState` is; version 1 can be read as long as this module is there."""


@upcast_state("supervisor", 1)
def jobs(state: dict[str, Any]) -> dict[str, Any]:
    """Version 1 as version 2."""
    stops, starts = list(state.get("stops", ())), list(state.get("starts", ()))
    ending, announced = str(state.get("ending", "")), int(state.get("announced", 0))
    job: dict[str, Any] | None = None
    if ending:
        job = {"kind": "end", "stops": stops} if stops else None
    elif stops or starts:
        # Its parent was not told that it runs: it is waiting for that, or there is none.
        job = {"kind": "restart" if announced else "boot", "stops": stops, "starts": starts}
    how = "escalated" if ending.startswith(ESCALATED.strip(": ")) else "stopped"
    return {
        "children": [_child(child, stops, starts, ending) for child in state.get("children", ())],
        "job": job,
        "end": {"how": how, "reason": ending} if ending else None,
        "restarted_at": state.get("restarted_at", []),
        "announced": announced,
    }


def _child(child: dict[str, Any], stops: list[str], starts: list[str], ending: str) -> dict[str, Any]:
    name, status, after = child["name"], child.get("status", "waiting"), ""
    if status in UP and (name in stops or ending):
        after = "restarting" if name in starts and not ending else "stopped"
    elif name in starts and status not in UP:
        status = "restarting"
    elif status == "failed":
        status = "stopped"
    return {
        "name": name,
        "status": status,
        "incarnation": child.get("incarnation", 0),
        "up": status in ("running", "stopping"),
        "after": after,
    }
