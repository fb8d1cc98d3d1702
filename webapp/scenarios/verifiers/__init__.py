"""Verifiers of stored revisions: as `synthesis` takes them and as people call them (`stored_verifiers.py`), in the API
(`verifier_schemas.py`), and in differences between revisions (`verifier_texts.py`)."""

from webapp.scenarios.verifiers.stored_verifiers import (
    FRAMED,
    VERIFIER_NAMES,
    VERIFIER_TITLES,
    list_criteria_lines,
    name_verdict,
    needs_judge,
    read_criteria,
    read_shown_source,
    read_verifier,
)

__all__ = [
    "FRAMED",
    "VERIFIER_NAMES",
    "VERIFIER_TITLES",
    "list_criteria_lines",
    "name_verdict",
    "needs_judge",
    "read_criteria",
    "read_shown_source",
    "read_verifier",
]
