"""The rows of a dataset: strict about meaning, in the spelling that TRL's trainers and OpenAI's files share."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from synthesis.contracts import Frozen
from synthesis.errors import FormatError
from synthesis.formats.call_results import OpenCalls, match_results
from synthesis.formats.sft import Conversation, Shape, records_of
from synthesis.json_reader import read_json
from synthesis.rollout import RolloutTask
from training.config import SettingName

DatasetKind = Literal["tasks", "trajectories"]


MOST_LEVELS = 240
"""Lists and objects inside one another that a row may have: its models write no more than 255 (pydantic)."""
_UNPRINTABLE = re.compile("[\x00-\x1f\ud800-\udfff]")


def _printable(text: str) -> str:
    if _UNPRINTABLE.search(text):
        raise ValueError("must not hold control characters")
    return text


def _arguments(value: object) -> object:
    """OpenAI spells a call's arguments as JSON text, chat templates want the object."""
    if not isinstance(value, str):
        return value
    try:
        return read_json(value, most_levels=MOST_LEVELS)
    except FormatError as error:
        raise ValueError(f"must be an object, or JSON text of one: {str(error)[:200]}") from error


def _role(value: object) -> object:
    """`developer` is OpenAI's newer name of a system message."""
    return "system" if value == "developer" else value


def _text(value: object) -> object:
    """Null is what OpenAI writes beside a call. Lists of parts (pictures, sound) are not for these models."""
    if isinstance(value, list):
        raise ValueError("must be text; lists of parts are not read")
    return "" if value is None else value


Identity = Annotated[str, Field(max_length=200), AfterValidator(_printable)]
Content = Annotated[str, BeforeValidator(_text)]


class RowOrigin(Frozen):
    """Where a row comes from: what splits, mixtures and curves by part go by. Uploads may leave parts of it empty."""

    id: Identity = ""
    environment: Identity = ""
    scenario: Identity = ""
    task: Identity = ""
    category: Identity = ""
    behaviour: Identity = ""
    """What is asked, and the calls that do it (`behaviour.py`): rows that share it ask the same."""
    setting: SettingName = "task"


class Function(Frozen):
    name: Annotated[str, Field(min_length=1, max_length=200)]
    arguments: Annotated[dict[str, Any], BeforeValidator(_arguments)] = Field(default_factory=dict)


class ToolCall(Frozen):
    id: Identity = ""
    type: Literal["function"] = "function"
    function: Function


class ToolSchema(Frozen):
    name: Annotated[str, Field(min_length=1, max_length=200)]
    description: str = ""
    parameters: dict[str, Any] = Field(default_factory=lambda: {"type": "object", "properties": {}})
    strict: bool | None = None


class OfferedTool(Frozen):
    type: Literal["function"] = "function"
    function: ToolSchema


class RowMessage(Frozen):
    """A message. `weight` is OpenAI's: a turn of the assistant with 0 is shown and not learnt.

    OpenAI's `refusal` is read as the words of its turn, which is what the model is to say.
    """

    role: Annotated[Literal["system", "user", "assistant", "tool"], BeforeValidator(_role)]
    content: Content = ""
    reasoning_content: Content = ""
    tool_calls: tuple[ToolCall, ...] = Field(default=(), max_length=128)
    tool_call_id: Identity = ""
    name: Identity = ""
    weight: Literal[0, 1] | None = None

    @model_validator(mode="before")
    @classmethod
    def _read_refusal(cls, value: Any) -> Any:
        if not isinstance(value, dict) or value.get("refusal") is None:
            return {k: v for k, v in value.items() if k != "refusal"} if isinstance(value, dict) else value
        if value.get("role") != "assistant" or value.get("content") or value.get("tool_calls"):
            raise ValueError("refusal: an assistant's message alone has one, instead of content and tool_calls")
        return {**{k: v for k, v in value.items() if k != "refusal"}, "content": value["refusal"]}

    @model_validator(mode="after")
    def _belongs_to_its_role(self) -> Self:
        if self.role != "assistant" and self.weight is not None:
            raise ValueError(f"a message of role {self.role} has no weight: the assistant's turns alone are learnt")
        if self.role != "assistant" and (self.tool_calls or self.reasoning_content):
            raise ValueError(f"a message of role {self.role} has no tool_calls and no reasoning_content")
        if self.role == "assistant" and not (self.content or self.tool_calls or self.reasoning_content):
            raise ValueError("an assistant's message holds nothing")
        return self

    @property
    def learnt(self) -> bool:
        """Whether it is a turn that the model learns to take."""
        return self.role == "assistant" and self.weight != 0

    def trl(self) -> dict[str, Any]:
        """As a chat template takes it: no field that says nothing, but calls in full."""
        told = {name: getattr(self, name) for name in ("reasoning_content", "tool_call_id", "name")}
        calls = [call.model_dump(mode="json") for call in self.tool_calls]
        written: dict[str, Any] = {"role": self.role, "content": self.content}
        written |= {name: text for name, text in told.items() if text}
        return written | ({"tool_calls": calls} if calls else {}) | ({"weight": 0} if self.weight == 0 else {})


class TrajectoryRow(RowOrigin):
    """A conversation to be learnt: `messages` (all the assistant's turns, but those of weight 0), or `prompt` and the
    turn that completes it.

    The last message is the assistant's; a call's tool is among `tools`, and its result behind it, unless the
    conversation ends with it; a tool's message answers a call before it.
    """

    messages: tuple[RowMessage, ...] = Field(default=(), max_length=10_000)
    prompt: tuple[RowMessage, ...] = Field(default=(), max_length=10_000)
    completion: tuple[RowMessage, ...] = Field(default=(), max_length=1)
    tools: tuple[OfferedTool, ...] = Field(default=(), max_length=1_000)
    parallel_tool_calls: bool | None = None
    """OpenAI's: where it is false, no turn makes more than one call."""

    @model_validator(mode="after")
    def _is_a_conversation(self) -> Self:
        if bool(self.messages) == bool(self.prompt or self.completion):
            raise ValueError("give either `messages`, or `prompt` and `completion`")
        if self.prompt and not self.completion:
            raise ValueError("completion: missing; it holds the turn that is to be learnt")
        names = {tool.function.name for tool in self.tools}
        if len(names) != len(self.tools):
            raise ValueError("tools: two of them have the same name")
        spoken = self.messages or (*self.prompt, *self.completion)
        _check_turns(spoken, names)
        for number, message in enumerate(spoken, 1):
            if self.parallel_tool_calls is False and len(message.tool_calls) > 1:
                raise ValueError(f"message {number}: makes several calls, and parallel_tool_calls is false")
        if not any(message.learnt for message in self.messages or self.completion):
            raise ValueError("there is nothing to learn: every turn of the assistant has weight 0")
        return self

    def conversation(self) -> list[dict[str, Any]]:
        """All that is said, as chat templates take it."""
        return _spell_messages(self.messages or (*self.prompt, *self.completion))

    def trl(self) -> dict[str, Any]:
        """The row as TRL's `SFTTrainer` reads it, with the columns that mixtures go by."""
        spoken = {
            name: _spell_messages(getattr(self, name))
            for name in ("messages", "prompt", "completion")
            if getattr(self, name)
        }
        tools = [tool.model_dump(mode="json", exclude={"function": {"strict"}}) for tool in self.tools]
        return {**spoken, "tools": tools, **_origin(self)}


def _spell_messages(messages: Sequence[RowMessage]) -> list[dict[str, Any]]:
    """A turn's results stand in the order of its calls, each with its tool's name: templates know no ids."""
    written = []
    turn: tuple[ToolCall, ...] = ()
    for answered in match_results(messages):
        told = answered.message.trl()
        if answered.message.role != "tool":
            turn = answered.message.tool_calls
        elif answered.call is not None:
            told["name"] = turn[answered.call].function.name
        written.append(told)
    return written


class TaskRow(RowOrigin):
    """A task to be attempted. `rollout` is all that the loop needs; its key is the row's id."""

    rollout: RolloutTask

    @model_validator(mode="before")
    @classmethod
    def _from_trl(cls, value: Any) -> Any:
        """TRL's form has the task as JSON text, which Arrow keeps as it is, and a prompt that says the same again."""
        if isinstance(value, dict) and isinstance(value.get("rollout"), str):
            value = {key: entry for key, entry in value.items() if key != "prompt"}
            value["rollout"] = _arguments(value["rollout"])
        return value

    @model_validator(mode="after")
    def _is_named(self) -> Self:
        if not self.id or self.rollout.key != self.id:
            raise ValueError("id: must be there and be rollout.key too: attempts come back under it")
        verifier = self.rollout.verifier
        if verifier.kind == "checks" and not verifier.checks:
            raise ValueError("rollout.verifier: a task without checks earns no reward; export tasks with a verifier")
        return self

    def trl(self) -> dict[str, Any]:
        """The row as TRL's `GRPOTrainer` reads it.

        A rollout function is handed prompts alone, and two tasks may have one instruction: the message's `name` is the
        row's id.
        """
        prompt = [{"role": "user", "content": self.rollout.instruction, "name": self.id}]
        return {"prompt": prompt, "rollout": self.rollout.model_dump_json(), **_origin(self)}


Row = TaskRow | TrajectoryRow


def trajectory_rows(conversation: Conversation, shape: Shape, origin: RowOrigin) -> Iterator[TrajectoryRow]:
    """The rows of one conversation: one, or one a turn with `shape.mask_history`, ids numbered from 1.

    Raises FormatError: it fits no record (a call that could not be read).
    """
    for number, record in enumerate(records_of(conversation, shape.model_copy(update={"format": "trl"})), 1):
        named = _origin(origin) | {"id": f"{origin.id}:{number}" if shape.mask_history else origin.id}
        yield TrajectoryRow.model_validate({**record, **named})


def _origin(row: RowOrigin) -> dict[str, Any]:
    return {name: getattr(row, name) for name in RowOrigin.model_fields}


def _check_turns(messages: Sequence[RowMessage], tools: set[str]) -> None:
    """Raises ValueError that names the message, counted from 1."""
    waiting = OpenCalls()
    turn: tuple[ToolCall, ...] = ()
    for number, message in enumerate(messages, 1):
        if message.role == "system" and number > 1:
            raise ValueError(f"message {number}: a system message can only be the first")
        if message.role == "tool":
            ids = [own for _, own in waiting.open]
            if message.tool_call_id and message.tool_call_id not in ids and any(ids):
                raise ValueError(f"message {number}: tool_call_id names no open call of the turn before")
            answered = waiting.take(message.tool_call_id)
            if answered is None:
                raise ValueError(f"message {number}: a tool's message without a call before it that it answers")
            if message.name not in ("", turn[answered].function.name):
                called = turn[answered].function.name[:60]
                raise ValueError(f"message {number}: its name is another than its call's, which is {called!r}")
            continue
        for call in message.tool_calls:
            if call.function.name not in tools:
                raise ValueError(f"message {number}: calls {call.function.name[:60]!r}, which is not among `tools`")
        if unanswered := waiting.open:
            called = turn[unanswered[0][0]].function.name[:60]
            raise ValueError(f"message {number}: the call of {called!r} before it has no result")
        turn = message.tool_calls
        waiting = OpenCalls([call.id for call in turn])
    if messages[-1].role != "assistant":
        raise ValueError(f"message {len(messages)}: the last message must be the assistant's: it is what is learnt")
