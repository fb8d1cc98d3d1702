"""Edges that are stored with an environment version: judged, taken by later batches, corrected by people."""

from __future__ import annotations

import pytest

from synthesis.contracts import GraphEdge, JudgedEdges
from synthesis.stage_adapters import find_known_edges
from synthesis.stages import ItemSpec, StageSettings
from synthesis.variant_settings import GraphSettings
from tests.batches.real import SHORT, HostileModel, real_batch, real_pipeline, theme_of
from tests.batches.support import work_off
from tests.fixtures import pages_seed
from tests.fixtures.api import program
from tests.rollouts_web.support import person
from webapp.accounts.models import AuditEntry
from webapp.batches.engine.theme_source import build_environment_specs
from webapp.batches.models import Batch
from webapp.batches.services import clone_batch, create_batch
from webapp.batches.spec import BatchSettings
from webapp.common.errors import Conflict, NotFound
from webapp.environments.models import Environment, Tool, ToolEdge, Version
from webapp.environments.tool_graph.services import add_edge, read_known_edges, remove_edge, restore_edge, save_edges

OPENED = GraphEdge(source="open_file", target="get_row", parameter="key", reason="it returns keys")
DROPPED = GraphEdge(source="drop_row", target="get_row", parameter="key", kind="weak")
DAY = GraphEdge(source="open_file", target="get_row", parameter="day", kind="weak")


@pytest.fixture
def version(db: None) -> Version:
    version = pages_seed.environment().current
    assert version is not None
    Tool.objects.create(version=version, position=2, name="open_file", kind="query")
    return version


def known(version: Version) -> JudgedEdges:
    return read_known_edges([version.pk])[version.pk]


def kinds(version: Version) -> dict[tuple[str, str, str], str]:
    return {edge.place: edge.kind for edge in known(version).edges}


def test_edges_are_stored_once_and_strong_ones_judged_anew_leave_weak_ones(version: Version) -> None:
    assert read_known_edges([version.pk]) == {}
    graded = JudgedEdges(edges=(OPENED, DROPPED, DAY), graded=True)
    assert save_edges(version, graded, model="a/one", batch=7) == "created"
    before = set(ToolEdge.objects.values_list("pk", flat=True))
    assert save_edges(version, graded, model="a/one", batch=8) == "unchanged"
    assert set(ToolEdge.objects.values_list("pk", flat=True)) == before
    stronger = JudgedEdges(edges=(DAY.model_copy(update={"kind": "strong"}),))
    assert save_edges(version, stronger, model="a/two", batch=9) == "updated"
    assert kinds(version) == {DROPPED.place: "weak", DAY.place: "strong"}
    assert known(version).graded
    assert known(version).strong.edges == stronger.edges
    assert set(ToolEdge.objects.values_list("kind", "model", "batch")) == {("weak", "a/one", 7), ("strong", "a/two", 9)}


def test_what_people_correct_holds_against_every_judging(version: Version) -> None:
    user = person("annotator")
    with pytest.raises(Conflict, match="not judged yet"):
        add_edge(user, version, DAY)
    save_edges(version, JudgedEdges(edges=(OPENED, DROPPED)), model="a/one", batch=1)
    wrong = ToolEdge.objects.get(source="open_file")
    remove_edge(user, wrong.pk)
    add_edge(user, version, DAY)
    for bad, error in (
        (DAY, Conflict),
        (OPENED, Conflict),
        (DAY.model_copy(update={"source": "get_row"}), Conflict),
        (DAY.model_copy(update={"source": "nobody"}), NotFound),
        (DAY.model_copy(update={"parameter": "year"}), NotFound),
    ):
        with pytest.raises(error):
            add_edge(user, version, bad)
    with pytest.raises(Conflict, match="taken out already"):
        remove_edge(user, wrong.pk)
    assert kinds(version) == {DROPPED.place: "weak", DAY.place: "weak"}
    judged = (OPENED, DAY.model_copy(update={"kind": "strong"}))
    assert known(version).correct(judged) == (DAY,)
    save_edges(version, JudgedEdges(edges=judged, graded=True), model="a/two", batch=2)
    assert kinds(version) == {DAY.place: "weak"}
    restore_edge(user, wrong.pk)
    assert kinds(version) == {OPENED.place: "strong", DAY.place: "weak"}
    with pytest.raises(NotFound, match="judged again"):
        remove_edge(user, 10**9)
    acts = list(
        AuditEntry.objects.filter(action__startswith="tool_edge.").order_by("id").values_list("action", "actor")
    )
    assert acts == [(f"tool_edge.{act}", user.pk) for act in ("remove", "add", "restore")]


def test_what_is_not_graded_does_not_stand_in_for_what_must_be() -> None:
    plain, graded = JudgedEdges(edges=(OPENED,)), JudgedEdges(edges=(OPENED, DROPPED), graded=True)
    settings, anew = StageSettings(), StageSettings(graph=GraphSettings(judge_anew=True))
    assert find_known_edges(settings, ItemSpec()) is None
    assert find_known_edges(settings, ItemSpec(edges=plain)) == plain
    assert find_known_edges(settings, ItemSpec(edges=plain), graded=True) is None
    assert find_known_edges(settings, ItemSpec(edges=graded), graded=True) == graded
    assert find_known_edges(anew, ItemSpec(edges=graded)) is None


def test_the_api_tells_the_edges_of_a_version(version: Version) -> None:
    user = person("annotator")
    caller = program(user, "read")
    address = f"/environments/{version.environment_id}/versions/{version.number}/edges"
    assert caller.get(address).json() == {
        "version_id": version.pk, "graded": False, "model": "", "batch": None, "judged_at": None, "edges": []
    }  # fmt: skip
    save_edges(version, JudgedEdges(edges=(OPENED, DROPPED), graded=True), model="a/one", batch=7)
    remove_edge(user, ToolEdge.objects.get(source="drop_row").pk)
    told = caller.get(address).json()
    assert (told["graded"], told["model"], told["batch"], bool(told["judged_at"])) == (True, "a/one", 7, True)
    assert [(edge["source"], edge["kind"], edge["reason"]) for edge in told["edges"]] == [
        ("open_file", "strong", "it returns keys")
    ]


def asked_edges(model: HostileModel) -> int:
    return sum(call.site.stage == "tool_edges" for call in model.asked)


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_later_batches_take_the_edges_unless_they_are_to_be_judged_anew() -> None:
    user = person("operator")
    stages = SHORT.model_copy(update={"teacher_runs": 0})
    with real_pipeline(HostileModel()) as model:
        first = work_off(real_batch(user, [theme_of("archive-boxes")], stages, variant="autoforge"))
        assert first.state == "done"
        version = Environment.objects.get().current
        assert version is not None
        tools, stored = version.tools.count(), known(version)
        assert asked_edges(model) >= tools
        assert (bool(stored.edges), stored.graded) == (True, False)
        assert set(version.edges.values_list("model", "batch")) == {("scripted", first.pk)}

        def grow(**graph: bool) -> Batch:
            model.asked.clear()
            settings = BatchSettings.model_validate(first.settings)
            settings = settings.model_copy(
                update={"seed": 5, "stages": stages.model_copy(update={"graph": GraphSettings(**graph)})}
            )
            specs = build_environment_specs([version.environment_id])
            return work_off(create_batch(user, "Grow", specs, settings, settings.pipeline))

        second = grow()
        edges = second.items.get(level="theme").runs.get(stage="edges")
        assert (edges.state, edges.requests + edges.replayed, asked_edges(model)) == ("kept", 0, 0)
        wrong = version.edges.order_by("pk")[0]
        remove_edge(user, wrong.pk)
        anew = grow(judge_anew=True)
        run = anew.items.get(level="theme").runs.get(stage="edges")
        assert run.requests + run.replayed >= tools
        assert known(version).edges == tuple(edge for edge in stored.edges if edge.place != wrong.place)
        settings = BatchSettings.model_validate(second.settings)
        clone = clone_batch(user, second.pk, settings, settings.pipeline, start=False)
        spec = ItemSpec.model_validate(clone.items.get(level="theme").spec)
        assert spec.edges is not None
        assert wrong.place in spec.edges.removed
