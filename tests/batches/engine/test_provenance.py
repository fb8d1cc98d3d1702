"""What an item says it was made with, on the real pipeline; and growing on what it made."""

from __future__ import annotations

import pytest
from django.test import Client

from synthesis import prompts
from synthesis.pipeline import ENVSCALER
from tests.batches.real import SHORT, Bad, HostileModel, item, real_batch, real_pipeline, theme_of
from tests.batches.support import work_off
from tests.rollouts_web.support import person
from webapp.batches import services
from webapp.batches.engine.theme_source import build_environment_specs
from webapp.batches.models import BatchItem, BatchProduct, LLMCall
from webapp.batches.spec import ROLES, SCRIPTED, BatchSettings
from webapp.environments.models import Assessment, Environment
from webapp.scenarios.models import Scenario, Task

pytestmark = pytest.mark.django_db(transaction=True)


def made(row: BatchItem) -> dict[str, object]:
    return BatchProduct.objects.get(item=row).provenance


def test_an_item_names_the_prompts_roles_and_seeds_of_its_own_stages_and_its_own_notes(client: Client) -> None:
    user = person("operator")
    stages = SHORT.model_copy(update={"teacher_runs": 0})
    gives_up = Bad("badge-desk", "solve", "I give up.", "scenario-0/task-0", role="teacher")
    with real_pipeline(HostileModel([gives_up])):
        batch = work_off(real_batch(user, [theme_of("badge-desk")], stages))
        environment, state = made(item(batch, "badge-desk")), made(item(batch, "badge-desk/scenario-0"))
        again = work_off(services.clone_batch(None, batch.pk, BatchSettings.model_validate(batch.settings), ENVSCALER))
    assert {"skeleton/plan_state", "skeleton/code_method", "assessment/check_call", "reply/json"} <= set(
        environment["prompts"]
    )
    forms = {"reply/json", "reply/example", "reply/now", "examples/state_reply"}
    assert set(state["prompts"]) == {"scenarios/state", *forms}
    assert state["prompts"]["scenarios/state"] == prompts.get_prompt("scenarios", "state").sha256
    assert set(environment["models"]) == {"author", "tester", "checker"}
    assert state["models"] == {"author": "scripted"}
    assert set(environment["seeds"]) == {"assess"}
    asked = LLMCall.objects.filter(path="badge-desk").count()
    assert (environment["requests"], environment["replayed"], environment["calls"]) == (asked, 0, asked)
    replayed = made(item(again, "badge-desk"))
    assert (replayed["requests"], replayed["replayed"]) == (0, asked)
    assert sorted(replayed["prompts"]) == sorted(environment["prompts"])
    assert {name: replayed[name] for name in ("prompts", "models", "seeds")} == {
        name: environment[name] for name in ("prompts", "models", "seeds")
    }
    unsolved = item(batch, "badge-desk/scenario-0/task-0")
    (fault,), (why,) = environment["notes"], made(unsolved)["notes"]  # type: ignore[misc]
    assert fault.startswith("Repaired before it was kept: ")
    assert why.startswith("Nobody solved it")
    assert "notes" not in state
    client.force_login(user)
    assert "Nobody solved it" in client.get(f"/batches/made/?task={unsolved.product.task_id}").content.decode()


@pytest.mark.slow
def test_the_scripted_provider_grows_on_an_environment_of_a_bundled_theme() -> None:
    user = person("operator")
    with real_pipeline(HostileModel()) as model:
        work_off(real_batch(user, [theme_of("radio-rundown")]))
        before = [rows.objects.count() for rows in (Environment, Assessment, Scenario, Task)]
        model.asked.clear()
        specs = build_environment_specs(Environment.objects.values_list("pk", flat=True))
        stages = SHORT.model_copy(update={"scenarios": 2})
        settings = BatchSettings(models=dict.fromkeys(ROLES, SCRIPTED), stages=stages)
        batch = work_off(services.create_batch(user, "", specs, settings, ENVSCALER))
    assert batch.state == "done"
    states = dict(batch.items.values_list("path", "state"))
    assert set(states.values()) == {"kept"}, states
    assert not {call.site.role for call in model.asked} & {"tester", "checker"}
    after = [rows.objects.count() for rows in (Environment, Assessment, Scenario, Task)]
    # The first scenario and its task are the same ones again.
    assert after == [before[0], before[1], before[2] + 1, before[3] + 1]
