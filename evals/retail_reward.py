"""When a retail task is done, as tau2-bench counts it: the right rows in the end, and the customer told what was asked.

The reward is 1 or 0. What was read, in which order and how often makes no difference; a run that does not end well has
0. Over n trials of a task of which c are rewarded, pass^k is the chance that k of them, drawn without putting back, are
all rewarded, and of a benchmark the mean of that over its tasks.
"""

from collections.abc import Iterable, Sequence
from math import comb

from callboard.actors.agent.events import LLMCallCompleted
from callboard.actors.agent.runs import Recorded


def said_in(events: Iterable[Recorded]) -> tuple[str, ...]:
    """What the model said to the customer, an answer each."""
    return tuple(one.event.content for one in events if isinstance(one.event, LLMCallCompleted) and one.event.content)


def told(wanted: Sequence[str], said: Sequence[str]) -> bool:
    """Whether each of `wanted` is somewhere in an answer; commas and capitals make no difference."""
    answers = [_plain(one) for one in said]
    return all(any(_plain(one) in answer for answer in answers) for one in wanted)


def pass_hat(rewarded: Sequence[int], trials: int, k: int) -> float:
    """pass^k of tasks that were rewarded so often each, in `trials` trials.

    Raises:
        ValueError: there are not so many trials.
    """
    if not 1 <= k <= trials:
        raise ValueError(f"pass^{k} of {trials} trials is not defined")
    chances = [comb(count, k) / comb(trials, k) for count in rewarded]
    return round(sum(chances) / len(chances), 4) if chances else 0.0


def _plain(text: str) -> str:
    return text.lower().replace(",", "")
