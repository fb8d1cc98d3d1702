"""Replies in a form: how a model is told of it, how strictly it is read, and what it hears when it does not fit."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from synthesis.contracts import Message
from synthesis.errors import FormatError, InputError
from synthesis.formats.files import loads, require_usable
from synthesis.prompts import prompt

SHOWN = 4_000
"""Characters of a reply that a model is shown again."""
REASON = 600
ERRORS = 3
_FENCE = re.compile(r"```[ \t]*([\w+-]*)[ \t]*\r?\n(.*?)\r?\n?[ \t]*```", re.DOTALL)
_REFUSAL = re.compile(r"\b(I('m| am) sorry|I (can('|no)t|am unable to)|as an AI)\b", re.IGNORECASE)
M = TypeVar("M", bound=BaseModel)


def json_form(wanted: type[BaseModel]) -> str:
    """The words that ask for JSON of this shape."""
    schema = wanted.model_json_schema()
    return prompt("reply", "json").render(schema=json.dumps(schema, ensure_ascii=False, indent=1))


def code_form() -> str:
    """The words that ask for Python code."""
    return prompt("reply", "code").render()


def json_reader(wanted: type[M], check: Callable[[M], None]) -> Callable[[str], M]:
    """A reader of `wanted` that also asks `check`, which raises InputError."""

    def read(text: str) -> M:
        found = read_json(text, wanted)
        check(found)
        return found

    return read


def read_json(text: str, wanted: type[M]) -> M:
    """The one JSON object of a reply, alone or in a fence. Raises InputError with what is wrong."""
    body = _fenced(text, {"", "json"}) or text.strip()
    try:
        value = loads(body)
        require_usable(value, "")
        return wanted.model_validate(value)
    except ValidationError as error:
        said = [f"{'.'.join(map(str, one['loc'])) or 'the object'}: {one['msg']}" for one in error.errors()[:ERRORS]]
        raise InputError("; ".join(said)[:REASON]) from None
    except FormatError as error:
        raise InputError(str(error)[:REASON]) from None
    except (ValueError, RecursionError) as error:
        if not body.startswith("{") and _REFUSAL.search(text):
            raise InputError("it is a refusal, not the JSON object that was asked for") from None
        raise InputError(f"it is not one JSON object ({error})"[:REASON]) from None


def read_code(text: str) -> str:
    """The one block of code of a reply. Raises InputError."""
    body = _fenced(text, {"", "python", "py", "python3"})
    if body is not None:
        return body
    if _REFUSAL.search(text):
        raise InputError("it is a refusal, not the code that was asked for")
    raise InputError("it holds no fenced block of Python code")


def again(said: Message, reason: str) -> tuple[Message, Message]:
    """What is added to a conversation so that the model tries once more."""
    shown = said.content if len(said.content) <= SHOWN else f"{said.content[:SHOWN]} …"
    asked = prompt("reply", "again").render(reason=reason)
    return Message(role="assistant", content=shown or "(nothing)"), Message(role="user", content=asked)


def _fenced(text: str, languages: set[str]) -> str | None:
    """The only fenced block of one of these languages; None where there is none or more than one."""
    found = [body for language, body in _FENCE.findall(text) if language.lower() in languages]
    return found[0] if len(found) == 1 else None
