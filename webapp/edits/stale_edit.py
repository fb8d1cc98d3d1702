"""Both sides of a draft that was refused since something changed, and what they began from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from synthesis.errors import InputError, ProgramError
from webapp.edits.forms import body_of
from webapp.edits.models import Edit, EditKind
from webapp.edits.page import reference_part, task_parts
from webapp.edits.proposals import editable_source, own_parts, spelled_reference
from webapp.edits.services import is_stale
from webapp.environments.version_diff import DiffPart, DiffRow, part
from webapp.scenarios.models import Task
from webapp.scenarios.queries import revision_diff
from webapp.scenarios.references import reference_of


@dataclass(frozen=True)
class StaleSides:
    """`whose` says who changed it. Both sides are differences from the base, which `base` names; `text` is its source
    or instruction."""

    whose: str
    base: str
    text: str
    mine: list[DiffPart]
    theirs: list[DiffPart]


def stale_sides(edit: Edit, given: dict[str, Any] | None) -> StaleSides:
    """Mine, theirs and base of a draft that was not taken; `given` is what was typed, None for what was kept before."""
    found = _of_program(edit, given) if edit.kind == EditKind.PROGRAM else _of_task(edit, given)
    mine = [replace(one, title=f"Mine: {one.title}") for one in found.mine]
    return replace(found, mine=mine, theirs=[replace(one, title=f"Theirs: {one.title}") for one in found.theirs])


def _of_program(edit: Edit, given: dict[str, Any] | None) -> StaleSides:
    name, title = ("tool_source", edit.tool) if edit.tool else ("source", "Program")
    base = _source(edit.version, edit.tool)
    kept = str(edit.body.get(name, base))
    mine = str(given[name]) if given and name in given else kept
    if is_stale(edit):
        current = edit.environment.current
        theirs = _source(current, edit.tool) if current is not None else ""
        whose = f"Version {current.number}" if current is not None else "The environment"
    else:
        theirs, whose = kept, "Your draft, as another tab kept it"
    sides = (_differing(title, base, mine), _differing(title, base, theirs))
    return StaleSides(whose, f"version {edit.version.number}", base, *sides)


def _source(version: Any, tool: str) -> str:
    """The text of a tool or program; "" where the version has no such tool any more."""
    try:
        return editable_source(version, tool)[0]
    except ProgramError:
        return ""


def _differing(title: str, before: str, after: str) -> list[DiffPart]:
    """Return the part if its two texts differ."""
    made = part(title, before, after)
    return [made] if made.rows or made.note else []


def _of_task(edit: Edit, given: dict[str, Any] | None) -> StaleSides:
    task, revision = edit.task, edit.revision
    if task is None or revision is None:
        return StaleSides("The task", "", "", [], [])
    kept = task_parts(edit, task)
    mine: list[DiffPart] | None = None
    if given is not None:
        try:
            mine = task_parts(_typed(edit, given), task)
        except InputError:
            mine = None  # the form below has what was typed, and says what is wrong with it once it is sent again
    text = f"{edit.base_title or task.title}\n\n{revision.instruction}"
    mine, about = kept if mine is None else mine, (f"revision {revision.number}: title and instruction", text)
    if not is_stale(edit):
        return StaleSides("Your draft, as another tab kept it", *about, mine, kept)
    current = Task.objects.select_related("current").get(pk=task.pk)
    now = current.current
    whose = f"Revision {now.number}" if now is not None else "The task"
    changed = revision_diff(revision, now) if now is not None and now.pk != revision.pk else []
    theirs = _differing("Title", edit.base_title or current.title, current.title)
    theirs += [DiffPart(title, [_row(kind, text) for kind, text in lines]) for title, lines in changed]
    newest = reference_of(now) if now is not None else None
    theirs += reference_part(spelled_reference(edit.reference), spelled_reference(newest))
    return StaleSides(whose, *about, mine, theirs)


def _typed(edit: Edit, given: dict[str, Any]) -> Edit:
    """The draft with what was typed, not kept. Raises InputError."""
    body, _ = body_of(edit, {name: value for name, value in given.items() if name != "state_text"})
    made = Edit(kind=edit.kind, version=edit.version, task=edit.task, revision=edit.revision, reference=edit.reference)
    made.base_title = edit.base_title
    made.body, made.initial_id = own_parts(made, body), edit.initial_id
    return made


def _row(kind: str, text: str) -> DiffRow:
    return DiffRow(kind, {"add": "+", "del": "\u2212"}.get(kind, ""), None, None, text)
