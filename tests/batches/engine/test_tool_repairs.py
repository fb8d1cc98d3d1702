"""A tool that fails its assessment in a batch: repaired, counted, and what later stages and people get."""

from __future__ import annotations

import pytest
from django.test import Client

from synthesis.runtime.method_source import get_method_source
from synthesis.scripted.library import load_theme
from tests.batches.real import SHORT, HostileModel, item, real_batch, real_pipeline, theme_of
from tests.batches.support import work_off
from tests.rollouts_web.support import person
from webapp.batches.management.command_run import build_report
from webapp.environments.models import Assessment, Environment
from webapp.review.queues import get_or_create_tool_queue, refresh_if_stale

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.slow
def test_the_repaired_program_is_the_one_that_everything_else_is_made_for(client: Client) -> None:
    stages = SHORT.model_copy(update={"assessment_calls": 40, "teacher_runs": 0})
    user = person("operator")
    client.force_login(user)
    with real_pipeline(HostileModel([])):
        batch = work_off(real_batch(user, [theme_of("plant-nursery")], stages))
    environment = Environment.objects.select_related("current").get()
    assert environment.current is not None
    method = get_method_source(environment.current.source, environment.current.class_name, "restock_plant").text
    assert method.rstrip() == load_theme("plant-nursery").fragments.methods["restock_plant"].rstrip()
    assert item(batch, "plant-nursery/scenario-0").state == "kept", "made for the program as it was repaired"
    found = build_report(batch)
    assert (found["tools_repaired"], found["tools_removed"]) == (1, 0)
    row = Assessment.objects.get()
    assert row.first_score is not None
    assert row.first_score < row.score == 1.0
    assert [(repair["tool"], repair["outcome"]) for repair in row.repairs] == [("restock_plant", "repaired")]
    page = client.get(f"/environments/{environment.pk}/?tab=assessment").content.decode()
    assert "Tools that failed" in page
    assert "Score before repairs" in page


@pytest.mark.slow
def test_a_bundled_theme_leaves_a_failing_tool_in_the_queue() -> None:
    stages = SHORT.model_copy(update={"assessment_calls": 40, "teacher_runs": 0})
    with real_pipeline(HostileModel([])):
        work_off(real_batch(person("operator"), [theme_of("radio-rundown")], stages))
    queue, _ = get_or_create_tool_queue()
    refresh_if_stale(queue)
    assert list(queue.items.values_list("tool__name", flat=True)) == ["mark_ready"]
