"""Replies in a form: how a model is told of it, and what it hears when its reply does not fit."""

from __future__ import annotations

import functools
import json
import re
from typing import Any

from pydantic import BaseModel

from synthesis.contracts import Message
from synthesis.errors import InputError
from synthesis.llm.chat import Reply
from synthesis.llm.endpoint import StructuredForm
from synthesis.prompts import has_prompt, prompt

SHOWN = 4_000
"""Characters of a reply that a model is shown again."""
REASON = 600
OBSERVED = 6_000
_INNER_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")


def json_form(wanted: type[BaseModel]) -> str:
    """The words that ask for JSON of this shape, with an example of it and room to think before."""
    asked = prompt("reply", "json").render(schema=_schema_text(wanted))
    return _with_example(asked, example_name(wanted), "json")


def example_name(wanted: type[BaseModel]) -> str:
    """`VerdictReply` as `verdict_reply`: the prompt in `examples` that shows an answer of this shape."""
    return _INNER_CAPITAL.sub("_", wanted.__name__.lstrip("_")).lower()


def _with_example(asked: str, name: str, language: str) -> str:
    if not has_prompt("examples", name):
        return asked
    example = prompt("examples", name).render()
    return f"{asked}\n\n{prompt('reply', 'example').render(language=language, example=example)}"


@functools.lru_cache(256)
def _schema_text(wanted: type[BaseModel]) -> str:
    # Not the whole words: a prompt that is not filled in would be missing in what a stage says that it used.
    return json.dumps(_without_titles(wanted.model_json_schema()), ensure_ascii=False)


def _without_titles(schema: Any) -> Any:
    """Return a schema without the titles that pydantic makes of names, and without descriptions of whole models."""
    if isinstance(schema, list):
        return [_without_titles(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: part for key, part in schema.items() if key not in ("title", "description") or isinstance(part, dict)}
    return {key: _without_titles(part) for key, part in kept.items()}


def response_format(wanted: type[BaseModel], form: StructuredForm = "json_schema") -> dict[str, Any]:
    """The same as a parameter, for endpoints that hold their models to a schema or to JSON.

    Who is held to a schema cannot think in words before it: a text `reasoning` is its first field. No stage reads it.
    """
    if form != "json_schema":
        return {"type": form}
    schema = wanted.model_json_schema()
    schema["properties"] = {"reasoning": {"type": "string"}} | schema.get("properties", {})
    return {"type": form, "json_schema": {"name": wanted.__name__.lstrip("_")[:64], "schema": schema}}


def code_form(stage: str = "") -> str:
    """The words that ask for Python code, with an example of what this stage wants and room to think before."""
    return _with_example(prompt("reply", "code").render(), stage, "python")


def reason_of(reply: Reply, error: InputError) -> str:
    """Why a reply could not be used, with what its envelope says about that."""
    if reply.finish_reason == "length":
        return f"it was cut off at the limit of tokens ({error})"[:REASON]
    if not reply.message.content.strip():
        calls = reply.message.tool_calls
        return "it calls a tool; there is none here" if calls else "it is empty"
    return str(error)[:REASON]


def again(reply: Message, reason: str, number: int, observed: str = "") -> tuple[Message, Message]:
    """What is added to a conversation so that the model tries once more.

    The `number` of the reply stands in it: a model that says the same twice is asked a third time, not looked up.
    `observed` is what came of its reply if it was tried, such as the output of code.
    """
    shown = reply.content if len(reply.content) <= SHOWN else f"{reply.content[:SHOWN]} …"
    asked = prompt("reply", "again").render(reason=reason, number=str(number))
    words = f"{asked}\n\n{observed[:OBSERVED]}" if observed else asked
    return Message(role="assistant", content=shown or "(nothing)"), Message(role="user", content=words)
