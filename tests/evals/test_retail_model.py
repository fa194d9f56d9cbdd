"""The retail tasks with a model: rewards, pass^k, and a model that does wrong sometimes, over PostgreSQL."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from callboard.actors.llm.client import ChatMessage, LLMClient, LLMResponse, PermanentModelError, ToolSpec
from callboard.actors.llm.scripted import FunctionLLM
from callboard.evals.rates import rate
from callboard.evals.retail_model import ModelTask, model_report
from callboard.evals.retail_play import scripted
from callboard.evals.retail_reward import pass_hat, told
from callboard.evals.retail_table import model_table
from callboard.evals.retail_tasks import RetailData, with_tasks
from callboard.service.cli.app import run_command
from tests.evals.retail_shop import shop, task_of

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]


@pytest.mark.parametrize(
    ("rewarded", "trials", "k", "chance"),
    [([3, 3], 3, 3, 1.0), ([2, 0], 3, 1, 0.3333), ([2, 3], 3, 2, 0.6667), ([1, 1], 3, 2, 0.0), ([], 1, 1, 0.0)],
)
def test_pass_k_is_the_chance_that_k_trials_are_all_rewarded(
    rewarded: list[int], trials: int, k: int, chance: float
) -> None:
    assert pass_hat(rewarded, trials, k) == chance


def test_pass_k_of_fewer_trials_is_not_defined() -> None:
    with pytest.raises(ValueError, match=r"pass\^3 of 2 trials"):
        pass_hat([1], 2, 3)


@pytest.mark.parametrize(
    ("wanted", "said", "is_told"),
    [
        (["1500"], ["It is $1,500.00."], True),
        (["1,500"], ["It is 1500"], True),
        (["LAMP", "15"], ["a lamp", "for 15"], True),
        (["lamp", "15"], ["a lamp"], False),
        (["lamp"], [], False),
        ([], [], True),
    ],
)
def test_what_is_to_be_told_is_found_without_commas_and_capitals(
    wanted: list[str], said: list[str], is_told: bool
) -> None:
    assert told(wanted, said) is is_told


def models(data: RetailData) -> Callable[[], LLMClient]:
    """Of each task's two trials: cancel is done once, return twice, the question is answered but for what it wants."""
    cancel, give_back, question = (task_of(data, name) for name in ("cancel", "return", "question"))
    broken: list[LLMClient] = [
        scripted(cancel.calls),
        scripted(()),
        scripted(give_back.calls),
        scripted(give_back.calls),
        scripted(question.calls, question.told),
        scripted(question.calls, question.told[:1]),
    ]
    return lambda: broken.pop(0)


async def test_each_trial_has_its_reward(data: RetailData, server_dsn: str) -> None:
    chosen, done = with_tasks(data, ["cancel", "return", "question"]), list[int]()
    report = await model_report(server_dsn, chosen, models(data), model="m", trials=2, advance=lambda: done.append(1))
    assert report.tasks == [ModelTask("cancel", 1, 1), ModelTask("return", 2, 2), ModelTask("question", 2, 1)]
    assert (report.rewarded, report.pass_hat, len(done)) == (rate(4, 6), [0.6667, 0.3333], 3)
    assert model_table(report)[1][0][-2:] == ("0.667", "0.333")


async def test_a_run_that_fails_has_no_reward(data: RetailData, server_dsn: str) -> None:
    def broken(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system: str) -> LLMResponse:
        raise PermanentModelError("no such model", kind="auth")

    chosen = with_tasks(data, ["question"])
    report = await model_report(
        server_dsn, chosen, lambda: FunctionLLM(broken), model="m", trials=1, advance=lambda: None
    )
    assert report.tasks == [ModelTask("question", 0, 0)] and report.pass_hat == [0.0]


def test_a_model_that_nobody_knows_is_said_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shop(tmp_path)
    assert run_command(["eval", "retail", "--data", str(tmp_path), "--model", "nobody:x", "--json"]) == 1
    assert "no provider is called 'nobody'" in capsys.readouterr().err


@pytest.fixture
def data(tmp_path: Path) -> RetailData:
    return shop(tmp_path)
