"""The pages of a batch, its items and its calls, over rows that a small real batch has made."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from synthesis.llm.cost import Price
from synthesis.pipeline import PIPELINES
from tests.batches.support import make_batch, settings_at, work_off
from tests.batches.table import TABLE, answer, theme
from tests.fixtures.llm import Request, Scripted, llm_server, say
from tests.fixtures.markup import markup
from tests.fixtures.remembered import remembered
from tests.rollouts_web.support import person
from webapp.accounts.models import User
from webapp.batches import services
from webapp.batches.engine.stage_runs import SAVE
from webapp.batches.models import Batch, BatchItem, BatchLane, BatchStageCount, LLMCall
from webapp.batches.setting_labels import STAGE_WORDS

pytestmark = pytest.mark.django_db(transaction=True)
EVIL = "<script>window.hit=1</script>\u202e"


def user(role: str, name: str) -> User:
    return User.objects.filter(username=name).first() or person(role, name)


def client(role: str = "annotator", name: str = "ann") -> Client:
    found = Client()
    found.force_login(user(role, name))
    return found


def page(who: Client, name: str, *args: Any, query: str = "", status: int = 200) -> str:
    found = who.get(reverse(f"batches:{name}", args=args) + query)
    assert found.status_code == status, markup(found)[:2000]
    return markup(found)


def rows(text: str) -> int:
    return text.count("<tr data-row>")


def item(batch: Batch, path: str) -> BatchItem:
    return BatchItem.objects.get(batch=batch, path=path)


def mixed() -> Batch:
    """Two themes that go through, a near-duplicate, failures of three kinds and a rejection."""
    return Batch.objects.get(pk=remembered("mixed batch", lambda: _mixed().pk))


def _mixed() -> Batch:
    names = ["good", "fine", "drop-1", "drop-2", "malformed-1", "faulty", "poor"]
    specs = [services.build_theme_spec(theme(name)) for name in names]
    specs.append(services.build_theme_spec(theme("twin", "All about good.")))
    with llm_server(answer) as server:
        batch = services.create_batch(user("operator", "op"), "Mixed", specs, settings_at(server.url), TABLE)
        return work_off(batch)


def one() -> Batch:
    """One theme that goes through."""
    return Batch.objects.get(pk=remembered("batch of one", lambda: grown().pk))


def grown(reply: Any = answer, name: str = "one", **how: Any) -> Batch:
    with llm_server(reply) as server:
        return work_off(make_batch(user("operator", "op"), settings_at(server.url, **how), [name]))


def test_every_number_of_the_funnel_leads_to_as_many_items() -> None:
    batch = mixed()
    who = client("viewer", "vi")
    text = page(who, "batch", batch.pk)
    found = re.findall(r'<a href="([^"]+)" id="(?:at|level)-[^"]+"[^>]*>(\d+)<', text)
    assert len(found) > 20
    for link, shown in found:
        answered = markup(who.get(link.replace("&amp;", "&")))
        assert rows(answered) == int(shown), link
    reasons = re.findall(r'<a class="tag \w+" href="([^"]+)" id="why-([^"]+)">.*?<b>(\d+)</b>', text)
    assert {name for _, name, _ in reasons} >= {
        "deduplicate-rejected-duplicate",
        "assemble-rejected-too_poor",
        "assemble-failed-unreachable",
    }
    for link, _, shown in reasons:
        assert rows(markup(who.get(link.replace("&amp;", "&")))) == int(shown)


def test_items_are_filtered_by_level_state_stage_and_reason() -> None:
    batch = mixed()
    who = client("viewer", "vi")

    def shown(query: str) -> int:
        return rows(page(who, "batch", batch.pk, query=f"?tab=items&{query}"))

    assert shown("level=theme&state=kept") == 2
    assert shown("stage=assemble&ended=entered") == 7
    assert shown("stage=deduplicate&ended=rejected&reason=duplicate") == 1
    assert shown("stage=assemble&state=failed") == 4
    assert shown("stage=assemble&open=1") == 0
    assert shown(f"parent={item(batch, 'good').pk}") == 1
    assert "No item matches" in page(who, "batch", batch.pk, query="?tab=items&stage=assess&ended=failed")
    for odd in ("level=x&state=y&ended=z", "parent=-1", "stage=%00&reason=%00", "after=zzz", f"parent={'9' * 40}"):
        assert "Mixed" in page(who, "batch", batch.pk, query=f"?tab=items&{odd}")


def test_failures_are_grouped_and_the_offending_reply_is_a_click_away() -> None:
    batch = mixed()
    text = page(client("viewer", "vi"), "batch", batch.pk)
    fault = LLMCall.objects.get(key=item(batch, "malformed-1").call_key)
    assert reverse("batches:call", args=[fault.pk]) in text
    drops = re.search(r'signature=[^"]*unreachable[^"]*" id="group-\d+">(\d+)<', text)
    assert drops is not None
    assert drops.group(1) == "2"
    said = page(client("viewer", "vi"), "call", fault.pk)
    assert "This is no JSON." in said
    assert "try 3" in said, "all tries are a click away"
    assert "With this reply" in said, "the page of a reply says what it led to"
    assert reverse("batches:item", args=[item(batch, "malformed-1").pk]) in said
    assert "holds no JSON object" in said
    fine = LLMCall.objects.filter(path="good").first()
    assert fine is not None
    assert "With this reply" not in page(client("viewer", "vi"), "call", fine.pk)
    assert "author: code_attributes 0 of malformed-1" in said
    lost = LLMCall.objects.get(key=item(batch, "drop-1").call_key)
    assert "There was no reply." in page(client("viewer", "vi"), "call", lost.pk)


def test_an_item_shows_its_stages_what_they_gave_and_what_it_became() -> None:
    batch = one()
    who = client("viewer", "vi")
    made, below = item(batch, "one"), item(batch, "one/scenario-0/task-0")
    text = page(who, "item", made.pk)
    assert reverse("environments:detail", args=[made.product.environment_id]) in text  # type: ignore[attr-defined]
    assert reverse("batches:item", args=[item(batch, "one/scenario-0").pk]) in text
    for stage in ("discover", "assemble", "assess"):
        assert reverse("batches:output", args=[made.pk, stage]) in text
    for name, digest in list(made.product.provenance["prompts"].items())[:1]:  # type: ignore[attr-defined]
        assert name in text
        assert digest in text
    program = page(who, "output", made.pk, "assemble")
    assert '<span class="k">class</span>' in program, "the source is highlighted"
    assert "find_box" in page(who, "output", made.pk, "assess")
    assert page(who, "output", made.pk, "plan", status=404)
    task = page(who, "item", below.pk)
    assert reverse("scenarios:task", args=[below.product.task_id]) in task  # type: ignore[attr-defined]
    assert reverse("batches:item", args=[made.pk]) in task, "the path leads up"
    part = who.get(reverse("batches:output", args=[made.pk, "assemble"]), headers={"HX-Request": "true"})
    assert b"<html" not in part.content


def test_a_rejection_shows_its_evidence_and_a_fault_its_message() -> None:
    batch = mixed()
    who = client("viewer", "vi")
    poor = page(who, "item", item(batch, "poor").pk)
    assert "poor has too few tools." in poor
    assert "Evidence" in poor
    twin = page(who, "item", item(batch, "twin").pk)
    assert "nearly the same theme as good" in twin
    assert "ValueError: a fault of ours" in page(who, "item", item(batch, "faulty").pk)


def test_hostile_and_huge_text_stays_text() -> None:
    large = json.dumps({"words": EVIL + "x" * 1_000_000})

    def reply(request: Request) -> Scripted:
        found = answer(request)
        return say(large) if "judge: audit" in request["messages"][0]["content"] else found

    batch = grown(reply, name=EVIL)
    who = client()
    call = LLMCall.objects.filter(batch=batch, role="judge").first()
    assert call is not None
    texts = [page(who, "call", call.pk), page(who, "batch", batch.pk)]
    texts += [page(who, "batch", batch.pk, query=f"?tab={tab}") for tab in ("items", "calls", "failures", "settings")]
    texts += [page(who, "item", row.pk) for row in batch.items.all()]
    texts += [page(who, "output", run.item_id, run.stage) for row in batch.items.all() for run in row.runs.all()]
    for text in texts:
        assert "<script>window" not in text
        assert "\u202e" not in text
        assert len(text) < 1_600_000
    assert "more characters" in texts[0]
    file = who.get(reverse("batches:call_file", args=[call.pk]))
    assert file["Content-Disposition"].startswith("attachment")
    assert len(json.loads(file.content)["reply"]["message"]["content"]) == len(large)


def test_settings_show_what_differs_from_the_batch_that_was_cloned() -> None:
    operator = user("operator", "op")
    with llm_server(answer) as server:
        first = work_off(make_batch(operator, settings_at(server.url), ["one"]))
        second = work_off(services.clone_batch(operator, first.pk, settings_at(server.url, seed=9), TABLE))
    text = page(client("viewer", "vi"), "batch", second.pk, query="?tab=settings")
    assert "What differs from" in text
    assert re.search(r"<th scope=\"row\">Seed</th><td class=\"break\">0</td><td class=\"break\"><b>9</b>", text)
    assert "Cloned from" in page(client("viewer", "vi"), "batch", second.pk)
    assert "What differs" not in page(client("viewer", "vi"), "batch", first.pk, query="?tab=settings")


def test_unknown_prices_are_said_and_known_ones_counted() -> None:
    batch = grown(prices={"local/scripted-1": Price(prompt=1_000, completion=1_000)}, cap=50.0)
    assert batch.spent > 0
    text = page(client("viewer", "vi"), "batch", batch.pk)
    assert f"{batch.spent:.4f} of 50.00" in text or f"{batch.spent:.2f} of 50.00" in text
    assert "unpriced" not in text
    Batch.objects.filter(pk=batch.pk).update(unpriced=3)
    call = LLMCall.objects.filter(batch=batch).first()
    assert call is not None
    LLMCall.objects.filter(pk=call.pk).update(cost=None)
    assert "and 3 unpriced replies" in page(client("viewer", "vi"), "batch", batch.pk)
    assert "unpriced" in page(client("viewer", "vi"), "call", call.pk)


def test_a_job_of_a_batch_leads_to_it() -> None:
    batch = one()
    lane = BatchLane.objects.get(batch=batch)
    text = markup(client("viewer", "vi").get(reverse("jobs:detail", args=[lane.job_id])))
    assert f'<a href="{reverse("batches:batch", args=[batch.pk])}" id="job-page">Batch {batch.pk}</a>' in text
    its_page = page(client("viewer", "vi"), "batch", batch.pk)
    assert reverse("jobs:detail", args=[lane.job_id]) in its_page
    assert "No result" not in its_page + text


def test_a_batch_that_keeps_nothing_says_so_in_red_and_so_does_its_job() -> None:
    batch = grown(name="malformed-1")
    viewer = client("viewer", "vi")
    assert "No result:" in page(viewer, "batch", batch.pk)
    lane = BatchLane.objects.get(batch=batch)
    assert "<b>No result.</b>" in markup(viewer.get(reverse("jobs:detail", args=[lane.job_id])))


def test_calls_are_filtered_by_what_was_asked_and_by_state() -> None:
    batch = mixed()
    who = client("viewer", "vi")
    place = page(who, "batch", batch.pk, query="?tab=calls&place=tester:call")
    assert rows(place) == LLMCall.objects.filter(batch=batch, role="tester", stage="call").count() > 0
    assert "tester: call" in place
    failed = page(who, "batch", batch.pk, query="?tab=calls&state=failed")
    assert rows(failed) == 2
    assert "No call matches" in page(who, "batch", batch.pk, query="?tab=calls&place=judge:nothing")


def test_what_a_retry_takes_out_still_leads_to_the_items_that_it_counts() -> None:
    batch = mixed()
    services.retry_items(user("operator", "op"), batch.pk, stage="assemble")
    text = page(client("viewer", "vi"), "batch", batch.pk)
    here = re.search(r'id="at-assemble-here">(\d+)<', text)
    assert here is not None
    assert here.group(1) == "4"
    failed = sum(
        BatchStageCount.objects.filter(batch=batch, stage="assemble", state="failed").values_list("count", flat=True)
    )
    shown = page(client("viewer", "vi"), "batch", batch.pk, query="?tab=items&stage=assemble&ended=failed")
    assert rows(shown) == failed


def test_every_stage_is_explained_where_it_is_shown() -> None:
    stages = {stage.name for pipeline in PIPELINES.values() for stage in pipeline.stages}
    assert stages | {SAVE} == set(STAGE_WORDS)
    batch = one()
    who = client("viewer", "vi")
    shown = page(who, "batch", batch.pk)
    assert "What each stage does" in shown
    for text in (shown, page(who, "item", item(batch, "one").pk)):
        assert STAGE_WORDS["discover"] in text


def test_a_stage_with_many_reasons_shows_the_commonest() -> None:
    batch = one()
    rows = [
        BatchStageCount(batch=batch, stage="plan", state="rejected", reason=f"why_{number}", count=number + 1)
        for number in range(9)
    ]
    BatchStageCount.objects.bulk_create(rows)
    text = page(client("viewer", "vi"), "batch", batch.pk)
    assert re.findall(r'id="why-plan-rejected-why_(\d)"', text) == list("87654")
    assert re.search(r'id="more-at-plan">4 more<', text)
