"""An LLM as a policy."""

from __future__ import annotations

from typing import Any

from synthesis.contracts import Message, PromptStyle, SentReasoning, Think, Turn
from synthesis.llm import ChatModel
from synthesis.llm.chat import get_last_heard
from synthesis.rollout.policy import Conversation
from synthesis.rollout.styles import read_message
from synthesis.runtime.offered_tools import shorten_tools

_STOPS: dict[PromptStyle, dict[str, Any]] = {"react": {"stop": ["\nObservation"]}}


class ChatPolicy:
    """A chat model that acts, in the conversation's prompt style. `parameters` go to the endpoint with each turn.

    With `brief_tools` descriptions of tools repeat nothing. `sent_reasoning` and `think` control its reasoning (AF 3.4,
    ES Tables 3 and 9).
    """

    def __init__(
        self,
        model: ChatModel,
        *,
        brief_tools: bool = False,
        sent_reasoning: SentReasoning = "dropped",
        think: Think = "model",
        **parameters: Any,
    ) -> None:
        self.model = model
        self.brief_tools = brief_tools
        self.sent_reasoning = sent_reasoning
        self.parameters = parameters
        if think != "model":
            self.parameters = {"chat_template_kwargs": {"enable_thinking": think == "on"}} | parameters

    @property
    def name(self) -> str:
        return self.model.name

    def heard(self) -> float:
        """Return when the model's server last sent something (`time.monotonic`), for the attempt's deadline."""
        return get_last_heard(self.model)

    async def act(self, observation: Conversation) -> Turn:
        """Return one reply as a turn. Raise LLMError."""
        style = observation.style
        native = style == "tools"
        messages = observation.messages if native else tuple(map(_strip_calls, observation.messages))
        parameters = _STOPS.get(style, {}) | self.parameters
        messages = tuple(place_reasoning(message, self.sent_reasoning) for message in messages)
        tools = observation.tools if native else ()
        tools = shorten_tools(tools) if self.brief_tools else tools
        reply = await self.model.complete(messages, tools, **parameters)
        return Turn(
            message=read_message(style, reply.message, observation.tools),
            usage=reply.usage,
            finish_reason=reply.finish_reason,
        )


def place_reasoning(message: Message, sent: SentReasoning) -> Message:
    """Return a message of an earlier turn with its reasoning in the place that the model is to see."""
    if not message.reasoning or sent == "field":
        return message
    words = f"<think>\n{message.reasoning}\n</think>\n\n{message.content}" if sent == "words" else message.content
    return message.model_copy(update={"content": words, "reasoning": ""})


def _strip_calls(message: Message) -> Message:
    """Return the message without native calls: in a text style its words contain the calls."""
    return message.model_copy(update={"tool_calls": ()}) if message.tool_calls else message
