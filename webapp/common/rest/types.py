"""Types of parameters and bodies, so that nothing a client sends reaches the database as an error."""

from __future__ import annotations

import re
from typing import Annotated, Any, Generic, TypeVar

from django.http import HttpRequest
from ninja import Schema
from ninja.parser import Parser
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from synthesis.errors import FormatError
from synthesis.json_reader import MAX_DEPTH, read_json
from synthesis.json_weight import is_shallow

Item = TypeVar("Item")
MOST_MEMORY = 32 << 20
MOST_LEVELS = 450
"""An encoded state has up to 416, a hundred times four; with more, recursive code reaches Python's limit."""
MOST_UNKNOWN = 1_000
"""Number of unknown keys of an object that are each reported."""

UNKEEPABLE = re.compile("[\x00\ud800-\udfff]")


def _require_storable(text: str) -> str:
    """Return the text. Raises ValueError for NUL and lone surrogates, which PostgreSQL's text cannot store."""
    if UNKEEPABLE.search(text):
        raise ValueError("must not contain NUL characters or lone surrogates")
    return text


Id = Annotated[int, Field(ge=1, le=2**63 - 1)]
Position = Annotated[int, Field(ge=0, le=2**31 - 1)]
Text = Annotated[str, AfterValidator(_require_storable)]
ShortText = Annotated[str, Field(max_length=200), AfterValidator(_require_storable)]
Json = Annotated[Any, WithJsonSchema({})]
"""Any JSON value, key order kept."""


def _require_shallow(value: dict[str, Any]) -> dict[str, Any]:
    if not is_shallow(value, MAX_DEPTH):
        raise ValueError(f"must be nested {MAX_DEPTH} levels deep at most")
    return value


CallArguments = Annotated[dict[str, Any], AfterValidator(_require_shallow)]
"""Arguments of a tool's call, which may be nested as deep as in imports."""


class PageOf(Schema, Generic[Item]):
    """One page of a list. `next_cursor` is the `cursor` of the next page; null on the last."""

    data: list[Item]
    next_cursor: str | None


class BodyIn(BaseModel):
    """Base of request bodies: an object with the declared fields and no others.

    Ninja's own `Schema` would accept a list or a text for an object whose fields all have defaults. Types are those of
    JSON: `true` is no number, and neither is "1".
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _refuse_countless_keys(cls, value: Any) -> Any:
        """Refuse a body with too many unknown keys: Pydantic makes an error of each, and half a million took 0.8 GB."""
        if isinstance(value, dict) and len(value) > len(cls.model_fields) + MOST_UNKNOWN:
            takes = ", ".join(sorted(cls.model_fields)) or "nothing"
            words = f"Has {len(value):,} keys. It takes {takes}"
            raise PydanticCustomError("too_many_faults", "{words}", {"words": words})
        return value


def describe_file_answer(media_type: str, what: str) -> dict[str, Any]:
    """Return the `openapi_extra` of an operation that answers with a file."""
    described = {} if media_type == "application/json" else {"schema": {"type": "string", "format": "binary"}}
    return {"responses": {200: {"description": what, "content": {media_type: described}}}}


def describe_file_body(media_type: str, what: str) -> dict[str, Any]:
    """Return the `openapi_extra` of an operation whose body is a file."""
    schema = {"type": "string", "format": "binary"}
    return {"requestBody": {"required": True, "description": what, "content": {media_type: {"schema": schema}}}}


class BodyParser(Parser):
    """Strict JSON parser: no NaN, and bounded nesting and memory. The memory is estimated before a value is built, that
    of unknown keys too."""

    def parse_body(self, request: HttpRequest) -> Any:
        try:
            # Lone surrogates are refused by the fields, whose errors name the field.
            return read_json(request.body, most_levels=MOST_LEVELS, most_memory=MOST_MEMORY, broken_text=True)
        except FormatError as error:
            raise ValueError(str(error)) from error
