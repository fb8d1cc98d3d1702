"""The tab of a version's graph of tools: what is drawn, its table, walks of tasks, corrections, hostile text."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from synthesis.contracts import GraphEdge, JudgedEdges
from tests.fixtures import pages_seed
from tests.fixtures.pages_seed import EVIL
from tests.scenarios_pages import golden_desk
from webapp.environments.models import Tool, ToolEdge, Version
from webapp.environments.tool_graph.forms import APART
from webapp.environments.tool_graph.services import save_edges
from webapp.scenarios.models import TaskRevision

pytestmark = pytest.mark.django_db


@pytest.fixture
def version() -> Version:
    version = pages_seed.environment().current
    assert version is not None
    Tool.objects.create(version=version, position=2, name="open_file", kind="query")
    return version


@pytest.fixture
def client(client: Client) -> Client:
    client.force_login(pages_seed.person("annotator"))
    return client


def edge(source: str, target: str, parameter: str = "key", **more: Any) -> GraphEdge:
    return GraphEdge(source=source, target=target, parameter=parameter, **more)


def judge(version: Version, *edges: GraphEdge, graded: bool = True) -> None:
    save_edges(version, JudgedEdges(edges=edges, graded=graded), model="a/model", batch=None)


def tab(client: Client, version: Version, query: str = "") -> str:
    address = f"{reverse('environments:detail', args=[version.environment_id])}?tab=graph{query}"
    text = client.get(address).content.decode()
    assert "<script>window.hit" not in text
    return " ".join(text.split())


def test_a_version_without_edges_says_how_they_come_to_be(client: Client, version: Version) -> None:
    text = tab(client, version)
    assert "are not judged yet" in text
    assert f"environments_ids={version.environment_id}&amp;variant=autoforge" in text


def test_edges_are_drawn_and_told_by_kind_and_by_tool(client: Client, version: Version) -> None:
    weak = edge("drop_row", "get_row", "day", kind="weak", reason=f"Because {EVIL}")
    judge(version, edge("open_file", "get_row"), weak)
    text = tab(client, version)
    assert text.count('class="node ') == 3
    assert ('class="link strong' in text, 'class="link weak' in text) == (True, True)
    assert text.count('<tr> <th scope="row"><code>') == 2
    assert "Because &lt;script&gt;" in text
    only = tab(client, version, "&kind=strong")
    assert ('class="link strong' in only, 'class="link weak' in only) == (True, False)
    assert "Without an edge: </span> <code>drop_row" in only.replace(
        "Without an edge:</span>", "Without an edge: </span>"
    )
    one = tab(client, version, "&tool=open_file")
    assert one.count('class="node ') == 2
    assert "One tool and its neighbours" in one
    assert "Whole graph" in tab(client, version, "&tool=nobody&kind=odd&task=99")
    judge(version, edge("open_file", "get_row"), graded=False)


def test_of_a_large_graph_one_tool_is_drawn(client: Client, version: Version) -> None:
    names = [f"tool_{number:03}" for number in range(80)]
    Tool.objects.bulk_create(
        Tool(version=version, position=place, name=name, kind="query") for place, name in enumerate(names, 10)
    )
    spokes = [edge("get_row", name, f"p{number}") for name in names for number in range(6)]
    judge(version, *spokes, edge(names[0], names[1]))
    text = tab(client, version)
    assert "too large to be read whole" in text
    assert "21 tools more than are drawn" in text
    assert text.count('class="node ') == 60
    assert "and 80 more edges" in text
    assert tab(client, version, f"&tool={names[0]}").count('class="node ') == 3


@pytest.mark.parametrize("kind", ["golden", "rubric"])
def test_the_walk_of_a_task_is_marked(client: Client, kind: str) -> None:
    task = golden_desk.make_task()
    version = task.scenario.version
    judge(version, edge("visit", "see", "guest"))
    assert "Walk of a task" not in tab(client, version)
    nodes = [{"id": f"t{number}", "kind": "tool", "tool": name} for number, name in enumerate(("visit", "see"), 1)]
    blueprint = {"nodes": nodes, "walks": [["visit", "see"]]}
    TaskRevision.objects.filter(pk=task.current_id).update(verifier_kind=kind, record={"blueprint": blueprint})
    assert f'<option value="{task.pk}"' in tab(client, version)
    text = tab(client, version, f"&task={task.pk}")
    assert f"Walk of task {task.pk}" in text
    assert text.count('class="node change on"') == 2
    assert 'class="link strong on"' in text
    assert f"/tasks/{task.pk}/?tab=blueprint" in text


def test_people_take_edges_out_put_them_back_and_add_them(client: Client, version: Version) -> None:
    judge(version, edge("open_file", "get_row"))
    row = ToolEdge.objects.get()
    answer = client.post(reverse("environments:remove_edge", args=[row.pk]), {"tool": "get_row"}, follow=True)
    assert "is taken out. It is listed below" in answer.content.decode()
    assert answer.redirect_chain[0][0].endswith("&tool=get_row#edges")
    assert "Taken out by people" in tab(client, version)
    again = client.post(reverse("environments:remove_edge", args=[row.pk]), follow=True)
    assert "was taken out already" in again.content.decode()
    client.post(reverse("environments:restore_edge", args=[row.pk]))
    assert "Taken out by people" not in tab(client, version)
    page = reverse("environments:add_edge", args=[version.pk])
    assert f'value="get_row{APART}day"' in client.get(page).content.decode()
    given = {"source": "open_file", "into": f"get_row{APART}day", "kind": "weak", "reason": ""}
    assert client.post(page, given).status_code == 302
    assert "it already exists" in client.post(page, given).content.decode()
    assert client.post(page, given | {"into": "get_row"}).status_code == 422
    assert "the-annotator" in tab(client, version)
    reader = Client()
    reader.force_login(pages_seed.person("viewer"))
    assert "Take out" not in tab(reader, version)
