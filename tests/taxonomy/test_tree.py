"""Themes and environments in one tree: where they hang, what is counted, also when many write at once."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from tests.fixtures import replay_seed
from tests.taxonomy.samples import entries, environment, server, write
from webapp.environments import totals
from webapp.environments.models import Environment
from webapp.pages.recount import recount_all
from webapp.scenarios.models import Task
from webapp.taxonomy import services
from webapp.taxonomy.importer import import_servers
from webapp.taxonomy.labels import build_category_path, build_theme_path
from webapp.taxonomy.models import Node, NodeCounts, Theme, ThemeTool
from webapp.trajectories.models import Trajectory
from webapp.trajectories.totals import apply_count_changes, get_current_counts


def counts(path: str) -> NodeCounts:
    return NodeCounts.objects.get(node__path=path)


def numbers(path: str, *names: str) -> list[int]:
    row = counts(path)
    return [getattr(row, name) for name in names]


@pytest.mark.parametrize(
    ("labels", "path"),
    [
        (("Weather", ("API Integration",), "Storms"), ("Weather", "API Integration", "Storms")),
        (("weather ", ("WEATHER", "Gaming"), ""), ("Weather", "Gaming")),
        (("Weather", (), "Storms"), ("Weather", "Storms")),
        (("Weather", (), "weather"), ("Weather",)),
        (("", ("Gaming",), "Storms"), ("No category",)),
        (("Gardening", (), ""), ("Gardening",)),
    ],
)
def test_where_a_theme_hangs(labels: Any, path: tuple[str, ...]) -> None:
    assert build_theme_path(*labels) == path


def test_categories_and_labels_of_one_field_meet() -> None:
    assert build_category_path("Health") == build_theme_path("Health & Fitness", (), "")
    assert build_category_path("") == ("No category",)


@pytest.mark.django_db
def test_importing_twice_changes_nothing_and_a_change_moves_the_counts() -> None:
    file = entries(server(1), server(2, custom_label=None), server(3, primary_label="Gaming", tools=[]))
    first = import_servers(file)
    assert first["themes"] == {"created": 2, "unchanged": 0, "updated": 0}
    assert (first["tools"], first["failed"][0]["place"]) == (2, "line 3.tools")
    assert import_servers(file)["themes"] == {"created": 0, "unchanged": 2, "updated": 0}
    assert numbers("weather", "themes", "tools", "children") == [2, 2, 1]
    assert numbers("weather \u203a api integration", "themes", "tools", "children") == [2, 2, 1]
    tools = [{"name": "a"}, {"name": "b"}, {"name": "c"}]
    again = import_servers(entries(server(1, primary_label="Gaming", tools=tools)))
    assert again == {"themes": {"created": 0, "unchanged": 0, "updated": 1}, "tools": 3, "failed": []}
    assert [tool.name for tool in Theme.objects.get(key="1").tools.all()] == ["a", "b", "c"]
    assert numbers("weather", "themes", "tools") == [1, 1]
    assert numbers("gaming \u203a api integration \u203a storm warnings", "themes", "tools") == [1, 3]
    assert recount_all() == []


@pytest.mark.django_db
def test_environments_hang_by_category_and_move_with_everything_they_count() -> None:
    import_servers(entries(server(1)))
    row = environment("one")
    assert numbers("weather", "environments", "themes", "tools") == [1, 1, 2]
    totals.add_counts(row.pk, tasks=3, green=1, trajectories=4, scored=4, solved=1)
    assert counts("weather").pass_rate == 0.25
    assert environment("one", "Gaming", "changed").pk == row.pk
    assert numbers("weather", "environments", "tasks", "green", "scored") == [0, 0, 0, 0]
    assert numbers("gaming", "environments", "tasks", "green", "scored", "tools") == [1, 3, 1, 4, 1]


@pytest.mark.django_db
def test_a_trajectory_is_counted_as_what_it_is_now() -> None:
    row = replay_seed.make(replay_seed.ordinary())
    recount_all()
    home = Node.objects.get(environments=row.environment_id).path
    assert numbers(home, "trajectories", "scored", "solved") == [1, 1, 0]
    before = get_current_counts(row)
    row.outcome, row.reward = "solved", 1.0
    row.save()
    apply_count_changes(before, row)
    assert numbers(home, "trajectories", "scored", "solved") == [1, 1, 1]
    before = get_current_counts(row)
    row.outcome, row.reward = "infra_error", None
    row.save()
    apply_count_changes(before, row)
    assert numbers(home, "trajectories", "scored", "solved") == [1, 0, 0], "an infrastructure error is no reward of 0"
    assert recount_all() == []


@pytest.mark.django_db
def test_recount_says_what_differed_and_sets_it_right() -> None:
    import_servers(entries(server(1)))
    row = environment("one")
    Environment.objects.filter(pk=row.pk).update(node=None, tool_count=9)
    NodeCounts.objects.filter(node__path="weather").update(themes=7)
    Theme.objects.update(tool_count=5)
    out = StringIO()
    call_command("recount_taxonomy", "--json", stdout=out, stderr=StringIO())
    found = json.loads(out.getvalue())["differences"]
    said = {(one["kind"], one["count"], one["was"], one["now"]) for one in found}
    assert ("environment", "node", None, "Weather") in said
    assert ("environment", "tool_count", 9, 1) in said
    assert ("theme", "tool_count", 5, 1) in said
    assert ("node", "themes", 7, 1) in said
    assert recount_all() == []
    assert numbers("weather", "themes", "tools", "environments") == [1, 2, 1]


def at_once(*actions: Any) -> list[Any]:
    """Run actions in threads with connections of their own."""

    def closed(action: Any) -> Any:
        try:
            return action()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(actions)) as pool:
        return [one.result(timeout=60) for one in [pool.submit(closed, action) for action in actions]]


@pytest.mark.django_db(transaction=True)
def test_imports_at_once_make_each_node_and_theme_once() -> None:
    labels = ["Weather", "Gaming", "Education"]
    file = [server(n, primary_label=labels[n % 3], custom_label=f"Topic {n % 7}") for n in range(60)]
    results = at_once(*(lambda part=part: import_servers(entries(*part)) for part in (file, file[::-1], file[:30])))
    assert sum(one["themes"]["created"] for one in results) == 60
    assert Theme.objects.count() == ThemeTool.objects.count() == 60
    assert Node.objects.filter(level=1).count() == 3
    assert recount_all() == []


@pytest.mark.django_db(transaction=True)
def test_counts_are_exact_when_many_write_at_once() -> None:
    rows = [environment(f"e{n}", ("Weather", "Gaming")[n % 2]) for n in range(4)]

    def work(offset: int) -> None:
        for n in range(15):
            totals.add_counts(rows[(n + offset) % 4].pk, tasks=1, trajectories=2, scored=2, solved=1)

    def both_ways(turn: int) -> None:
        nodes = [row.node_id for row in rows][:: 1 if turn else -1]
        for _ in range(15):
            services.add_counts({node: {"themes": 1} for node in nodes})

    at_once(*(lambda n=n: work(n) for n in range(4)), *(lambda n=n: both_ways(n) for n in range(2)))
    for path in ("weather", "gaming"):
        assert numbers(path, "tasks", "trajectories", "scored", "solved", "themes") == [30, 60, 60, 30, 30]


@pytest.mark.django_db
def test_nothing_else_may_be_counted() -> None:
    row = environment("one")
    with pytest.raises(ValueError, match="nothing counts"):
        services.add_counts({row.node_id: {"themes; drop table x": 1}})


@pytest.mark.django_db
def test_the_command_says_in_json_what_it_did(tmp_path: Path) -> None:
    path = write(tmp_path / "servers.jsonl.gz", server(1), server(2, name=""))
    out = StringIO()
    call_command("import_mcp_servers", str(path), "--json", stdout=out, stderr=StringIO())
    said = json.loads(out.getvalue().splitlines()[-1])
    assert said["themes"] == {"created": 1, "unchanged": 0, "updated": 0}
    assert said["tools"] == 1
    assert said["failed"] == [{"place": "line 2.name", "reason": "empty"}]
    with pytest.raises(CommandError, match="no such file"):
        call_command("import_mcp_servers", str(tmp_path / "none.jsonl"), stderr=StringIO())


@pytest.mark.django_db
def test_tasks_and_trajectories_of_the_importers_reach_the_tree(tmp_path: Path) -> None:
    """The starter set comes through the importers' services: the tree then says what the rows say."""
    from synthesis.runtime import get_default_sandbox
    from synthesis.starter import SOURCE, load_bundle
    from webapp.environments.importer import import_environment
    from webapp.environments.services import build_program
    from webapp.scenarios.importer import import_task
    from webapp.trajectories.services import save_run

    environments, tasks, runs = load_bundle()
    record, task = environments[0], next(one for one in tasks if one.environment_key == environments[0].key)
    _, version = import_environment(get_default_sandbox(), record, SOURCE, [task.initial_state])
    import_task(get_default_sandbox(), task, version, build_program(version), SOURCE)
    run = next((one for one in runs if (one.environment_key, one.task_key) == (task.environment_key, task.key)), None)
    if run is not None:
        save_run(get_default_sandbox(), run, SOURCE)
    assert recount_all() == []
    row = counts(Node.objects.get(environments__isnull=False).path)
    assert (row.tasks, row.trajectories) == (Task.objects.count(), Trajectory.objects.count())
