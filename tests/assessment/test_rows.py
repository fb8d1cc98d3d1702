"""Assessments as rows: saved once, re-run without a model, shown and given by program."""

from __future__ import annotations

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from synthesis.assessment.dual_agent import assess_program
from synthesis.drafts import FailedCall, ToolRepair
from synthesis.runtime import Sandbox
from tests.assessment.rows import case, draft, saved
from tests.assessment.support import SOURCE, assembled, bench, record
from tests.fixtures import pages_seed
from tests.fixtures.api import problem, program
from tests.fixtures.markup import flat
from webapp.common.content_store import load_value
from webapp.environments.assessment_services import iterate_case_drafts, save_assessment, start_rerun
from webapp.environments.models import Assessment, CaseState, ToolCase, Version, VersionRun
from webapp.environments.services import save_environment
from webapp.jobs.context import JobContext
from webapp.jobs.models import Job
from webapp.jobs.registry import KINDS
from webapp.jobs.services import claim_job

pytestmark = pytest.mark.django_db


def body(client: Client, url: str) -> str:
    response = client.get(url)
    assert response.status_code == 200, url
    return flat(response)


def tab(row: Assessment, **query: str) -> str:
    extra = "".join(f"&{name}={value}" for name, value in query.items())
    return f"/environments/{row.version.environment_id}/?tab=assessment{extra}"


def real(sandbox: Sandbox, threads: ThreadPoolExecutor) -> Assessment:
    made = asyncio.run(assess_program(bench(sandbox, threads).kit, assembled()))
    _, _, version = save_environment(record(), [], "test")
    return save_assessment(version, made)[1]


def run_job(row: Assessment) -> dict[str, int]:
    from webapp.jobs.services import claim_job

    job = start_rerun(None, row)
    claimed = claim_job(job.pk, "test")
    assert claimed is not None
    return KINDS["rerun_cases"].handler(JobContext.of(claimed))


def test_what_is_saved_reads_back_the_same() -> None:
    row = saved(40)
    wanted = draft(40)
    assert (row.score, row.strict, row.kept, row.made, row.saved) == (0.75, 0.5, True, 40, 60)
    assert (row.passed, row.warned, row.failed) == (20, 10, 10)
    assert tuple(found for _, found in iterate_case_drafts(row)) == wanted.cases
    assert CaseState.objects.count() == 10, "states are stored once"


def test_the_same_twice_is_one_row_and_another_is_another() -> None:
    row = saved(20)
    assert save_assessment(row.version, draft(20), roles=row.roles, scripted=True) == ("unchanged", row)
    assert ToolCase.objects.count() == 20
    assert save_assessment(row.version, draft(21), roles=row.roles, scripted=True)[0] == "created"
    assert save_assessment(row.version, draft(20), roles={}, scripted=False)[0] == "created"
    assert Assessment.objects.count() == 3


def test_text_that_postgresql_cannot_hold_is_kept_in_signs() -> None:
    version = pages_seed.environment("Odd desk").current
    assert version is not None
    odd = draft(2).model_copy(update={"cases": (case(0, "a\x00b"), case(1, "\ud800"))})
    _, row = save_assessment(version, odd)
    assert row.cases.get(position=0).reason == "reason 0: a\u2400b"
    assert row.cases.get(position=0).arguments == {"key": "a\x00b"}


def test_cases_are_re_run_by_a_job_twice_the_same(sandbox: Sandbox, threads: ThreadPoolExecutor) -> None:
    row = real(sandbox, threads)
    found = run_job(row)
    assert (found["cases"], found["same"], found["differs"]) == (28, 28, 0)
    assert set(row.cases.values_list("rerun", flat=True)) == {"same"}
    Job.objects.update(state="succeeded")
    Version.objects.update(source=SOURCE.replace('"error": "exists"', '"error": "is there"'))
    again, third = run_job(row), None
    assert again["differs"] == row.cases.filter(tool="add_item", case="negative").count() > 0
    assert set(row.cases.filter(rerun="differs").values_list("differs", flat=True)) == {"result"}
    Job.objects.update(state="succeeded")
    third = run_job(row)
    assert third == again
    row.refresh_from_db()
    assert (row.same_count, row.differs_count) == (third["same"], third["differs"])


def test_a_re_run_that_is_on_its_way_is_not_started_again(page: Client) -> None:
    row = saved(4)
    for _ in range(2):
        assert page.post(f"/environments/assessments/{row.pk}/rerun").status_code == 302
    job = Job.objects.get()
    assert (job.kind, job.payload, job.queue) == ("rerun_cases", {"assessment": row.pk}, "sandbox")
    html = body(page, tab(row))
    assert f"/jobs/{job.pk}/" in html
    part = page.get(f"/environments/assessments/{row.pk}/", headers={"HX-Request": "true", "HX-Target": "assessment"})
    assert flat(part).startswith('<section class="card" id="assessment"')
    assert page.get(f"/environments/assessments/{row.pk}/").headers["Location"] == tab(
        row, version="1", assessment=str(row.pk)
    )


def test_the_calls_that_failed_before_a_repair_are_seen_with_what_it_changed(page: Client) -> None:
    rate = draft(4).rates[0]
    call = FailedCall(
        case="negative", arguments={"key": "none"}, ok=True, result={"done": 1}, reason="It took <b>it</b>."
    )
    repair = ToolRepair(
        tool="get_row", outcome="repaired", tries=1, before=rate, after=rate, reason="x",
        source="def get_row(self):\n    return 2\n", source_before="def get_row(self):\n    return 1\n",
        failed_before=(call,),
    )  # fmt: skip
    version = pages_seed.environment("Mended desk").current
    assert version is not None
    note = "get_row was repaired after 1 round of repair: 1 of 2 calls had failed."
    made = draft(8).model_copy(update={"repairs": (repair,), "notes": (note,)})
    _, row = save_assessment(version, made)
    url = f"/environments/assessments/{row.pk}/repairs/0/"
    assert body(page, tab(row)).count(f'href="{url}"') == 2, "from the note and from the table"
    shown = body(page, url)
    assert "It took &lt;b&gt;it&lt;/b&gt;." in shown
    assert "return 1" in shown
    assert "return 2" in shown
    assert page.get(f"/environments/assessments/{row.pk}/repairs/1/").status_code == 404
    versions = body(page, f"/environments/{row.version.environment_id}/?tab=versions")
    assert "Its program was changed while it was made, before it was stored" in versions
    assert f'href="{url}"' in versions
    assert f"was repaired: {rate.failed} call" in versions


def test_the_cases_of_a_version_run_on_the_next_one_and_stay(
    page: Client, sandbox: Sandbox, threads: ThreadPoolExecutor
) -> None:
    row = real(sandbox, threads)
    changed = SOURCE.replace('"unknown key"', '"no such key"')
    _, environment, version = save_environment(record().model_copy(update={"source": changed}), [], "test")
    where = f"/environments/{environment.pk}/?tab=assessment&version={version.number}"
    assert f"Run the {row.made} cases of version {row.version.number} on this version" in body(page, where)
    page.post(f"/environments/versions/{version.pk}/cases/run")
    page.post(f"/environments/versions/{version.pk}/cases/run")
    job = Job.objects.get(kind="run_cases_on_version")
    claimed = claim_job(job.pk, "test")
    assert claimed is not None
    done = KINDS[job.kind].handler(JobContext.of(claimed))
    run = VersionRun.objects.get()
    assert done["cases"] == row.made == run.outcomes.count()
    assert run.outcomes.filter(comparison="another").exists(), "refused with other words"
    assert run.outcomes.filter(comparison="same").exists()
    KINDS[job.kind].handler(JobContext.of(claimed))
    assert run.outcomes.count() == row.made, "a second run replaces the first"
    Job.objects.filter(pk=job.pk).update(state="succeeded")
    for _ in range(2):
        shown = body(page, where)
        assert "another result; look at it" in shown
        assert "no such key" in shown
        assert "as before" in shown


def test_the_page_shows_scores_rates_and_calls(page: Client) -> None:
    row = saved(40)
    html = body(page, tab(row))
    for words in ("75 %", "of at least 50 %", "40 of 100", "scripted models", "model fine", "kept"):
        assert words in html
    assert "get_row" in html
    assert html.count('id="case-') == 30
    after = re.search(r'href="([^"]+)" rel="next"', html)
    assert after
    assert body(page, after[1].replace("&amp;", "&")).count('id="case-') == 10


def test_a_tool_that_never_went_through_is_said(page: Client) -> None:
    row = saved(40)
    assert "not seen working" not in body(page, tab(row))
    rates = [rate | {"positive_done": 0 if rate["tool"] == "get_row" else None} for rate in row.rates]
    Assessment.objects.filter(pk=row.pk).update(rates=rates)
    html = body(page, tab(row))
    assert "Of 1 tool every positive call was turned down: a sound refusal, but it was not seen working." in html
    assert html.count("Every positive call was turned down") == 1


def test_calls_are_filtered_by_verdict_tool_and_case(page: Client) -> None:
    row = saved(40)
    assert body(page, tab(row, verdict="fail")).count('id="case-') == 10
    assert body(page, tab(row, verdict="fail", case="positive")).count('id="case-') == 0
    assert body(page, tab(row, tool="get_row")).count('id="case-') == 20
    assert body(page, tab(row, tool="get_row", verdict="pass", case="positive")).count('id="case-') == 10
    assert "No call matches" in body(page, tab(row, tool="nobody"))
    assert body(page, tab(row, verdict="odd", rerun="x", assessment="y")).count('id="case-') == 30


def test_another_assessment_and_none(page: Client) -> None:
    row = saved(8)
    newer = saved(12, version=row.version)
    assert "12 of 100" in body(page, tab(row))
    older = body(page, tab(row, assessment=str(row.pk)))
    assert "8 of 100" in older
    assert f'value="{newer.pk}"' in older
    other = pages_seed.environment("Another desk")
    assert "Not assessed" in body(page, f"/environments/{other.pk}/?tab=assessment")


def test_hostile_text_is_escaped_and_the_state_stays_folded(page: Client) -> None:
    row = saved(4, pages_seed.EVIL)
    html = body(page, tab(row))
    first = row.cases.get(position=0)
    whole = body(page, f"/environments/cases/{first.pk}/")
    for shown in (html, whole):
        assert "<script>window" not in shown
        assert "<img" not in shown
        assert "\u202e" not in shown
    assert "&quot;rows&quot;" not in html
    assert "State before" in whole
    headers = {"HX-Request": "true", "HX-Target": f"state-{first.pk}"}
    part = flat(page.get(f"/environments/cases/{first.pk}/", headers=headers))
    assert part.startswith(f'<div id="state-{first.pk}">')


def test_a_page_asks_the_same_number_of_queries_whatever_it_shows(page: Client) -> None:
    few, many = saved(3), saved(100, version=pages_seed.environment("Large desk").current)
    counts = []
    for row in (few, many):
        with CaptureQueriesContext(
            connection,
        ) as found:
            body(page, tab(row))
        counts.append(len(found))
        assert not [query for query in found if "casestate" in query["sql"]]
    assert counts[1] - counts[0] <= 1  # a list of more than a page is counted


def test_by_program() -> None:
    row = saved(10)
    client = program(pages_seed.person("viewer"))
    listed = client.get(f"/environments/{row.version.environment_id}/assessments").json()["data"]
    assert [(one["id"], one["score"], one["saved"], one["version"]) for one in listed] == [(row.pk, row.score, 90, 1)]
    whole = client.get(f"/assessments/{row.pk}").json()
    assert [rate["tool"] for rate in whole["rates"]] == ["get_row", "drop_row"]
    assert whole["roles"]["checker"] == "another"
    first = client.get(f"/assessments/{row.pk}/cases?limit=4").json()
    assert [one["position"] for one in first["data"]] == [0, 1, 2, 3]
    rest = client.get(f"/assessments/{row.pk}/cases?limit=200&cursor={first['next_cursor']}").json()
    assert [one["position"] for one in rest["data"]] == [4, 5, 6, 7, 8, 9]
    failed = client.get(f"/assessments/{row.pk}/cases?verdict=fail&tool=drop_row").json()["data"]
    assert [one["position"] for one in failed] == [3, 7]
    one = client.get(f"/tool-cases/{failed[0]['id']}").json()
    known = row.cases.get(position=3)
    assert one["state"] == load_value(CaseState, known.state_id) == {"rows": {"0": "fine"}}
    assert (one["seed"], one["digest"]) == (3, known.digest)
    problem(client.get(f"/assessments/{row.pk}/cases?verdict=odd"), 422)
    problem(client.get("/assessments/999999"), 404)
    problem(client.post(f"/assessments/{row.pk}/reruns", {}), 403)


def test_a_re_run_by_program_is_started_once_for_a_key() -> None:
    row = saved(3)
    client = program(pages_seed.person("operator"), "synthesise")
    first, again = (client.post(f"/assessments/{row.pk}/reruns", {}, **{"Idempotency-Key": "k"}) for _ in range(2))
    assert (first.status_code, first.json()["id"]) == (202, again.json()["id"])
    assert Job.objects.count() == 1
