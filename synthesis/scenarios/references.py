"""References between the records of a state, as far as the schema and its names show.

An entity owns an id if one of its attributes consists of its own name and `_id` (`Patient`: `patient_id`). Any field of
that name, alone or after a prefix (`from_account_id`), refers to a record of the owner's collection.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from synthesis.assessment.truncated_names import list_attribute_names

MOST = 20
"""Most faults that are reported."""
_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z]+")
Record = Mapping[str, Any]


@dataclass(frozen=True)
class Owner:
    """An entity with its records in a state: `field` is its id, `key` that of its collection, `ids` all existing
    ids.
    """

    field: str
    key: str
    ids: frozenset[str]


def find_reference_faults(state: Record, schema: Sequence[Record]) -> list[str]:
    """Return descriptions of at most 20 faults: dangling ids, and records under another id than their own."""
    owners = list(_find_owners(state, schema))
    faults: list[str] = []
    for fault in (*_find_misplaced(state, owners), *_find_dangling(state, owners)):
        if len(faults) == MOST:
            break
        faults.append(fault)
    return faults


def split_name(name: str) -> list[str]:
    """Return the words of a name, in lower case: the same for `AllergyRecord` and `allergy_record`."""
    return [word.lower() for word in _WORDS.findall(name)]


def list_singular_forms(word: str) -> tuple[str, ...]:
    """Return the words of which this may be the plural, including itself."""
    forms = [word]
    if word.endswith("ies"):
        forms.append(word[:-3] + "y")
    if word.endswith("es"):
        forms.append(word[:-2])
    if word.endswith("s"):
        forms.append(word[:-1])
    return tuple(forms)


def _find_owners(state: Record, schema: Sequence[Record]) -> Iterator[Owner]:
    """Yield owners whose collection is unambiguous in the state. A field that two entities could own has none."""
    fields: dict[str, list[str]] = {}
    for item in schema:
        entity = item.get("entity")
        if isinstance(entity, str):
            field = _find_own_id(entity, list_attribute_names(item.get("attributes")))
            if field:
                fields.setdefault(field, []).append(entity)
    for field, entities in fields.items():
        key = _find_collection(state, entities[0], field) if len(entities) == 1 else ""
        if key:
            yield Owner(field, key, frozenset(_list_ids(state[key], field)))


def _find_own_id(entity: str, attributes: Sequence[str]) -> str:
    words = split_name(entity)
    for name in attributes:
        if name.endswith("_id") and set(name.removesuffix("_id").split("_")) <= set(words):
            return name
    return ""


def _find_collection(state: Record, entity: str, field: str) -> str:
    """Return the key of an entity's records: by its name, else the only one whose records all carry the field."""
    named = {"_".join(split_name(entity)), field.removesuffix("_id")}
    tables = [key for key, value in state.items() if _list_records(value)]
    by_name = [key for key in tables if named & set(list_singular_forms("_".join(split_name(key))))]
    if not by_name:
        by_name = [key for key in tables if _has_own_ids(state[key], field)]
    return by_name[0] if len(by_name) == 1 else ""


def _list_records(value: Any) -> list[tuple[str, Record]]:
    """Return the records of a collection with their keys (empty in a list); none if it is no collection of records."""
    if isinstance(value, dict):
        pairs = list(value.items())
    elif isinstance(value, list):
        pairs = [("", item) for item in value]
    else:
        return []
    return pairs if all(isinstance(item, dict) for _, item in pairs) else []


def _has_own_ids(value: Any, field: str) -> bool:
    """Return whether every record has an id of its own under this field."""
    pairs = _list_records(value)
    ids = [str(record.get(field, "")) for _, record in pairs]
    if isinstance(value, dict):
        return ids == [key for key, _ in pairs]
    return all(ids) and len(set(ids)) == len(ids)


def _list_ids(value: Any, field: str) -> Iterator[str]:
    for key, record in _list_records(value):
        if key:
            yield key
        if isinstance(record.get(field), str | int):
            yield str(record[field])


def _find_misplaced(state: Record, owners: Sequence[Owner]) -> Iterator[str]:
    for owner in owners:
        for key, record in _list_records(state[owner.key]):
            own = record.get(owner.field)
            if key and isinstance(own, str | int) and str(own) != key:
                yield f"{owner.key}.{key} has the {owner.field} {own!r:.80}; both must be the same"


def _find_dangling(state: Record, owners: Sequence[Owner]) -> Iterator[str]:
    by_field = {owner.field: owner for owner in owners}
    for place, field, value in _list_id_fields(state):
        owner = by_field.get(field) or _find_owner_by_end(field, by_field)
        if owner is None:
            continue
        for key in value if isinstance(value, list) else [value]:
            is_known = not isinstance(key, str | int) or isinstance(key, bool) or key == "" or str(key) in owner.ids
            if not is_known:
                yield f"{place} is {key!r:.80}, but {owner.key} holds no such record"


def _find_owner_by_end(field: str, by_field: Mapping[str, Owner]) -> Owner | None:
    """Return the owner of a field with a prefix or in the plural: `from_account_id`, `patient_ids`. The longest name
    counts.
    """
    name = field.removesuffix("s") if field.endswith("_ids") else field
    ends = [known for known in by_field if name == known or name.endswith(f"_{known}")]
    return by_field[max(ends, key=len)] if ends else None


def _list_id_fields(state: Record) -> Iterator[tuple[str, str, Any]]:
    """Yield (place, name, value) of every field whose name ends like an id, in the state's order."""
    waiting_values: list[tuple[str, Any]] = [("", state)]
    while waiting_values:
        place, value = waiting_values.pop()
        if isinstance(value, list):
            waiting_values += [(f"{place}[{index}]", item) for index, item in reversed(list(enumerate(value)))]
        elif isinstance(value, dict):
            for name, item in value.items():
                if name.endswith(("_id", "_ids")) and not isinstance(item, dict):
                    yield f"{place}.{name}".lstrip("."), name, item
            inner = [(f"{place}.{name}".lstrip("."), item) for name, item in value.items()]
            waiting_values += [(at[:200], item) for at, item in reversed(inner) if isinstance(item, dict | list)]
