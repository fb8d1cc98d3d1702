"""What this site's exports say of a record besides the format that it is written in, under `envarium`.

It holds only what reading the record alone would lose: how checks are scored, a reference, a seed, the source that a
record is kept under. A record that came in from elsewhere and lost nothing leaves without it, equal to what it was. An
import takes it out again: it is no part of `raw`, nor of the hash of a run, task or environment.
"""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from synthesis.errors import FormatError
from synthesis.formats.values import clean
from synthesis.json_reader import json_type

FIELD = "envarium"
Parts = TypeVar("Parts", bound=BaseModel)


def spell_parts(raw: dict[str, Any], parts: BaseModel) -> dict[str, Any]:
    """The record with its parts, if there is anything to be said."""
    told = parts.model_dump(mode="json", exclude_defaults=True)
    return {**raw, FIELD: told} if told else raw


def take_parts(raw: dict[str, Any], kind: type[Parts], place: str) -> tuple[dict[str, Any], Parts]:
    """(the record without its parts, the parts). Raises FormatError with the place of what is wrong in them."""
    given = raw.get(FIELD)
    if given is None:
        return raw, kind()
    if not isinstance(given, dict):
        raise FormatError(f"{place}.{FIELD}", f"expected an object, found a {json_type(given)}")
    kept = {name: value for name, value in raw.items() if name != FIELD}
    try:
        return kept, kind.model_validate(_clean(given))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join([place, FIELD, *map(str, first["loc"])])
        raise FormatError(where, f"{first['msg']}; leave `{FIELD}` as the export wrote it, or take it out") from None


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [_clean(item) for item in value]
    return {clean(key): _clean(item) for key, item in value.items()} if isinstance(value, dict) else value
