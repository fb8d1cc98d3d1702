"""Replies in a form: how a model is told of it, how strictly it is read, and what it hears when it does not fit.

Read: one JSON object, or one block of code, alone or with words around it. Never guessed: what stands there twice, is
cut short, repeats a key or is no JSON number is asked for again.
"""

from __future__ import annotations

import functools
import json
import re
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from synthesis.contracts import Message
from synthesis.errors import FormatError, InputError
from synthesis.formats.files import loads, require_usable
from synthesis.formats.values import clean
from synthesis.llm.chat import Reply
from synthesis.llm.endpoint import StructuredForm
from synthesis.prompts import prompt

SHOWN = 4_000
"""Characters of a reply that a model is shown again."""
REASON = 600
ERRORS = 3
MOST = 1_000_000
"""Characters of a reply that are read at all."""
FENCE = "```"
_OPENING = re.compile(r"(?:^|\s)```([\w+-]*)$")
_REFUSAL = re.compile(r"\b(I('m| am) sorry|I (can('|no)t|am unable to|won't)|as an AI)\b", re.IGNORECASE)
M = TypeVar("M", bound=BaseModel)


def json_form(wanted: type[BaseModel]) -> str:
    """The words that ask for JSON of this shape."""
    return prompt("reply", "json").render(schema=_schema_text(wanted))


@functools.lru_cache(256)
def _schema_text(wanted: type[BaseModel]) -> str:
    # Not the whole words: a prompt that is not filled in would be missing in what a stage says that it used.
    return json.dumps(wanted.model_json_schema(), ensure_ascii=False, indent=1)


def response_format(wanted: type[BaseModel], form: StructuredForm = "json_schema") -> dict[str, Any]:
    """The same as a parameter, for endpoints that hold their models to a schema or to JSON."""
    if form != "json_schema":
        return {"type": form}
    return {"type": form, "json_schema": {"name": wanted.__name__[:64], "schema": wanted.model_json_schema()}}


def code_form() -> str:
    """The words that ask for Python code."""
    return prompt("reply", "code").render()


def read_json(text: str, wanted: type[M]) -> M:
    """The one JSON object of a reply. Raises InputError with what is wrong.

    Text in it is cleaned as all text is: NUL and half surrogate pairs become visible signs.
    """
    body = _json_in(_bounded(text))
    try:
        value = loads(body)
        require_usable(value, "")
        return wanted.model_validate(_cleaned(value))
    except ValidationError as error:
        listed = error.errors(include_input=False, include_context=False, include_url=False)
        reasons = [f"{'.'.join(map(str, fault['loc'])) or 'the object'}: {fault['msg']}" for fault in listed[:ERRORS]]
        raise InputError("; ".join(part[: REASON // ERRORS] for part in reasons)) from None
    except FormatError as error:
        raise InputError(str(error)[:REASON]) from None
    except (ValueError, RecursionError) as error:
        raise InputError(_not_json(text, body, error)[:REASON]) from None


def read_code(text: str) -> str:
    """The one block of code of a reply. Raises InputError."""
    blocks, closed = _fenced(_bounded(text), {"", "python", "py", "python3"})
    if len(blocks) == 1 and closed:
        return blocks[0]
    if not closed:
        raise InputError("its fenced block of code does not end")
    if blocks:
        raise InputError(f"it holds {len(blocks)} fenced blocks of code, not one")
    if _REFUSAL.search(text):
        raise InputError("it is a refusal, not the code that was asked for")
    raise InputError("it holds no fenced block of Python code")


def reason_of(reply: Reply, error: InputError) -> str:
    """Why a reply could not be used, with what its envelope says about that."""
    if reply.finish_reason == "length":
        return f"it was cut off at the limit of tokens ({error})"[:REASON]
    if not reply.message.content.strip():
        calls = reply.message.tool_calls
        return "it calls a tool; there is none here" if calls else "it is empty"
    return str(error)[:REASON]


def again(reply: Message, reason: str, number: int) -> tuple[Message, Message]:
    """What is added to a conversation so that the model tries once more.

    The `number` of the reply stands in it: a model that says the same twice is asked a third time, not looked up.
    """
    shown = reply.content if len(reply.content) <= SHOWN else f"{reply.content[:SHOWN]} …"
    asked = prompt("reply", "again").render(reason=reason, number=str(number))
    return Message(role="assistant", content=shown or "(nothing)"), Message(role="user", content=asked)


def _bounded(text: str) -> str:
    if len(text) > MOST:
        raise InputError(f"it has {len(text):,} characters; at most {MOST:,} are read")
    return text


def _json_in(text: str) -> str:
    """Where the object is: in the only fence, or from the first to the last brace where no bracket stands outside."""
    blocks, _ = _fenced(text, {"", "json"}) if FENCE in text else ([], True)
    if len(blocks) > 1:
        raise InputError(f"it holds {len(blocks)} fenced blocks, not one JSON object")
    body = (blocks[0] if blocks else text).strip()
    start, end = body.find("{"), body.rfind("}") + 1
    if not 0 <= start < end or any(sign in body[:start] + body[end:] for sign in "[]{}"):
        return body
    return body[start:end]


def _not_json(text: str, body: str, error: Exception) -> str:
    if body.startswith("{"):
        return f"it is not one JSON object ({error})"
    if text.lstrip()[:15].lower().startswith(("<!doctype", "<html")):
        return "it is a page of HTML, not the JSON object that was asked for"
    if _REFUSAL.search(text):
        return "it is a refusal, not the JSON object that was asked for"
    return "it holds no JSON object" if "{" not in body else f"it is not one JSON object ({error})"


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(key): _cleaned(inner) for key, inner in value.items()}
    return [_cleaned(inner) for inner in value] if isinstance(value, list) else value


def _fenced(text: str, languages: set[str]) -> tuple[list[str], bool]:
    """(fenced blocks in one of these languages, whether the last fence is closed).

    A block ends at the first line that begins or ends with a fence. Read line by line: a reply may be long and hostile.
    """
    blocks: list[str] = []
    inside: list[str] | None = None
    language = ""
    for line in text.split("\n"):
        bare = line.rstrip()
        if inside is None:
            opening = _OPENING.search(bare[-80:])
            if opening:
                inside, language = [], opening[1].lower()
        elif bare.endswith(FENCE) or bare.lstrip().startswith(FENCE):
            rest = bare.rpartition(FENCE)[0].rstrip()
            body = "\n".join([*inside, rest] if rest else inside)
            blocks += [body] if language in languages else []
            inside = None
        else:
            inside.append(line)
    return blocks, inside is None
