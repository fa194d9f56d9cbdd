"""What can be done about a mailbox beside looking: pausing its actor, giving a message up, exporting it to a file.

Each asks first, says what will happen, and leaves the rules to the operations; their refusals are said as they are.
"""

import json
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from callboard.service.operations.giving_up import GivingUp
from callboard.tui.dialog import Fact, TypedWord
from callboard.tui.text import line, piece

from .states import state, why_line

if TYPE_CHECKING:
    from callboard.tui.app import CallboardApp

STANDING = ("paused", "parked", "failed", "escalated")
"""Actors that take messages again when they are told to."""
MAX_NAME_CHARS = 80


async def pause(frame: "CallboardApp", address: str) -> None:
    """Pause this actor, or let it go on where it stands still."""
    with frame.complaining():
        inspection = frame.gateway.inspection
        actor = await inspection.actor(address)
        waits = f"{actor.waiting:,} wait in its mailbox"
        if actor.status in STANDING:
            facts: list[Fact] = [
                ("it is", why_line(actor.why)),
                ("then", f"it takes messages again; {waits}"),
            ]
            if await frame.push_screen_wait(
                TypedWord(line("Resume ", address), facts, word="resume", verb="resumes it")
            ) is None:  # fmt: skip
                return
            await inspection.resume(address)
            frame.say(f"{address} was told to go on")
        else:
            facts = [
                ("then", "what it handles now it finishes; it takes no more until it is resumed (p again)"),
                ("its mailbox", f"keeps what comes; {waits}"),
            ]
            reason = await frame.push_screen_wait(
                TypedWord(line("Pause ", address), facts, reason="reason", reason_needed=True, verb="pauses it")
            )
            if reason is None:
                return
            await inspection.pause(address, reason)
            frame.say(f"{address} was told to pause")
        await frame.look()


class GiveUp(TypedWord):
    """Either of two words may be typed; `chosen` is the one that was."""

    WORDS: ClassVar[tuple[str, ...]] = ("discard", "quarantine")
    chosen = ""

    @property
    def missing(self) -> str:
        """What is still to be typed; "" where Enter works."""
        self.chosen = self._typed("word") if self._typed("word") in self.WORDS else ""
        if self.chosen:
            self._word, self._verb = self.chosen, f"has it {self.chosen}ed"
            return ""
        return f"type {' or '.join(self.WORDS)}, then Enter"


async def give_up(frame: "CallboardApp", message: int) -> None:
    """Discard a message that waits, or put it among the dead letters."""
    with frame.complaining():
        giving = GivingUp(frame.gateway.operations)
        one = await giving.may_give_up(message)
        facts: list[Fact] = [
            ("message", f"{message} · {one.type} from {one.sender or 'outside'}"),
            ("it is", line(state(one.state), "  ", *why_line(one.why))),
            ("discard", "it ends for good: a dead letter that is settled; who waits for its answer is told"),
            ("quarantine", "it goes to the dead letters, to be looked at and sent again perhaps"),
            ("then", "the node that serves it does so between two turns; what is behind it moves up"),
        ]
        dialog = GiveUp(
            line("Give up ", piece(one.type), " → ", piece(one.recipient)), facts,
            word=" or ".join(GiveUp.WORDS), reason="reason",
        )  # fmt: skip
        reason = await frame.push_screen_wait(dialog)
        if reason is None:
            return
        act = giving.discard if dialog.chosen == "discard" else giving.quarantine
        given = await act(message, reason=reason)
        frame.say(f"message {given.id}: {given.text}")
        await frame.look()


async def export(frame: "CallboardApp", address: str) -> None:
    """Write all of a mailbox to a file in the working directory."""
    with frame.complaining():
        path = Path(file_name(address, frame.now()))
        try:
            count = await write(frame, address, path)
        except FileExistsError:
            frame.say(piece(f"there is a file {path} already, and it was left as it is; try again", "bad"), bad=True)
        except OSError as error:
            frame.say(piece(f"{path} cannot be written: {error.strerror}", "bad"), bad=True)
        else:
            frame.say(f"{count:,} message(s) of {address} written to {path}; what looks like a secret is redacted")


async def write(frame: "CallboardApp", address: str, path: Path) -> int:
    """A line of JSON for each message; how many. Nobody else may read the file, and none is left half written.

    Raises:
        OSError; FileExistsError: nothing was touched. What `Mailboxes.export` raises.
    """
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
    count = 0
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            async for document in frame.gateway.mailboxes.export(address):
                file.write(json.dumps(document, ensure_ascii=True) + "\n")
                count += 1
    except BaseException:
        os.unlink(path)
        raise
    return count


def file_name(address: str, now: float) -> str:
    """`mailbox-crm_desk_agent_T-0011-20261130-120431.jsonl`."""
    slug = re.sub(r"[^A-Za-z0-9._-]+", "_", address).strip("_.")[:MAX_NAME_CHARS]
    return f"mailbox-{slug}-{datetime.fromtimestamp(now, UTC):%Y%m%d-%H%M%S}.jsonl"
