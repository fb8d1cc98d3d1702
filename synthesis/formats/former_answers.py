"""Tasks of earlier versions, whose checks read the words of the answer by helpers that were removed.

Such checks cannot be run any more. If the helper's arguments are literals, they give the expected value, so that an
answer form can be proposed for a user to review and save.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from synthesis.contracts import AnswerField, CheckRecord
from synthesis.errors import FormatError
from synthesis.formats.answer_form import MOST_FIELDS, build_compare_spec, read_form
from synthesis.runtime.child.answer_values import is_value
from synthesis.syntax import UNREADABLE, parse_module, read_literal

GONE = (
    "answer_fields", "denies", "mentions", "says_cannot", "says_date", "says_duration", "says_list", "says_money",
    "says_name", "says_number", "says_time",
)  # fmt: skip
_CALLED = re.compile(rf"(?:^|[^.\w])({'|'.join(GONE)})\s*\(")
_DEFINED = re.compile(rf"\bdef\s+({'|'.join(GONE)})\b")
_REQUEST = "End with an answer in this form, as a JSON object with these fields and nothing beside it:"
_NAMES = {
    "says_money": "amount", "says_date": "date", "says_time": "time", "says_duration": "duration",
    "says_number": "number", "says_name": "name", "says_list": "names",
}  # fmt: skip


@dataclass(frozen=True)
class ProposedForm:
    """Proposed form of a task. `checks` are those that stay; `unread` are labels of those among them that still call a
    removed helper and have to be rewritten.
    """

    instruction: str
    checks: tuple[CheckRecord, ...]
    answer_form: tuple[AnswerField, ...]
    expected_answer: dict[str, Any]
    unread: tuple[str, ...]


@dataclass
class _Found:
    form: list[AnswerField] = field(default_factory=list)
    expected: dict[str, Any] = field(default_factory=dict)

    def add(self, raw: Mapping[str, Any], value: Any) -> bool:
        """Add a field under a unique name; return False if it or its value cannot be declared."""
        names = {one.name for one in self.form}
        name = str(raw["name"])
        if name in names:
            name = next(f"{name}_{number}" for number in range(2, MOST_FIELDS + 3) if f"{name}_{number}" not in names)
        try:
            [new_field] = read_form({"answer_form": [{**raw, "name": name}]}, "")
        except FormatError:
            return False
        if (
            value is None
            if new_field.required
            else not (value is None or is_value(value, build_compare_spec(new_field)))
        ):
            return False
        if value is not None and not is_value(value, build_compare_spec(new_field)):
            return False
        self.form.append(new_field)
        self.expected[new_field.name] = value
        return len(self.form) <= MOST_FIELDS


def find_gone_helpers(sources: Iterable[str]) -> tuple[str, ...]:
    """Return the names of removed helpers that some checks call and do not define themselves."""
    gone: set[str] = set()
    for source in sources:
        if called := set(_CALLED.findall(source)):
            gone |= called - set(_DEFINED.findall(source))
    return tuple(sorted(gone))


def explain_superseded(sources: Iterable[str]) -> str:
    """Return why a task with these checks cannot be attempted any more; empty if it can."""
    names = find_gone_helpers(sources)
    if not names:
        return ""
    called = ", ".join(f"{name}()" for name in names)
    return f"Its checks read the words of the answer by {called}, which this version of Envarium does not do any more."


def propose_form(instruction: str, checks: Sequence[CheckRecord], former: object) -> ProposedForm | None:
    """Return the form that a task's checks already compare by literal values; None if none of them does.

    `former` is the form of the answer in its record, in the shape of an earlier version.
    """
    fields = {one["name"]: one for one in former if _is_former_field(one)} if isinstance(former, list) else {}
    proposed, remaining_checks = _Found(), []
    for check in checks:
        if not find_gone_helpers([check.source]):
            remaining_checks.append(check)
            continue
        before = list(proposed.form), dict(proposed.expected)
        if not _read_check(check, fields, proposed):
            proposed.form, proposed.expected = before
            remaining_checks.append(check)
    if not proposed.form:
        return None
    plain = instruction.partition(f"\n\n{_REQUEST}")[0].rstrip() or instruction
    unread = tuple(check.label or "no label" for check in remaining_checks if find_gone_helpers([check.source]))
    return ProposedForm(plain, tuple(remaining_checks), tuple(proposed.form), proposed.expected, unread)


def _is_former_field(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("name"), str)


def _read_check(check: CheckRecord, fields: Mapping[str, Mapping[str, Any]], found: _Found) -> bool:
    """Return whether a check only compares the answer with certain values; add those values."""
    try:
        body = parse_module(check.source).body
    except UNREADABLE:
        return False
    function = next((node for node in body if isinstance(node, ast.FunctionDef)), None)
    if function is None or len(function.args.args) != 3 or not isinstance(function.body[-1], ast.Return):
        return False
    answer, returned = function.args.args[2].arg, function.body[-1].value
    assigned = {
        node.targets[0].id: node.value
        for node in function.body[:-1]
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    if len(assigned) != len(function.body) - 1 or returned is None:
        return False
    parts = returned.values if isinstance(returned, ast.BoolOp) and isinstance(returned.op, ast.And) else [returned]
    return all(_read_part(part, answer, assigned, check.label, fields, found) for part in parts)


def _read_part(
    part: ast.expr,
    answer: str,
    assigned: Mapping[str, ast.expr],
    label: str,
    fields: Mapping[str, Mapping[str, Any]],
    found: _Found,
) -> bool:
    if isinstance(part, ast.Compare) and len(part.ops) == 1 and isinstance(part.ops[0], ast.Eq):
        left_side = assigned.get(part.left.id) if isinstance(part.left, ast.Name) else part.left
        return _read_fields(left_side, part.comparators[0], answer, fields, found)
    called = _find_helper_call(part, answer)
    if called is None or called.func.id not in _NAMES or len(called.args) < 2:  # type: ignore[attr-defined]
        return False
    helper, value = called.func.id, _parse_literal(called.args[1])  # type: ignore[attr-defined]
    keywords = {one.arg: _parse_literal(one.value) for one in called.keywords if one.arg is not None}
    unit = _parse_literal(called.args[2]) if helper == "says_number" and len(called.args) > 2 else keywords.get("unit")
    raw, expected = _declare_field(helper, value, unit, keywords)
    return bool(raw) and found.add({"name": _NAMES[helper], "description": label[:300], **raw}, expected)


def _declare_field(helper: str, value: Any, unit: Any, more: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    """Return the declaration of a field of a helper's kind and its expected value; empty if that is not a literal."""
    number = _parse_number(value)
    if helper == "says_money" and number is not None:
        return {"type": "money", **_build_unit(more.get("currency"))}, _round_whole(number / 100)
    if helper == "says_duration" and number is not None:
        return {"type": "duration", "unit": "minutes"}, _round_whole(
            number + (_parse_number(more.get("seconds")) or 0) / 60
        )
    if helper == "says_number" and number is not None:
        if isinstance(unit, dict):
            unit = next((name for name, worth in unit.items() if _parse_number(worth) == 1), "")
        return {"type": "number", **_build_unit(unit)}, number
    if helper in ("says_date", "says_time") and isinstance(value, str):
        return {"type": helper.removeprefix("says_")}, value
    kind = "id" if more.get("code") else "name"
    if helper == "says_name" and isinstance(value, str):
        return {"type": kind}, value
    if helper == "says_list" and isinstance(value, list | tuple):
        return {"type": "list", "items": {"name": "item", "type": kind}}, list(value)
    return {}, None


def _read_fields(
    left: ast.expr | None, right: ast.expr, answer: str, fields: Mapping[str, Mapping[str, Any]], found: _Found
) -> bool:
    """Read `answer_fields(answer, name="type", ...) == {name: value, ...}`."""
    called, values = _find_helper_call(left, answer), _parse_literal(right)
    if called is None or called.func.id != "answer_fields" or not isinstance(values, dict):  # type: ignore[attr-defined]
        return False
    types = {one.arg: _parse_literal(one.value) for one in called.keywords if one.arg}
    if types.keys() != values.keys():
        return False
    return all(_add_former_field(name, kind, values[name], fields.get(name, {}), found) for name, kind in types.items())


def _add_former_field(name: str, kind: Any, value: Any, former: Mapping[str, Any], found: _Found) -> bool:
    about, unit = str(former.get("about") or "")[:300], former.get("unit") if kind != "text" else None
    raw: dict[str, Any] = {"name": name, "description": about, "required": former.get("required", True) is True}
    if kind == "choice":
        choices = [str(one) for one in former.get("choices") or ()]
        value = next((one for one in choices if str(value).casefold() == one.casefold()), value)
        raw |= {"type": "enumeration", "choices": choices or [str(value)]}
    elif kind == "list":
        raw |= {"type": "list", "items": {"name": "item", "type": "text"}}
    elif kind in ("money", "number", "duration"):
        number = _parse_number(value)
        value = number if kind != "money" or number is None else _round_whole(number / 100)
        raw |= {"type": kind, **_build_unit(unit or ("minutes" if kind == "duration" else ""))}
    else:
        raw["type"] = kind
    return found.add(raw, value)


def _find_helper_call(node: ast.expr | None, answer: str) -> ast.Call | None:
    """Return the call of a helper on the answer itself; None for anything else."""
    if (
        not isinstance(node, ast.Call)
        or not isinstance(node.func, ast.Name)
        or node.func.id not in GONE
        or not node.args
    ):
        return None
    return node if isinstance(node.args[0], ast.Name) and node.args[0].id == answer else None


def _parse_literal(node: ast.expr) -> Any:
    try:
        return read_literal(ast.unparse(node))
    except (*UNREADABLE, TypeError):
        return None


def _parse_number(value: Any) -> int | float | None:
    try:
        number = float(value) if isinstance(value, str) else value
    except ValueError:
        return None
    return _round_whole(number) if type(number) in (int, float) and abs(number) < 1e15 else None


def _round_whole(number: float) -> int | float:
    rounded = round(number, 10)
    return int(rounded) if rounded == int(rounded) else rounded


def _build_unit(unit: Any) -> dict[str, str]:
    return {"unit": unit[:40]} if isinstance(unit, str) and unit else {}
