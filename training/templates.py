"""Chat templates: a model's own is checked, replaced if it breaks the assumptions of training, or refused.

Training has three requirements. The template renders tools, calls and results. It is *prefix-preserving*: earlier
messages are rendered the same whatever follows, so that an attempt is one sequence of tokens. It determines which
tokens are the agent's, including the one that ends its turn. TRL ships patched templates for the common models; a
replaced template is saved with the model, so that training and serving use the same. The empty `<think>` block that
TRL's Qwen3 form writes into turns without reasoning is removed: the model's own has none in its history.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

from jinja2 import Environment, TemplateError, meta, nodes
from transformers.utils.chat_parsing.response_templates import load_response_template
from trl import chat_template_utils as trl_templates

from synthesis.contracts import Message, Tool, ToolCall
from synthesis.errors import FormatError, InputError
from synthesis.formats.call_results import match_results
from synthesis.formats.values import clean_text
from synthesis.json_reader import read_json, require_usable
from training.chat.sample_conversations import PLAIN, SAMPLE_TOOLS, SAMPLES
from training.chat.token_marks import encode_text, fence_marks

Messages = Sequence[Mapping[str, Any]]
_TRAINING = "_training_chat_template"
_ALWAYS = re.compile(
    r"\{\{- '<think>\\n' \+ (?P<said>reasoning_content\S*) \+ '\\n</think>\\n\\n' \+ (?P<words>content\S*) }}"
)
"""How TRL's forms write a turn's reasoning and words: the block also if there is no reasoning."""
_WHERE_GIVEN = r"{%- if \g<said> %}{{- '<think>\\n' + \g<said> + '\\n</think>\\n\\n' }}{%- endif %}{{- \g<words> }}"
_GENERATION = re.compile(r"\{%-?\s*(end)?generation\s*-?%\}")
"""Marks of transformers around what the agent writes, which jinja alone does not know."""
GIVEN_VARIABLES = frozenset(
    ("messages", "tools", "documents", "add_generation_prompt", "raise_exception", "strftime_now")
)
"""What a template is given with every conversation."""
SEEN_BEFORE = 64
"""So many tokens before a turn say how to read it: a template may have begun it."""


class Tokenizer(Protocol):
    """The used part of a transformers tokenizer."""

    chat_template: Any
    eos_token: str
    eos_token_id: int
    pad_token_id: int
    response_template: Any

    @property
    def backend_tokenizer(self) -> Any: ...
    def apply_chat_template(self, conversation: Any, **options: Any) -> Any: ...
    def parse_response(self, response: Any, **options: Any) -> Any: ...
    def decode(self, token_ids: Any, **options: Any) -> str: ...
    def encode(self, text: str, **options: Any) -> list[int]: ...
    def save_pretrained(self, folder: Any) -> Any: ...
    def __hash__(self) -> int: ...


def prepare_template(tokenizer: Tokenizer) -> bool:
    """Make the tokenizer's template one that can be trained, in place; return whether it had to be replaced.

    Raises InputError: there is no template, it renders no tools, it changes earlier turns and TRL has no replacement,
    or it is unknown how its replies are read.
    """
    if not tokenizer.chat_template or not isinstance(tokenizer.chat_template, str):
        raise InputError("model: its tokenizer has no single chat template; choose a model made for chat with tools")
    if not trl_templates.supports_tool_calling(tokenizer) or not _lists_tools(tokenizer):
        raise InputError("model: its chat template does not render tools, calls and results; choose one that does")
    own_template = tokenizer.chat_template
    _set_response_template(tokenizer, _find_serving_template(own_template))
    if not keeps_prefixes(tokenizer):
        with contextlib.suppress(ValueError):
            tokenizer.chat_template = trl_templates.get_training_chat_template(tokenizer) or own_template
        if not keeps_prefixes(tokenizer):
            raise InputError(
                "model: its chat template is not prefix-preserving (it changes earlier turns once others follow), and "
                "TRL has none to take its place; choose another model, or give its tokenizer another template"
            )
    _drop_empty_reasoning(tokenizer)
    return bool(tokenizer.chat_template != own_template)


def _drop_empty_reasoning(tokenizer: Tokenizer) -> None:
    """Omit the empty block of turns without reasoning, if that stays prefix-preserving: it does not if the model is
    always prompted with the block open (Qwen3.5), which then belongs to every turn.
    """
    before = tokenizer.chat_template
    tokenizer.chat_template = drop_empty_reasoning(before)
    if tokenizer.chat_template != before and not keeps_prefixes(tokenizer, (*SAMPLES, PLAIN)):
        tokenizer.chat_template = before


def drop_empty_reasoning(template: str) -> str:
    """Return a template of TRL's that always writes a `<think>` block, changed to omit it if there is no reasoning."""
    return _ALWAYS.sub(_WHERE_GIVEN, template)


def keeps_prefixes(tokenizer: Tokenizer, samples: Sequence[Messages] | None = None) -> bool:
    """Return whether the template renders every turn of the samples (by default `SAMPLES`) the same, whatever
    follows.
    """
    try:
        for sample in SAMPLES if samples is None else samples:
            split_pieces(tokenizer, sample, SAMPLE_TOOLS)
    except (InputError, TemplateError):
        return False
    return True


def _find_serving_template(template: str) -> str | None:
    """Return the serving template whose training form this is: replies in both are read alike."""
    for name, value in vars(trl_templates).items():
        known = name.endswith(_TRAINING) and isinstance(value, str)
        if known and template in (value, drop_empty_reasoning(value)):
            return cast("str | None", getattr(trl_templates, name.replace(_TRAINING, "_chat_template"), None))
    return None


def _set_response_template(tokenizer: Tokenizer, base: str | None) -> None:
    if getattr(tokenizer, "response_template", None) is not None:
        return
    own_template = tokenizer.chat_template
    try:
        tokenizer.chat_template = base or own_template
        trl_templates.add_response_schema(tokenizer)
    except ValueError as error:
        raise InputError(
            "model: it is not known how replies in its chat template are read; set `response_template` on its tokenizer"
        ) from error
    finally:
        tokenizer.chat_template = own_template


def _lists_tools(tokenizer: Tokenizer) -> bool:
    try:
        return "find_day" in render_conversation(
            tokenizer, [{"role": "user", "content": "hi"}], SAMPLE_TOOLS, prompt=True
        )
    except (TemplateError, TypeError, ValueError):
        return False


def render_conversation(
    tokenizer: Tokenizer,
    messages: Messages,
    tools: Sequence[Mapping[str, Any]],
    *,
    prompt: bool,
    variables: Mapping[str, Any] | None = None,
) -> str:
    """Return the conversation as text; with `prompt`, up to the point at which the agent begins to write. `variables`
    are the template's own, such as `enable_thinking`. Any spelled mark of the template in the arguments is fenced for
    `encode_text`.
    """
    fenced_variables = fence_marks(tokenizer, dict(variables or {}))
    return _render_fenced(
        tokenizer,
        fence_marks(tokenizer, list(messages)),
        fence_marks(tokenizer, list(tools)),
        fenced_variables,
        prompt=prompt,
    )


def _render_fenced(
    tokenizer: Tokenizer,
    messages: Messages,
    tools: Sequence[Mapping[str, Any]],
    variables: Mapping[str, Any] | None = None,
    *,
    prompt: bool,
) -> str:
    """Return the conversation as `render_conversation` does, from arguments that are fenced already."""
    tool_list = [dict(tool) for tool in tools] or None
    return cast(
        str,
        tokenizer.apply_chat_template(
            list(messages), tools=tool_list, tokenize=False, add_generation_prompt=prompt, **(variables or {})
        ),
    )


def list_own_variables(tokenizer: Tokenizer) -> frozenset[str]:
    """Return names that the chat template reads besides those of every conversation: the allowed
    `chat_template_kwargs`.
    """
    jinja = Environment(extensions=["jinja2.ext.loopcontrols"])
    parsed = jinja.parse(_GENERATION.sub("", str(tokenizer.chat_template)))
    assigned_names = {name.name for name in parsed.find_all(nodes.Name) if name.ctx != "load"}
    read = meta.find_undeclared_variables(parsed) - assigned_names - GIVEN_VARIABLES - set(jinja.globals)
    return frozenset(name for name in read if not name.endswith("_token"))


def split_pieces(
    tokenizer: Tokenizer, messages: Messages, tools: Sequence[Mapping[str, Any]]
) -> list[tuple[str, bool]]:
    """Return the conversation up to the end of the agent's last turn, as (text, whether the agent wrote it and it is
    trained on: a turn with `weight` 0 is not).

    Raises InputError that names the first turn of the agent which a later message would change.
    """
    messages, tools = fence_marks(tokenizer, list(messages)), fence_marks(tokenizer, list(tools))
    parts: list[tuple[str, bool]] = []
    text = ""
    for number, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        prompt_text = _render_fenced(tokenizer, messages[:number], tools, prompt=True)
        answered_text = _render_fenced(tokenizer, messages[: number + 1], tools, prompt=False)
        ended_text = answered_text[: answered_text.rfind(tokenizer.eos_token) + len(tokenizer.eos_token)]
        if (
            not prompt_text.startswith(text)
            or not ended_text.startswith(prompt_text)
            or len(ended_text) <= len(prompt_text)
        ):
            raise InputError(
                f"model: its chat template is not prefix-preserving: message {number + 1} changes how those "
                "before it are rendered, or is changed itself, so an attempt would not be one sequence of tokens"
            )
        parts += [(prompt_text[len(text) :], False), (ended_text[len(prompt_text) :], message.get("weight") != 0)]
        text = ended_text
    if not _render_fenced(tokenizer, messages, tools, prompt=False).startswith(text):
        raise InputError("model: its chat template is not prefix-preserving: the last message changes those before it")
    return parts


def encode_prompt(tokenizer: Tokenizer, messages: Sequence[Message], tools: Sequence[Tool]) -> list[int]:
    """Return the ids of a conversation without a turn of the agent, up to the point at which it begins to write."""
    text = render_conversation(tokenizer, serialize_messages(messages), serialize_tools(tools), prompt=True)
    return encode_text(tokenizer, text)


def encode_suffix(tokenizer: Tokenizer, answered: Message, fresh: Sequence[Message]) -> list[int]:
    """Return the ids of the messages that follow the agent's turn `answered`, from its end to the agent's next turn.

    A template renders a suffix only after a conversation, so one of the same shape replaces it: the agent's real turn
    is never rendered again. Raises InputError: the template does not allow it.
    """
    suffix_messages = serialize_messages([answered, *fresh])[1:]
    results = [one for one in suffix_messages if one["role"] == "tool"]
    calls = [_serialize_call(ToolCall(id=one["tool_call_id"], name=one.get("name") or "x")) for one in results]
    stand_in: dict[str, Any] = {"role": "assistant", "content": "" if calls else "x"}
    dummy = [{"role": "user", "content": "x"}, stand_in | ({"tool_calls": calls} if calls else {})]
    return list(_encode_suffix(tokenizer, tokenizer.chat_template, json.dumps(dummy), json.dumps(suffix_messages)))


@functools.lru_cache(maxsize=1024)
def _encode_suffix(tokenizer: Tokenizer, template: str, stand_in: str, fresh: str) -> tuple[int, ...]:
    """Return the ids of messages after a substitute conversation (JSON): the attempts of a group often share them."""
    dummy = json.loads(stand_in)
    stand_in_text = _cut_after_last_turn(tokenizer, template, stand_in)
    after = render_conversation(tokenizer, [*dummy, *json.loads(fresh)], (), prompt=True)
    if not stand_in_text or not after.startswith(stand_in_text):
        raise InputError("model: its chat template is not prefix-preserving; choose another template")
    return tuple(encode_text(tokenizer, after[len(stand_in_text) :]))


def encode_turn(tokenizer: Tokenizer, message: Mapping[str, Any]) -> list[int]:
    """Return the ids of a turn of the agent (`serialize_message`), from its first token to its end.

    Raises InputError: the template renders earlier messages differently.
    """
    (_, _), (written, _) = split_pieces(tokenizer, [{"role": "user", "content": "x"}, message], ())
    return encode_text(tokenizer, written)


def drop_reasoning(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message as a history without earlier reasoning has it; reasoning before `</think>` is removed too."""
    kept = {key: value for key, value in message.items() if key != "reasoning_content"}
    if message["role"] == "assistant" and "</think>" in message.get("content", ""):
        kept["content"] = message["content"].rpartition("</think>")[2].lstrip("\n")
    return kept


@functools.lru_cache(maxsize=4096)
def _cut_after_last_turn(tokenizer: Tokenizer, template: str, conversation: str) -> str:
    """Return a conversation (JSON) up to the end of the agent's last turn; empty without one. Many turns share a
    substitute conversation.
    """
    text = render_conversation(tokenizer, json.loads(conversation), (), prompt=False)
    place = text.rfind(tokenizer.eos_token)
    return text[: place + len(tokenizer.eos_token)] if place >= 0 else ""


@functools.lru_cache(maxsize=64)
def _compile_response_template(template: str) -> Any:
    """Return a response template (JSON) as transformers compiles it; cached, as it would be compiled for each reply."""
    return load_response_template(json.loads(template))


def serialize_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return messages as templates take them: a turn's results in the order of its calls, each with its tool's name."""
    written = []
    turn: tuple[ToolCall, ...] = ()
    for answered in match_results(messages):
        turn = turn if answered.message.role == "tool" else answered.message.tool_calls
        written.append(serialize_message(answered.message, "" if answered.call is None else turn[answered.call].name))
    return written


def serialize_message(message: Message, tool: str = "") -> dict[str, Any]:
    """Return a message as templates take it. `tool` is the name of the tool whose result it is."""
    written: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.role == "tool":
        return written | {"tool_call_id": message.tool_call_id} | ({"name": tool} if tool else {})
    if message.reasoning:
        written["reasoning_content"] = message.reasoning
    return written | (
        {"tool_calls": [_serialize_call(call) for call in message.tool_calls]} if message.tool_calls else {}
    )


def _serialize_call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def serialize_tools(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """Return tools as templates and datasets spell them."""
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
        }
        for tool in tools
    ]


def encode_with_agent_mask(
    tokenizer: Tokenizer, messages: Messages, tools: Sequence[Mapping[str, Any]]
) -> tuple[list[int], ...]:
    """Return (ids, mask) of a conversation up to the end of the agent's last turn: 1 for the agent's own tokens, each
    turn's end included, 0 for all others. Ids are those that a policy would carry forward: each piece is tokenised
    separately.

    Raises InputError as `split_pieces`.
    """
    ids: list[int] = []
    mask: list[int] = []
    for text, is_own in split_pieces(tokenizer, messages, tools):
        fresh = encode_text(tokenizer, text)
        ids += fresh
        mask += [int(is_own)] * len(fresh)
    return ids, mask


def read_turn(tokenizer: Tokenizer, ids: Sequence[int], before: Sequence[int], tools: Sequence[Tool]) -> Message:
    """Return the message in ids that the agent wrote after `before`. Unreadable text becomes a call with an error,
    which the agent sees; it never counts as an answer.
    """
    try:
        schema = _compile_response_template(json.dumps(tokenizer.response_template))
        parsed_reply = tokenizer.parse_response(
            list(ids), schema=schema, prefix=list(before[-SEEN_BEFORE:]), tools=serialize_tools(tools)
        )
        if not isinstance(parsed_reply, dict):
            raise ValueError("nothing was read")
        calls = tuple(_read_call(item) for item in parsed_reply.get("tool_calls") or ())
    except (ValueError, TypeError, AttributeError, RecursionError):
        raw = clean_text(tokenizer.decode(list(ids), skip_special_tokens=False)).removesuffix(tokenizer.eos_token)
        broken = ToolCall(name="", raw=raw[:20_000], error="what was written cannot be read as a call or as words")
        return Message(role="assistant", tool_calls=(broken,))
    content = clean_text(str(parsed_reply.get("content") or "")).removesuffix(tokenizer.eos_token)
    reasoning = clean_text(str(parsed_reply.get("reasoning_content") or parsed_reply.get("thinking") or ""))
    return Message(role="assistant", content=content.strip("\n"), reasoning=reasoning.strip("\n"), tool_calls=calls)


def _read_call(item: Any) -> ToolCall:
    """Return the call of an item. Raises ValueError: it is no call."""
    function = item.get("function") if isinstance(item, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise ValueError("a call without a name")
    name, given_arguments = clean_text(function["name"])[:200], function.get("arguments")
    try:
        arguments = read_json(given_arguments, "arguments") if isinstance(given_arguments, str) else given_arguments
        if arguments is not None and not isinstance(arguments, dict):
            raise FormatError("arguments", "are no object")
        require_usable(arguments, "arguments")
    except FormatError as error:
        return ToolCall(
            name=name, raw=clean_text(str(given_arguments))[:20_000], error=clean_text(f"the {error}")[:300]
        )
    return ToolCall(name=name, arguments=arguments or {})
