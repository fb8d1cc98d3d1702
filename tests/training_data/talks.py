"""Conversations that records are made of: reasoning, parallel calls, words beside a call, a user who answers."""

from __future__ import annotations

from synthesis.contracts import Message, Tool, ToolCall
from synthesis.formats.sft import Conversation

BOX = {"type": "object", "properties": {"box_id": {"type": "string"}}, "required": ["box_id"]}
TOOLS = (
    Tool(name="find_box", description="Find the boxes of an owner.", parameters={"type": "object", "properties": {}}),
    Tool(name="open_box", description="Open a box.", kind="change", parameters=BOX),
)


def called(identity: str, name: str, **arguments: object) -> ToolCall:
    return ToolCall(id=identity, name=name, arguments=dict(arguments))


def talk() -> Conversation:
    """Four turns of the agent: two calls at once, words, words beside a call, words."""
    return Conversation(
        tools=TOOLS,
        messages=(
            Message(role="system", content="You serve a user. Rules: only Ada's box."),
            Message(role="user", content="Open my box, please. I am Ada — \u2028 or Åda."),
            Message(
                role="assistant",
                reasoning="First I look.",
                tool_calls=(called("a", "find_box"), called("b", "open_box", box_id="B-9")),
            ),
            Message(role="tool", content="{'boxes': ['B-1']}", tool_call_id="a"),
            Message(role="tool", content="Error: no such box", tool_call_id="b"),
            Message(role="assistant", content="Is it B-1?", reasoning="I ask."),
            Message(role="user", content="Yes."),
            Message(
                role="assistant",
                content="Opening it.",
                reasoning="She said yes.",
                tool_calls=(called("c", "open_box", box_id="B-1"),),
            ),
            Message(role="tool", content="{'success': True}", tool_call_id="c"),
            Message(role="assistant", content="B-1 is open.", reasoning="Done."),
            Message(role="user", content="Task finished"),
        ),
    )
