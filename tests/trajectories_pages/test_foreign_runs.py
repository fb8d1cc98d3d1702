"""Trajectories without an environment on pages and over the API: read, found, marked, and out of every rate."""

from __future__ import annotations

import json

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from tests.fixtures import replay_seed as seed
from tests.fixtures.api import program
from tests.fixtures.atif_files import EVERY, OLDEST, PICTURES, TERMINAL
from tests.fixtures.markup import markup
from tests.review import seed as review_seed
from webapp.accounts.models import User
from webapp.jobs.jobs import execute_job
from webapp.jobs.models import Job
from webapp.jobs.services import claim_job
from webapp.pages.recount import recount_all
from webapp.pages.search import Hit, parse_query, search_all
from webapp.pages.statistics.over_time import compute_daily_statistics
from webapp.review.judges.briefs import build_brief
from webapp.trajectories.export.lines import Export
from webapp.trajectories.export.spec import ExportSpec
from webapp.trajectories.foreign_runs import import_foreign_runs
from webapp.trajectories.models import Trajectory

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada(client: Client) -> Client:
    client.force_login(User.objects.create_user("ada", role="operator"))
    content = b"\n".join(json.dumps(record).encode() for record in EVERY)
    import_foreign_runs(content, "runs.jsonl", 1 << 20)
    return client


def row(title: str = "Count") -> Trajectory:
    return Trajectory.objects.get(title__startswith=title)


def page(client: Client, url: str, status: int = 200) -> str:
    response = client.get(url)
    assert response.status_code == status
    return markup(response)


def trajectories_found(text: str) -> tuple[Hit, ...]:
    return next(group.hits for group in search_all(parse_query(text, None), "trajectories"))


def test_the_replay_reads_it_and_says_that_there_is_no_environment(ada: Client) -> None:
    text = page(ada, f"/trajectories/{row().pk}/?step=2")
    for words in (
        "No environment.", "terminus-2", "ATIF 1.2", "wc does that.", "I count them.", "wc -l notes.txt",
        "41 notes.txt", "as recorded", "520 + 80 tokens", "200 cached", "There is no state to show.",
        "nothing says what was right",
        "no environment",
    ):  # fmt: skip
        assert words in text, words
    for words in ("Open task", "seed 0", "Compare with", "Fork <kbd>", "not replayed", "reproduced"):
        assert words not in text, words
    text = page(ada, f"/trajectories/{row('What is').pk}/?step=1")
    assert "Left out: image (image/png)" in text
    assert "1 step copied as context" in text
    assert "Steps 1 and 2 came from another run." in text
    assert "Outcome" in page(ada, f"/trajectories/{row('Name the').pk}/?step=2")
    assert "<mark>41 notes</mark>.txt" in page(ada, f"/trajectories/{row().pk}/search/?q=41+notes")


def test_lists_search_and_home_mark_it(ada: Client) -> None:
    seed.make(seed.ordinary())
    assert page(ada, "/trajectories/?replay=no_environment").count("data-row ") == len(EVERY)
    text = page(ada, "/trajectories/")
    assert text.count("data-row ") == len(EVERY) + 1
    assert "no environment" in text
    assert "not judged" in text
    assert "Count the lines of notes.txt." in page(ada, "/")
    assert [hit.label for hit in trajectories_found("terminus notes.txt")] == [f"{row().pk} {row().name}"]
    (numbered,) = trajectories_found(str(row().pk))
    assert numbered.state == ("replay", "no_environment")
    assert "no environment" in page(ada, "/search/?q=terminus")


def test_what_needs_an_environment_is_refused_in_words(ada: Client) -> None:
    mine, other = row(), seed.make(seed.ordinary())
    assert "nothing to fork" in page(ada, f"/trajectories/{mine.pk}/fork/?step=1")
    assert "has no environment" in page(ada, f"/trajectories/compare/?ids={mine.pk},{other.pk}")
    for part in ("matrix/", "steps/0/", "news/", "export.jsonl"):
        assert ada.get(f"/trajectories/{mine.pk}/{part}").status_code == 200
    assert ada.get(f"/trajectories/{mine.pk}/checks/0/").status_code == 404
    assert ada.post(f"/trajectories/{mine.pk}/fork/by-hand/", {"step": 1}).status_code == 302
    assert ada.post(f"/trajectories/{mine.pk}/check-again/").status_code == 302
    assert ada.get(f"/trajectories/{mine.pk}/pair.jsonl").status_code in (404, 409)


def test_people_and_judges_may_review_it(ada: Client) -> None:
    queue = review_seed.queue(User.objects.get(), "Foreign", kind="trajectory", query="replay=no_environment")
    assert queue.items.count() == len(EVERY)
    item = queue.items.get(trajectory=row())
    text = page(ada, f"/review/items/{item.pk}/")
    for words in ("Count the lines of notes.txt.", "no environment", "no check looked at it", "There are 41 lines."):
        assert words in text, words
    brief = build_brief(queue, row()).object
    assert "without an environment: Count the lines" in brief
    assert "41 notes.txt" in brief


def test_it_is_in_no_rate_count_or_training_data(ada: Client) -> None:
    other = seed.make(seed.ordinary())
    outcomes = compute_daily_statistics().outcomes
    assert outcomes is not None
    assert sum(sum(counts) for _, counts in outcomes.rows) == 1
    recount_all()
    assert other.environment is not None
    other.environment.refresh_from_db()
    assert other.environment.trajectory_count == 1
    Trajectory.objects.exclude(pk=other.pk).update(outcome="solved", reward=1.0)
    export = Export(ExportSpec())
    list(export.pieces())
    told = export.manifest()
    assert (told["trajectories"], told["without_environment"]) == (0, len(EVERY))


def test_the_api_reads_and_imports_it(ada: Client) -> None:
    ada_row = User.objects.get()
    api = program(ada_row, "read", "review", "synthesise")
    line = api.get("/trajectories?replay=no_environment&policy=made/model-small").json()["data"][0]
    assert (line["task_id"], line["environment_id"], line["environment"]) == (None, None, "")
    assert (line["task"], line["replay"], line["reward"]) == ("Count the lines of notes.txt.", "no_environment", None)
    whole = api.get(f"/trajectories/{line['id']}").json()
    assert (whole["revision_id"], whole["imported"]["agent"]) == (None, "terminus-2")
    steps = api.get(f"/trajectories/{line['id']}/steps").json()["data"]
    assert (steps[2]["recorded"], steps[2]["details"]["metrics"]["completion_tokens"]) == ("41 notes.txt", 80)
    assert api.get(f"/trajectories/{line['id']}/scores").json()["data"] == []
    state = api.get(f"/trajectories/{line['id']}/steps/0/state")
    assert state.status_code == 404
    assert "has no environment" in state.json()["detail"]
    refused = api.post(f"/trajectories/{line['id']}/forks", {"step": 1, "calls": []}, content_type="application/json")
    assert refused.status_code == 409
    assert "has no environment" in refused.json()["detail"]
    assert api.get(f"/trajectories/compare?ids={line['id']},{row('Name').pk}").status_code == 422
    Trajectory.objects.all().delete()
    upload = {"trajectories": SimpleUploadedFile("t.json", json.dumps(OLDEST).encode())}
    sent = Client(headers=api.headers).post("/api/v1/imports/trajectories", upload)
    assert sent.status_code == 202
    claimed = claim_job(sent.json()["id"], "w")
    assert claimed is not None
    execute_job(claimed)
    assert Job.objects.get(pk=sent.json()["id"]).result["created"] == 1
    assert Trajectory.objects.get().record == OLDEST


def test_a_page_takes_the_file(ada: Client) -> None:
    file = SimpleUploadedFile("p.json", json.dumps({**PICTURES, "session_id": "another"}).encode())
    sent = ada.post("/import/", {"what": "trajectories", "trajectories": file})
    assert sent.status_code == 302
    assert "ATIF" in page(ada, "/import/")
    assert TERMINAL["session_id"] not in page(ada, sent["Location"])
