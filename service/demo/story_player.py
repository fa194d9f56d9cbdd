"""Plays stories: one or all of them, told while they happen, each with its proof; or one document of it."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from callboard.mailbox.errors import UsageError, leaf
from callboard.persistence.port import Port, RealPort
from callboard.service.cli.terminal import print_json_line
from callboard.service.settings import Color

from .proof import Check
from .report import own_command
from .scenarios import STORIES, find_story
from .story import RealModel, Story, TurnMissed
from .story_proof import prove_always
from .story_stage import Stage, open_stage
from .tale import Tale, Told

EVERY = "all"
SCHEMA = "callboard.stories/1"
LIST_SCHEMA = "callboard.story-list/1"

Between = Callable[[Stage], Awaitable[None]]


class StoryOptions(msgspec.Struct, frozen=True):
    """What is played, and how."""

    names: tuple[str, ...] = ()
    """None: all of them."""
    document: bool = False
    dsn: str = ""
    home: str = ""
    model: str = ""
    """A real model for the agents (`actors.llm.choice`); "": the desk's offline one."""
    color: Color = "auto"


class Performance(msgspec.Struct, frozen=True):
    """How a story went."""

    name: str
    about: str
    ok: bool
    model: str
    """"" for the desk's offline model, or the story's own."""
    told: list[Told]
    checks: list[Check]
    expected: str = ""
    """The turn that was not taken, and what happened instead."""
    found: str = ""
    database: str = ""


async def run_stories(options: StoryOptions, port: Port | None = None) -> int:
    """Play them one after the other; 0 only if every one took its turns and all that was checked is true.

    Raises:
        UsageError: an unknown story, or a real model for one that brings its own.
        CallboardError: what keeps a stage from being set.
    """
    here, tale = port or RealPort(), Tale(document=options.document, color=options.color)
    stories = [find_story(name) for name in options.names or STORIES]
    model = RealModel.named(options.model) if options.model else None
    if model is not None and len(stories) == 1 and stories[0].scripted:
        raise UsageError(f"the story {stories[0].name} brings its own model, so --model has no place in it")
    done = [await perform(story(), options, here, tale, model=None if story.scripted else model) for story in stories]
    return _tell_end(done, options, tale)


async def perform(
    story: Story,
    options: StoryOptions,
    port: Port,
    tale: Tale,
    *,
    model: RealModel | None = None,
    between: Between | None = None,
) -> Performance:
    """Play one story on a stage of its own and prove it. `between` is done after the play and before the proof."""
    tale.heading(f"{story.name}: {story.about}")
    if model is not None:
        tale.end(f"The agents are played by {model.name}, so nobody knows how this ends: only what must hold with")
        tale.end("any model is checked.")
    home = Path(options.home) if options.home else None
    async with open_stage(options.dsn, port, tale, model=model, home=home) as stage:
        missed = await _played(story, stage)
        if between is not None:
            await between(stage)
        checks = [] if missed or model else await story.prove(stage)
        checks += await prove_always(stage, dead_letters=story.dead_letters)
        for check in checks:
            tale.check(check)
        _tell_missed(missed, model, tale)
        return Performance(
            story.name,
            story.about,
            all(check.ok for check in checks) and (missed is None or model is not None),
            model.name if model else "",
            tale.told,
            checks,
            missed.expected if missed else "",
            missed.found if missed else "",
            stage.database.name.strip("'"),
        )


async def _played(story: Story, stage: Stage) -> TurnMissed | None:
    """Play; the turn that was missed, if one was."""
    try:
        await story.play(stage)
    except Exception as error:
        found = leaf(error)
        if not isinstance(found, TurnMissed):
            raise
        return found
    return None


def _tell_missed(missed: TurnMissed | None, model: RealModel | None, tale: Tale) -> None:
    if missed is None:
        return
    if model is None:
        tale.end(f"✗ expected: {missed.expected}", "bad")
        tale.end(f"  found:    {missed.found}", "bad")
    else:
        tale.end(f"With this model it went otherwise; the story has: {missed.expected}. Here: {missed.found}")


def document(done: Sequence[Performance], options: StoryOptions) -> dict[str, Any]:
    """All performances as one document."""
    return {
        "schema": SCHEMA,
        "model": options.model,
        "stories": [msgspec.to_builtins(one) for one in done],
        "ok": all(one.ok for one in done),
    }


def list_document() -> dict[str, Any]:
    """The stories that there are."""
    kinds = [find_story(name) for name in STORIES]
    stories = [{"name": one.name, "about": one.about, "takes_a_model": not one.scripted} for one in kinds]
    return {"schema": LIST_SCHEMA, "stories": stories}


def _tell_end(done: Sequence[Performance], options: StoryOptions, tale: Tale) -> int:
    wrong = [one.name for one in done if not one.ok]
    if options.document:
        print_json_line(document(done, options))
    elif len(done) == 1:
        tale.end(f"Look around: {own_command()} runs --dsn '{done[0].database}'")
    else:
        tale.heading(f"{len(done) - len(wrong)} of {len(done)} stories went as told, with all that was checked true")
        for name in wrong:
            tale.end(f"✗ {name}", "bad")
    return 1 if wrong else 0
