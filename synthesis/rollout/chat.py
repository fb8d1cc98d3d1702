"""An LLM as a policy."""

from __future__ import annotations

from typing import Any

from synthesis.contracts import Message, PromptStyle, Turn
from synthesis.llm import ChatModel
from synthesis.llm.chat import last_heard
from synthesis.rollout.policy import Conversation
from synthesis.rollout.styles import read_message
from synthesis.runtime.offered_tools import brief_tools

_STOPS: dict[PromptStyle, dict[str, Any]] = {"react": {"stop": ["\nObservation"]}}


class ChatPolicy:
    """A chat model that acts, in the conversation's prompt style. `parameters` go to the endpoint with each turn.

    With `brief_tools` descriptions of tools say nothing twice.
    """

    def __init__(self, model: ChatModel, *, brief_tools: bool = False, **parameters: Any) -> None:
        self.model = model
        self.brief_tools = brief_tools
        self.parameters = parameters

    @property
    def name(self) -> str:
        return self.model.name

    def heard(self) -> float:
        """When the model's server last sent something (`time.monotonic`): the attempt's deadline asks."""
        return last_heard(self.model)

    async def act(self, observation: Conversation) -> Turn:
        """One reply as a turn. Raises LLMError."""
        style = observation.style
        native = style == "tools"
        messages = observation.messages if native else tuple(map(_worded, observation.messages))
        parameters = _STOPS.get(style, {}) | self.parameters
        tools = observation.tools if native else ()
        tools = brief_tools(tools) if self.brief_tools else tools
        reply = await self.model.complete(messages, tools, **parameters)
        return Turn(
            message=read_message(style, reply.message, observation.tools),
            usage=reply.usage,
            finish_reason=reply.finish_reason,
        )


def _worded(message: Message) -> Message:
    """In a text style the calls stand in the words."""
    return message.model_copy(update={"tool_calls": ()}) if message.tool_calls else message
