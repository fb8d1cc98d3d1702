"""The verifier as a part of a draft of a task: checks or a script by choice, and what is wrong with a script.

A body spells it as `{kind: "script", source, assertions}` or `{kind: "checks"}`, whose checks stand beside it. One that
a person restores may be `{kind, revision}`: whatever judged that revision of the task.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from synthesis.contracts import ChecksVerifier, GoldenVerifier, ScriptVerifier, Verifier
from synthesis.contracts.verifier_kinds import MOST_ASSERTIONS, SCRIPT_CHARS
from synthesis.errors import InputError
from synthesis.formats.values import clean
from synthesis.formats.verifier_record import PARAMETERS, find_script_problem
from synthesis.runtime.check_language import breaches
from synthesis.syntax import parse
from webapp.scenarios.models import TaskRevision
from webapp.scenarios.verifier_texts import spell_part_texts, spell_verifier_texts
from webapp.scenarios.verifiers import VERIFIER_NAMES, read_verifier

EDITABLE = ("checks", "script")
"""The kinds that an edit can choose between."""
NAME_CHARS = 200
MOST_BREACHES = 3
NEW_SOURCE = f'def verify({", ".join(PARAMETERS)}):\n    return {{"done": False}}\n'
NEW_SCRIPT: dict[str, Any] = {"kind": "script", "source": NEW_SOURCE, "assertions": ["done"]}


def spell_verifier(revision: TaskRevision) -> dict[str, Any]:
    """Return what judges a revision as a body spells it: of other kinds than scripts the kind alone."""
    parts = revision.verifier or {}
    if revision.verifier_kind != "script":
        return {"kind": revision.verifier_kind}
    return {"kind": "script", "source": parts["source"], "assertions": list(parts["assertions"])}


def spell_restored(revision: TaskRevision, current: TaskRevision) -> dict[str, Any]:
    """Return what judged an earlier revision as a draft on the current one spells it."""
    if {revision.verifier_kind, current.verifier_kind} <= set(EDITABLE):
        return spell_verifier(revision)
    same = revision.verifier_kind == current.verifier_kind == "rubric"
    return {"kind": revision.verifier_kind} | ({} if same else {"revision": revision.pk})


def read_verifier_part(value: Any) -> dict[str, Any]:
    """Return what a body gives as its verifier, bounded. Raises InputError: what is wrong with it."""
    kind = value.get("kind") if isinstance(value, Mapping) else None
    if kind not in VERIFIER_NAMES:
        raise InputError(f"The verifier has a `kind`, one of {', '.join(VERIFIER_NAMES)}.")
    if kind != "script" or "revision" in value:
        return {"kind": kind} | ({"revision": int(value["revision"])} if "revision" in value else {})
    source, names = value.get("source"), value.get("assertions")
    is_list = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
    if not isinstance(source, str) or not is_list:
        raise InputError("A verification script has a `source` and a list of `assertions`, its names.")
    names = [clean(name).strip() for name in names]
    part = {"kind": kind, "source": clean(source).replace("\r\n", "\n"), "assertions": names}
    _require_bounded(part)
    return part


def list_script_faults(part: Mapping[str, Any]) -> dict[str, str]:
    """Return what is wrong with a script that was typed, by its field: `source` or `assertions`."""
    faults = _find_bounds_broken(part)
    if "source" not in faults:
        problem = find_script_problem(part["source"])
        if not problem:
            found = breaches(parse(part["source"]))
            more = f" (and {len(found) - MOST_BREACHES} more)" if len(found) > MOST_BREACHES else ""
            problem = "; ".join(map(str, found[:MOST_BREACHES])) + more
        if problem:
            faults["source"] = f"The script cannot be run: {problem}."
    return faults


def _find_bounds_broken(part: Mapping[str, Any]) -> dict[str, str]:
    """Return which field of a script is empty, too long or has a name twice, and why it is not taken."""
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
    """Raises InputError: which field of a script is not taken, and why."""
    problem = next(iter(_find_bounds_broken(part).values()), "")
    if problem:
        raise InputError(problem)


def require_sound_script(verifier: Verifier) -> None:
    """Raises InputError: the verifier is a script that cannot be run, and why."""
    if isinstance(verifier, ScriptVerifier):
        problem = next(iter(list_script_faults(verifier.model_dump(include={"source", "assertions"})).values()), "")
        if problem:
            raise InputError(problem)


def spell_drafted_texts(part: Mapping[str, Any], verifier: Verifier) -> dict[str, str]:
    """Return the texts of a verifier that a draft puts in the place of the revision's."""
    if "revision" in part:
        return spell_verifier_texts(TaskRevision.objects.get(pk=part["revision"]))
    return spell_part_texts(verifier.kind, {**part, "rule": verifier.rule})


def drafted_kind(body: Mapping[str, Any], revision: TaskRevision) -> str:
    """Return the kind of verifier that a draft makes."""
    return str(body["verifier"]["kind"]) if "verifier" in body else revision.verifier_kind


def drafted_verifier(body: Mapping[str, Any], revision: TaskRevision) -> Verifier | None:
    """Return the verifier that takes the place of the revision's, None if it stays or only its parts change.

    Checks, criteria, frame and expected values are put into it later. Raises InputError: what it restores is gone.
    """
    part = body.get("verifier")
    if part is None or part == spell_verifier(revision):
        return _drafted_golden(body, revision)
    if "revision" in part:
        restored = TaskRevision.objects.filter(pk=part["revision"], task=revision.task_id).first()
        if restored is None or restored.verifier_kind != part["kind"]:
            raise InputError("The revision whose verifier this draft restores is gone.")
        return read_verifier(restored)
    if part["kind"] == "script":
        _require_bounded(part)
        return ScriptVerifier(source=part["source"], assertions=tuple(part["assertions"]))
    return ChecksVerifier(rule="goals") if part["kind"] == "checks" else None


def _drafted_golden(body: Mapping[str, Any], revision: TaskRevision) -> GoldenVerifier | None:
    """The golden state of a revision, compared as the draft says; None if the draft leaves that as it is."""
    equality = body.get("equality")
    if equality is None or equality == read_equality(revision):
        return None
    verifier = read_verifier(revision)
    return verifier.model_copy(update={"equality": equality}) if isinstance(verifier, GoldenVerifier) else None


def read_equality(revision: TaskRevision) -> str:
    """How ends are compared with the revision's golden state; empty if none judges it."""
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
