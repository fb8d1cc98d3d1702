"""Names of the checks that a training job records numbers of.

A key holds the beginning of a verifier's hash and a number.
"""

from __future__ import annotations

from collections.abc import Iterable

from webapp.runs.models import MetricKey, RunRollout, TrainingJob
from webapp.runs.queries import list_rollout_files
from webapp.scenarios.models import Check

FILES = 20
"""Checks of the tasks of so many of the last steps are found; a name that is not is the key itself."""
LABEL = 80


def get_check_names(job: TrainingJob, keys: Iterable[MetricKey]) -> dict[str, str]:
    """Return labels of checks by part of a key (`VERIFIER.NUMBER`): the check's own, else its task's title."""
    key_parts = {key.name.split("/")[1] for key in keys if key.name.startswith("check/") and key.name.count("/") == 2}
    if not key_parts:
        return {}
    files = list(list_rollout_files(job).order_by("-step").values_list("pk", flat=True)[:FILES])
    rows = RunRollout.objects.filter(file__in=files, revision__isnull=False).order_by()
    digits = len(next(iter(key_parts)).rpartition(".")[0])
    verifiers_by_revision = {
        revision: verifier[:digits] for verifier, revision in rows.values_list("verifier", "revision").distinct()
    }
    checks = Check.objects.filter(revision__in=verifiers_by_revision).values_list(
        "revision", "position", "label", "revision__task__title"
    )
    named = (
        (f"{verifiers_by_revision[revision]}.{position + 1}", label or f"check {position + 1} of {title}")
        for revision, position, label, title in checks
        if label or title
    )
    return {part: f"{label[:LABEL]} ({part})" for part, label in named if part in key_parts}
