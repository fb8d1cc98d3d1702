"""Yield of a batch: on its page, by command and over the API; and two batches side by side."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.urls import reverse

from synthesis.stages import StageSettings
from tests.batches.pages.test_batch_pages import client, mixed, page, rows
from tests.batches.support import SMALL, make_batch, settings_at, work_off
from tests.batches.table import answer
from tests.fixtures.api import program
from tests.fixtures.llm import llm_server
from tests.rollouts_web.support import person
from webapp.batches.models import Batch, BatchYield, LLMCall, StageRun
from webapp.batches.yields import services
from webapp.batches.yields.comparison import bound_share_difference, compare_figures
from webapp.batches.yields.shared_environments import compare_shared_environments, group_offered_batches
from webapp.jobs.jobs import run_job

pytestmark = pytest.mark.django_db(transaction=True)


def reported(*arguments: Any) -> dict[str, Any]:
    out = io.StringIO()
    call_command("yield_report", *arguments, "--json", stdout=out)
    found: dict[str, Any] = json.loads(out.getvalue())
    return found


def test_every_number_by_stage_leads_to_as_many_items_and_adds_up() -> None:
    batch, who = mixed(), client("viewer", "vi")
    text = page(who, "yield", batch.pk)
    links = re.findall(r'href="([^"]*\?tab=items[^"]*)">\s*([\d,]+)\s*<span', text)
    assert len(links) > 12
    for href, count in links:
        seen = who.get(href.replace("&amp;", "&")).content.decode()
        assert rows(seen) == int(count), href
    figures = reported(batch.pk)["figures"]
    stages = {row["stage"]: row for row in figures["stages"]}
    assert stages["deduplicate"]["rejected"] == 1
    assert figures["kept"] == {"theme": 2, "scenario": 2, "task": 2, "trajectory": 2}
    for row in stages.values():
        assert row["entered"] == row["kept"] + row["rejected"] + row["failed"]
        assert sum(reason["count"] for reason in row["reasons"]) == row["rejected"] + row["failed"]
    tokens = sum(stages[name]["tokens"] for name in stages if stages[name]["level"] == "theme")
    assert figures["one_environment"]["tokens"] == tokens / 2
    assert figures["solve_rates"]["tasks"] == figures["kept"]["task"]
    assert figures["solve_rates"]["histogram"]["10"] == figures["kept"]["task"]
    assert "EnvScaler" in text
    assert "published" in text


def test_counts_of_what_was_repaired_lead_to_it() -> None:
    batch, who = mixed(), client("viewer", "vi")
    run = StageRun.objects.filter(item__batch=batch, stage="assemble", state="kept").first()
    assert run is not None
    StageRun.objects.filter(pk=run.pk).update(used={"prompts": {"skeleton/repair": "5a"}})
    read, unread = LLMCall.objects.filter(batch=batch, unusable="").order_by("pk")[:2]
    LLMCall.objects.filter(pk=read.pk).update(repairs=["trailing comma"])
    LLMCall.objects.filter(pk=unread.pk).update(unusable="It holds two answers.")
    text = page(who, "yield", batch.pk)
    (link,) = re.findall(r'href="([^"]*stage=assemble&amp;ended=repaired)"', text)
    seen = who.get(link.replace("&amp;", "&")).content.decode()
    assert (rows(seen), f"/batches/items/{run.item_id}/" in seen) == (1, True)
    links = re.findall(r'href="([^"]*tab=calls[^"]*(?:read=\w+|repair=[^"]+))"', text)
    leads = {link.rpartition("&amp;")[2]: who.get(link.replace("&amp;", "&")).content.decode() for link in links}
    assert set(leads) == {"read=repaired", "read=unusable", "repair=trailing%20comma"}
    for which, found in leads.items():
        shown = {call.pk for call in (read, unread) if f"/batches/calls/{call.pk}/" in found}
        assert shown == {unread.pk if which == "read=unusable" else read.pk}, which
    caller = program(person("operator", "op9"), "read")
    listed = {call["id"] for call in caller.get(f"/batches/{batch.pk}/calls?read=unusable").json()["data"]}
    assert listed & {read.pk, unread.pk} == {unread.pk}
    assert len(caller.get(f"/batches/{batch.pk}/items?stage=assemble&ended=repaired").json()["data"]) == 1


def test_an_empty_batch_has_a_yield_of_nothing() -> None:
    user = person("operator", "op9")
    with llm_server(answer) as server:
        batch = make_batch(user, settings_at(server.url), ["one"], start=False)
    text = page(client(), "yield", batch.pk)
    assert "none was kept" in text
    assert "No model was asked." in text
    figures = reported(batch.pk)["figures"]
    assert (figures["one_task"], figures["kept"]["task"]) == (None, 0)
    with pytest.raises(CommandError, match="There is no batch 9999"):
        reported(9999)


@pytest.mark.slow
def test_two_batches_are_compared_with_intervals() -> None:
    user = person("operator", "op9")
    with llm_server(answer) as server:
        names = ["good", "fine", "nice", "poor"]
        first = work_off(make_batch(user, settings_at(server.url), names))
        more = settings_at(server.url, stages=StageSettings(**(SMALL.model_dump() | {"tasks": 3})))
        second = work_off(make_batch(user, more, names))
    found = reported(first.pk, "--with", second.pk)
    lines = {line["key"]: line for line in found["differences"]}
    per_theme = lines["tasks_a_theme"]
    assert (per_theme["first"], per_theme["second"], per_theme["difference"]) == (0.75, 2.25, 1.5)
    assert per_theme["low"] <= 1.5 <= per_theme["high"]
    assert "same themes" in per_theme["method"]
    stage = lines["stage:assemble"]
    assert (stage["difference"], stage["low"] < 0 < stage["high"]) == (0, True)
    text = page(client(), "yield", first.pk, query=f"?with={second.pk}")
    assert "Tasks" in text
    assert "More there" in text
    assert "There is no batch 99999" in page(client(), "yield", first.pk, query="?with=99999")
    caller = program(user, "read", "synthesise")
    seen = caller.get(f"/batches/{first.pk}/yield?with={second.pk}").json()
    assert seen["compared_with"] == second.pk
    assert [line["key"] for line in seen["differences"]] == [line["key"] for line in found["differences"]]
    assert "themes" not in seen["figures"]


@pytest.mark.slow
def test_two_variants_are_compared_on_the_environments_that_both_made_tasks_of() -> None:
    user = person("operator", "op9")
    with llm_server(answer) as server:
        first = work_off(make_batch(user, settings_at(server.url), ["good", "fine", "nice"]))
        more = settings_at(server.url, variant="autoforge", stages=StageSettings(**(SMALL.model_dump() | {"tasks": 2})))
        second = work_off(make_batch(user, more, ["good", "fine", "poor"]))
        lone = work_off(make_batch(user, settings_at(server.url), ["elsewhere"]))
    rejected = second.items.filter(level="task", state="kept").first()
    assert rejected is not None
    second.items.filter(pk=rejected.pk).update(state="rejected", reason="too_easy")
    figures, others = (services.store_yield(batch).figures for batch in (first, second))
    shared = compare_shared_environments(first, second, figures, others)
    assert shared is not None
    assert sorted(name for _, name in shared.names) == ["fine", "good"]
    lines = {line.key: line for line in shared.lines}
    assert (lines["tasks_an_environment"].first, lines["tasks_an_environment"].second) == (1.0, 1.5)
    assert lines["tokens_a_task"].first, "what the environment itself took is not in it"
    assert lines["tokens_a_task"].first < figures["one_task"]["tokens"]
    assert {row.name: (row.first, row.second) for row in shared.ended} == {
        "kept": (2, 3), "rejected: too easy": (0, 1),
    }  # fmt: skip
    told = " ".join(shared.reservations)
    assert "1 environment of batch" in told
    assert "different kinds of verifiers" in told
    assert "blueprints" in told
    assert "stage:audit" not in {line.key for line in compare_figures(figures, others)}, (
        "their audits do something else"
    )
    assert compare_shared_environments(first, lone, figures, services.store_yield(lone).figures) is None
    assert [title for title, _ in group_offered_batches(first, 50)] == [
        "Another variant on the same environments",
        "Others",
    ]
    text = page(client(), "yield", first.pk, query=f"?with={second.pk}")
    assert "that both made tasks of" in text
    seen = program(user, "read", "synthesise").get(f"/batches/{first.pk}/yield?with={second.pk}").json()
    assert len(seen["shared"]["environments"]) == 2
    assert "environments" not in seen["figures"]


def test_a_large_batch_is_read_by_a_job_and_said_to_be_stale_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "AT_ONCE", 3)
    batch, who = mixed(), client("researcher", "res")
    assert "read in the background" in page(who, "yield", batch.pk)
    assert not BatchYield.objects.exists()
    caller = program(person("operator", "op9"), "read", "synthesise")
    assert caller.get(f"/batches/{batch.pk}/yield").json()["figures"] is None
    assert caller.get(f"/batches/{batch.pk}/yield?with={batch.pk}").status_code == 409
    assert who.post(reverse("batches:read_yield", args=[batch.pk])).status_code == 302
    job = services.start_reading(None, batch)
    run_job(job.pk)
    assert "By stage" in page(who, "yield", batch.pk)
    Batch.objects.filter(pk=batch.pk).update(requests=10_000)
    text = page(who, "yield", batch.pk)
    assert "has changed since this was read" in text
    assert "By stage" in text
    assert client("viewer", "vi").post(reverse("batches:read_yield", args=[batch.pk])).status_code == 403


def test_the_interval_of_two_shares_is_newcombes() -> None:
    low, high = bound_share_difference(48, 80, 56, 70)  # his example (a): 56/70 less 48/80
    assert (round(low, 4), round(high, 4)) == (0.0524, 0.3339)
    low, high = bound_share_difference(3, 10, 9, 10)
    assert (round(low, 4), round(high, 4)) == (0.1705, 0.8090)


def test_more_kept_tasks_of_every_theme_are_no_chance() -> None:
    def of(tasks: int) -> dict[str, Any]:
        rows = {f"t{number}": [1, tasks + number % 2, 4, 0, 0, 100, 0, 5] for number in range(12)}
        return {"stages": [], "themes": rows, "variant": "envscaler"}

    lines = {line.key: line for line in compare_figures(of(1), of(3))}
    assert lines["tasks_a_theme"].sure
    assert not lines["environments_a_theme"].sure
    assert lines["solved"].difference is None
    one = {"stages": [], "themes": {"t": [1] * 8}, "variant": "envscaler"}
    alone = compare_figures(one, one)
    assert all(line.low is None for line in alone)
