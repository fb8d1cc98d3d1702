"""Verifier as a part of a draft of a task: checks or a script by choice, and the faults of a script.

A body holds it as `{kind: "script", source, assertions}` or `{kind: "checks"}`, with the checks beside it. A restored
verifier may be `{kind, revision}`: the verifier of that revision of the task.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from synthesis.contracts import ChecksVerifier, GoldenVerifier, ScriptVerifier, Verifier
from synthesis.contracts.verifier_kinds import MOST_ASSERTIONS, SCRIPT_CHARS
from synthesis.errors import InputError
from synthesis.formats.values import clean_text
from synthesis.formats.verifier_record import PARAMETERS, find_script_problem
from synthesis.runtime.check_language import find_breaches
from synthesis.runtime.check_request import find_language_problem
from synthesis.syntax import parse_module
from webapp.scenarios.models import TaskRevision
from webapp.scenarios.verifiers import VERIFIER_NAMES, read_verifier
from webapp.scenarios.verifiers.verifier_texts import format_part_texts, format_verifier_texts

EDITABLE = ("checks", "script")
"""The kinds that an edit can choose between."""
NAME_CHARS = 200
MOST_BREACHES = 3
NEW_SOURCE = f'def verify({", ".join(PARAMETERS)}):\n    return {{"done": False}}\n'
NEW_SCRIPT: dict[str, Any] = {"kind": "script", "source": NEW_SOURCE, "assertions": ["done"]}


def serialize_verifier_part(revision: TaskRevision) -> dict[str, Any]:
    """Return the verifier of a revision as a body holds it: for other kinds than scripts only the kind."""
    parts = revision.verifier or {}
    if revision.verifier_kind != "script":
        return {"kind": revision.verifier_kind}
    return {"kind": "script", "source": parts["source"], "assertions": list(parts["assertions"])}


def serialize_restored(revision: TaskRevision, current: TaskRevision) -> dict[str, Any]:
    """Return the verifier of an earlier revision as a draft on the current one holds it."""
    if revision.verifier_kind == "script" and current.verifier_kind in EDITABLE:
        return serialize_verifier_part(revision)
    has_parts = revision.verifier_kind == current.verifier_kind != "golden"
    return {"kind": revision.verifier_kind} | ({} if has_parts else {"revision": revision.pk})


def read_verifier_part(value: Any) -> dict[str, Any]:
    """Return the verifier in a body, bounded. Raises InputError with the fault."""
    kind = value.get("kind") if isinstance(value, Mapping) else None
    if kind not in VERIFIER_NAMES:
        raise InputError(f"The verifier has a `kind`, one of {', '.join(VERIFIER_NAMES)}.")
    if kind != "script" or "revision" in value:
        return {"kind": kind} | ({"revision": int(value["revision"])} if "revision" in value else {})
    source, names = value.get("source"), value.get("assertions")
    is_list = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
    if not isinstance(source, str) or not is_list:
        raise InputError("A verification script has a `source` and a list of `assertions`, its names.")
    names = [clean_text(name).strip() for name in names]
    part = {"kind": kind, "source": clean_text(source).replace("\r\n", "\n"), "assertions": names}
    _require_bounded(part)
    return part


def list_script_faults(part: Mapping[str, Any]) -> dict[str, str]:
    """Return the faults of a typed script by its field: `source` or `assertions`."""
    faults = _find_bounds_broken(part)
    if "source" not in faults:
        problem = find_script_problem(part["source"])
        if not problem:
            script_breaches = find_breaches(parse_module(part["source"]))
            more = f" (and {len(script_breaches) - MOST_BREACHES} more)" if len(script_breaches) > MOST_BREACHES else ""
            problem = "; ".join(map(str, script_breaches[:MOST_BREACHES])) + more
        if problem:
            faults["source"] = f"The script cannot be run: {problem}."
    return faults


def list_broken_checks(body: Mapping[str, Any], revision: TaskRevision) -> list[str]:
    """Return which checks of a draft cannot be run, and why. They may be saved: the audit is then red."""
    if get_drafted_kind(body, revision) != "checks":
        return []
    problems = [
        (number, find_language_problem(check["source"])) for number, check in enumerate(body.get("checks", ()), 1)
    ]
    return [f"Check {number} cannot be run: {problem}." for number, problem in problems if problem]


def _find_bounds_broken(part: Mapping[str, Any]) -> dict[str, str]:
    """Return which field of a script is empty, too long or has a name twice, and why it is refused."""
    faults, source, names = {}, part["source"], part["assertions"]
    if not source.strip():
        faults["source"] = "The script is empty."
    elif len(source) > SCRIPT_CHARS:
        faults["source"] = f"The script may have {SCRIPT_CHARS:,} characters; this one has {len(source):,}."
    twice = next((name for number, name in enumerate(names) if name in names[:number]), None)
    if not names:
        faults["assertions"] = "No assertion is named: write the names that the script returns, one a line."
    elif len(names) > MOST_ASSERTIONS:
        faults["assertions"] = f"A script has at most {MOST_ASSERTIONS} assertions; here are {len(names)}."
    elif not all(names):
        faults["assertions"] = "An assertion has an empty name."
    elif any(len(name) > NAME_CHARS for name in names):
        faults["assertions"] = f"The name of an assertion may have {NAME_CHARS} characters."
    elif twice is not None:
        faults["assertions"] = f"Two assertions are named {twice[:60]!r}."
    return faults


def _require_bounded(part: Mapping[str, Any]) -> None:
    """Raise InputError with the reason if a field of a script is refused."""
    problem = next(iter(_find_bounds_broken(part).values()), "")
    if problem:
        raise InputError(problem)


def require_sound_script(verifier: Verifier) -> None:
    """Raise InputError with the reason if the verifier is a script that cannot be run."""
    if isinstance(verifier, ScriptVerifier):
        problem = next(iter(list_script_faults(verifier.model_dump(include={"source", "assertions"})).values()), "")
        if problem:
            raise InputError(problem)


def format_drafted_texts(part: Mapping[str, Any], verifier: Verifier) -> dict[str, str]:
    """Return the texts of a verifier that a draft puts in the place of the revision's."""
    if "revision" in part:
        return format_verifier_texts(TaskRevision.objects.get(pk=part["revision"]))
    return format_part_texts(verifier.kind, {**part, "rule": verifier.rule})


def get_drafted_kind(body: Mapping[str, Any], revision: TaskRevision) -> str:
    """Return the kind of verifier that a draft makes."""
    return str(body["verifier"]["kind"]) if "verifier" in body else revision.verifier_kind


def build_drafted_verifier(body: Mapping[str, Any], revision: TaskRevision) -> Verifier | None:
    """Return the verifier that replaces the revision's, None if it is kept or only its parts change.

    Checks, criteria, frame and expected values are added later. Raises InputError if the restored revision is gone.
    """
    part = body.get("verifier")
    if part is None or part == serialize_verifier_part(revision):
        return _build_drafted_golden(body, revision)
    if "revision" in part:
        restored = TaskRevision.objects.filter(pk=part["revision"], task=revision.task_id).first()
        if restored is None or restored.verifier_kind != part["kind"]:
            raise InputError("The revision whose verifier this draft restores is gone.")
        return read_verifier(restored)
    if part["kind"] == "script":
        _require_bounded(part)
        return ScriptVerifier(source=part["source"], assertions=tuple(part["assertions"]))
    return ChecksVerifier(rule=_find_last_rule(revision)) if part["kind"] == "checks" else None


def _find_last_rule(revision: TaskRevision) -> Any:
    """Return the rule by which checks judged the task last; the rule of generated tasks if they never did."""
    earlier = revision.task.revisions.filter(verifier_kind="checks").order_by("-number")
    return earlier.values_list("score_rule", flat=True).first() or "goals"


def _build_drafted_golden(body: Mapping[str, Any], revision: TaskRevision) -> GoldenVerifier | None:
    """Return the golden state of a revision with the drafted comparison; None if the draft does not change that."""
    equality = body.get("equality")
    if equality is None or equality == read_equality(revision):
        return None
    verifier = read_verifier(revision)
    return verifier.model_copy(update={"equality": equality}) if isinstance(verifier, GoldenVerifier) else None


def read_equality(revision: TaskRevision) -> str:
    """Return how ends are compared with the revision's golden state; empty if none judges it."""
    return str((revision.verifier or {}).get("equality", "")) if revision.verifier_kind == "golden" else ""


def find_kind_problem(body: Mapping[str, Any], revision: TaskRevision) -> str:
    """Return why a draft cannot judge its task by this kind of verifier; empty if it can."""
    part = body.get("verifier")
    if part is None or "revision" in part or part["kind"] == revision.verifier_kind:
        return ""
    if part["kind"] in EDITABLE and revision.verifier_kind in EDITABLE:
        return ""
    names = VERIFIER_NAMES[revision.verifier_kind], VERIFIER_NAMES[part["kind"]]
    return f"This task is judged by {names[0]}, and an edit cannot put {names[1]} in its place."
