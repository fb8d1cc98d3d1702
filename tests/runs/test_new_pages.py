"""The page of a new training job: what is sent, what stays typed, what the preflight says, clones, the same by API."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from html import unescape

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from tests.fixtures import pages_seed, runs_seed
from training import presets
from webapp.datasets.models import Dataset
from webapp.runs.models import TrainingJob
from webapp.runs.spec import DEMO_MODEL

pytestmark = pytest.mark.django_db(transaction=True)
NEW, SUBMIT, PREFLIGHT = "/training/new/", "/training/new/submit/", "/training/new/preflight/"
HTMX = {"HX-Request": "true"}


@pytest.fixture
def researcher() -> Client:
    client = Client()
    client.force_login(pages_seed.person("researcher"))
    return client


@pytest.fixture
def lessons() -> Dataset:
    return runs_seed.dataset("Careless teachers", kind="trajectories")


@pytest.fixture
def tasks() -> Dataset:
    return runs_seed.dataset("Six environments", kind="tasks")


def filled(page: str) -> dict[str, str]:
    """What a browser would send of the form on this page."""
    form = page[page.index('<form id="launch"') : page.index("</form>", page.index('<form id="launch"'))]
    found: dict[str, str] = {}
    for tag in re.findall(r"<input[^>]*>", form):
        said = {key: unescape(value) for key, value in re.findall(r'([\w-]+)="([^"]*)"', tag)}
        if said.get("name") and (said.get("type") != "radio" or " checked" in tag):
            found[said["name"]] = said.get("value", "")
    for name, inner in re.findall(r'<select[^>]*name="([^"]+)"[^>]*>(.*?)</select>', form, re.S):
        options = re.findall(r'<option value="([^"]*)"([^>]*)>', inner)
        found[name] = next((unescape(value) for value, rest in options if "selected" in rest), options[0][0])
    for name, text in re.findall(r'<textarea[^>]*name="([^"]+)"[^>]*>\n?([^<]*)</textarea>', form):
        found[name] = unescape(text)
    return found


def form_at(client: Client, url: str) -> dict[str, str]:
    answer = client.get(url)
    assert answer.status_code == 200
    return filled(answer.content.decode())


def errors_of(page: str) -> dict[str, str]:
    """Field to what stands at it."""
    found = re.findall(r'<p class="error" id="id_(\w+)_error"[^>]*>([^<]*)</p>', page)
    return {name: unescape(text).strip() for name, text in found if text.strip()}


def test_a_form_as_it_stands_makes_a_job_with_the_presets_values(researcher: Client, lessons: Dataset) -> None:
    fields = form_at(researcher, f"{NEW}?dataset={lessons.public_id}&preset=demo-sft")
    answer = researcher.post(SUBMIT, fields | {"name": "First"})
    assert answer.status_code == 302, errors_of(answer.content.decode())
    job = TrainingJob.objects.get()
    assert answer.headers["Location"] == reverse("runs:job", args=[job.public_id])
    assert (job.method, job.model, job.preset, job.changes) == ("supervised", DEMO_MODEL, "demo-sft", {})
    assert (job.name, job.dataset) == ("First", lessons)
    assert job.config == presets.load_preset("demo-sft").config.model_dump(mode="json")


def test_only_what_was_changed_is_sent(researcher: Client, lessons: Dataset) -> None:
    fields = form_at(researcher, f"{NEW}?dataset={lessons.public_id}&preset=demo-sft")
    changed = fields | {"epochs": "2", "optimiser__learning_rate": "1e-3", "tuning__kind": "lora"}
    changed |= {"tuning__lora__rank": "8", "mixture__environments": "shop: 2, clinic: 0.5"}
    assert researcher.post(SUBMIT, changed).status_code == 302
    job = TrainingJob.objects.get()
    assert job.changes == {
        "epochs": 2.0,
        "optimiser": {"learning_rate": 0.001},
        "tuning": {"kind": "lora", "rank": 8, "alpha": 32.0, "dropout": 0.0, "target": "all-linear"},
        "mixture": {"environments": {"shop": 2.0, "clinic": 0.5}},
    }


def test_two_clicks_make_one_job_also_at_the_same_moment(researcher: Client, lessons: Dataset) -> None:
    fields = form_at(researcher, f"{NEW}?dataset={lessons.public_id}")

    def send(_: int) -> str:
        try:
            return str(researcher.post(SUBMIT, fields).headers["Location"])
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as both:
        places = set(both.map(send, range(2)))
    assert len(places) == 1
    assert "was sent before" in researcher.post(SUBMIT, fields, follow=True).content.decode()
    assert TrainingJob.objects.count() == 1
    again = form_at(researcher, f"{NEW}?dataset={lessons.public_id}")
    researcher.post(SUBMIT, again)
    assert TrainingJob.objects.count() == 2


def test_errors_stand_at_their_fields_and_nothing_that_was_typed_is_lost(researcher: Client, tasks: Dataset) -> None:
    fields = form_at(researcher, f"{NEW}?dataset={tasks.public_id}&preset=autoforge-erpo&model=ours/model")
    typed = fields | {"name": "Keep <me>", "steps": "ten", "optimiser__learning_rate": "7", "dataset": ""}
    typed |= {"horizon__kind": "increment", "metadata": "no pair", "calls_allowed": "-1"}
    answer = researcher.post(SUBMIT, typed)
    page = answer.content.decode()
    assert answer.status_code == 422
    fresh = ("csrfmiddlewaretoken", "marked", "departed")
    assert filled(page) == typed | {name: filled(page)[name] for name in fresh}
    found = errors_of(page)
    assert set(found) == {
        "steps", "dataset", "metadata", "calls_allowed", "horizon__increment__first", "horizon__increment__increment",
        "horizon__increment__every", "horizon__increment__cap",
    }  # fmt: skip
    assert "“ten” is no whole number" in found["steps"]
    assert not TrainingJob.objects.exists()
    # What can be read is held to its range.
    ranged = typed | {"steps": "10", "horizon__kind": "constant", "dataset": tasks.public_id, "metadata": ""}
    found = errors_of(
        researcher.post(SUBMIT, ranged | {"calls_allowed": "5", "sampling__tasks": "33"}).content.decode()
    )
    assert "less than or equal to 1" in found["optimiser__learning_rate"]
    assert "multiple of environments" in found["sampling__tasks"]


def test_a_rule_over_several_fields_is_told_at_the_one_to_change(researcher: Client, tasks: Dataset) -> None:
    fields = form_at(researcher, f"{NEW}?dataset={tasks.public_id}&preset=envscaler-rl&model=ours/model")
    found = errors_of(researcher.post(PREFLIGHT, fields | {"advantage__kind": "group"}).content.decode())
    assert "reward_to_go" in found["kl__place"]


def test_another_preset_brings_its_values_and_keeps_what_was_changed(researcher: Client, tasks: Dataset) -> None:
    fields = form_at(researcher, f"{NEW}?dataset={tasks.public_id}&preset=autoforge-erpo&model=ours/model")
    moved = fields | {"preset": "agent-world-grpo", "optimiser__learning_rate": "2e-6", "name": "Mine"}
    page = researcher.post(NEW, moved).content.decode()
    shown = filled(page)
    assert shown["preset"] == "agent-world-grpo"
    assert (shown["decoding__trajectory_tokens"], shown["loss__form"]) == ("81920", "grpo")
    assert (shown["optimiser__learning_rate"], shown["name"]) == ("2e-6", "Mine")
    # Without scripts a person may press start before the values were seen: nothing starts.
    answer = researcher.post(SUBMIT, moved)
    assert answer.status_code == 422
    assert "Look at them, then start" in errors_of(answer.content.decode())["preset"]
    assert not TrainingJob.objects.exists()


def test_envariums_defaults_are_what_they_say_also_for_the_demos_model(researcher: Client, lessons: Dataset) -> None:
    fields = form_at(researcher, f"{NEW}?dataset={lessons.public_id}")
    assert (fields["model"], fields["preset"], fields["epochs"]) == (DEMO_MODEL, "demo-sft", "4")
    page = researcher.post(NEW, fields | {"preset": "defaults"}).content.decode()
    shown = filled(page)
    default = presets.load_preset("demo-sft").config.__class__().epochs
    assert (shown["preset"], float(shown["epochs"])) == ("defaults", default)
    assert "Values of Envarium's defaults" in unescape(page)
    assert "Its preset is demo-sft" in unescape(page)
    refused = researcher.post(SUBMIT, shown)
    assert refused.status_code == 422
    assert "window of envarium-demo" in refused.content.decode()
    assert researcher.post(SUBMIT, shown | {"max_length": "1024"}).status_code == 302
    job = TrainingJob.objects.get()
    assert (job.preset, job.config["epochs"]) == ("defaults", default)
    # Another model keeps the values that are shown, and the form says whom they are for.
    part = researcher.post(PREFLIGHT, fields | {"model": "org/large"}, headers=HTMX).content.decode()
    assert "The preset demo-sft is made for the demo's tiny model, not for org/large" in unescape(part)
    again = form_at(researcher, f"{NEW}?from={job.public_id}")
    assert (again["preset"], float(again["epochs"])) == ("defaults", default)


def test_another_method_brings_its_presets_and_its_datasets(
    researcher: Client, lessons: Dataset, tasks: Dataset
) -> None:
    fields = form_at(researcher, NEW)
    page = researcher.post(NEW, fields | {"method": "reinforcement", "name": "Mine"}).content.decode()
    assert filled(page)["preset"] == "demo-rl"
    assert 'value="envscaler-sft"' not in page
    assert tasks.public_id in page
    assert f'<option value="{lessons.public_id}"' not in page
    assert filled(page)["name"] == "Mine"


def test_values_stand_with_their_mark_and_its_place(researcher: Client, tasks: Dataset) -> None:
    page = researcher.get(f"{NEW}?dataset={tasks.public_id}&preset=autoforge-erpo").content.decode()
    assert "AF 4.1: batch size 32" in page
    assert "Eq. 2 has one epsilon and no value" in page
    hint = page[page.index('id="id_sampling__tasks_helptext"') :][:300]
    assert "published" in hint
    assert "multiple" not in errors_of(page).get("sampling__tasks", "")


def test_the_part_beside_says_what_differs_what_it_takes_and_the_same_by_api(
    researcher: Client, lessons: Dataset
) -> None:
    fields = form_at(researcher, f"{NEW}?dataset={lessons.public_id}&preset=demo-sft") | {"epochs": "2"}
    page = researcher.post(PREFLIGHT, fields, headers=HTMX).content.decode()
    assert "<html" not in page
    assert "It can be queued, and waits there until a worker comes that can take it" in " ".join(page.split())
    runs_seed.worker("here", engines=["transformers"])
    assert "It can start" in researcher.post(PREFLIGHT, fields, headers=HTMX).content.decode()
    assert 'href="#id_epochs"' in page
    body = json.loads(unescape(page[page.index("-d &#x27;") :]).split("'", 2)[1])
    assert body["method"] == {"type": "supervised", "supervised": {"preset": "demo-sft", "changes": {"epochs": 2.0}}}
    assert (body["model"], body["training_file"]) == (DEMO_MODEL, lessons.public_id)
    assert not TrainingJob.objects.exists()
    whole = researcher.post(PREFLIGHT, fields).content.decode()
    assert "<html" in whole
    assert filled(whole)["epochs"] == "2"


def test_the_part_beside_marks_fields_and_takes_marks_away_again(researcher: Client, lessons: Dataset) -> None:
    fields = form_at(researcher, f"{NEW}?dataset={lessons.public_id}&preset=demo-sft")
    page = researcher.post(PREFLIGHT, fields | {"batch": "0", "epochs": "x"}, headers=HTMX).content.decode()
    assert set(errors_of(page)) == {"epochs"}
    page = researcher.post(PREFLIGHT, fields | {"batch": "0", "marked": "epochs"}, headers=HTMX).content.decode()
    assert set(errors_of(page)) == {"batch"}
    assert '<p class="error" id="id_epochs_error" hx-swap-oob="true"></p>' in page


def test_heads_and_marks_of_what_differs_follow_what_is_typed(researcher: Client, lessons: Dataset) -> None:
    fields = form_at(researcher, f"{NEW}?dataset={lessons.public_id}&preset=demo-sft")

    def beside(**typed: str) -> tuple[str, str, str]:
        """(the part, the mark of max_length, the fields that it says are marked)."""
        page = researcher.post(PREFLIGHT, fields | typed, headers=HTMX).content.decode()
        mark = re.search(r'id="id_max_length_departure"\s+hx-swap-oob="true"\s*>(.*?)</span>', page)
        departed = re.search(r'name="departed" value="([^"]*)"', page)
        return page, mark[1] if mark else "none", departed[1] if departed else "none"

    page, mark, departed = beside(max_length="256")
    assert (mark, departed) == ('the preset has <b class="mono">512</b>', "max_length")
    assert "1 changed" in page
    assert "longest sequence 256" in page
    page, mark, departed = beside(max_length="512", departed=departed)
    assert (mark, departed) == ("", "")
    assert "1 changed" not in page


def test_problems_that_the_services_find_stand_at_their_fields(researcher: Client, tasks: Dataset) -> None:
    fields = form_at(researcher, f"{NEW}?dataset={tasks.public_id}&preset=demo-rl")
    wanted = fields | {"model": "nowhere", "sampling__environments": "16", "sampling__tasks": "32", "after": "ftjob-0"}
    answer = researcher.post(SUBMIT, wanted)
    found = errors_of(answer.content.decode())
    assert answer.status_code == 422
    assert "There is no model" in found["model"]
    assert "the dataset has 4 to learn from" in found["sampling__environments"]
    assert "There is no training job" in found["after"]


def test_a_clone_begins_as_its_job_and_names_what_differs(researcher: Client, lessons: Dataset) -> None:
    fields = form_at(researcher, f"{NEW}?dataset={lessons.public_id}&preset=demo-sft")
    researcher.post(SUBMIT, fields | {"name": "First", "epochs": "2", "metadata": "team = a"})
    origin = TrainingJob.objects.get()
    page = researcher.get(f"{NEW}?from={origin.public_id}").content.decode()
    again = filled(page)
    assert (again["name"], again["epochs"], again["metadata"]) == ("First (again)", "2", "team = a")
    assert "the same job once more" in page
    part = researcher.post(PREFLIGHT, again | {"batch": "4"}, headers=HTMX).content.decode()
    assert "Sequences a step" in part[part.index("That job") :]
    assert researcher.post(SUBMIT, again | {"batch": "4"}).status_code == 302
    clone = TrainingJob.objects.exclude(pk=origin.pk).get()
    assert clone.changes == {"epochs": 2.0, "batch": 4}
    assert clone.metadata == {"team": "a"}


def test_a_clone_of_a_preset_that_is_gone_shows_the_defaults_and_keeps_the_values(researcher: Client) -> None:
    job = runs_seed.training_job(steps=0, environments=(), preset="long-gone", state="succeeded")
    page = researcher.get(f"{NEW}?from={job.public_id}").content.decode()
    assert "no preset “long-gone” any more" in unescape(page)
    assert filled(page)["horizon__kind"] == "list"
    assert filled(page)["horizon__list__turns"] == "8, 15, 30"


def test_hostile_text_stays_text(researcher: Client) -> None:
    row = runs_seed.dataset(pages_seed.EVIL[:200], kind="tasks")
    runs_seed.worker(name=pages_seed.EVIL[:200], model_names=[pages_seed.EVIL])
    fields = form_at(researcher, f"{NEW}?dataset={row.public_id}")
    page = researcher.post(SUBMIT, fields | {"steps": pages_seed.EVIL, "metadata": pages_seed.EVIL}).content.decode()
    assert "<script>window.hit" not in page
    assert "\u202e" not in page
    odd = researcher.get(f"{NEW}?from=%00&dataset=%00&preset=%00&method=nonsense&model=%00")
    assert odd.status_code == 200


def test_who_may_not_train_sees_no_form(tasks: Dataset) -> None:
    client = Client()
    client.force_login(pages_seed.person("annotator"))
    assert client.get(NEW).status_code == 403
    assert client.post(SUBMIT, {"dataset": tasks.public_id}).status_code == 403
