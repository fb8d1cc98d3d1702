"""Additional data of records in this site's exports, under `envarium`.

It holds only what an import of the plain record would lose: the scoring of checks, a reference, a seed, the source of a
record. A record that was imported and lost nothing is exported without it, equal to the import. An import takes it out
again: it is part neither of `raw` nor of the hash of a run, task or environment.
"""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from synthesis.errors import FormatError
from synthesis.formats.values import clean_text
from synthesis.json_reader import get_json_type

FIELD = "envarium"
Parts = TypeVar("Parts", bound=BaseModel)


def add_parts(raw: dict[str, Any], parts: BaseModel) -> dict[str, Any]:
    """Return the record with its parts, if they differ from the defaults."""
    dumped = parts.model_dump(mode="json", exclude_defaults=True)
    return {**raw, FIELD: dumped} if dumped else raw


def take_parts(raw: dict[str, Any], kind: type[Parts], place: str) -> tuple[dict[str, Any], Parts]:
    """Return the record without its parts, and the parts. Raise FormatError with the place of an error in them."""
    raw_parts = raw.get(FIELD)
    if raw_parts is None:
        return raw, kind()
    if not isinstance(raw_parts, dict):
        raise FormatError(f"{place}.{FIELD}", f"expected an object, found a {get_json_type(raw_parts)}")
    record = {name: value for name, value in raw.items() if name != FIELD}
    try:
        return record, kind.model_validate(_clean_value(raw_parts))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join([place, FIELD, *map(str, first["loc"])])
        raise FormatError(where, f"{first['msg']}; leave `{FIELD}` as the export wrote it, or take it out") from None


def _clean_value(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [_clean_value(item) for item in value]
    return {clean_text(key): _clean_value(item) for key, item in value.items()} if isinstance(value, dict) else value
