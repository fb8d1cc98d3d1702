"""Tasks of this installation into whose verifiers a fault may be seeded: audited green, with a reference."""

from __future__ import annotations

import random

from synthesis.contracts import ChecksVerifier
from synthesis.formats.answer_form import drop_field_checks
from synthesis.seeded_faults.sound_tasks import JudgedTask
from synthesis.starter import SOURCE
from webapp.environments.models import Version
from webapp.environments.services import build_program
from webapp.scenarios.answers.answer_form import read_form_and_expected
from webapp.scenarios.audits.services import Case, build_audit_subject, list_audit_cases
from webapp.scenarios.models import Task

MOST_DRAWN = 60
"""About as many as there are bundled tasks."""


def draw_sound_tasks(seed: int = 0) -> list[JudgedTask]:
    """Return at most `MOST_DRAWN` randomly drawn tasks that checks judge inside a frame, without the starter set.

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
    return [_build_judged_task(case) for case in list_audit_cases(drawn) if case.reference is not None]


def _build_judged_task(case: Case) -> JudgedTask:
    program = build_program(Version.objects.get(pk=case.revision.scenario.version_id))
    subject = build_audit_subject(case, program)
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
        checks=drop_field_checks(verifier.checks, form, expected),
        rule=verifier.rule,
        reference=reference,
        frame=verifier.frame,
        form=form,
        expected=expected,
        free=tuple(one for one in verifier.frame.allowances if one.source in ("author", "person")),
        runs=(reference,),
    )
