"""Text of messages, kept apart from a chat template's own marks until it is tokenised.

A tool result that spells `<|im_end|>` would end its turn, and could begin an agent turn that the agent never took. So
`fence_marks` inserts a character that no text contains into every spelling of a mark in a conversation, the template is
rendered with that, and `encode_text` tokenises the template's marks as marks, and fenced text without any, letter by
letter.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from tokenizers import Tokenizer as Backend

from synthesis.errors import InputError

FENCE = "\ufdd0"
"""A noncharacter of Unicode. If a text contains it, it is doubled."""
_FENCED = re.compile(f"{FENCE}({FENCE}?)")
_CONTROL = re.compile(r"<\|.*\|>")
_THOUGHT = re.compile(r"\s*(<think>)(.*?)(</think>)", re.DOTALL)
T = TypeVar("T")


class MarkedTokenizer(Protocol):
    """The used part of a transformers tokenizer that is backed by `tokenizers`."""

    chat_template: Any

    @property
    def backend_tokenizer(self) -> Any: ...
    def encode(self, text: str, **options: Any) -> list[int]: ...
    def __hash__(self) -> int: ...


@dataclass(frozen=True)
class _Marks:
    """Marks of a tokenizer in its template: `spelling` finds one, `plain` is the same tokenizer that knows none."""

    spelling: re.Pattern[str]
    ids: frozenset[int]
    plain: Backend


def fence_marks(tokenizer: MarkedTokenizer, value: T) -> T:
    """Return a message, a tool or any JSON value with each mark that is spelled in it broken by `FENCE`.

    A `<think>` block at the beginning of an assistant's text keeps its tags: templates read it as reasoning.
    """
    marks = _find_marks(tokenizer, tokenizer.chat_template)
    return value if marks is None else _fence_value(marks.spelling, value)


def encode_text(tokenizer: MarkedTokenizer, text: str) -> list[int]:
    """Return the token ids of a text that a template rendered of fenced messages.

    Raises InputError: the tokenizer has no other spelling of a mark than the mark itself.
    """
    marks = _find_marks(tokenizer, tokenizer.chat_template) if FENCE in text else None
    if marks is None:
        return tokenizer.encode(text, add_special_tokens=False)
    ids: list[int] = []
    marked_text = ""
    for part in _split_at_marks(marks.spelling, text):
        if FENCE not in part:
            marked_text += part
            continue
        ids += tokenizer.encode(marked_text, add_special_tokens=False) if marked_text else []
        ids += _encode_plain(marks, _FENCED.sub(r"\1", part))
        marked_text = ""
    return ids + (tokenizer.encode(marked_text, add_special_tokens=False) if marked_text else [])


def _fence_value(spelling: re.Pattern[str], value: Any) -> Any:
    if isinstance(value, str):
        text = value.replace(FENCE, FENCE * 2)
        return spelling.sub(lambda mark: f"{mark[0][0]}{FENCE}{mark[0][1:]}", text)
    if isinstance(value, Mapping):
        fenced_entries = {_fence_value(spelling, key): _fence_value(spelling, inner) for key, inner in value.items()}
        if value.get("role") == "assistant" and isinstance(value.get("content"), str):
            fenced_entries["content"] = _fence_words(spelling, value["content"])
        return fenced_entries
    return [_fence_value(spelling, inner) for inner in value] if isinstance(value, list | tuple) else value


def _fence_words(spelling: re.Pattern[str], words: str) -> str:
    thought = _THOUGHT.match(words)
    if thought is None:
        return str(_fence_value(spelling, words))
    inside, behind = _fence_value(spelling, thought[2]), _fence_value(spelling, words[thought.end() :])
    return f"{words[: thought.start(2)]}{inside}{thought[3]}{behind}"


def _split_at_marks(spelling: re.Pattern[str], text: str) -> Iterable[str]:
    """Yield the text in parts: marks of the template, and the text between them."""
    at = 0
    for mark in spelling.finditer(text):
        yield text[at : mark.start()]
        yield mark[0]
        at = mark.end()
    yield text[at:]


def _encode_plain(marks: _Marks, text: str) -> list[int]:
    ids: list[int] = marks.plain.encode(text, add_special_tokens=False).ids
    if marks.ids.isdisjoint(ids):
        return ids
    # A vocabulary may contain a mark as a word; split after its first letter it no longer matches.
    pieces = marks.spelling.sub(lambda mark: f"{mark[0][0]}{FENCE}{mark[0][1:]}", text).split(FENCE)
    ids = [one for piece in pieces for one in marks.plain.encode(piece, add_special_tokens=False).ids]
    if not marks.ids.isdisjoint(ids):
        raise InputError("model: its tokenizer spells a mark of its chat template by nothing but the mark itself")
    return ids


@functools.lru_cache(maxsize=32)
def _find_marks(tokenizer: MarkedTokenizer, template: str) -> _Marks | None:
    """Return the tokenizer's marks, or None if it has none. A token is a mark if it is special, has the form `<|...|>`,
    or occurs in the chat template.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if not isinstance(backend, Backend):
        return None
    backend_config = json.loads(backend.to_str())
    mark_ids: dict[str, int] = {}
    for token in backend_config["added_tokens"]:
        text = token["content"]
        if len(text) > 1 and (token["special"] or _CONTROL.fullmatch(text) or text in template):
            mark_ids[text] = token["id"]
            token["special"] = True
    if not mark_ids:
        return None
    plain = Backend.from_str(json.dumps(backend_config))
    plain.no_padding()
    plain.no_truncation()
    plain.encode_special_tokens = True
    spelling = re.compile("|".join(re.escape(text) for text in sorted(mark_ids, key=len, reverse=True)))
    return _Marks(spelling, frozenset(mark_ids.values()), plain)
