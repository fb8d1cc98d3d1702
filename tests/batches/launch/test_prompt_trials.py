"""A batch tries a prompt of its own: refused where nobody could fill it in, asked with, shown with what it changed."""

from __future__ import annotations

import pytest
from django.test import Client

from synthesis.errors import InputError
from synthesis.prompts import get_prompt
from synthesis.prompts.trial import MOST_CHARS, build_trial_prompt, check_trials, get_triable_prompt, use_trial_prompts
from tests.batches.launch.launch_form import filled, signed, start
from tests.batches.real import APART, SHORT, HostileModel, real_batch, real_pipeline, theme_of
from tests.batches.support import work_off
from tests.fixtures.api import token_of
from tests.fixtures.markup import markup
from tests.rollouts_web.support import person
from webapp.batches.models import Batch, StageRun
from webapp.batches.spec import BatchSettings

NAME = "skeleton/plan_state"
HOSTILE = "Think of what people lose. <img src=x onerror=hit()>"
pytestmark = pytest.mark.django_db(transaction=True)


def changed() -> str:
    return f"{get_triable_prompt(NAME).text}\n\n{HOSTILE}"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (NAME, "Write down the plan, please, as you like it.", "without {{"),
        (NAME, get_triable_prompt(NAME).text + " {{secret}}", "with {{secret}}, which nobody fills in"),
        (NAME, "   ", "next to nothing"),
        (NAME, get_triable_prompt(NAME).text + "x" * MOST_CHARS, "Shorten it"),
        (NAME, get_triable_prompt(NAME).text + "\ud800", "a sign that is no text"),
        ("reply/../../../settings", "a text that is long enough", "There is no prompt"),
    ],
    ids=["no place", "a place of its own", "empty", "long", "half a character", "another file"],
)
def test_a_text_that_could_not_be_used_is_refused_with_what_to_change(name: str, text: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        check_trials({name: text})
    assert said in str(refused.value)


@pytest.mark.slow
def test_a_batch_asks_with_its_own_text_and_others_with_the_standing_one(client: Client) -> None:
    user = person("operator")
    client.force_login(user)
    model = HostileModel()
    with real_pipeline(model):
        batch = work_off(real_batch(user, [theme_of("plant-nursery")], SHORT, prompts={NAME: changed()}))
        own = [call for call in model.asked if HOSTILE in str(call.messages)]
        model.asked.clear()
        work_off(real_batch(user, [theme_of(f"plant-nursery{APART}2")]))
    assert own, "the text reached the model"
    assert model.asked
    assert not [call for call in model.asked if HOSTILE in str(call.messages)], "in that batch alone"
    made = StageRun.objects.filter(item__batch=batch).values_list("used", flat=True)
    assert build_trial_prompt(NAME, changed()).sha256 in [used.get("prompts", {}).get(NAME) for used in made], (
        "and is what the stage is known by"
    )
    page = client.get(f"/batches/{batch.pk}/?tab=settings").content.decode()
    assert "What this batch changed in the prompt" in page
    assert HOSTILE not in page
    assert "Think of what people lose. &lt;img" in page
    with use_trial_prompts({NAME: changed()}):
        assert get_prompt("skeleton", "plan_state").text == changed()
    assert get_prompt("skeleton", "plan_state") == get_triable_prompt(NAME)


def test_a_prompt_is_edited_in_the_form_of_a_new_batch_and_goes_along_with_its_clone() -> None:
    client = signed("researcher")
    shown = client.get(f"/batches/new/prompt/?prompt_name={NAME}", headers={"HX-Request": "true"}).content.decode()
    assert "{{" in shown, "its text, to begin with"
    refused = start(client, filled(client) | {"prompt_name": NAME, "prompt_text": "Make a plan of what there is."})
    assert refused.status_code == 422 or "which the stage fills in" in markup(refused)
    assert "Make a plan of what there is." in refused.content.decode(), "what was typed is kept"
    assert not Batch.objects.exists()
    answer = start(client, filled(client) | {"prompt_name": NAME, "prompt_text": changed().replace("\n", "\r\n")})
    assert answer.status_code == 302, markup(answer)
    batch = Batch.objects.get()
    assert BatchSettings.model_validate(batch.settings).prompts == {NAME: changed()}
    clone = client.get(f"/batches/{batch.pk}/clone/").content.decode()
    assert f'<span class="mono">{NAME}</span>' in clone


def test_a_batch_by_api_that_tries_what_cannot_be_filled_in_is_refused(client: Client) -> None:
    headers = {"Authorization": f"Bearer {token_of(person('operator'), 'read', 'synthesise')}"}
    body = {"name": "Tried", "bundled": ["plant-nursery"], "settings": {"prompts": {NAME: "Nothing to fill in here."}}}
    answer = client.post("/api/v1/batches", body, content_type="application/json", headers=headers)
    assert answer.status_code == 422, answer.content
    assert "which the stage fills in" in answer.json()["detail"]
    assert not Batch.objects.exists()
