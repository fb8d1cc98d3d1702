"""Rows of a dataset: strict about meaning, in the spelling that TRL's trainers and OpenAI's files share."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from synthesis.contracts import Frozen
from synthesis.errors import FormatError
from synthesis.formats.call_results import OpenCalls, match_results
from synthesis.formats.sft import Conversation, Shape, build_sft_records
from synthesis.json_reader import read_json
from synthesis.rollout import RolloutTask
from training.config import SettingName

DatasetKind = Literal["tasks", "trajectories"]


MOST_LEVELS = 240
"""Lists and objects inside one another that a row may have: its models write no more than 255 (pydantic)."""
_UNPRINTABLE = re.compile("[\x00-\x1f\ud800-\udfff]")


def _require_printable(text: str) -> str:
    if _UNPRINTABLE.search(text):
        raise ValueError("must not hold control characters")
    return text


def _parse_arguments(value: object) -> object:
    """Return a call's arguments as an object: OpenAI writes them as JSON text, chat templates need the object."""
    if not isinstance(value, str):
        return value
    try:
        return read_json(value, most_levels=MOST_LEVELS)
    except FormatError as error:
        raise ValueError(f"must be an object, or JSON text of one: {str(error)[:200]}") from error


def _normalize_role(value: object) -> object:
    """Return the role, with OpenAI's newer name `developer` replaced by `system`."""
    return "system" if value == "developer" else value


def _parse_text(value: object) -> object:
    """Return the text, empty for the null that OpenAI writes beside a call. Lists of parts (images, sound) are
    refused.
    """
    if isinstance(value, list):
        raise ValueError("must be text; lists of parts are not read")
    return "" if value is None else value


Identity = Annotated[str, Field(max_length=200), AfterValidator(_require_printable)]
Content = Annotated[str, BeforeValidator(_parse_text)]


class RowOrigin(Frozen):
    """Origin of a row: the names that splits, mixtures and curves by part use. Uploads may leave some of them empty."""

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
    arguments: Annotated[dict[str, Any], BeforeValidator(_parse_arguments)] = Field(default_factory=dict)


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
    """A message. `weight` is OpenAI's: a turn of the assistant with weight 0 is shown and not trained on.

    OpenAI's `refusal` is read as the content of its turn, since the model is to say it.
    """

    role: Annotated[Literal["system", "user", "assistant", "tool"], BeforeValidator(_normalize_role)]
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
    def _require_role_fields(self) -> Self:
        if self.role != "assistant" and self.weight is not None:
            raise ValueError(f"a message of role {self.role} has no weight: the assistant's turns alone are learnt")
        if self.role != "assistant" and (self.tool_calls or self.reasoning_content):
            raise ValueError(f"a message of role {self.role} has no tool_calls and no reasoning_content")
        if self.role == "assistant" and not (self.content or self.tool_calls or self.reasoning_content):
            raise ValueError("an assistant's message holds nothing")
        return self

    @property
    def is_learnt(self) -> bool:
        """True if it is a turn that the model is trained on."""
        return self.role == "assistant" and self.weight != 0

    def trl(self) -> dict[str, Any]:
        """Return the message as a chat template takes it: without empty fields, with complete calls."""
        told = {name: getattr(self, name) for name in ("reasoning_content", "tool_call_id", "name")}
        calls = [call.model_dump(mode="json") for call in self.tool_calls]
        written: dict[str, Any] = {"role": self.role, "content": self.content}
        written |= {name: text for name, text in told.items() if text}
        return written | ({"tool_calls": calls} if calls else {}) | ({"weight": 0} if self.weight == 0 else {})


class TrajectoryRow(RowOrigin):
    """A conversation to train on: `messages` (all turns of the assistant, except those of weight 0), or `prompt` and
    the turn that completes it.

    The last message is the assistant's; a call's tool is among `tools`, and its result follows it, unless the
    conversation ends with the call; a tool message answers an earlier call.
    """

    messages: tuple[RowMessage, ...] = Field(default=(), max_length=10_000)
    prompt: tuple[RowMessage, ...] = Field(default=(), max_length=10_000)
    completion: tuple[RowMessage, ...] = Field(default=(), max_length=1)
    tools: tuple[OfferedTool, ...] = Field(default=(), max_length=1_000)
    parallel_tool_calls: bool | None = None
    """OpenAI's: if it is false, no turn makes more than one call."""

    @model_validator(mode="after")
    def _require_conversation(self) -> Self:
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
        if not any(message.is_learnt for message in self.messages or self.completion):
            raise ValueError("there is nothing to learn: every turn of the assistant has weight 0")
        return self

    def conversation(self) -> list[dict[str, Any]]:
        """Return all messages, as chat templates take them."""
        return _serialize_messages(self.messages or (*self.prompt, *self.completion))

    def trl(self) -> dict[str, Any]:
        """Return the row as TRL's `SFTTrainer` reads it, with the columns that mixtures use."""
        spoken = {
            name: _serialize_messages(getattr(self, name))
            for name in ("messages", "prompt", "completion")
            if getattr(self, name)
        }
        tools = [tool.model_dump(mode="json", exclude={"function": {"strict"}}) for tool in self.tools]
        return {**spoken, "tools": tools, **_serialize_origin(self)}


def _serialize_messages(messages: Sequence[RowMessage]) -> list[dict[str, Any]]:
    """Return messages with a turn's results in the order of its calls, each with its tool's name: templates know no
    ids.
    """
    serialized = []
    turn: tuple[ToolCall, ...] = ()
    for answered in match_results(messages):
        entry = answered.message.trl()
        if answered.message.role != "tool":
            turn = answered.message.tool_calls
        elif answered.call is not None:
            entry["name"] = turn[answered.call].function.name
        serialized.append(entry)
    return serialized


class TaskRow(RowOrigin):
    """A task to attempt. `rollout` is all that the loop needs; its key is the row's id."""

    rollout: RolloutTask

    @model_validator(mode="before")
    @classmethod
    def _read_trl_form(cls, value: Any) -> Any:
        """Read TRL's form: the task as JSON text, which Arrow keeps unchanged, and a prompt that repeats it."""
        if isinstance(value, dict) and isinstance(value.get("rollout"), str):
            value = {key: entry for key, entry in value.items() if key != "prompt"}
            value["rollout"] = _parse_arguments(value["rollout"])
        return value

    @model_validator(mode="after")
    def _require_row_id(self) -> Self:
        if not self.id or self.rollout.key != self.id:
            raise ValueError("id: must be there and be rollout.key too: attempts come back under it")
        verifier = self.rollout.verifier
        if verifier.kind == "checks" and not verifier.checks:
            raise ValueError("rollout.verifier: a task without checks earns no reward; export tasks with a verifier")
        return self

    def trl(self) -> dict[str, Any]:
        """Return the row as TRL's `GRPOTrainer` reads it.

        A rollout function receives prompts only, and two tasks may share an instruction: the message's `name` is the
        row's id.
        """
        prompt = [{"role": "user", "content": self.rollout.instruction, "name": self.id}]
        return {"prompt": prompt, "rollout": self.rollout.model_dump_json(), **_serialize_origin(self)}


Row = TaskRow | TrajectoryRow


def build_trajectory_rows(conversation: Conversation, shape: Shape, origin: RowOrigin) -> Iterator[TrajectoryRow]:
    """Yield the rows of one conversation: one, or one per turn with `shape.mask_history`, ids numbered from 1.

    Raises FormatError: it fits no record (a call that could not be read).
    """
    for number, record in enumerate(build_sft_records(conversation, shape.model_copy(update={"format": "trl"})), 1):
        named = _serialize_origin(origin) | {"id": f"{origin.id}:{number}" if shape.mask_history else origin.id}
        yield TrajectoryRow.model_validate({**record, **named})


def _serialize_origin(row: RowOrigin) -> dict[str, Any]:
    return {name: getattr(row, name) for name in RowOrigin.model_fields}


def _check_turns(messages: Sequence[RowMessage], tools: set[str]) -> None:
    """Raise ValueError for the first invalid message, naming its number from 1."""
    open_calls = OpenCalls()
    turn: tuple[ToolCall, ...] = ()
    for number, message in enumerate(messages, 1):
        if message.role == "system" and number > 1:
            raise ValueError(f"message {number}: a system message can only be the first")
        if message.role == "tool":
            ids = [own for _, own in open_calls.open]
            if message.tool_call_id and message.tool_call_id not in ids and any(ids):
                raise ValueError(f"message {number}: tool_call_id names no open call of the turn before")
            call_index = open_calls.take(message.tool_call_id)
            if call_index is None:
                raise ValueError(f"message {number}: a tool's message without a call before it that it answers")
            if message.name not in ("", turn[call_index].function.name):
                called = turn[call_index].function.name[:60]
                raise ValueError(f"message {number}: its name is another than its call's, which is {called!r}")
            continue
        for call in message.tool_calls:
            if call.function.name not in tools:
                raise ValueError(f"message {number}: calls {call.function.name[:60]!r}, which is not among `tools`")
        if unanswered := open_calls.open:
            called = turn[unanswered[0][0]].function.name[:60]
            raise ValueError(f"message {number}: the call of {called!r} before it has no result")
        turn = message.tool_calls
        open_calls = OpenCalls([call.id for call in turn])
    if messages[-1].role != "assistant":
        raise ValueError(f"message {len(messages)}: the last message must be the assistant's: it is what is learnt")
