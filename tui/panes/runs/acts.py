"""What can be done to a run from its screen: the dialogs, and the sentences in them. The operations do the rest."""

from typing import TYPE_CHECKING

from callboard.actors.agent.events import ToolCallRequested
from callboard.actors.agent.runs import Recorded
from callboard.actors.agent.state import RunState, fold
from callboard.service.operations import resuming
from callboard.tui.dialog import Fact, TypedWord
from callboard.tui.text import Line, line, piece

if TYPE_CHECKING:
    from callboard.tui.app import CallboardApp


async def replay_from(frame: "CallboardApp", run_id: str, events: list[Recorded], seq: int) -> str:
    """Ask, and record a fork that goes on from this event; its id, "" where it was left."""
    before = fold([one.event for one in events if one.seq <= seq])
    over = before.status in ("completed", "cancelled")
    calls = sum(isinstance(one.event, ToolCallRequested) for one in events if one.seq > seq)
    facts: list[Fact] = [
        ("run", run_id),
        ("from", f"event {seq} of {events[-1].seq if events else 0}: {_how(before)}"),
        ("then", "a new run goes on from there under another id; this one does not notice, and stays as it is"),
        ("not again", f"{calls} call(s) after it: what had an effect is held until somebody approves it"),
    ]
    said = await frame.push_screen_wait(
        TypedWord(
            title("Replay from here", run_id),
            facts,
            word="replay",
            verb="records the new run",
            reason="what it shall do now" if over else "note",
            reason_needed=over,
        )
    )
    if said is None:
        return ""
    say, note = (said, "") if over else ("", said)
    new = ""
    with frame.complaining():
        _, new = await frame.gateway.operations.fork(run_id, seq, say=say, note=note)
        frame.say(f"recorded: run {new} goes on from event {seq} of {run_id}")
    return new


def _how(state: RunState) -> str:
    return f"step {state.step}, {state.tool_calls} call(s) made, {state.status.replace('_', ' ')}"


async def tell(frame: "CallboardApp", run_id: str) -> None:
    """Say something to a live run."""
    facts: list[Fact] = [
        ("to", f"run {run_id}"),
        ("then", "its model reads it at its next iteration, as said by you"),
    ]
    dialog = TypedWord(
        title("Say something to the run", run_id), facts, verb="says it", reason="message", reason_needed=True
    )
    said = await frame.push_screen_wait(dialog)
    if said is not None:
        with frame.complaining():
            await frame.gateway.operations.tell(run_id, said)
            frame.say(f"said to run {run_id}; its model reads it at its next iteration")


async def cancel(frame: "CallboardApp", run_id: str) -> None:
    """Ask a run to end."""
    facts: list[Fact] = [
        ("run", run_id),
        ("then", "it begins nothing more and ends as cancelled; calls that are under way are waited for"),
        ("no way back", "what it has done stays done; a fork can go on from any of its events"),
    ]
    dialog = TypedWord(title("Cancel the run", run_id), facts, word="cancel", verb="cancels it", reason="reason")
    said = await frame.push_screen_wait(dialog)
    if said is not None:
        with frame.complaining():
            await frame.gateway.operations.cancel(run_id, reason=said)
            frame.say(f"run {run_id} was asked to end")


async def pause_or_resume(frame: "CallboardApp", run_id: str, address: str) -> None:
    """Let a run take no more messages, or let one that stands still go on; what cannot be done is said with why."""
    with frame.complaining():
        row = await frame.gateway.store.actor(address)
        stands = row is not None and row.status != "active"
        act = resuming.resume if stands else resuming.pause
        done = await act(frame.gateway.operations, address)
        later = "" if done.served else "; no node serves it at the moment"
        again = "" if stands else "; p lets it go on"
        frame.say(f"run {run_id} was told to {'go on' if stands else 'pause'}: {done.will}{later}{again}")


async def verify(frame: "CallboardApp", run_id: str) -> None:
    """Prove that a run's state is the fold of its journal, and say so."""
    with frame.complaining():
        _, found = await frame.gateway.operations.verify(run_id)
        if found.ok:
            frame.say(piece("✓ ", "ok"), f"{run_id}: the state is the fold of its {found.events:,} events")
        else:
            frame.say(piece("✗ ", "bad"), f"{run_id}: {'; '.join(found.differences)}", bad=True)


def title(what: str, run_id: str) -> Line:
    """Of a dialog."""
    return line(piece(f"{what} · ", "title"), piece(run_id, "strong"))
