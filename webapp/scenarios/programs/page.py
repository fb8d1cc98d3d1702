"""Program of a task on its page: query, solution with its calls, verification script, rounds, answers elsewhere."""

from __future__ import annotations

from typing import Any

from django.db.models.fields.json import KT
from pydantic import ValidationError

from synthesis.drafts import StoredProgram
from webapp.scenarios.answers.answer_form import list_answer_rows
from webapp.scenarios.models import TaskRevision
from webapp.scenarios.reference_steps import execute_stored_reference
from webapp.scenarios.references import find_reference, read_consistency

SCRIPT_TITLES = {"solution": "Solution script", "verification": "Verification script"}


def read_program(revision: TaskRevision) -> str | None:
    """Return the program in a revision's record, as JSON; None if it was not made by one.

    The rest of the record, which may be large, is not read.
    """
    if revision.verifier_kind != "script":
        return None
    program: str | None = TaskRevision.objects.filter(pk=revision.pk).values_list(KT("record__programmatic")).get()[0]
    return program or None


def build_program_context(revision: TaskRevision, stored: str) -> dict[str, Any]:
    """Build the context of a program as `read_program` returns it, with `program_fault` if it cannot be read."""
    try:
        program = StoredProgram.model_validate_json(stored)
    except ValidationError as error:
        return {"program_fault": str(error.errors()[0]["msg"])}
    verifier = revision.verifier or {}
    reference = find_reference(revision)
    scenario = revision.scenario
    executed = execute_stored_reference(scenario.version_id, scenario.initial_id, reference.pk) if reference else None
    return {
        "program": program,
        "consistency": read_consistency(revision),
        "verification": str(verifier.get("source", "")),
        "assertions": [str(name) for name in verifier.get("assertions", ())],
        "reference": reference,
        "executed": executed,
        "reference_rows": list_answer_rows(revision, reference.answer) if reference is not None else [],
        "reference_replaced": reference is not None and revision.references.count() > 1,
        "rounds": [(SCRIPT_TITLES[one.script], one.fault) for one in program.rounds],
        "rounds_count": {name: sum(one.script == name for one in program.rounds) for name in SCRIPT_TITLES},
    }
