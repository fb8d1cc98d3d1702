"""Replies in a form: the request for the form, and the request for another try if a reply does not fit."""

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
from synthesis.prompts import get_prompt, has_prompt

SHOWN = 4_000
"""Characters of a reply that a model is shown again."""
REASON = 600
OBSERVED = 6_000
_INNER_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")


def build_json_form(wanted: type[BaseModel]) -> str:
    """Return the words that ask for JSON of this shape, with an example of it and room to think before."""
    asked = get_prompt("reply", "json").render(schema=_format_schema(wanted))
    return _add_example(asked, get_example_name(wanted), "json")


def get_example_name(wanted: type[BaseModel]) -> str:
    """Return `VerdictReply` as `verdict_reply`: the prompt in `examples` that shows an answer of this shape."""
    return _INNER_CAPITAL.sub("_", wanted.__name__.lstrip("_")).lower()


def _add_example(asked: str, name: str, language: str) -> str:
    if not has_prompt("examples", name):
        return asked
    example = get_prompt("examples", name).render()
    return f"{asked}\n\n{get_prompt('reply', 'example').render(language=language, example=example)}"


@functools.lru_cache(256)
def _format_schema(wanted: type[BaseModel]) -> str:
    # Only the schema is cached: a cached prompt would be missing in the stage's list of used prompts.
    return json.dumps(_strip_titles(wanted.model_json_schema()), ensure_ascii=False)


def _strip_titles(schema: Any) -> Any:
    """Return a schema without the titles that pydantic makes of names, and without descriptions of whole models."""
    if isinstance(schema, list):
        return [_strip_titles(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    parts = {key: part for key, part in schema.items() if key not in ("title", "description") or isinstance(part, dict)}
    return {key: _strip_titles(part) for key, part in parts.items()}


def build_response_format(wanted: type[BaseModel], form: StructuredForm = "json_schema") -> dict[str, Any]:
    """Return the form as a parameter, for endpoints that enforce a schema or JSON.

    A model that is held to a schema cannot think in words before it: a text `reasoning` is its first field. No stage
    reads it.
    """
    if form != "json_schema":
        return {"type": form}
    schema = wanted.model_json_schema()
    schema["properties"] = {"reasoning": {"type": "string"}} | schema.get("properties", {})
    return {"type": form, "json_schema": {"name": wanted.__name__.lstrip("_")[:64], "schema": schema}}


def build_code_form(stage: str = "") -> str:
    """Return the words that ask for Python code, with an example for this stage and room to think before."""
    return _add_example(get_prompt("reply", "code").render(), stage, "python")


def find_failure_reason(reply: Reply, error: InputError) -> str:
    """Return the reason why a reply could not be used, with the finish reason if that explains it."""
    if reply.finish_reason == "length":
        return f"it was cut off at the limit of tokens ({error})"[:REASON]
    if not reply.message.content.strip():
        calls = reply.message.tool_calls
        return "it calls a tool; there is none here" if calls else "it is empty"
    return str(error)[:REASON]


def build_retry_messages(reply: Message, reason: str, number: int, observed: str = "") -> tuple[Message, Message]:
    """Return the messages that make the model try once more.

    They contain the `number` of the reply, so that a model that gives the same reply twice is asked a third time, not
    looked up. `observed` is the result of its reply if it was executed, such as the output of code.
    """
    shown_reply = reply.content if len(reply.content) <= SHOWN else f"{reply.content[:SHOWN]} …"
    asked = get_prompt("reply", "again").render(reason=reason, number=str(number))
    words = f"{asked}\n\n{observed[:OBSERVED]}" if observed else asked
    return Message(role="assistant", content=shown_reply or "(nothing)"), Message(role="user", content=words)
