"""EnvScaler's environments and scenarios: a file in, records out, one failure for each record that is refused.

Lenient about form (an object keyed by id or a list, objects or JSON strings, absent lists), strict about meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from synthesis.contracts import (
    AnswerField,
    CheckRecord,
    ChecksVerifier,
    Frame,
    RubricVerifier,
    ScoreRule,
    ToolKind,
    Verifier,
    Withheld,
)
from synthesis.errors import FormatError
from synthesis.formats.answer_form import add_field_checks, read_expected, read_form
from synthesis.formats.criteria import read_criteria
from synthesis.formats.files import Entry
from synthesis.formats.own_parts import take_parts
from synthesis.formats.records import EnvironmentParts, EnvironmentRecord, Failure, TaskParts, TaskRecord, ToolRecord
from synthesis.formats.signatures import Signature, list_class_names, list_signatures
from synthesis.formats.spoken_facts import add_fact_checks, read_facts
from synthesis.formats.values import (
    clean_text,
    decode_json,
    read_key_field,
    read_list_field,
    read_object_field,
    read_or_fail,
    read_text_field,
    require_record,
    shorten_text,
)
from synthesis.formats.verifier_record import read_verifier
from synthesis.json_reader import get_json_type

Own = TypeVar("Own", bound=BaseModel)
Seen = dict[str, tuple[str, EnvironmentRecord | TaskRecord]]
"""The first place of an id, and its record at that place."""
KINDS: dict[str, ToolKind] = {
    "query": "query",
    "read": "query",
    "state_change": "change",
    "change": "change",
    "write": "change",
}


def parse_environments(entries: list[Entry]) -> Iterator[tuple[str, EnvironmentRecord | Failure]]:
    """Yield each entry's place with its record, or with the reason of its failure."""
    first_places: Seen = {}
    for entry in entries:
        yield entry.place, _read_unique(read_environment, entry, first_places)


def parse_scenarios(entries: list[Entry]) -> Iterator[tuple[str, TaskRecord | Failure]]:
    first_places: Seen = {}
    for entry in entries:
        yield entry.place, _read_unique(read_scenario, entry, first_places)


def split_kinds(environments: Sequence[Entry], scenarios: Sequence[Entry]) -> tuple[list[Entry], list[Entry]]:
    """Return the environments and the scenarios of two files; a file may hold both, as an export of tasks does."""
    by_kind: tuple[list[Entry], list[Entry]] = ([], [])
    for own_kind, entries in enumerate((environments, scenarios)):
        kinds = [get_entry_kind(entry, own_kind) for entry in entries]
        mixed = len(set(kinds)) > 1
        for kind, entry in zip(kinds, entries, strict=True):
            by_kind[kind if mixed else own_kind].append(entry)
    return by_kind


def get_entry_kind(entry: Entry, unknown: int) -> int:
    """Return 0 for an environment, 1 for a scenario, else `unknown`."""
    value = entry.value if isinstance(entry.value, dict) else {}
    if "env_class_code" in value and "init_config" not in value:
        return 0
    return 1 if "init_config" in value and "env_class_code" not in value else unknown


def _read_unique(read: Callable[[Entry], Any], entry: Entry, seen: Seen) -> Any:
    """Read one record; fail if its id already occurred in these files with other content.

    The same content is accepted: an export of environments and one of tasks both hold the environments.
    """
    record = read_or_fail(read, entry)
    if isinstance(record, Failure):
        return record
    task = record.key
    name = f"{getattr(record, 'environment_key', '')}\n{task}\n{record.parts.source}"
    if not record.parts.current:  # an export also has earlier versions, each with its own content
        return record
    first, content = seen.setdefault(name, (entry.place, record))
    if record != content:
        reason = f"the id {task!r} is already at {clean_text(first)} in this file, with other content"
        return Failure(place=clean_text(entry.place), reason=reason)
    return record


def read_environment(entry: Entry) -> EnvironmentRecord:
    """Read one environment. Raise `FormatError` with the place of the error."""
    place = entry.place
    raw, parts = take_parts(require_record(entry.value, place), EnvironmentParts, place)
    if "env_class_code" not in raw and "init_config" in raw:
        raise FormatError(f"{place}.env_class_code", "missing; a scenario? It goes in as the second file")
    if "env_class_code" not in raw and "task_info" in raw:
        raise FormatError(f"{place}.env_class_code", "missing; a recorded run? Import it as a trajectory")
    source = read_text_field(raw, "env_class_code", place, required=True)
    class_name = _read_class_name(raw, source, place)
    key = parts.key or read_key_field(raw, "env_id", place, entry.key or class_name)
    summary = read_text_field(raw, "environment_summary", place)
    return EnvironmentRecord(
        key=key,
        name=shorten_text(parts.name or summary, 300) or class_name,
        summary=summary,
        introduction=read_text_field(raw, "environment_introduction", place),
        category=shorten_text(read_text_field(raw, "category", place), 200),
        rules=_read_rules(raw, place),
        state_schema=_read_state_schema(raw, place),
        class_name=class_name,
        source=source,
        tools=parts.tools or _read_tools(raw, source, class_name, place),
        raw=raw,
        parts=parts,
    )


def _read_class_name(raw: dict[str, Any], source: str, place: str) -> str:
    name = read_text_field(raw, "env_class_name", place).strip()
    if name:
        if len(name) > 200 or not name.isidentifier():
            raise FormatError(f"{place}.env_class_name", f"{shorten_text(name, 60)!r} is not a class name")
        return name
    classes = list_class_names(source)
    if len(classes) != 1:
        raise FormatError(f"{place}.env_class_name", f"missing, and the code has {len(classes)} classes with methods")
    return classes[0]


def _read_rules(raw: dict[str, Any], place: str) -> tuple[str, ...]:
    value = raw.get("constraints_rules")
    if isinstance(value, str) and not value.lstrip().startswith("["):
        return tuple(clean_text(line.strip()) for line in value.splitlines() if line.strip())
    rules = read_list_field(raw, "constraints_rules", place)
    for index, rule in enumerate(rules):
        if not isinstance(rule, str):
            raise FormatError(f"{place}.constraints_rules[{index}]", f"expected text, found a {get_json_type(rule)}")
    return tuple(clean_text(rule) for rule in rules)


def _read_state_schema(raw: dict[str, Any], place: str) -> tuple[dict[str, Any], ...]:
    where = f"{place}.state_space_definition"
    value = decode_json(raw.get("state_space_definition"), where)
    if isinstance(value, dict):
        return tuple({"entity": name, "attributes": inner} for name, inner in value.items())
    if not isinstance(value, list | None):
        raise FormatError(where, f"expected a list, found a {get_json_type(value)}")
    for index, item in enumerate(value or []):
        if not isinstance(item, dict):
            raise FormatError(f"{where}[{index}]", f"expected an object, found a {get_json_type(item)}")
    return tuple(value or ())


def _read_tools(raw: dict[str, Any], source: str, class_name: str, place: str) -> tuple[ToolRecord, ...]:
    methods = {item.name: item for item in list_signatures(source, class_name)}
    operations = _read_operations(raw, place)
    value = decode_json(raw.get("tools"), f"{place}.tools")
    if value is None:
        listed = [ToolRecord(name=item.name, description=clean_text(item.doc)) for item in methods.values()]
    elif isinstance(value, dict):
        listed = [_read_tool(_add_tool_name(item, name), f"{place}.tools.{name}") for name, item in value.items()]
    elif isinstance(value, list):
        listed = [_read_tool(item, f"{place}.tools[{index}]") for index, item in enumerate(value)]
    else:
        raise FormatError(f"{place}.tools", f"expected a list, found a {get_json_type(value)}")
    names = [tool.name for tool in listed]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise FormatError(f"{place}.tools[{index}]", f"the tool {name!r} is listed twice")
    return tuple(_complete_tool(tool, methods.get(tool.name), operations.get(tool.name)) for tool in listed)


def _add_tool_name(item: Any, name: str) -> Any:
    return {"name": name, **item} if isinstance(item, dict) and "function" not in item else item


def _complete_tool(
    tool: ToolRecord, method: Signature | None, operation: tuple[str, ToolKind | None] | None
) -> ToolRecord:
    kind = operation[1] if operation else None
    return tool.model_copy(
        update={
            "kind": kind or (method.kind if method else "query"),
            "description": tool.description or (operation[0] if operation else ""),
        }
    )


def _read_tool(value: Any, place: str) -> ToolRecord:
    value = decode_json(value, place)
    if not isinstance(value, dict):
        raise FormatError(place, f"expected an object, found a {get_json_type(value)}")
    if "function" in value:
        place = f"{place}.function"
        value = decode_json(value["function"], place)
        if not isinstance(value, dict):
            raise FormatError(place, f"expected an object, found a {get_json_type(value)}")
    name = read_text_field(value, "name", place, required=True)
    if len(name) > 200:
        raise FormatError(f"{place}.name", f"a name of {len(name)} characters; 200 are allowed")
    names = ("parameters", "input_schema", "inputSchema")
    schema = next((read_object_field(value, word, place) for word in names if value.get(word) is not None), None)
    return ToolRecord(name=name, description=read_text_field(value, "description", place), raw_schema=schema)


def _read_operations(raw: dict[str, Any], place: str) -> dict[str, tuple[str, ToolKind | None]]:
    """Return description and kind by operation of `operation_list`; the kind is None if its type is unknown or
    absent."""
    operations: dict[str, tuple[str, ToolKind | None]] = {}
    for index, item in enumerate(read_list_field(raw, "operation_list", place)):
        where = f"{place}.operation_list[{index}]"
        if isinstance(item, str):
            operations[item] = ("", None)
            continue
        if not isinstance(item, dict):
            raise FormatError(where, f"expected an object, found a {get_json_type(item)}")
        kind = read_text_field(item, "operation_type", where).strip().lower().replace("-", "_").replace(" ", "_")
        description = read_text_field(item, "operation_description", where)
        operations[read_text_field(item, "operation_name", where)] = (description, KINDS.get(kind))
    return operations


def read_scenario(entry: Entry) -> TaskRecord:
    """Read one of EnvScaler's scenarios, which is our scenario and task. Raise `FormatError` if it is invalid."""
    place = entry.place
    raw, parts = take_parts(require_record(entry.value, place), TaskParts, place)
    if "env_class_code" in raw and "init_config" not in raw:
        raise FormatError(f"{place}.init_config", "missing; an environment? It goes in as the first file")
    environment_key = read_key_field(raw, "env_id", place)
    instruction = read_text_field(raw, "task", place, required=True)
    key = read_key_field(raw, "task_id", place, entry.key)
    state = read_object_field(raw, "init_config", place)
    if state is None:
        raise FormatError(f"{place}.init_config", "missing")
    _validate_checklist(raw, place)
    form = read_form(raw, place)
    expected = read_expected(raw, form, place)
    withheld = _read_own_field(Withheld, "withheld", raw, place)
    return TaskRecord(
        environment_key=environment_key,
        key=key,
        title=parts.title or shorten_text(instruction, 120),
        scenario_name=parts.scenario or key,
        instruction=instruction,
        answer_form=form,
        expected_answer=expected,
        initial_state=state,
        verifier=_read_verifier(raw, place, form, expected, parts.score_rule),
        reference=parts.reference,
        withheld=withheld,
        variant=parts.variant,
        consistency=parts.consistency,
        raw={**raw, "init_config": None} if parts.state_apart else raw,
        parts=parts,
    )


def _read_verifier(
    raw: dict[str, Any], place: str, form: tuple[AnswerField, ...], expected: dict[str, Any], rule: ScoreRule
) -> Verifier:
    """Return the verifier of a scenario: EnvScaler's checks, or the verifier of an export of this site."""
    facts, own_checks = read_facts(raw, place), tuple(_read_checks(raw, place))
    criteria = read_criteria(raw, form, expected, place)
    frame = _read_own_field(Frame, "frame", raw, place)
    other = read_verifier(raw, place, form, expected, frame)
    if criteria and (own_checks or facts):
        raise FormatError(f"{place}.criteria", "a task has criteria or checks (`checklist_with_func`), not both")
    if other is not None:
        if criteria or own_checks or facts:
            raise FormatError(f"{place}.verifier", "a task with a `verifier` has neither checks nor criteria")
        return other
    if criteria:
        return RubricVerifier(criteria=criteria, expected_answer=expected)
    checks = add_fact_checks(add_field_checks(own_checks, form, expected), facts)
    return ChecksVerifier(checks=checks, rule=rule, frame=frame)


def _read_own_field(kind: type[Own], name: str, raw: dict[str, Any], place: str) -> Own | None:
    """Return a field that only exports of this site have, such as the frame or the withheld parts; None if absent."""
    if raw.get(name) is None:
        return None
    try:
        return kind.model_validate(raw[name])
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join([name, *map(str, first["loc"])])
        raise FormatError(f"{place}.{where}", first["msg"]) from None


def _validate_checklist(raw: dict[str, Any], place: str) -> None:
    for index, item in enumerate(read_list_field(raw, "checklist", place)):
        if not isinstance(item, str | dict):
            raise FormatError(f"{place}.checklist[{index}]", f"expected text, found a {get_json_type(item)}")


def _read_checks(raw: dict[str, Any], place: str) -> Iterator[CheckRecord]:
    for index, item in enumerate(read_list_field(raw, "checklist_with_func", place)):
        where = f"{place}.checklist_with_func[{index}]"
        if not isinstance(item, dict):
            raise FormatError(where, f"expected an object, found a {get_json_type(item)}")
        label = read_text_field(item, "check_item", where)
        yield CheckRecord(label=label, source=read_text_field(item, "check_func", where, required=True))
