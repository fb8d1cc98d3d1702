"""EnvScaler's environments and scenarios: a file in, records out, one failure a record that does not go in.

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
from synthesis.formats.answer_form import read_expected, read_form, with_field_checks
from synthesis.formats.criteria import read_criteria
from synthesis.formats.files import Entry
from synthesis.formats.own_parts import take_parts
from synthesis.formats.records import EnvironmentParts, EnvironmentRecord, Failure, TaskParts, TaskRecord, ToolRecord
from synthesis.formats.signatures import Signature, class_names, signatures
from synthesis.formats.spoken_facts import read_facts, with_fact_checks
from synthesis.formats.values import (
    clean,
    key_field,
    list_field,
    object_field,
    opened,
    read_or_fail,
    record_of,
    shorten,
    text_field,
)
from synthesis.formats.verifier_record import read_verifier
from synthesis.json_reader import json_type

Own = TypeVar("Own", bound=BaseModel)
KINDS: dict[str, ToolKind] = {
    "query": "query",
    "read": "query",
    "state_change": "change",
    "change": "change",
    "write": "change",
}


def parse_environments(entries: list[Entry]) -> Iterator[tuple[str, EnvironmentRecord | Failure]]:
    """Each entry's place with its record, or with the reason why it is none."""
    seen: dict[str, str] = {}
    for entry in entries:
        yield entry.place, _guarded(environment, entry, seen)


def parse_scenarios(entries: list[Entry]) -> Iterator[tuple[str, TaskRecord | Failure]]:
    seen: dict[str, str] = {}
    for entry in entries:
        yield entry.place, _guarded(scenario, entry, seen)


def split_kinds(environments: Sequence[Entry], scenarios: Sequence[Entry]) -> tuple[list[Entry], list[Entry]]:
    """The environments and the scenarios of two files; one that has both holds them as an export of tasks does."""
    found: tuple[list[Entry], list[Entry]] = ([], [])
    for own, entries in enumerate((environments, scenarios)):
        kinds = [kind_of(entry, own) for entry in entries]
        mixed = len(set(kinds)) > 1
        for kind, entry in zip(kinds, entries, strict=True):
            found[kind if mixed else own].append(entry)
    return found


def kind_of(entry: Entry, unknown: int) -> int:
    """0 for an environment, 1 for a scenario, `unknown` for what is neither."""
    value = entry.value if isinstance(entry.value, dict) else {}
    if "env_class_code" in value and "init_config" not in value:
        return 0
    return 1 if "init_config" in value and "env_class_code" not in value else unknown


def _guarded(read: Callable[[Entry], Any], entry: Entry, seen: dict[str, str]) -> Any:
    """Read one record; an id that already stood in this file with other content is a failure."""
    record = read_or_fail(read, entry)
    if isinstance(record, Failure):
        return record
    task = record.key
    name = f"{getattr(record, 'environment_key', '')}\n{task}\n{record.parts.source}"
    if not record.parts.current:  # an export has earlier ones beside it, each with its own content
        return record
    first = seen.setdefault(name, entry.place)
    if first != entry.place:
        return Failure(
            place=clean(entry.place), reason=f"the id {task!r} already stands at {clean(first)} in this file"
        )
    return record


def environment(entry: Entry) -> EnvironmentRecord:
    """One environment. Raises `FormatError` with the place of what is wrong."""
    place = entry.place
    raw, parts = take_parts(record_of(entry.value, place), EnvironmentParts, place)
    if "env_class_code" not in raw and "init_config" in raw:
        raise FormatError(f"{place}.env_class_code", "missing; a scenario? It goes in as the second file")
    if "env_class_code" not in raw and "task_info" in raw:
        raise FormatError(f"{place}.env_class_code", "missing; a recorded run? Import it as a trajectory")
    source = text_field(raw, "env_class_code", place, required=True)
    class_name = _class_name(raw, source, place)
    key = parts.key or key_field(raw, "env_id", place, entry.key or class_name)
    summary = text_field(raw, "environment_summary", place)
    return EnvironmentRecord(
        key=key,
        name=shorten(parts.name or summary, 300) or class_name,
        summary=summary,
        introduction=text_field(raw, "environment_introduction", place),
        category=shorten(text_field(raw, "category", place), 200),
        rules=_rules(raw, place),
        state_schema=_state_schema(raw, place),
        class_name=class_name,
        source=source,
        tools=parts.tools or _tools(raw, source, class_name, place),
        raw=raw,
        parts=parts,
    )


def _class_name(raw: dict[str, Any], source: str, place: str) -> str:
    name = text_field(raw, "env_class_name", place).strip()
    if name:
        if len(name) > 200 or not name.isidentifier():
            raise FormatError(f"{place}.env_class_name", f"{shorten(name, 60)!r} is not a class name")
        return name
    classes = class_names(source)
    if len(classes) != 1:
        raise FormatError(f"{place}.env_class_name", f"missing, and the code has {len(classes)} classes with methods")
    return classes[0]


def _rules(raw: dict[str, Any], place: str) -> tuple[str, ...]:
    value = raw.get("constraints_rules")
    if isinstance(value, str) and not value.lstrip().startswith("["):
        return tuple(clean(line.strip()) for line in value.splitlines() if line.strip())
    rules = list_field(raw, "constraints_rules", place)
    for index, rule in enumerate(rules):
        if not isinstance(rule, str):
            raise FormatError(f"{place}.constraints_rules[{index}]", f"expected text, found a {json_type(rule)}")
    return tuple(clean(rule) for rule in rules)


def _state_schema(raw: dict[str, Any], place: str) -> tuple[dict[str, Any], ...]:
    where = f"{place}.state_space_definition"
    value = opened(raw.get("state_space_definition"), where)
    if isinstance(value, dict):
        return tuple({"entity": name, "attributes": inner} for name, inner in value.items())
    if not isinstance(value, list | None):
        raise FormatError(where, f"expected a list, found a {json_type(value)}")
    for index, item in enumerate(value or []):
        if not isinstance(item, dict):
            raise FormatError(f"{where}[{index}]", f"expected an object, found a {json_type(item)}")
    return tuple(value or ())


def _tools(raw: dict[str, Any], source: str, class_name: str, place: str) -> tuple[ToolRecord, ...]:
    methods = {item.name: item for item in signatures(source, class_name)}
    operations = _operations(raw, place)
    value = opened(raw.get("tools"), f"{place}.tools")
    if value is None:
        listed = [ToolRecord(name=item.name, description=clean(item.doc)) for item in methods.values()]
    elif isinstance(value, dict):
        listed = [_tool(_named(item, name), f"{place}.tools.{name}") for name, item in value.items()]
    elif isinstance(value, list):
        listed = [_tool(item, f"{place}.tools[{index}]") for index, item in enumerate(value)]
    else:
        raise FormatError(f"{place}.tools", f"expected a list, found a {json_type(value)}")
    names = [tool.name for tool in listed]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise FormatError(f"{place}.tools[{index}]", f"the tool {name!r} stands twice")
    return tuple(_completed(tool, methods.get(tool.name), operations.get(tool.name)) for tool in listed)


def _named(item: Any, name: str) -> Any:
    return {"name": name, **item} if isinstance(item, dict) and "function" not in item else item


def _completed(tool: ToolRecord, method: Signature | None, operation: tuple[str, ToolKind | None] | None) -> ToolRecord:
    kind = operation[1] if operation else None
    return tool.model_copy(
        update={
            "kind": kind or (method.kind if method else "query"),
            "description": tool.description or (operation[0] if operation else ""),
        }
    )


def _tool(value: Any, place: str) -> ToolRecord:
    value = opened(value, place)
    if not isinstance(value, dict):
        raise FormatError(place, f"expected an object, found a {json_type(value)}")
    if "function" in value:
        place = f"{place}.function"
        value = opened(value["function"], place)
        if not isinstance(value, dict):
            raise FormatError(place, f"expected an object, found a {json_type(value)}")
    name = text_field(value, "name", place, required=True)
    if len(name) > 200:
        raise FormatError(f"{place}.name", f"a name of {len(name)} characters; 200 are allowed")
    names = ("parameters", "input_schema", "inputSchema")
    schema = next((object_field(value, word, place) for word in names if value.get(word) is not None), None)
    return ToolRecord(name=name, description=text_field(value, "description", place), raw_schema=schema)


def _operations(raw: dict[str, Any], place: str) -> dict[str, tuple[str, ToolKind | None]]:
    """What `operation_list` says of each operation; an unknown or absent type is derived from the code."""
    operations: dict[str, tuple[str, ToolKind | None]] = {}
    for index, item in enumerate(list_field(raw, "operation_list", place)):
        where = f"{place}.operation_list[{index}]"
        if isinstance(item, str):
            operations[item] = ("", None)
            continue
        if not isinstance(item, dict):
            raise FormatError(where, f"expected an object, found a {json_type(item)}")
        kind = text_field(item, "operation_type", where).strip().lower().replace("-", "_").replace(" ", "_")
        description = text_field(item, "operation_description", where)
        operations[text_field(item, "operation_name", where)] = (description, KINDS.get(kind))
    return operations


def scenario(entry: Entry) -> TaskRecord:
    """One of EnvScaler's scenarios: our scenario and task. Raises `FormatError`."""
    place = entry.place
    raw, parts = take_parts(record_of(entry.value, place), TaskParts, place)
    if "env_class_code" in raw and "init_config" not in raw:
        raise FormatError(f"{place}.init_config", "missing; an environment? It goes in as the first file")
    environment_key = key_field(raw, "env_id", place)
    instruction = text_field(raw, "task", place, required=True)
    key = key_field(raw, "task_id", place, entry.key)
    state = object_field(raw, "init_config", place)
    if state is None:
        raise FormatError(f"{place}.init_config", "missing")
    _checklist(raw, place)
    form = read_form(raw, place)
    expected = read_expected(raw, form, place)
    withheld = _own_field(Withheld, "withheld", raw, place)
    return TaskRecord(
        environment_key=environment_key,
        key=key,
        title=parts.title or shorten(instruction, 120),
        scenario_name=parts.scenario or key,
        instruction=instruction,
        answer_form=form,
        expected_answer=expected,
        initial_state=state,
        verifier=_verifier(raw, place, form, expected, parts.score_rule),
        reference=parts.reference,
        withheld=withheld,
        raw={**raw, "init_config": None} if parts.state_apart else raw,
        parts=parts,
    )


def _verifier(
    raw: dict[str, Any], place: str, form: tuple[AnswerField, ...], expected: dict[str, Any], rule: ScoreRule
) -> Verifier:
    """The verifier of a scenario: EnvScaler's checks, or what an export of ours says instead of them."""
    facts, own = read_facts(raw, place), tuple(_checks(raw, place))
    criteria = read_criteria(raw, form, expected, place)
    frame = _own_field(Frame, "frame", raw, place)
    other = read_verifier(raw, place, form, expected, frame)
    if criteria and (own or facts):
        raise FormatError(f"{place}.criteria", "a task has criteria or checks (`checklist_with_func`), not both")
    if other is not None:
        if criteria or own or facts:
            raise FormatError(f"{place}.verifier", "a task with a `verifier` has neither checks nor criteria beside it")
        return other
    if criteria:
        return RubricVerifier(criteria=criteria, expected_answer=expected)
    checks = with_fact_checks(with_field_checks(own, form, expected), facts)
    return ChecksVerifier(checks=checks, rule=rule, frame=frame)


def _own_field(kind: type[Own], name: str, raw: dict[str, Any], place: str) -> Own | None:
    """What an export of ours says besides: what a right way may change, what is withheld. EnvScaler's own files have
    neither."""
    if raw.get(name) is None:
        return None
    try:
        return kind.model_validate(raw[name])
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join([name, *map(str, first["loc"])])
        raise FormatError(f"{place}.{where}", first["msg"]) from None


def _checklist(raw: dict[str, Any], place: str) -> None:
    for index, item in enumerate(list_field(raw, "checklist", place)):
        if not isinstance(item, str | dict):
            raise FormatError(f"{place}.checklist[{index}]", f"expected text, found a {json_type(item)}")


def _checks(raw: dict[str, Any], place: str) -> Iterator[CheckRecord]:
    for index, item in enumerate(list_field(raw, "checklist_with_func", place)):
        where = f"{place}.checklist_with_func[{index}]"
        if not isinstance(item, dict):
            raise FormatError(where, f"expected an object, found a {json_type(item)}")
        label = text_field(item, "check_item", where)
        yield CheckRecord(label=label, source=text_field(item, "check_func", where, required=True))
