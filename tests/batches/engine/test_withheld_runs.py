"""Withheld variants in a batch: teachers attempt them, and what they do is kept, judged and told as any attempt's."""

from __future__ import annotations

import pytest

from synthesis.contracts import Message, ToolCall
from synthesis.formats.answer_form import SUBMIT_ANSWER
from tests.batches.real import SHORT, Bad, HostileModel, real_batch, real_pipeline, theme_of
from tests.batches.support import work_off
from tests.rollouts_web.support import person
from webapp.batches.models import BatchAttempt, BatchItem, BatchProduct
from webapp.scenarios.models import Task

pytestmark = pytest.mark.django_db(transaction=True)
MISSING = ToolCall(name=SUBMIT_ANSWER, arguments={"outcome": "missing_tool"})
HONEST = Bad(
    "badge-desk",
    "rollout",
    "",
    below="scenario-0/task-0/without-0",
    role="teacher",
    message=Message(role="assistant", tool_calls=(MISSING,)),
)


@pytest.mark.slow
def test_a_teacher_attempts_what_cannot_be_done_and_earns_by_the_right_outcome() -> None:
    stages = SHORT.model_copy(update={"teacher_runs": 0, "withheld_runs": 2})
    with real_pipeline(HostileModel([HONEST])):
        batch = work_off(real_batch(person("operator"), [theme_of("badge-desk")], stages))
    assert batch.state == "done"
    variant = Task.objects.exclude(withheld="").get()
    assert (variant.source, variant.audit_state) == ("withheld", "green")
    honest, other = BatchItem.objects.filter(batch=batch, level="trajectory").order_by("path")
    assert (honest.state, honest.reason) == ("kept", ""), honest.message
    product = BatchProduct.objects.get(item=honest)
    assert product.task == variant
    assert product.trajectory is not None
    assert (product.trajectory.reward, product.trajectory.outcome) == (1.0, "solved")
    assert product.trajectory.task == variant
    # The scripted teacher carries out what it knows: a withheld call is an unknown one.
    assert (other.state, other.stage) == ("rejected", "filter")
    rows = BatchAttempt.objects.filter(item__batch=batch, role="teacher").order_by("ordinal")
    assert [row.trajectory.task_id if row.trajectory else None for row in rows] == [variant.pk, variant.pk]


@pytest.mark.slow
def test_a_task_of_which_nothing_can_be_withheld_says_why_and_counts_no_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("synthesis.tasks.withheld_teacher.iter_withheld_variants", lambda sandbox, subject: iter(()))
    stages = SHORT.model_copy(update={"teacher_runs": 0, "withheld_runs": 1})
    with real_pipeline(HostileModel([])):
        batch = work_off(real_batch(person("operator"), [theme_of("badge-desk")], stages))
    row = BatchItem.objects.get(batch=batch, level="trajectory")
    assert (row.state, row.stage, row.reason) == ("rejected", "rollout", "nothing_to_withhold")
    assert not BatchAttempt.objects.filter(item=row).exists()
    assert not Task.objects.exclude(withheld="").exists()
