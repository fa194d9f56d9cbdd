"""Models that need no network: a list of answers, or a function. For tests, demonstrations and the simulator.

`ScriptedLLM` answers by position, so it suits one run in one process; `FunctionLLM` answers by what it is asked, so it
also suits many runs at once and runs that another process takes over.
"""

import inspect
from collections.abc import Awaitable, Callable, Sequence

from .client import ChatMessage, LLMClient, LLMResponse, ToolSpec

Script = LLMResponse | BaseException | type[BaseException] | Callable[[Sequence[ChatMessage]], LLMResponse]


class _Recorder(LLMClient):
    """Remembers the last call."""

    def __init__(self) -> None:
        self.call_count = 0
        """Calls so far, failed ones included."""
        self.last_system_prompt = ""
        self.last_messages: tuple[ChatMessage, ...] = ()
        self.last_tools: tuple[ToolSpec, ...] = ()

    def _record(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system_prompt: str) -> None:
        self.call_count += 1
        self.last_messages = tuple(messages)
        self.last_tools = tuple(tools)
        self.last_system_prompt = system_prompt


class ScriptedLLM(_Recorder):
    """Gives `responses` one after the other: an answer is returned, an exception raised, a function called.

    Functions get the messages and give the answer.

    Raises:
        TypeError: at construction, for anything else in the list.
        IndexError: from `call`, when the list is used up.
    """

    def __init__(self, responses: Sequence[Script]) -> None:
        super().__init__()
        for position, response in enumerate(responses):
            raisable = isinstance(response, type) and issubclass(response, BaseException)
            function = callable(response) and not isinstance(response, type)
            if not (isinstance(response, LLMResponse | BaseException) or raisable or function):
                raise TypeError(
                    f"response {position} is a {type(response).__name__}; "
                    "give an LLMResponse, an exception, or a function of the messages"
                )
        self._responses = tuple(responses)

    async def call(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system_prompt: str = ""
    ) -> LLMResponse:
        self._record(messages, tools, system_prompt)
        if self.call_count > len(self._responses):
            raise IndexError(
                f"ScriptedLLM has {len(self._responses)} responses and this is call {self.call_count}: "
                "script one more, or use FunctionLLM where the number of calls is open"
            )
        response = self._responses[self.call_count - 1]
        if isinstance(response, BaseException | type):
            raise response
        if isinstance(response, LLMResponse):
            return response
        return _checked(response(self.last_messages), f"response {self.call_count - 1}")


Answer = Callable[[Sequence[ChatMessage], Sequence[ToolSpec], str], LLMResponse | Awaitable[LLMResponse]]


class FunctionLLM(_Recorder):
    """Answers with `function(messages, tools, system_prompt)`, which may be async."""

    def __init__(self, function: Answer) -> None:
        super().__init__()
        self._function = function

    async def call(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], system_prompt: str = ""
    ) -> LLMResponse:
        self._record(messages, tools, system_prompt)
        answer = self._function(messages, tools, system_prompt)
        if inspect.isawaitable(answer):
            answer = await answer
        return _checked(answer, "the function")


def _checked(answer: object, source: str) -> LLMResponse:
    if not isinstance(answer, LLMResponse):
        raise TypeError(f"{source} gave a {type(answer).__name__} where an LLMResponse is due")
    return answer
