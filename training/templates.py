"""Chat templates: a model's own is checked, replaced where it breaks what training rests on, or refused.

Training rests on three things. The template renders tools, calls and results. It is *prefix-preserving*: what came
before is rendered the same whatever follows, so that an attempt is one sequence of tokens. It says which tokens are the
agent's, the one that ends its turn included. TRL ships patched templates for the common models; where one takes a
template's place it is saved with the model, so that what was trained is what serves. Of TRL's Qwen3 form the empty
`<think>` block is taken out that it writes into every turn without reasoning: the model's own has none in its history.
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
from synthesis.formats.values import clean
from synthesis.json_reader import read_json, require_usable
from training.chat.token_marks import encode_text, fence

Messages = Sequence[Mapping[str, Any]]
_TRAINING = "_training_chat_template"
_ALWAYS = re.compile(
    r"\{\{- '<think>\\n' \+ (?P<said>reasoning_content\S*) \+ '\\n</think>\\n\\n' \+ (?P<words>content\S*) }}"
)
"""How TRL's forms write a turn's reasoning and words: the block also where there is no reasoning."""
_WHERE_GIVEN = r"{%- if \g<said> %}{{- '<think>\\n' + \g<said> + '\\n</think>\\n\\n' }}{%- endif %}{{- \g<words> }}"
_TOOL = {"name": "find_day", "description": "Finds a day.", "parameters": {"type": "object", "properties": {}}}
_TOOLS: tuple[dict[str, Any], ...] = ({"type": "function", "function": _TOOL},)
_GENERATION = re.compile(r"\{%-?\s*(end)?generation\s*-?%\}")
"""Marks of transformers around what the agent writes, which jinja alone does not know."""
GIVEN_VARIABLES = frozenset(
    ("messages", "tools", "documents", "add_generation_prompt", "raise_exception", "strftime_now")
)
"""What a template is given with every conversation."""
SEEN_BEFORE = 64
"""So many tokens before a turn say how to read it: a template may have begun it."""


class Tokenizer(Protocol):
    """What is used of a transformers tokenizer."""

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


def prepare(tokenizer: Tokenizer) -> bool:
    """Make the tokenizer's template one that can be trained, in place; whether it had to be replaced.

    Raises InputError: there is no template, it renders no tools, it changes earlier turns and TRL has none to take its
    place, or nobody knows how replies in it are read.
    """
    if not tokenizer.chat_template or not isinstance(tokenizer.chat_template, str):
        raise InputError("model: its tokenizer has no single chat template; choose a model made for chat with tools")
    if not trl_templates.supports_tool_calling(tokenizer) or not _lists_tools(tokenizer):
        raise InputError("model: its chat template does not render tools, calls and results; choose one that does")
    own = tokenizer.chat_template
    _learn_to_read(tokenizer, _known_base(own))
    if not keeps_prefixes(tokenizer):
        with contextlib.suppress(ValueError):
            tokenizer.chat_template = trl_templates.get_training_chat_template(tokenizer) or own
        if not keeps_prefixes(tokenizer):
            raise InputError(
                "model: its chat template is not prefix-preserving (it changes earlier turns once others follow), and "
                "TRL has none to take its place; choose another model, or give its tokenizer another template"
            )
    _drop_empty_reasoning(tokenizer)
    return bool(tokenizer.chat_template != own)


def _drop_empty_reasoning(tokenizer: Tokenizer) -> None:
    """Let turns without reasoning have no empty block, where that stays prefix-preserving: it does not where the
    model is always asked with the block open (Qwen3.5), which then belongs to every turn."""
    before = tokenizer.chat_template
    tokenizer.chat_template = without_empty_reasoning(before)
    if tokenizer.chat_template != before and not keeps_prefixes(tokenizer, (*SAMPLES, PLAIN)):
        tokenizer.chat_template = before


def without_empty_reasoning(template: str) -> str:
    """A template of TRL's that always writes a `<think>` block, without it where there is no reasoning."""
    return _ALWAYS.sub(_WHERE_GIVEN, template)


def keeps_prefixes(tokenizer: Tokenizer, samples: Sequence[Messages] | None = None) -> bool:
    """Whether the template renders every turn of the samples (by default `SAMPLES`) the same, whatever follows."""
    try:
        for sample in SAMPLES if samples is None else samples:
            pieces(tokenizer, sample, _TOOLS)
    except (InputError, TemplateError):
        return False
    return True


def _known_base(template: str) -> str | None:
    """The serving template whose training form this is: replies in both are read alike."""
    for name, value in vars(trl_templates).items():
        known = name.endswith(_TRAINING) and isinstance(value, str)
        if known and template in (value, without_empty_reasoning(value)):
            return cast("str | None", getattr(trl_templates, name.replace(_TRAINING, "_chat_template"), None))
    return None


def _learn_to_read(tokenizer: Tokenizer, base: str | None) -> None:
    if getattr(tokenizer, "response_template", None) is not None:
        return
    own = tokenizer.chat_template
    try:
        tokenizer.chat_template = base or own
        trl_templates.add_response_schema(tokenizer)
    except ValueError as error:
        raise InputError(
            "model: nobody knows how replies in its chat template are read; set `response_template` on its tokenizer"
        ) from error
    finally:
        tokenizer.chat_template = own


def _lists_tools(tokenizer: Tokenizer) -> bool:
    try:
        return "find_day" in render(tokenizer, [{"role": "user", "content": "hi"}], _TOOLS, prompt=True)
    except (TemplateError, TypeError, ValueError):
        return False


def render(
    tokenizer: Tokenizer,
    messages: Messages,
    tools: Sequence[Mapping[str, Any]],
    *,
    prompt: bool,
    variables: Mapping[str, Any] | None = None,
) -> str:
    """The conversation as text; with `prompt`, up to where the agent begins to write. `variables` are the template's
    own, such as `enable_thinking`. What spells a mark of the template in any of them is fenced: `encode_text`
    tokenises it."""
    given = fence(tokenizer, dict(variables or {}))
    return _render(tokenizer, fence(tokenizer, list(messages)), fence(tokenizer, list(tools)), given, prompt=prompt)


def _render(
    tokenizer: Tokenizer,
    messages: Messages,
    tools: Sequence[Mapping[str, Any]],
    variables: Mapping[str, Any] | None = None,
    *,
    prompt: bool,
) -> str:
    """The same of what is fenced already."""
    listed = [dict(tool) for tool in tools] or None
    return cast(
        str,
        tokenizer.apply_chat_template(
            list(messages), tools=listed, tokenize=False, add_generation_prompt=prompt, **(variables or {})
        ),
    )


def own_variables(tokenizer: Tokenizer) -> frozenset[str]:
    """Names that the chat template reads beside what every conversation has: what `chat_template_kwargs` may set."""
    jinja = Environment(extensions=["jinja2.ext.loopcontrols"])
    parsed = jinja.parse(_GENERATION.sub("", str(tokenizer.chat_template)))
    own = {name.name for name in parsed.find_all(nodes.Name) if name.ctx != "load"}
    read = meta.find_undeclared_variables(parsed) - own - GIVEN_VARIABLES - set(jinja.globals)
    return frozenset(name for name in read if not name.endswith("_token"))


def pieces(tokenizer: Tokenizer, messages: Messages, tools: Sequence[Mapping[str, Any]]) -> list[tuple[str, bool]]:
    """The conversation up to the end of the agent's last turn, as (text, whether the agent wrote it, and it is learnt:
    a turn whose `weight` is 0 is not).

    Raises InputError that names the first turn of the agent which a later message would change.
    """
    messages, tools = fence(tokenizer, list(messages)), fence(tokenizer, list(tools))
    parts: list[tuple[str, bool]] = []
    text = ""
    for number, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        asked = _render(tokenizer, messages[:number], tools, prompt=True)
        answered = _render(tokenizer, messages[: number + 1], tools, prompt=False)
        ended = answered[: answered.rfind(tokenizer.eos_token) + len(tokenizer.eos_token)]
        if not asked.startswith(text) or not ended.startswith(asked) or len(ended) <= len(asked):
            raise InputError(
                f"model: its chat template is not prefix-preserving: message {number + 1} changes how those "
                "before it are rendered, or is changed itself, so an attempt would not be one sequence of tokens"
            )
        parts += [(asked[len(text) :], False), (ended[len(asked) :], message.get("weight") != 0)]
        text = ended
    if not _render(tokenizer, messages, tools, prompt=False).startswith(text):
        raise InputError("model: its chat template is not prefix-preserving: the last message changes those before it")
    return parts


def prompt_ids(tokenizer: Tokenizer, messages: Sequence[Message], tools: Sequence[Tool]) -> list[int]:
    """Ids of a conversation that the agent has not spoken in yet, up to where it begins to write."""
    text = render(tokenizer, spell_messages(messages), offered(tools), prompt=True)
    return encode_text(tokenizer, text)


def suffix_ids(tokenizer: Tokenizer, answered: Message, fresh: Sequence[Message]) -> list[int]:
    """Ids of what follows the agent's turn `answered`, from behind its end to where the agent writes again.

    A template renders a suffix only behind a conversation, so one of the same shape stands in: what the agent really
    wrote is never rendered again. Raises InputError: the template does not allow it.
    """
    told = spell_messages([answered, *fresh])[1:]
    results = [one for one in told if one["role"] == "tool"]
    calls = [_call(ToolCall(id=one["tool_call_id"], name=one.get("name") or "x")) for one in results]
    stand_in: dict[str, Any] = {"role": "assistant", "content": "" if calls else "x"}
    dummy = [{"role": "user", "content": "x"}, stand_in | ({"tool_calls": calls} if calls else {})]
    return list(_suffix(tokenizer, tokenizer.chat_template, json.dumps(dummy), json.dumps(told)))


@functools.lru_cache(maxsize=1024)
def _suffix(tokenizer: Tokenizer, template: str, stand_in: str, fresh: str) -> tuple[int, ...]:
    """Ids of messages behind a stand-in for a conversation (JSON): the attempts of a group are often told the same."""
    dummy = json.loads(stand_in)
    ended = _ended(tokenizer, template, stand_in)
    after = render(tokenizer, [*dummy, *json.loads(fresh)], (), prompt=True)
    if not ended or not after.startswith(ended):
        raise InputError("model: its chat template is not prefix-preserving; choose another template")
    return tuple(encode_text(tokenizer, after[len(ended) :]))


def turn_ids(tokenizer: Tokenizer, message: Mapping[str, Any]) -> list[int]:
    """Ids of a turn of the agent (`spelled`), from where it began to write up to its end.

    Raises InputError: the template renders what was before it otherwise.
    """
    (_, _), (written, _) = pieces(tokenizer, [{"role": "user", "content": "x"}, message], ())
    return encode_text(tokenizer, written)


def without_reasoning(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message as a history without earlier reasoning holds it; also where reasoning stands in the words, before
    `</think>`."""
    kept = {key: value for key, value in message.items() if key != "reasoning_content"}
    if message["role"] == "assistant" and "</think>" in message.get("content", ""):
        kept["content"] = message["content"].rpartition("</think>")[2].lstrip("\n")
    return kept


@functools.lru_cache(maxsize=4096)
def _ended(tokenizer: Tokenizer, template: str, conversation: str) -> str:
    """A conversation (JSON) up to the end of the agent's last turn; empty without one. Many turns share a stand-in."""
    text = render(tokenizer, json.loads(conversation), (), prompt=False)
    place = text.rfind(tokenizer.eos_token)
    return text[: place + len(tokenizer.eos_token)] if place >= 0 else ""


@functools.lru_cache(maxsize=64)
def _compiled(template: str) -> Any:
    """A response template (JSON) as transformers compiles it, which it would do again for each reply."""
    return load_response_template(json.loads(template))


def spell_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages as templates take them: a turn's results in the order of its calls, each with its tool's name."""
    written = []
    turn: tuple[ToolCall, ...] = ()
    for answered in match_results(messages):
        turn = turn if answered.message.role == "tool" else answered.message.tool_calls
        written.append(spelled(answered.message, "" if answered.call is None else turn[answered.call].name))
    return written


def spelled(message: Message, tool: str = "") -> dict[str, Any]:
    """A message as templates take it. `tool` is the one whose result it is."""
    written: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.role == "tool":
        return written | {"tool_call_id": message.tool_call_id} | ({"name": tool} if tool else {})
    if message.reasoning:
        written["reasoning_content"] = message.reasoning
    return written | ({"tool_calls": [_call(call) for call in message.tool_calls]} if message.tool_calls else {})


def _call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def offered(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """Tools as templates and datasets spell them."""
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
        }
        for tool in tools
    ]


def agent_mask(tokenizer: Tokenizer, messages: Messages, tools: Sequence[Mapping[str, Any]]) -> tuple[list[int], ...]:
    """(ids, mask) of a conversation up to the end of the agent's last turn: 1 on the agent's own tokens, each turn's
    end included, 0 on all else. Ids are those that a policy would carry forward: each piece is tokenised by itself.

    Raises InputError as `pieces`.
    """
    ids: list[int] = []
    mask: list[int] = []
    for text, own in pieces(tokenizer, messages, tools):
        fresh = encode_text(tokenizer, text)
        ids += fresh
        mask += [int(own)] * len(fresh)
    return ids, mask


def read_turn(tokenizer: Tokenizer, ids: Sequence[int], before: Sequence[int], tools: Sequence[Tool]) -> Message:
    """The message in ids that the agent wrote behind `before`. What cannot be read is a call with an error, so that
    the agent is told; it never counts as an answer."""
    try:
        schema = _compiled(json.dumps(tokenizer.response_template))
        told = tokenizer.parse_response(
            list(ids), schema=schema, prefix=list(before[-SEEN_BEFORE:]), tools=offered(tools)
        )
        if not isinstance(told, dict):
            raise ValueError("nothing was read")
        calls = tuple(_read_call(item) for item in told.get("tool_calls") or ())
    except (ValueError, TypeError, AttributeError, RecursionError):
        raw = clean(tokenizer.decode(list(ids), skip_special_tokens=False))
        broken = ToolCall(name="", raw=raw[:20_000], error="what was written cannot be read as a call or as words")
        return Message(role="assistant", tool_calls=(broken,))
    content = clean(str(told.get("content") or "")).removesuffix(tokenizer.eos_token)
    reasoning = clean(str(told.get("reasoning_content") or told.get("thinking") or ""))
    return Message(role="assistant", content=content.strip("\n"), reasoning=reasoning.strip("\n"), tool_calls=calls)


def _read_call(item: Any) -> ToolCall:
    """Raises ValueError: it is no call."""
    function = item.get("function") if isinstance(item, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise ValueError("a call without a name")
    name, given = clean(function["name"])[:200], function.get("arguments")
    try:
        arguments = read_json(given, "arguments") if isinstance(given, str) else given
        if arguments is not None and not isinstance(arguments, dict):
            raise FormatError("arguments", "are no object")
        require_usable(arguments, "arguments")
    except FormatError as error:
        return ToolCall(name=name, raw=clean(str(given))[:20_000], error=clean(f"the {error}")[:300])
    return ToolCall(name=name, arguments=arguments or {})


def _asks(identity: str, **arguments: Any) -> dict[str, Any]:
    call = {"id": identity, "type": "function", "function": {"name": "find_day", "arguments": arguments}}
    return {"role": "assistant", "content": "", "reasoning_content": "I look it up.", "tool_calls": [call]}


def _result(identity: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": identity, "name": "find_day", "content": text}


def _says(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text, "reasoning_content": "That is all."}


_OPENING = [{"role": "system", "content": "You help."}, {"role": "user", "content": "Which day?"}]
SAMPLES: tuple[list[dict[str, Any]], ...] = (
    [*_OPENING, _asks("call_1_1", week=3), _result("call_1_1", "Error: none"), _asks("call_2_1"),
     _result("call_2_1", "{'day': 5}"), _says("Day 5.")],
    [*_OPENING, _says("In which week?"), {"role": "user", "content": "The third."}, _asks("call_2_1", week=3),
     _result("call_2_1", "5"), _says("Day 5."), {"role": "user", "content": "Thanks."}, _says("Gladly.")],
)  # fmt: skip
"""A task with an error and two calls, and a conversation in which the user speaks again after a call."""
PLAIN: Messages = [
    {key: value for key, value in message.items() if key != "reasoning_content"} for message in SAMPLES[1]
]
"""A conversation without any reasoning."""
