"""What others wrote, kept apart from a chat template's own marks until it is tokenised.

A tool's result that spells `<|im_end|>` would end its turn, and begin one of the agent that the agent never took. So
`fence` puts a character that no text has into every spelling of a mark in a conversation, the template is rendered with
that, and `encode_text` tokenises the template's marks as marks, and what was fenced without any, letter for letter.
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
"""A noncharacter of Unicode. Where a text has it all the same, it is doubled."""
_FENCED = re.compile(f"{FENCE}({FENCE}?)")
_CONTROL = re.compile(r"<\|.*\|>")
_THOUGHT = re.compile(r"\s*(<think>)(.*?)(</think>)", re.DOTALL)
T = TypeVar("T")


class MarkedTokenizer(Protocol):
    """What is used of a transformers tokenizer that stands on `tokenizers`."""

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


def fence(tokenizer: MarkedTokenizer, value: T) -> T:
    """A message, a tool or any JSON value, with each mark that is spelled in it broken by `FENCE`.

    A `<think>` block at the beginning of an assistant's words keeps its tags: templates read it as reasoning.
    """
    marks = _marks(tokenizer, tokenizer.chat_template)
    return value if marks is None else _fenced(marks.spelling, value)


def encode_text(tokenizer: MarkedTokenizer, text: str) -> list[int]:
    """Ids of what a template rendered of fenced messages. Raises InputError: the tokenizer has no spelling of a mark
    but the mark itself."""
    marks = _marks(tokenizer, tokenizer.chat_template) if FENCE in text else None
    if marks is None:
        return tokenizer.encode(text, add_special_tokens=False)
    ids: list[int] = []
    own = ""
    for part in _split(marks.spelling, text):
        if FENCE not in part:
            own += part
            continue
        ids += tokenizer.encode(own, add_special_tokens=False) if own else []
        ids += _plain_ids(marks, _FENCED.sub(r"\1", part))
        own = ""
    return ids + (tokenizer.encode(own, add_special_tokens=False) if own else [])


def _fenced(spelling: re.Pattern[str], value: Any) -> Any:
    if isinstance(value, str):
        text = value.replace(FENCE, FENCE * 2)
        return spelling.sub(lambda mark: f"{mark[0][0]}{FENCE}{mark[0][1:]}", text)
    if isinstance(value, Mapping):
        kept = {_fenced(spelling, key): _fenced(spelling, inner) for key, inner in value.items()}
        if value.get("role") == "assistant" and isinstance(value.get("content"), str):
            kept["content"] = _fenced_words(spelling, value["content"])
        return kept
    return [_fenced(spelling, inner) for inner in value] if isinstance(value, list | tuple) else value


def _fenced_words(spelling: re.Pattern[str], words: str) -> str:
    thought = _THOUGHT.match(words)
    if thought is None:
        return str(_fenced(spelling, words))
    inside, behind = _fenced(spelling, thought[2]), _fenced(spelling, words[thought.end() :])
    return f"{words[: thought.start(2)]}{inside}{thought[3]}{behind}"


def _split(spelling: re.Pattern[str], text: str) -> Iterable[str]:
    """The text in parts: what a template marked, and what stands between."""
    at = 0
    for mark in spelling.finditer(text):
        yield text[at : mark.start()]
        yield mark[0]
        at = mark.end()
    yield text[at:]


def _plain_ids(marks: _Marks, text: str) -> list[int]:
    ids: list[int] = marks.plain.encode(text, add_special_tokens=False).ids
    if marks.ids.isdisjoint(ids):
        return ids
    # A vocabulary may hold a mark as a word: cut behind its first letter it is none.
    pieces = marks.spelling.sub(lambda mark: f"{mark[0][0]}{FENCE}{mark[0][1:]}", text).split(FENCE)
    ids = [one for piece in pieces for one in marks.plain.encode(piece, add_special_tokens=False).ids]
    if not marks.ids.isdisjoint(ids):
        raise InputError("model: its tokenizer spells a mark of its chat template by nothing but the mark itself")
    return ids


@functools.lru_cache(maxsize=32)
def _marks(tokenizer: MarkedTokenizer, template: str) -> _Marks | None:
    """A token is a mark if it is special, has the form `<|...|>`, or stands in the chat template. None if none is."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if not isinstance(backend, Backend):
        return None
    told = json.loads(backend.to_str())
    found: dict[str, int] = {}
    for token in told["added_tokens"]:
        text = token["content"]
        if len(text) > 1 and (token["special"] or _CONTROL.fullmatch(text) or text in template):
            found[text] = token["id"]
            token["special"] = True
    if not found:
        return None
    plain = Backend.from_str(json.dumps(told))
    plain.no_padding()
    plain.no_truncation()
    plain.encode_special_tokens = True
    spelling = re.compile("|".join(re.escape(text) for text in sorted(found, key=len, reverse=True)))
    return _Marks(spelling, frozenset(found.values()), plain)
