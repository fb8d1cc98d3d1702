"""What was typed into a draft: put into it unwritten, and compared with what is stored."""

from __future__ import annotations

from copy import copy
from typing import Any

from synthesis.contracts import State
from synthesis.errors import InputError
from synthesis.formats.values import clean
from webapp.content_store import content_hash
from webapp.edits.draft_body import program_body, task_body
from webapp.edits.models import Edit, EditKind
from webapp.edits.proposals import find_form_problem, own_parts
from webapp.scenarios.states import store_state

WHY_CHARS = 2_000


def base_hash(edit: Edit) -> str:
    """What the draft stands on: of a program its version, of a task its revision and reference."""
    if edit.kind == EditKind.PROGRAM or edit.revision is None:
        return edit.version.content_hash
    return content_hash([edit.revision.content_hash, edit.reference.content_hash if edit.reference else ""])


def digest_of(edit: Edit) -> str:
    """The hash of a draft and what it stands on: a forecast holds for one of them."""
    return content_hash([edit.kind, edit.tool, base_hash(edit), edit.body, edit.initial_id])


def is_kept_already(edit: Edit, body: dict[str, Any], state: State | None, why: str | None) -> bool:
    """Whether the stored draft holds exactly this, as it does after the browser's Back button."""
    typed = copy(edit)
    try:
        fill_draft(typed, body, state, why)
    except InputError:
        return False
    return digest_of(typed) == edit.digest and typed.why == edit.why


def fill_draft(edit: Edit, body: dict[str, Any], state: State | None, why: str | None) -> None:
    """Put what was typed into a draft, without writing it. Raises InputError: a part of it."""
    if why is not None and len(clean(why).strip()) > WHY_CHARS:
        raise InputError(f"The reason has {len(clean(why).strip()):,} characters; at most {WHY_CHARS:,} are kept.")
    kept = program_body(body) if edit.kind == EditKind.PROGRAM else task_body(body)
    if edit.kind == EditKind.PROGRAM and edit.tool and "source" in kept:
        raise InputError("This draft is of one tool. Send `tool_source`, or edit the whole program.")
    if edit.kind == EditKind.PROGRAM and not edit.tool and "tool_source" in kept:
        raise InputError("This draft is of the whole program. Send `source`.")
    edit.body = kept if edit.kind == EditKind.PROGRAM else own_parts(edit, kept)
    problem = find_form_problem(edit) if edit.kind == EditKind.TASK else ""
    if problem:
        raise InputError(problem)
    if edit.kind == EditKind.TASK and state is not None:
        stored = store_state(state)
        scenario = edit.revision.scenario if edit.revision else None
        edit.initial = None if scenario is not None and scenario.initial_id == stored.pk else stored
    if why is not None:
        edit.why = clean(why).strip()
