"""Lists on a large database: an index serves every query, and more rows never mean more queries."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from tests.fixtures import addresses, pages_seed, scale

pytestmark = [pytest.mark.slow, pytest.mark.django_db]
TINY = scale.Size(
    environments=3,
    trajectories=12,
    stepped=2,
    jobs=3,
    branches=(2, 2),
    themes=120,
    theme_tools=600,
    batch_items=40,
    batch_calls=40,
    training_jobs=3,
    training_steps=20,
    rollouts=64,
)
LARGE = scale.Size(
    environments=1_200,
    tools_each=4,
    trajectories=9_000,
    stepped=5,
    jobs=5_000,
    branches=(30, 15),
    theme_tools=6_000,
    batch_items=5_000,
    batch_calls=9_000,
    training_steps=1_000,
)
BIG_TABLE = 4_000
"""Reading a table of more rows from end to end is what an index is for."""

READ_MUCH = {
    "taxonomy, fifty open",
    "taxonomy search, many hits",
    "treemap",
    "treemap by trajectories",
    "treemap of a label",
    "theme map",
    "api theme map",
}
TREE = {"taxonomy_node", "taxonomy_nodecounts"}
"""What those need a tenth of or more at once: to read it whole costs less than to look up row by row."""
HALF_OF_ALL = {
    "statistics of a batch",
    "statistics of a batch, part",
    "api statistics of a batch",
    "theme map of a batch",
}
PRODUCTS = {"batches_batchproduct"}
"""The batch that they are of made half of these here."""
SELECTIONS = {"new dataset by audit", "search", "search by two words", "search of tasks"}
TASKS = {"scenarios_task", "scenarios_taskrevision"}
"""The first 5,000 tasks of a selection are looked at in one query, and this one holds almost half of those here; a word
that every fifth task holds is found soonest by reading until there are enough."""
MEASURES = {"scenarios_taskdifficulty", "scenarios_policypass"}
COUNTED = {
    "trajectories, lowest": {"trajectories_trajectory"},
    "statistics": {"trajectories_trajectory", "batches_llmcall", "environments_tool", "scenarios_task"},
    "statistics of a variant": {"environments_tool", "scenarios_task"},
    "api statistics": {"environments_tool", "scenarios_task"},
    "statistics of difficulty": MEASURES,
    "statistics of difficulty of a variant": MEASURES,
    "statistics of difficulty of a policy": MEASURES,
    "api statistics of difficulty": MEASURES,
    "tasks of a difficulty": {"scenarios_taskdifficulty"},
    "statistics of attempts": {"trajectories_trajectory", "scenarios_task"},
    "api statistics of attempts": {"trajectories_trajectory", "scenarios_task"},
    "statistics of attempts of a policy": {"trajectories_trajectory", "scenarios_task"},
    "statistics of reviews": {"scenarios_task", "scenarios_audit"},
    "tasks never solved": {"scenarios_task"},
    "import": {"scenarios_task"},
    "names in several places": {"taxonomy_node", "taxonomy_nodecounts"},
}
"""All but every row of the table is on these lists, or of the last days and among the newest of a bounded number, and
is counted: tools by their different names, tasks by variant, and short rows of what makes tasks difficult. For an
import it is what people made of all tasks; to find labels of one name, every label."""
AT_MOST = {"new dataset by audit": 13, "new dataset of trajectories": 18}
"""Queries of what looks at thousands of tasks, and of what reads the conversations of a hundred trajectories: both ask
for the sources and the datasets that a form offers."""


def ask(client: Client, url: str) -> list[tuple[str, Any]]:
    """The SELECTs that one address costs."""
    seen: list[tuple[str, Any]] = []

    def note(execute: Any, sql: str, parameters: Any, many: bool, context: Any) -> Any:
        if sql.lstrip().upper().startswith(("SELECT", "WITH")):
            seen.append((sql, parameters))
        return execute(sql, parameters, many, context)

    with connection.execute_wrapper(note):
        answer = client.get(url)
    assert answer.status_code == 200, f"{url}: {answer.status_code}"
    return seen


def scans(plan: dict[str, Any], limited: bool = False) -> list[str]:
    """Tables that a plan reads from end to end; any first rows of one, up to a limit, are not that."""
    whole = plan["Node Type"] == "Seq Scan" and not (limited and "Filter" not in plan)
    found = [plan["Relation Name"]] if whole else []
    below = plan["Node Type"] == "Limit"
    return found + [name for inner in plan.get("Plans", ()) for name in scans(inner, below)]


def rows_of_tables() -> dict[str, int]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT relname, reltuples FROM pg_class WHERE relkind = 'r'")
        return {name: int(rows) for name, rows in cursor.fetchall()}


def admin() -> Client:
    client = Client()
    client.force_login(pages_seed.person("admin"))
    return client


def faults_of(name: str, url: str, asked: list[tuple[str, Any]], sizes: dict[str, int]) -> list[str]:
    """What an address asks too often, or reads from end to end."""
    faults = []
    if len(asked) > AT_MOST.get(name, len(asked)):
        faults.append(f"{name} ({url}) asks {len(asked)} queries")
    fine = TREE if name in READ_MUCH else PRODUCTS if name in HALF_OF_ALL else set()
    fine = TASKS if name in SELECTIONS else COUNTED.get(name, fine)
    for sql, parameters in asked:
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN (FORMAT JSON) {sql}", parameters)
            told = cursor.fetchone()[0]
        plan = (json.loads(told) if isinstance(told, str) else told)[0]["Plan"]
        big = [table for table in scans(plan) if sizes.get(table, 0) > BIG_TABLE and table not in fine]
        if big:
            faults.append(f"{name} ({url}) reads all of {', '.join(big)}: {sql[:400]}")
    return faults


def test_an_index_serves_every_list_and_more_rows_cost_no_more_queries() -> None:
    client = admin()
    scale.seed(TINY)
    few = {name: len(ask(client, url)) for name, url in addresses.lists().items()}
    for model in (scale.Trajectory, scale.Task, scale.Environment, scale.Job, scale.Theme):
        model.objects.all().delete()
    scale.seed(LARGE)
    sizes = rows_of_tables()
    assert sizes["trajectories_trajectory"] == LARGE.trajectories
    faults, many = [], {}
    for name, url in addresses.lists().items():
        asked = ask(client, url)
        many[name] = len(asked)
        faults += faults_of(name, url, asked, sizes)
    # A full page may ask for what follows and how many there are: two at most, whatever the rows; three more say why
    # attempts failed. A batch on environments counts what people made of them, in three, and what other machines made
    # current there, in three, and reads the edges of their graphs of tools in one.
    more = {name: 5 if name.startswith("trajectories") else 7 if name.startswith("new batch") else 2 for name in many}
    faults += [
        f"{name}: {few[name]} queries have become {many[name]}" for name in many if many[name] > few[name] + more[name]
    ]
    assert not faults, "\n".join(faults)
