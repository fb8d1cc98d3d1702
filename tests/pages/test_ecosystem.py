"""The statistics of environments, with numbers worked by hand, and how things were made."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from synthesis.drafts import ToolRate
from synthesis.formats.records import EnvironmentRecord, ToolRecord
from tests.fixtures import pages_seed
from tests.fixtures.markup import flat
from tests.fixtures.replay_seed import digest
from webapp.batches.engine.products import SaveRequest
from webapp.batches.models import Batch, BatchItem, BatchProduct
from webapp.environments.models import Assessment, Environment, Version
from webapp.environments.services import measure_program, save_environment
from webapp.pages.statistics.distributions import build_bins, compute_spread
from webapp.pages.statistics.ecosystem import compute_ecosystem, load_numbers
from webapp.pages.statistics.scope import Scope
from webapp.scenarios.models import Scenario, Task
from webapp.scenarios.states import store_state
from webapp.trajectories.models import Trajectory

pytestmark = pytest.mark.django_db
USERS = {"entity": "user", "attributes": "u_id, u_phone", "description": "A person."}
ITEMS = {"entity": "item", "attributes": ["i_id", "price", "stock"], "description": "A thing."}


def environment(key: str, rules: int, schema: list[Any], kinds: str, **fields: Any) -> Version:
    """`kinds` is a letter a tool: q or c."""
    tools = tuple(
        ToolRecord(name=f"tool_{at}", description="", kind={"q": "query", "c": "change"}[kind])
        for at, kind in enumerate(kinds)
    )
    record = EnvironmentRecord(
        key=key,
        name=f"Desk {key}",
        class_name="Desk",
        source=pages_seed.PROGRAM,
        rules=tuple(f"Rule {at}." for at in range(rules)),
        state_schema=tuple(schema),
        tools=tools,
        raw={"key": key},
        category=fields.pop("category", ""),
    )
    _, row, version = save_environment(record, [], fields.pop("source", "envscaler"))
    Environment.objects.filter(pk=row.pk).update(**fields)
    return version


def assess(
    version: Version, *rates: tuple[str, int, int, int], scripted: bool = False, content: str = "a"
) -> Assessment:
    """A rate is a tool with its passes, warnings and fails."""
    passed, warned, failed = (sum(rate[at] for rate in rates) for at in (1, 2, 3))
    made = passed + warned + failed
    return Assessment.objects.create(
        version=version,
        content_hash=content * 64,
        score=(passed + warned) / made,
        strict=passed / made,
        threshold=0.85,
        kept=(passed + warned) / made >= 0.85,
        planned=made,
        made=made,
        saved=0,
        passed=passed,
        warned=warned,
        failed=failed,
        rates=[ToolRate(tool=name, passed=a, warned=b, failed=c).model_dump() for name, a, b, c in rates],
        scripted=scripted,
    )


def three() -> list[Version]:
    """Worked by hand below. The third defines no state."""
    return [
        environment("a", 4, [USERS, ITEMS], "qqc", task_count=2, scenario_count=1, trajectory_count=5),
        environment("b", 5, [USERS], "qcccc", task_count=4, scenario_count=2),
        environment("c", 9, [], "q", source="starter", category="Health"),
    ]


def said(scope: Scope) -> dict[str, tuple[int, float, float, int, int]]:
    """Count, mean, median, least and most by measure."""
    found = compute_ecosystem(scope).measured
    return {
        one.measure.name: (one.spread.count, one.spread.mean, one.spread.median, one.spread.low, one.spread.high)
        for one in found
    }


def test_the_numbers_of_table_2() -> None:
    three()
    assert said(Scope()) == {
        "rules": (3, 6.0, 5.0, 4, 9),
        "level_1": (2, 1.5, 1.5, 1, 2),
        "level_2": (3, pytest.approx(7 / 3), 2.0, 2, 3),  # 2 and 3 of the first, 2 of the second
        "categories": (2, 3.5, 3.5, 2, 5),
        "query": (3, pytest.approx(4 / 3), 1.0, 1, 2),
        "change": (3, pytest.approx(5 / 3), 1.0, 0, 4),
        "tools": (3, 3.0, 3.0, 1, 5),
        "scenarios": (3, 1.0, 1.0, 0, 2),
        "tasks": (3, 2.0, 2.0, 0, 4),
        "trajectories": (3, pytest.approx(5 / 3), 0.0, 0, 5),
    }
    assert compute_ecosystem(Scope()).undescribed == 1


def test_filters_and_what_is_not_known() -> None:
    three()
    only = compute_ecosystem(Scope(category="Health"))
    assert (only.environments, only.undescribed) == (1, 1)
    assert not {"level_1", "level_2", "categories"} & said(Scope(category="Health")).keys()
    assert only.verdicts is None
    assert said(Scope(source="envscaler"))["rules"] == (2, 4.5, 4.5, 4, 5)
    assert compute_ecosystem(Scope(source="nowhere")).measured == []


def test_only_the_current_version_counts() -> None:
    environment("a", 4, [USERS], "q")
    record = EnvironmentRecord(
        key="a", name="Desk", class_name="Desk", source=pages_seed.PROGRAM, rules=("One.",), tools=(), raw={"n": 1}
    )
    save_environment(record, [], "envscaler")
    assert said(Scope())["rules"] == (1, 1.0, 1.0, 1, 1)
    assert Version.objects.count() == 2


def test_attributes_are_counted_as_the_paper_names_them() -> None:
    odd = [{"entity": "Order", "attributes": "id, lines (list of {sku, amount}), status: open or shut"}, "no entity"]
    assert measure_program(["a", "b"], odd, ["query", "change", "change"]) == {
        "rule_count": 2,
        "category_sizes": [3],
        "query_count": 1,
        "change_count": 2,
    }
    assert measure_program(None, {"entity": "x"}, [])["category_sizes"] == []


def test_verdicts_are_those_of_the_newest_assessment_worst_first() -> None:
    first, second, third = three()
    assess(first, ("tool_0", 0, 0, 10), content="b")
    assess(first, ("tool_0", 7, 1, 2), ("tool_1", 10, 0, 0), ("tool_2", 0, 0, 0))
    assess(second, ("tool_3", 1, 1, 2), ("tool_4", 15, 1, 0), scripted=True)
    found = compute_ecosystem(Scope()).verdicts
    assert found is not None
    assert [(one.tool, one.passed, one.warned, one.failed, one.failing) for one in found.worst] == [
        ("tool_3", 1, 1, 2, 0.5),
        ("tool_0", 7, 1, 2, 0.2),
    ], "tools that never failed are counted, not listed"
    assert (found.assessed, found.kept, found.scripted, found.made) == (2, 2, 1, 40)
    assert (found.passed, found.warned, found.failed) == (33, 3, 4)
    assert (found.tools, found.faulty, found.untried, found.faultless) == (5, 2, 1, 2)
    assert (found.mean, found.median) == (0.9, 0.9)
    assert [(one.low, one.high, one.count) for one in found.scores] == [(90, 90, 2)]
    assert compute_ecosystem(Scope(category="Health")).verdicts is None
    assert third.assessments.count() == 0


def test_one_failed_call_is_not_worse_than_many() -> None:
    first, *_ = three()
    assess(first, ("once", 0, 0, 1), ("often", 2, 0, 10), ("rarely", 99, 0, 1), ("never", 20, 0, 0))
    found = compute_ecosystem(Scope()).verdicts
    assert found is not None
    assert [one.tool for one in found.worst] == ["often", "once", "rarely"]


def test_a_whole_score_has_a_bin_that_ends_at_100() -> None:
    first, second, _ = three()
    assess(first, ("tool_0", 10, 0, 0))
    assess(second, ("tool_0", 17, 0, 3))
    found = compute_ecosystem(Scope()).verdicts
    assert found is not None
    assert [(one.label, one.count) for one in found.scores if one.count] == [("84\u201385", 1), ("100", 1)]


def test_bins_are_round_and_leave_nothing_out() -> None:
    assert [(one.label, one.count, one.share) for one in build_bins([3, 3, 5])] == [
        ("3", 2, 100.0),
        ("4", 0, 0.0),
        ("5", 1, 50.0),
    ]
    wide = build_bins([7, 12, 1_234])
    assert [one.label for one in wide][:2] == ["0\u2013199", "200\u2013399"]
    assert sum(one.count for one in wide) == 3
    assert compute_spread([]) is None


def product(batch: Batch, level: str, path: str, state: str = "kept", **made: Any) -> BatchProduct:
    item = batch.items.create(level=level, path=path, stage="save", state=state)
    about = {"theme": path.partition("/")[0], "seed": 7, "calls": 3, "cost": 0.25, "models": {"author": "scripted"}}
    about |= {"prompts": {"skeleton/plan": "f" * 64}, "stages": {"plan": {"requests": 2, "replayed": 1, "cost": 0.25}}}
    return BatchProduct.objects.create(item=item, provenance=about, **made)


def a_batch(version: Version, name: str = "Night run") -> tuple[Batch, Scenario, Task, Trajectory]:
    """An environment with a scenario, a task and two trajectories of 4 and 7 steps."""
    batch = Batch.objects.create(name=name, state="done", scripted=True)
    row = version.environment
    scenario = Scenario.objects.create(environment=row, version=version, initial=store_state({}), name="Morning")
    task = Task.objects.create(environment=row, scenario=scenario, source="synthesis", key=digest(name), title="Sweep")
    revision = task.revisions.create(
        number=1, scenario=scenario, instruction="Sweep.", content_hash=digest(name), verifier_hash=digest(name)
    )
    Task.objects.filter(pk=task.pk).update(current=revision)
    runs = [
        Trajectory.objects.create(
            environment=row,
            task=task,
            revision=revision,
            source="synthesis",
            content_hash=digest(f"{name}{steps}"),
            step_count=steps,
            policy="scripted",
        )
        for steps in (4, 7)
    ]
    product(batch, "theme", "desk", environment=row, version=version)
    product(batch, "scenario", "desk/s0", environment=row, version=version, scenario=scenario)
    product(batch, "task", "desk/s0/t0", environment=row, version=version, scenario=scenario, task=task)
    for at, run in enumerate(runs):
        made = {"environment": row, "version": version, "scenario": scenario, "task": task, "trajectory": run}
        product(batch, "trajectory", f"desk/s0/t0/{at}", **made)
    return batch, scenario, task, runs[0]


def test_of_a_batch_only_what_it_made_is_counted() -> None:
    first, second, _ = three()
    batch, *_ = a_batch(second)
    a_batch(first, "Another")
    found = compute_ecosystem(Scope(batch=batch))
    assert [tuple(row)[1:] for row in load_numbers(Scope(batch=batch))] == [(5, [2], 1, 4, 1, 1, 2)]
    assert found.steps is not None
    assert (found.steps.mean, found.steps.count) == (5.5, 2)
    assert compute_ecosystem(Scope()).steps is None


def test_what_two_items_share_is_counted_once() -> None:
    _, second, _ = three()
    batch, scenario, task, run = a_batch(second)
    made = {"environment": second.environment, "version": second, "scenario": scenario, "task": task}
    product(batch, "theme", "desk-2", environment=second.environment, version=second)
    product(batch, "scenario", "desk-2/s0", **(made | {"task": None}))
    product(batch, "trajectory", "desk-2/s0/t0/0", **made, trajectory=run)
    assert [tuple(row)[1:] for row in load_numbers(Scope(batch=batch))] == [(5, [2], 1, 4, 1, 1, 2)]


def body(page: Client, url: str, **headers: str) -> str:
    answer = page.get(url, headers=headers)
    assert answer.status_code == 200, url
    return flat(answer)


def test_pages_say_it(page: Client) -> None:
    first, second, _ = three()
    assert "Not measured" not in body(page, "/ecosystem/")
    assert "None of these environments was assessed" in body(page, "/ecosystem/")
    assess(first, ("tool_0", 1, 0, 1), scripted=True)
    batch, *_ = a_batch(first)
    html = body(page, f"/ecosystem/?batch={batch.pk}")
    assert "Night run" in html
    assert f"/environments/{first.environment_id}/?tab=assessment&amp;version=1&amp;assessment=" in html
    assert "scripted" in html
    part = body(page, f"/ecosystem/part/?batch={batch.pk}")
    assert "<html" not in part
    assert "Constraint rules" in part
    assert f"/ecosystem/themes/?batch={batch.pk}" in part
    themes = body(page, f"/ecosystem/themes/?batch={batch.pk}", HX_Request="true", HX_Target="theme-map")
    assert themes.lstrip().startswith('<section class="card" id="theme-map"')
    assert "<html" in body(page, "/ecosystem/themes/")
    assert second.pk


def test_empty_places_are_kind(page: Client) -> None:
    assert "No environments yet" in body(page, "/ecosystem/")
    assert "No environment matches" in body(page, "/ecosystem/?category=zzz")
    batch = Batch.objects.create(name="New")
    assert "This batch has saved none" in body(page, f"/ecosystem/?batch={batch.pk}")
    assert "There is no theme" in body(page, f"/ecosystem/themes/?batch={batch.pk}")
    for odd in ("999", "x", "-1", "9" * 30, "\u0661"):
        assert page.get("/ecosystem/", {"batch": odd}).status_code == 404


def test_hostile_names_are_escaped(page: Client) -> None:
    version = environment("a", 1, [USERS], "q")
    Environment.objects.update(name=pages_seed.EVIL, category=pages_seed.EVIL[:200])
    assess(version, (pages_seed.EVIL, 0, 0, 1))
    batch, *_ = a_batch(version, pages_seed.EVIL[:100])
    made = f"/batches/made/?environment={version.environment_id}"
    for url in ("/ecosystem/", f"/ecosystem/?batch={batch.pk}", "/ecosystem/themes/", made):
        assert "<script>window" not in body(page, url)
        assert "<img src=x" not in body(page, url)


def test_the_api_says_the_same(page: Client) -> None:
    first, *_ = three()
    assess(first, ("tool_0", 1, 0, 1))
    found = page.get("/api/v1/ecosystem").json()
    assert found["environments"] == 3
    rules = found["measures"][0]
    assert (rules["name"], rules["mean"], rules["median"], rules["published_mean"]) == ("rules", 6.0, 5.0, 4.58)
    assert found["steps"] is None
    assert [one["tool"] for one in found["verdicts"]["worst"]] == ["tool_0"]
    batch, *_ = a_batch(first)
    assert page.get(f"/api/v1/ecosystem?batch={batch.pk}").json()["steps"]["mean"] == 5.5
    assert page.get("/api/v1/ecosystem?batch=99999").status_code == 404
    points = page.get(f"/api/v1/ecosystem/themes?batch={batch.pk}").json()["points"]
    assert [(one["number"], one["name"], one["nearest"]) for one in points] == [(1, "Desk a", None)]


def test_more_environments_cost_no_more_queries(page: Client) -> None:
    def asked(url: str) -> int:
        with CaptureQueriesContext(
            connection,
        ) as seen:
            body(page, url)
        return len(seen)

    versions = three()
    batch, *_ = a_batch(versions[0])
    urls = ["/ecosystem/", f"/ecosystem/part/?batch={batch.pk}", "/ecosystem/themes/", "/api/v1/ecosystem"]
    few = [asked(url) for url in urls]
    for at in range(30):
        version = environment(f"more-{at}", at % 7, [USERS, ITEMS], "qc")
        assess(version, ("tool_0", at % 3, 1, at % 2))
        product(batch, "theme", f"more-{at}", environment=version.environment, version=version)
    assert [asked(url) for url in urls] == few


def test_how_a_thing_was_made(page: Client) -> None:
    first, second, _ = three()
    batch, scenario, task, run = a_batch(first)
    Environment.objects.filter(pk=first.environment_id).update(source="synthesis")
    for kind, pk in (
        ("environment", first.environment_id),
        ("scenario", scenario.pk),
        ("task", task.pk),
        ("trajectory", run.pk),
    ):
        html = body(page, f"/batches/made/?{kind}={pk}", HX_Request="true", HX_Target="made")
        assert "<html" not in html
        for text in (f"/batches/{batch.pk}/", "Night run", "scripted", "skeleton/plan", "f" * 64, "0.25"):
            assert text in html, (kind, text)
        item = BatchItem.objects.get(
            level={"environment": "theme"}.get(kind, kind),
            product__isnull=False,
            path__in=("desk", "desk/s0", "desk/s0/t0", "desk/s0/t0/0"),
        )
        assert f"/batches/items/{item.pk}/" in html
    for url in (f"/environments/{first.environment_id}/", f"/tasks/{task.pk}/", f"/trajectories/{run.pk}/"):
        assert "/batches/made/?" in body(page, url), url
    assert "/batches/made/?" not in body(page, f"/environments/{second.environment_id}/")
    nothing = page.get(
        f"/batches/made/?environment={second.environment_id}", headers={"HX-Request": "true", "HX-Target": "made"}
    )
    assert (nothing.status_code, nothing.content.strip()) == (200, b"")
    assert "No batch made it" in body(page, f"/batches/made/?environment={second.environment_id}")
    assert page.get("/batches/made/").status_code == page.get("/batches/made/?task=x").status_code == 404


def test_what_is_scripted_says_so_in_lists(page: Client) -> None:
    models = {"author": "scripted", "tester": "house/model"}
    about: Any = {"sandbox": None, "item": None, "drafts": {}, "above": None, "models": models, "variant": "envscaler"}
    assert SaveRequest(**about, provenance={"models": models}).source == "scripted"
    assert SaveRequest(**about, provenance={"models": {"tester": "house/model"}}).source == "synthesis"
    version = environment("a", 1, [USERS], "q", source="scripted")
    _, _, task, _ = a_batch(version)
    Task.objects.filter(pk=task.pk).update(source="scripted")
    for url in ("/environments/", "/tasks/"):
        assert "not by a language model" in body(page, url)
    for url in (f"/environments/{version.environment_id}/", f"/tasks/{task.pk}/"):
        assert "/batches/made/?" in body(page, url)
