"""The blueprint of a task on its page: nodes, values and results, golden differences, hostile text, bad records."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from synthesis.runtime import get_default_sandbox
from tests.scenarios_pages import golden_desk as desk
from tests.scenarios_pages.conftest import person
from tests.scenarios_pages.test_golden import again, page
from webapp.scenarios.golden import services
from webapp.scenarios.models import Task, TaskReference, TaskRevision

pytestmark = pytest.mark.django_db
DERIVE = 'def derive(results):\n    return results["t1"]["visit"]  # <b>bold</b>\n'
BLUEPRINT: dict[str, Any] = {
    "nodes": [
        {
            "id": "t1",
            "kind": "tool",
            "tool": "visit",
            "arguments": [
                {"name": "guest", "value": "ann", "source": "intent"},
                {"name": "room", "value": desk.EVIL, "source": "tool"},
            ],
        },
        {"id": "r1", "kind": "reason", "purpose": f"who came {desk.EVIL}", "derivation": DERIVE},
        {
            "id": "t2",
            "kind": "tool",
            "tool": "see",
            "arguments": [{"name": "guest", "value": "ann", "source": "result", "nodes": ["r1"]}],
        },
    ],
    "edges": [
        {"source": "t1", "target": "r1", "kind": "reason"},
        {"source": "r1", "target": "t2", "kind": "reason", "parameter": "guest"},
    ],
    "walks": [["visit", "see"], ["see"]],
    "digest": "ab" * 32,
}


@pytest.fixture
def golden(db: None) -> Task:
    task = desk.make_task()
    services.make_task_golden(get_default_sandbox(), again(task), person("bo", "annotator"), "roles")
    return again(task)


def keep(task: Task, blueprint: Any) -> None:
    current = again(task).current
    assert current is not None
    record = current.record | {"blueprint": blueprint, "intent": f"Ann comes at last {desk.EVIL}"}
    TaskRevision.objects.filter(pk=current.pk).update(record=record)


def executed() -> dict[str, Any]:
    """The same with the calls of the task's reference."""
    first, *others = BLUEPRINT["nodes"]
    room = {"name": "room", "value": "red", "source": "tool"}
    return BLUEPRINT | {"nodes": [first | {"arguments": [first["arguments"][0], room]}, *others]}


def test_nodes_stand_in_order_with_the_source_of_each_value(client: Client, golden: Task) -> None:
    assert "tab=blueprint" not in page(client, golden), "no tab for a task without one"
    keep(golden, BLUEPRINT)
    assert "tab=blueprint" in page(client, golden)
    text = page(client, golden, "?tab=blueprint")
    for words in ("2 calls, 1 of reasoning", "0 tool, 2 reasoning", "visit → see", "guest from 2", "5 words, then"):
        assert words in text, words
    assert text.index('id="node-1"') < text.index('id="node-2"') < text.index('id="node-3"')
    assert "from the words of the task" in text
    assert "Draft, from the initial state and the graph" in text
    assert text.count('class="node ') == 3
    assert 'class="link reason' in text
    thought = page(client, golden, "?tab=blueprint&node=2")
    assert "Its result, computed in the sandbox" in thought
    assert "<b>bold" not in thought
    last = page(client, golden, "?tab=blueprint&node=99999")
    assert 'href="?tab=blueprint&amp;node=2" hx-get' in last
    assert "from the result of" in last


def test_results_and_changes_are_those_of_the_reference_and_say_so_if_it_is_another_one(
    client: Client, golden: Task
) -> None:
    keep(golden, executed())
    text = page(client, golden, "?tab=blueprint")
    assert "Result, as the reference is executed" in text
    assert "State after this call" in text
    assert "/visits/V-" in text
    assert text.count("▲ 1") == 2
    keep(golden, BLUEPRINT)
    other = page(client, golden, "?tab=blueprint")
    assert "The reference is no longer the calls of this blueprint" in other
    assert "State after this call" not in other
    TaskReference.objects.all().delete()
    assert "No reference is stored for this revision" in page(client, golden, "?tab=blueprint")


def test_the_golden_state_is_told_field_by_field_with_how_it_is_compared(client: Client, golden: Task) -> None:
    keep(golden, executed())
    text = page(client, golden, "?tab=blueprint")
    for words in ("<code>/guests/ann</code> changed", "⇄ an id", "◷ a time", "6 values differ,"):
        assert words in text, words
    current = again(golden).current
    assert current is not None
    TaskRevision.objects.filter(pk=current.pk).update(verifier=(current.verifier or {}) | {"equality": "plain"})
    assert "0 volatile" in page(client, golden, "?tab=blueprint")


@pytest.mark.parametrize("bad", ["text", {"nodes": []}, {**BLUEPRINT, "edges": [{"source": "t2", "target": "t1"}]}])
def test_a_record_whose_blueprint_cannot_be_read_says_so(client: Client, golden: Task, bad: Any) -> None:
    keep(golden, bad)
    assert "cannot be read" in page(client, golden, "?tab=blueprint")


def test_a_task_without_one_shows_its_first_tab(client: Client, golden: Task) -> None:
    assert "Draft, from the initial state" not in page(client, golden, "?tab=blueprint")
