"""More scenarios, tasks and trajectories onto environments that are there."""

from __future__ import annotations

import pytest

from synthesis.errors import InputError
from tests.batches.support import SMALL, make_batch, settings_at, work_off
from tests.batches.table import TABLE, answer
from tests.fixtures.api import program
from tests.fixtures.llm import llm_server
from tests.rollouts_web.support import person
from webapp.batches import services
from webapp.batches.engine.theme_source import build_environment_specs
from webapp.batches.models import BatchItem, BatchProduct
from webapp.environments.models import Assessment, Environment, Version
from webapp.scenarios.models import Scenario, Task
from webapp.trajectories.models import Trajectory

pytestmark = pytest.mark.django_db(transaction=True)


def stages_of(item: BatchItem) -> list[str]:
    return list(item.runs.order_by("id").values_list("stage", flat=True))


def test_a_batch_grows_onto_environments_and_makes_no_second_one() -> None:
    user = person("operator")
    with llm_server(answer) as server:
        work_off(make_batch(user, settings_at(server.url), ["one", "two"]))
        Assessment.objects.filter(version__environment__key="two").delete()
        before = {row.pk: (row.name, row.current_id) for row in Environment.objects.all()}
        specs = build_environment_specs(Environment.objects.order_by("key").values_list("pk", flat=True))
        assert [spec.score for spec in specs] == [1.0, None]
        stages = SMALL.model_copy(update={"tasks": 2})
        batch = services.create_batch(user, "", specs, settings_at(server.url, stages=stages), TABLE)
        assert batch.name == "2 environments"
        work_off(batch)
    assert batch.state == "done"
    assert set(batch.items.values_list("state", flat=True)) == {"kept"}
    one, two = batch.items.filter(level="theme").order_by("position")
    assert stages_of(one) == ["assemble", "save"]
    assert stages_of(two) == ["assemble", "assess", "save"]
    assert one.path.startswith("one@")
    assert {row.pk: (row.name, row.current_id) for row in Environment.objects.all()} == before
    assert set(BatchProduct.objects.filter(item__batch=batch).values_list("version__environment__key", flat=True)) == {
        "one",
        "two",
    }
    assert [rows.objects.count() for rows in (Version, Scenario, Task, Trajectory)] == [2, 2, 6, 6]
    assert Assessment.objects.values_list("version__environment__key", flat=True).count() == 2
    assert Task.objects.filter(environment__key="one").count() == 3
    assert BatchProduct.objects.get(item=one).provenance["theme"] == "one"


@pytest.mark.slow
def test_an_environment_is_assessed_again_where_that_is_asked_for_or_its_score_is_too_low() -> None:
    user = person("operator")
    with llm_server(answer) as server:
        work_off(make_batch(user, settings_at(server.url), ["one"]))
        (spec,) = build_environment_specs(Environment.objects.values_list("pk", flat=True))
        asked = settings_at(server.url, stages=SMALL.model_copy(update={"reassess": True}))
        again = work_off(services.create_batch(user, "Again", [spec], asked, TABLE))
        assert "assess" in stages_of(again.items.get(level="theme"))
        only = settings_at(server.url, stages=SMALL.model_copy(update={"reassess": True, "scenarios": 0}))
        alone = work_off(services.create_batch(user, "Assess it", [spec], only, TABLE))
        assert (alone.state, stages_of(alone.items.get())) == ("done", ["assemble", "assess", "save"])
        Assessment.objects.update(score=0.5)
        low = services.build_environment_spec(spec.version)
        batch = work_off(services.create_batch(user, "Low", [low], settings_at(server.url), TABLE))
        assert "assess" in stages_of(batch.items.get(level="theme"))


@pytest.mark.slow
def test_growing_twice_doubles_nothing_and_a_version_that_is_gone_says_so() -> None:
    user = person("operator")
    with llm_server(answer) as server:
        work_off(make_batch(user, settings_at(server.url), ["one"]))
        specs = build_environment_specs(Environment.objects.values_list("pk", flat=True))
        first = work_off(services.create_batch(user, "First", specs, settings_at(server.url), TABLE))
        counts = [rows.objects.count() for rows in (Scenario, Task, Trajectory)]
        second = work_off(services.clone_batch(user, first.pk, settings_at(server.url), TABLE))
        assert (second.state, second.requests) == ("done", 0)
        assert [rows.objects.count() for rows in (Scenario, Task, Trajectory)] == counts
        Environment.objects.all().delete()
        third = work_off(services.clone_batch(user, first.pk, settings_at(server.url), TABLE))
    (item,) = third.items.all()
    assert (item.state, item.reason) == ("rejected", "bad_input")
    assert "deleted meanwhile" in item.message
    with pytest.raises(InputError, match="no version 77"):
        services.build_environment_spec(77)


def test_the_api_takes_environments_and_its_dry_run_counts_what_they_need() -> None:
    caller = program(person("operator"), "read", "synthesise")
    with llm_server(answer) as server:
        work_off(make_batch(None, settings_at(server.url), ["one"]))
        there = Environment.objects.get()
        body = {"environment_ids": [there.pk], "settings": {"stages": {"scenarios": 1, "tasks": 1}}}
        found = caller.post("/batches/dry_run", body).json()
        stages = {line["stage"] for line in found["lines"]}
        assert {"initial_state", "instruction"} <= stages
        assert not stages & {"plan_state", "code_method", "test_call"}
        assert (found["sample"]["stage"], found["sample"]["item"][:4]) == ("initial_state", "one@")
        body["settings"]["stages"]["reassess"] = True
        stages = {line["stage"] for line in caller.post("/batches/dry_run", body).json()["lines"]}
        assert "test_call" in stages
        assert caller.post("/batches", body | {"start": False}).json()["items"] == {"theme": {"waiting": 1}}
        assert "no environment 99" in caller.post("/batches", {"environment_ids": [99]}).json()["detail"]
