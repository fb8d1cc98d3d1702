"""Tasks of this installation whose verifiers a seeded fault may be put into: audited green, with a reference."""

from __future__ import annotations

import random

from synthesis.contracts import ChecksVerifier
from synthesis.formats.answer_form import without_field_checks
from synthesis.seeded_faults.sound_tasks import JudgedTask
from synthesis.starter import SOURCE
from webapp.environments.models import Version
from webapp.environments.services import program_of
from webapp.scenarios.answers.answer_form import read_form_and_expected
from webapp.scenarios.audits.services import Case, cases, subject_of
from webapp.scenarios.models import Task

MOST_DRAWN = 60
"""About as many as there are bundled tasks."""


def draw_sound_tasks(seed: int = 0) -> list[JudgedTask]:
    """Return at most `MOST_DRAWN` tasks that checks judge inside a frame, without the starter set, drawn by lot.

    Tasks of a withheld variant are left out: their reference does nothing. Raises InputError if a state is damaged.
    """
    rows = Task.objects.filter(
        audit_state="green",
        superseded=False,
        current__verifier_kind="checks",
        withheld="",
        current__frame__isnull=False,
    ).exclude(source=SOURCE)
    ids = sorted(rows.values_list("id", flat=True))
    drawn = random.Random(f"{seed} stored").sample(ids, min(MOST_DRAWN, len(ids)))
    return [_judged_task(case) for case in cases(drawn) if case.reference is not None]


def _judged_task(case: Case) -> JudgedTask:
    program = program_of(Version.objects.get(pk=case.revision.scenario.version_id))
    subject = subject_of(case, program)
    verifier, reference = subject.verifier, subject.reference
    assert isinstance(verifier, ChecksVerifier)
    assert verifier.frame is not None
    assert reference is not None
    form, expected = read_form_and_expected(case.revision)
    return JudgedTask(
        name=case.task.key,
        origin="stored",
        program=program,
        initial=subject.initial,
        checks=without_field_checks(verifier.checks, form, expected),
        rule=verifier.rule,
        reference=reference,
        frame=verifier.frame,
        form=form,
        expected=expected,
        free=tuple(one for one in verifier.frame.allowances if one.source in ("author", "person")),
        runs=(reference,),
    )
