"""Presets of a batch: the paper's choices on the form, over the API and by command, and where a batch departs."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from django.urls import reverse

from synthesis.errors import InputError
from synthesis.stages import StageSettings
from tests.batches.launch.launch_form import NEW, filled, filled_of, only, signed, start
from tests.fixtures.api import program
from tests.fixtures.markup import markup, words
from tests.rollouts_web.support import person
from webapp.batches.models import Batch
from webapp.batches.presets import (
    AS_PUBLISHED,
    OURS,
    PUBLISHED,
    find_departures,
    list_differing_choices,
    list_preset_values,
)
from webapp.batches.schemas import build_settings
from webapp.batches.setting_labels import STAGE_SETTINGS
from webapp.batches.spec import BatchSettings

pytestmark = pytest.mark.django_db(transaction=True)

PAPER = {
    # Copied from EnvScaler's paper, not from the preset.
    "tester": "free",
    "assessment_calls": 100,
    "assessment_threshold": 0.85,
    "sequential": False,
    "tool_repairs": 0,
    "repairs": 0,
    "rule": "proportion",
    "frames": False,
    "audit_rejects": False,
    "teach_unsolved": True,
    "teacher_user": "base",
    "filter_by_reward": False,
    "action_range": None,
    "conversational": True,
    "stateful_only": True,
    "duplicate_pairs": 0,
}


@pytest.fixture
def researcher() -> Client:
    return signed("researcher")


def test_the_preset_has_what_the_paper_says_and_a_place_for_each() -> None:
    values = list_preset_values(AS_PUBLISHED)
    assert {name: values[name] for name in PAPER} == PAPER
    assert all(re.match(r"ES [\dAB]|released code", choice.place) for choice in PUBLISHED)
    assert {choice.name for choice in PUBLISHED} <= {setting.name for setting in STAGE_SETTINGS}, "the form has all"
    assert list_preset_values(OURS) == {name: getattr(StageSettings(), name) for name in values}
    assert len(list_differing_choices()) == 12
    settings = build_settings({"preset": AS_PUBLISHED})
    assert StageSettings.model_validate(settings.stages) == StageSettings(**values)
    assert not find_departures(settings.preset, settings.stages)


def test_the_form_takes_a_preset_and_keeps_what_was_typed(researcher: Client) -> None:
    fields = filled(researcher)
    assert fields["preset"] == [OURS]
    typed = fields | {"name": "To the letter", "scenarios": "1", "take": AS_PUBLISHED}
    answer = researcher.post(NEW, typed)
    assert (answer.status_code, Batch.objects.count()) == (200, 0)
    page = answer.content.decode()
    shown = filled_of(page)
    assert (shown["name"], shown["scenarios"], shown["preset"]) == (["To the letter"], ["1"], [AS_PUBLISHED])
    assert (shown["tester"], shown["rule"], shown["teacher_user"]) == (["free"], ["proportion"], ["base"])
    assert not {"frames", "filter_by_reward", "sequential"} & set(shown), "ticked no more"
    assert "teach_unsolved" in shown
    said = words(page)
    assert "Every choice is as the preset As published (EnvScaler) has it." in said
    assert "ES 4.2, Eq. 10: nothing but the checks counts" in said
    assert start(researcher, shown).status_code == 302
    settings = BatchSettings.model_validate(Batch.objects.get().settings)
    assert (settings.preset, settings.stages.scenarios) == (AS_PUBLISHED, 1)
    assert not find_departures(settings.preset, settings.stages)
    by_address = filled(researcher, f"{NEW}?preset={AS_PUBLISHED}")
    assert {name: shown[name] for name in PAPER if name in shown} == {
        name: by_address[name] for name in PAPER if name in by_address
    }
    back = filled_of(researcher.post(NEW, shown | {"take": OURS}).content.decode())
    assert (back["preset"], back["tester"], back["frames"]) == ([OURS], ["planned"], ["on"])


def test_what_is_changed_afterwards_departs_and_is_said_everywhere(researcher: Client) -> None:
    shown = filled(researcher, f"{NEW}?preset={AS_PUBLISHED}") | {"frames": ["on"], "assessment_calls": ["30"]}
    part = words(markup(researcher.post(reverse("batches:departures"), shown)))
    assert "2 choices are not as the preset As published (EnvScaler) has them" in part
    assert "Frames: yes in place of no (ES 4.2, Eq. 10: nothing but the checks counts)" in part
    assert "Assessment calls: 30 in place of 100 (ES 3.4: N)" in part
    unclear = researcher.post(reverse("batches:departures"), shown | {"assessment_calls": ["many"]})
    assert "The form has errors" in words(markup(unclear))
    assert start(researcher, shown).status_code == 302
    batch = Batch.objects.get()
    page = words(markup(researcher.get(f"/batches/{batch.pk}/?tab=settings")))
    assert "2 choices are not as the preset As published (EnvScaler) has them" in page
    assert "Frames: yes in place of no" in page
    caller = program(person("operator", "op9"), "read", "synthesise")
    seen = caller.get(f"/batches/{batch.pk}").json()
    assert [(one["name"], one["preset"], one["chosen"]) for one in seen["departures"]] == [
        ("assessment_calls", 100, 30),
        ("frames", False, True),
    ]
    clone = filled_of(researcher.get(f"/batches/{batch.pk}/clone/").content.decode())
    assert (clone["preset"], clone["tester"]) == ([AS_PUBLISHED], ["free"])
    taken = researcher.post(f"/batches/{batch.pk}/clone/", clone | {"take": OURS})
    assert (taken.status_code, Batch.objects.count()) == (200, 1)
    assert "Preset" in words(markup(taken)), "a difference from the batch that is cloned"


def test_the_api_lists_presets_and_takes_one(researcher: Client) -> None:
    caller = program(person("operator", "op9"), "read", "synthesise")
    listed = caller.get("/batches/presets").json()
    assert [preset["name"] for preset in listed["presets"]] == [OURS, AS_PUBLISHED]
    assert {choice["name"]: choice["published"] for choice in listed["choices"]} == list_preset_values(AS_PUBLISHED)
    assert {choice["name"]: choice["ours"] for choice in listed["choices"]} == list_preset_values(OURS)
    assert all(choice["place"] for choice in listed["choices"])
    body = {"bundled": ["bike-share"], "settings": {"preset": AS_PUBLISHED, "stages": {"frames": True}}, "start": False}
    made = caller.post("/batches", body).json()
    assert made["settings"]["preset"] == AS_PUBLISHED
    assert made["settings"]["stages"]["tester"] == "free"
    assert [one["name"] for one in made["departures"]] == ["frames"]
    again = caller.post(f"/batches/{made['id']}/clone", {"settings": {"preset": OURS}, "start": False}).json()
    assert (again["settings"]["stages"]["tester"], again["departures"]) == ("planned", [])
    refused = caller.post("/batches", body | {"settings": {"preset": "as-imagined"}})
    assert refused.status_code == 422
    assert "take one of ours, as-published" in refused.text
    with pytest.raises(InputError, match="is no preset"):
        build_settings({"preset": ["as-published"]})


def test_a_batch_of_before_presets_is_ours(researcher: Client) -> None:
    assert BatchSettings.model_validate({"stages": {"frames": False}}).preset == OURS
    fields = only(researcher, bundled=["bike-share"])
    del fields["preset"]
    assert start(researcher, fields).status_code == 302
    assert BatchSettings.model_validate(Batch.objects.get().settings).preset == OURS
