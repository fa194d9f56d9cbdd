"""The stories of the desk: each ends as it is told, and everything that is checked at its end can also be false."""

import io
import json
import subprocess
import sys
from contextlib import redirect_stdout
from typing import ClassVar

import pytest

from callboard.actors.llm.client import LLMResponse
from callboard.actors.llm.scripted import FunctionLLM
from callboard.mailbox.errors import UsageError
from callboard.persistence.port import RealPort
from callboard.service.demo import story_player
from callboard.service.demo.proof import Check
from callboard.service.demo.scenarios import STORIES, find_story
from callboard.service.demo.story import RealModel, Story, TurnMissed
from callboard.service.demo.story_player import Performance, StoryOptions, perform, run_stories
from callboard.service.demo.story_proof import prove_always
from callboard.service.demo.story_stage import Stage
from callboard.service.demo.tale import Tale
from tests.demo.spoiling import spoil

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

PROVED_HERE = (
    "refund-approved",
    "refund-denied",
    "refund-expired",
    "split-refund",
    "sibling-calls",
    "crash-in-refund",
    "two-agents",
    "wrong-customer",
)


async def played(dsn: str, story: Story, model: RealModel | None = None) -> tuple[Performance, str]:
    """How a story goes, and what is said."""
    said = io.StringIO()
    with redirect_stdout(said):
        done = await perform(story, StoryOptions(dsn=dsn), RealPort(), Tale(), model=model)
    return done, said.getvalue()


@pytest.mark.parametrize("name", PROVED_HERE)
async def test_a_story_goes_as_told_and_each_of_its_checks_can_be_false(server_dsn: str, name: str) -> None:
    story = find_story(name)()
    proved: list[Check] = []

    async def between(stage: Stage) -> None:
        proved.extend(await story.prove(stage))
        proved.extend(await prove_always(stage))
        await spoil(stage.owner)

    with redirect_stdout(io.StringIO()) as said:
        done = await perform(story, StoryOptions(dsn=server_dsn), RealPort(), Tale(), between=between)
    assert not done.expected, f"{done.expected}; {done.found}\n{said.getvalue()}"
    assert [check for check in proved if not check.ok] == []
    assert [check.name for check in done.checks] == [check.name for check in proved]
    assert [check.name for check in done.checks if check.ok] == [], "true whatever is in the tables"
    assert not done.ok and "✗" in said.getvalue()
    assert 3 <= len([one for one in done.told if one.who != "question"]) <= 14, "about a dozen lines"


async def test_a_story_is_told_the_same_each_time(server_dsn: str) -> None:
    first, second = [(await played(server_dsn, find_story("refund-denied")()))[0] for _ in range(2)]
    assert first.ok and second.ok
    assert first.told == second.told


class Hoped(Story):
    """Nobody asks anybody, though the story says so."""

    name: ClassVar[str] = "hoped"
    about: ClassVar[str] = "a question that nobody asks"

    async def play(self, stage: Stage) -> None:
        await stage.writes("T-0001", "bram.kessler@example.org", "Hello", "Only saying hello. Bram")
        async with stage.desk():
            await stage.begin("T-0001")
            await stage.asked("T-0001", "issue_refund")

    async def prove(self, stage: Stage) -> list[Check]:
        raise AssertionError("there is nothing to prove of a story that did not happen")


async def test_a_turn_that_is_not_taken_is_told_with_what_was_expected_and_what_is(
    server_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(story_player, "find_story", lambda name: Hoped)
    said = io.StringIO()
    with redirect_stdout(said):
        code = await run_stories(StoryOptions(("hoped",), document=True, dsn=server_dsn))
    assert code == 1
    document = json.loads(said.getvalue())
    [story] = document["stories"]
    assert document["ok"] is story["ok"] is False
    assert story["expected"] == "a person is asked about issue_refund for T-0001"
    assert story["found"].startswith("the run is completed")
    assert all(check["ok"] for check in story["checks"]), "what holds with any model is checked all the same"


async def test_with_a_real_model_only_what_must_hold_with_any_is_checked_and_that_is_said(server_dsn: str) -> None:
    idle = FunctionLLM(lambda messages, tools, prompt: LLMResponse(content="I would rather not."))
    done, said = await played(server_dsn, find_story("refund-approved")(), RealModel("idle:one", idle))
    assert done.ok and done.model == "idle:one"
    assert done.expected, "nobody was asked, which no check calls wrong"
    assert "nothing was done twice" in [check.name for check in done.checks]
    assert not [check for check in done.checks if check.name.startswith("paid back")]
    assert "only what must hold with any model is checked" in " ".join(said.split())
    assert "went otherwise" in said


async def test_a_model_cannot_take_a_part_that_is_written_out() -> None:
    with pytest.raises(UsageError, match="brings its own model"):
        await run_stories(StoryOptions(("split-refund",), model="ollama:any"))


async def test_an_error_that_is_no_turn_of_a_story_is_not_swallowed(server_dsn: str) -> None:
    class Broken(Hoped):
        async def play(self, stage: Stage) -> None:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await played(server_dsn, Broken())


async def test_time_that_passes_by_hand_is_the_same_for_runtime_and_desk_and_turns_no_node_dead(
    server_dsn: str,
) -> None:
    class Months(Hoped):
        async def play(self, stage: Stage) -> None:
            async with stage.desk() as node, stage.desk_tables() as tables:
                before = await stage.store.now()
                await stage.passes(days=90)
                [row] = await tables.rows("SELECT extract(epoch FROM crm.clock())::float8 AS now")
                assert 90 * 86_400 <= await stage.store.now() - before < 91 * 86_400
                assert abs(row["now"] - await stage.store.now()) < 3_600
                assert abs(node.clock.now() - row["now"]) < 3_600
                assert node.serves_now
            raise TurnMissed("an end", "this one")

    done, _ = await played(server_dsn, Months())
    assert done.found == "this one"


# --- as commands ------------------------------------------------------------------------------------------------------


def callboard(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "callboard", "demo", *arguments]
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300, check=False)


def test_one_document_tells_a_story(server_dsn: str) -> None:
    done = callboard("--scenario", "wrong-customer", "--json", "--dsn", server_dsn)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["schema"] == "callboard.stories/1" and document["ok"] is True
    [story] = document["stories"]
    assert (story["name"], story["ok"], story["model"]) == ("wrong-customer", True, "")
    assert story["told"][0]["who"] == "customer"
    assert story["checks"] and all(check["ok"] for check in story["checks"])


def test_a_story_that_nobody_knows_is_refused_with_the_names_of_those_that_are_known() -> None:
    done = callboard("--scenario", "nonsense")
    assert done.returncode == 2
    assert all(name in done.stderr for name in STORIES)


def test_the_list_has_every_story_with_what_happens_in_it() -> None:
    document = json.loads(callboard("--scenario", "list", "--json").stdout)
    assert document["schema"] == "callboard.story-list/1"
    assert [one["name"] for one in document["stories"]] == list(STORIES)
    assert {one["name"] for one in document["stories"] if not one["takes_a_model"]} >= {"split-refund"}
    lines = callboard("--scenario", "list").stdout.splitlines()
    assert [line.split("\t")[0] for line in lines[1:]] == list(STORIES)
    assert all(line.split("\t")[1] for line in lines)


def test_every_story_is_registered_under_its_own_name_and_says_what_it_is_about() -> None:
    kinds = [find_story(name) for name in STORIES]
    assert [kind.name for kind in kinds] == list(STORIES)
    assert all(20 < len(kind.about) <= 110 for kind in kinds)


def test_a_model_that_cannot_be_is_said_before_anything_begins() -> None:
    for scenario in ([], ["--scenario", "refund-approved"]):
        done = callboard(*scenario, "--model", "nonsense:model")
        assert done.returncode == 2 and "no provider is called" in done.stderr, done.stderr
        assert "Setting the stage" not in done.stdout
