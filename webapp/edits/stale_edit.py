"""Both sides of a draft that was refused since something changed, and their base."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from synthesis.errors import InputError, ProgramError
from webapp.edits.models import Edit, EditKind
from webapp.edits.page import build_reference_diffs, build_task_diffs
from webapp.edits.proposals import get_editable_source, keep_changed_parts, serialize_reference
from webapp.edits.services import is_stale
from webapp.edits.typed_draft import build_draft_body
from webapp.environments.version_diff import DiffPart, DiffRow, build_diff_part
from webapp.scenarios.models import Task
from webapp.scenarios.queries import build_revision_diff
from webapp.scenarios.references import find_reference


@dataclass(frozen=True)
class StaleSides:
    """Both sides as differences from the base. `whose` is the author of the other change, `base` the name of the base,
    and `text` its source or instruction."""

    whose: str
    base: str
    text: str
    mine: list[DiffPart]
    theirs: list[DiffPart]


def build_stale_sides(edit: Edit, given: dict[str, Any] | None) -> StaleSides:
    """Return mine, theirs and the base of a refused draft; `given` is what was typed, None for what was kept before."""
    sides = _build_program_sides(edit, given) if edit.kind == EditKind.PROGRAM else _build_task_sides(edit, given)
    mine = [replace(one, title=f"Mine: {one.title}") for one in sides.mine]
    return replace(sides, mine=mine, theirs=[replace(one, title=f"Theirs: {one.title}") for one in sides.theirs])


def _build_program_sides(edit: Edit, given: dict[str, Any] | None) -> StaleSides:
    name, title = ("tool_source", edit.tool) if edit.tool else ("source", "Program")
    base = _get_base_source(edit.version, edit.tool)
    kept_text = str(edit.body.get(name, base))
    mine = str(given[name]) if given and name in given else kept_text
    if is_stale(edit):
        current = edit.environment.current
        theirs = _get_base_source(current, edit.tool) if current is not None else ""
        whose = f"Version {current.number}" if current is not None else "The environment"
    else:
        theirs, whose = kept_text, "Your draft, as another tab kept it"
    sides = (_build_differing_part(title, base, mine), _build_differing_part(title, base, theirs))
    return StaleSides(whose, f"version {edit.version.number}", base, *sides)


def _get_base_source(version: Any, tool: str) -> str:
    """Return the text of a tool or program; empty if the version no longer has this tool."""
    try:
        return get_editable_source(version, tool)[0]
    except ProgramError:
        return ""


def _build_differing_part(title: str, before: str, after: str) -> list[DiffPart]:
    """Return the part if its two texts differ."""
    diff_part = build_diff_part(title, before, after)
    return [diff_part] if diff_part.rows or diff_part.note else []


def _build_task_sides(edit: Edit, given: dict[str, Any] | None) -> StaleSides:
    task, revision = edit.task, edit.revision
    if task is None or revision is None:
        return StaleSides("The task", "", "", [], [])
    kept_parts = build_task_diffs(edit, task)
    mine: list[DiffPart] | None = None
    if given is not None:
        try:
            mine = build_task_diffs(_build_typed_draft(edit, given), task)
        except InputError:
            mine = None  # the form below shows what was typed, and its errors once it is sent again
    text = f"{edit.base_title or task.title}\n\n{revision.instruction}"
    mine, base_texts = (
        kept_parts if mine is None else mine,
        (f"revision {revision.number}: title and instruction", text),
    )
    if not is_stale(edit):
        return StaleSides("Your draft, as another tab kept it", *base_texts, mine, kept_parts)
    current = Task.objects.select_related("current").get(pk=task.pk)
    now = current.current
    whose = f"Revision {now.number}" if now is not None else "The task"
    changed = build_revision_diff(revision, now) if now is not None and now.pk != revision.pk else []
    theirs = _build_differing_part("Title", edit.base_title or current.title, current.title)
    theirs += [DiffPart(title, [_build_diff_row(kind, text) for kind, text in lines]) for title, lines in changed]
    newest = find_reference(now) if now is not None else None
    theirs += build_reference_diffs(serialize_reference(edit.reference), serialize_reference(newest))
    return StaleSides(whose, *base_texts, mine, theirs)


def _build_typed_draft(edit: Edit, given: dict[str, Any]) -> Edit:
    """Return the draft with what was typed, not stored. Raises InputError."""
    body, _ = build_draft_body(edit, {name: value for name, value in given.items() if name != "state_text"})
    typed_edit = Edit(
        kind=edit.kind, version=edit.version, task=edit.task, revision=edit.revision, reference=edit.reference
    )
    typed_edit.base_title = edit.base_title
    typed_edit.body, typed_edit.initial_id = keep_changed_parts(typed_edit, body), edit.initial_id
    return typed_edit


def _build_diff_row(kind: str, text: str) -> DiffRow:
    return DiffRow(kind, {"add": "+", "del": "\u2212"}.get(kind, ""), None, None, text)
