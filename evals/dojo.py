"""AgentDojo's suites as Callboard's gate sees them: tools with labels, environments, and the oracles of both sides.

AgentDojo (MIT) brings four offices with tools, 97 tasks of users, 35 of attackers, and for each the calls that solve it
and a judge that looks at the office afterwards. It is loaded when it is asked for, and nothing of it is copied.
"""

import inspect
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from callboard.actors.agent.result import normalise
from callboard.actors.agent.tool import Tool, tool
from callboard.evals.dojo_labels import LABELS, Label
from callboard.evals.packages import load
from callboard.evals.worst_case import Call, holds_text

VERSION: Final = "v1.2"
INSTALL: Final = "agentdojo==0.1.35"
CANARY: Final = "CANARY-7f3a-"


class Office:
    """One suite."""

    def __init__(self, suite: Any) -> None:
        self.name: str = suite.name
        self.suite = suite
        labels = LABELS[suite.name]
        self.tools: dict[str, Tool] = {one.name: _tool(one, labels[one.name]) for one in suite.tools}
        self.free_text = {name: label.free for name, label in labels.items() if label.free}
        self.user_tasks: Mapping[str, Any] = suite.user_tasks
        self.injection_tasks: Mapping[str, Any] = suite.injection_tasks
        runtime = load("agentdojo.functions_runtime", INSTALL)
        self._functions = runtime.FunctionsRuntime(suite.tools)

    @cache  # noqa: B019 - an office lives as long as the process
    def _with_canaries(self, places: frozenset[str]) -> Any:
        # Reading an office from its YAML and validating it takes a tenth of a second: once for each set of places.
        return self.suite.load_and_inject_default_environment(dict.fromkeys(sorted(places), CANARY))

    def environment(self, task: Any, injected: str = "") -> Any:
        """A fresh office for a user's task, with a text wherever the task comes by and somebody outside can write."""
        places = self._places(task) if injected else frozenset()
        return task.init_environment(_replaced(self._with_canaries(places).model_copy(deep=True), injected))

    @cache  # noqa: B019
    def _places(self, task: Any) -> frozenset[str]:
        """Where a text is read by who does the task: AgentDojo's own definition, by canaries."""
        vectors = self.suite.get_injection_vector_defaults()
        canaries = {place: f"{CANARY}{place}-" for place in vectors}
        environment = task.init_environment(self.suite.load_and_inject_default_environment(canaries))
        results = [self.call(environment, *call) for call in self.oracle(task, environment.model_copy(deep=True))]
        return frozenset(place for place, canary in canaries.items() if holds_text(results, canary))

    def call(self, environment: Any, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Execute a call; what would be recorded of it."""
        result, error = self._functions.run_function(environment, name, arguments)
        return {"error": error} if error is not None else normalise(plain(result))

    def has_effect(self, name: str) -> bool:
        """Whether a tool does anything but read."""
        return self.tools[name].side_effect

    def oracle(self, task: Any, environment: Any) -> list[Call]:
        """The calls that solve a task in this state of the office; none where the oracle does not know."""
        try:
            return [(call.function, plain(dict(call.args))) for call in task.ground_truth(environment)]
        except Exception:  # noqa: BLE001 - an oracle that finds nothing in this state raises anything
            return []

    def holds(self, task: Any, said: str, before: Any, after: Any, calls: list[Call]) -> bool:
        """AgentDojo's judgement: was the user's task done, or did the attacker's land?"""
        function_call = load("agentdojo.functions_runtime", INSTALL).FunctionCall
        trace = [function_call(function=name, args=arguments) for name, arguments in calls]
        of_user = hasattr(task, "utility")
        judges = (task.utility_from_traces, task.utility) if of_user else (task.security_from_traces, task.security)
        try:
            verdict = judges[0](said, before, after, trace)
            return bool(judges[1](said, before, after) if verdict is None else verdict)
        except Exception:  # noqa: BLE001 - a judge that finds the office in no state it knows
            return False


def said_by(task: Any) -> str:
    """What a model says in the end that did this task."""
    return str(getattr(task, "GROUND_TRUTH_OUTPUT", "") or "")


def offices() -> Iterator[Office]:
    """The four suites, each made when it is asked for.

    Raises:
        MissingPackage: AgentDojo is not installed.
    """
    suites = load("agentdojo.task_suite.load_suites", INSTALL).get_suites(VERSION)
    for suite in suites.values():
        yield Office(suite)


def _replaced(value: Any, text: str) -> Any:
    """A value with the text where the canary was. Objects are changed, as they are; validating them anew takes long."""
    match value:
        case str() if type(value) is str:
            return value.replace(CANARY, text)
        case dict():
            return {_replaced(key, text): _replaced(one, text) for key, one in value.items()}
        case list():
            return [_replaced(one, text) for one in value]
    if hasattr(value, "model_fields_set"):
        for name, one in vars(value).items():
            vars(value)[name] = _replaced(one, text)
        if hasattr(value, "content") and hasattr(value, "size"):
            vars(value)["size"] = len(value.content)
    return value


def plain(value: Any) -> Any:
    """A value of AgentDojo's as JSON values."""
    match value:
        case dict():
            return {str(plain(key)): plain(one) for key, one in value.items()}
        case list() | tuple() | set():
            return [plain(one) for one in value]
        case str():
            return str(value.value) if hasattr(value, "value") else str(value)
        case None | bool() | int() | float():
            return value
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if dump is not None else str(value)


def _tool(function: Any, label: Label) -> Tool:
    def stands_for(**arguments: Any) -> None:
        """Never called: AgentDojo executes its own functions."""

    parameters = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=field.annotation,
            default=inspect.Parameter.empty if field.is_required() else field.default,
        )
        for name, field in function.parameters.model_fields.items()
    ]
    stands_for.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    stands_for.__name__, stands_for.__doc__ = function.name, function.description
    return tool(stands_for, name=function.name, effect=label.effect, returns_trust=label.trust)
