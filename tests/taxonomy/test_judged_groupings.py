"""Groupings of all themes that a judge decides: asked once, kept, and nothing unfolded where it is away."""

from __future__ import annotations

import json

import pytest

from synthesis.errors import InputError
from tests.fixtures.llm import Request, Scripted, llm_server, refuse, say
from tests.rollouts_web.support import endpoint_at, person
from tests.taxonomy.near import folds, plant, theme
from webapp.endpoints.services import set_roles
from webapp.jobs.jobs import run_job
from webapp.jobs.models import Job
from webapp.taxonomy.models import Grouping, ThemeReply
from webapp.taxonomy.near_duplicates.services import separate_theme, start_grouping

pytestmark = pytest.mark.django_db(transaction=True)


def judge(request: Request) -> Scripted:
    """Finds that both desks of a clinic are one, and hotels are not."""
    text = request["messages"][0]["content"]
    return say(json.dumps({"reason": "So it is.", "same": text.count("clinic's laboratory") == 2}))


def grouped(job: Job) -> Job:
    run_job(job.pk)
    job.refresh_from_db()
    return job


def test_the_model_that_plays_the_judge_decides_once_and_later_groupings_ask_what_is_new() -> None:
    plant()
    with llm_server(judge) as server:
        row = endpoint_at(server.url)
        set_roles(None, {"judge": f"{row.pk}/scripted-1"})
        done = grouped(start_grouping(None, 0.85, judge=""))
        assert done.state == "succeeded", done.error
        assert folds() == {"1": "2", "4": "5"}
        first = Grouping.objects.get(job=done)
        assert (first.judge, first.groups, first.folded, first.undecided) == ("local/scripted-1", 2, 2, 0)
        assert (done.result["asked"], first.counts) == (first.asked, [])
        asked = len(server.requests)
        assert first.asked >= asked == ThemeReply.objects.count() > 0, "equal texts are one question"
        assert "by local/scripted-1" in first.decision.words
        separate_theme(theme(4).pk, None)
        assert grouped(start_grouping(None, 0.85, judge="")).state == "succeeded"
        assert len(server.requests) == asked
    assert folds() == {"1": "2"}, "what a person keeps apart stays so"


def test_a_judge_that_refuses_fails_the_job_and_changes_no_fold() -> None:
    plant()
    assert grouped(start_grouping(None, 0.85)).state == "succeeded"
    before = folds()
    assert before
    with llm_server(lambda request: refuse(401, "The key is wrong.")) as server:
        failed = grouped(start_grouping(None, 0.85, judge=f"{endpoint_at(server.url).pk}/scripted-1"))
    assert failed.state == "failed"
    assert "key is wrong" in failed.error
    assert folds() == before
    assert Grouping.objects.count() == 1


def test_who_is_held_to_a_cap_starts_none_that_costs_and_bounds_are_kept() -> None:
    with llm_server(judge) as server:
        chosen = f"{endpoint_at(server.url).pk}/scripted-1"
    held = person("annotator")
    with pytest.raises(InputError, match="without a spend cap"):
        start_grouping(held, 0.85, judge=chosen)
    with pytest.raises(InputError, match="1 to 20,000 pairs"):
        start_grouping(None, 0.85, judge=chosen, most=0)
    with pytest.raises(InputError, match="judge's model is not listed"):
        start_grouping(None, 0.85, judge="7/none")
    assert start_grouping(held, 0.85, judge="scripted").title == "Group themes by scripted"
