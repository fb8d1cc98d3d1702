"""A database as large as a team's that curates all day, filled by SQL out of one example row of each table.

`multiply` takes what it is not told from the example, so that a column that a model gets later needs no change here.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

from django.core.management import call_command
from django.db import connection
from django.db.models import Model
from django.utils import timezone

from webapp.accounts.models import User
from webapp.common.content_store import store_values
from webapp.environments.models import Assessment, CaseState, Environment, Tool, ToolCase, Version
from webapp.jobs.models import Job
from webapp.review.models import ReviewDecision, ReviewQueue
from webapp.review.queue_fill import update_queue_items
from webapp.scenarios.models import Audit, Check, Scenario, StateBody, Task, TaskReference, TaskRevision
from webapp.scenarios.states import store_state
from webapp.taxonomy.labels import build_category_path
from webapp.taxonomy.models import Theme
from webapp.taxonomy.services import place_paths
from webapp.trajectories.models import Score, Step, Trajectory

EXAMPLE = -1
"""Primary key of the example rows, which are taken away at the end."""
CATEGORIES = (
    "Commerce",
    "Health",
    "Travel",
    "Finance",
    "Software",
    "Education",
    "Logistics",
    "Media",
    "Home",
    "Science",
)
VOCABULARY = (
    "order refund ward ledger depot ticket garden library fleet kitchen archive studio patient invoice customer "
    "booking shipment warehouse supplier deadline calendar meeting reminder account balance transfer payment receipt "
    "contract employee manager department vacation salary schedule shift nurse doctor surgery prescription dosage "
    "allergy flight hotel passenger luggage itinerary upgrade cancel confirm update remove create assign approve "
    "reject notify priority overdue pending active closed duplicate missing expired discount voucher inventory "
    "product category review rating comment message channel member playlist album artist episode podcast subscription "
    "device sensor reading threshold alarm backup server deployment incident release branch merge student course "
    "grade enrolment teacher exam"
)
WORDS = VOCABULARY.split()
STEPS_EACH = 24
TOOLS_EACH = 10
CHECKS_EACH = 4
QUEUES = (("Green audits", "audit=green", "newest", 1), ("Red audits", "audit=red", "random", 2),
          ("Not audited", "audit=none", "disagreement", 3))  # fmt: skip
"""Name, filter, order and overlap. No task is in two of them."""
TOOL_QUEUE = "Failing tools"
ASSESSED, CASES_EACH = 200, 6
"""The first so many environments were assessed, each of their tools by so many cases, of which two did not pass."""
METHOD = """
    def %s(self, key: str) -> dict:
        row = self.rows[key]
        row["open"] = False
        return {"success": True, "row": row}
"""
PAST = {"approved": "approve", "changes_requested": "request_changes", "rejected": "reject"}


@dataclass(frozen=True)
class Size:
    """How many rows there are; `stepped` are the trajectories (the newest) whose steps are stored."""

    environments: int = 2_000
    tasks: int = 50_000
    trajectories: int = 500_000
    stepped: int = 20_000
    themes: int = 5_000
    jobs: int = 5_000
    annotators: int = 50


def execute(sql: str, *values: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql, values or None)  # without values a percent sign is one


def spread(values: dict[str, int], chance: str) -> str:
    """SQL that takes a value by its share of 100; `chance` is an expression from 0 to 1, the same in every branch."""
    cases, sum_ = [], 0
    for value, share in values.items():
        sum_ += share
        cases.append(f"WHEN {chance} < {sum_ / 100} THEN '{value}'")
    return f"CASE {' '.join(cases)} ELSE '{next(iter(values))}' END"


def multiply(model: type[Model], rows: str, **columns: str) -> None:
    """Insert a row for each of `rows` (what stands in FROM): columns as given in SQL, the others as the example's."""
    fields = [field.column for field in model._meta.local_concrete_fields if field.column != "id" or "id" in columns]
    values = ", ".join(columns.get(column, f'one."{column}"') for column in fields)
    table = model._meta.db_table
    execute(
        f"INSERT INTO {table} ({', '.join(map(connection.ops.quote_name, fields))}) SELECT {values} "
        f"FROM {rows}, (SELECT * FROM {table} WHERE id = {EXAMPLE}) AS one"
    )
    if "id" in columns:
        execute(f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), greatest(1, (SELECT max(id) FROM {table})))")


def numbers(count: int, more: str = "") -> str:
    """Rows `n.n` from 1 on, each with chances `n.a`, `n.b`, `n.c` that stay the same wherever they are used."""
    return f"(SELECT n, random() AS a, random() AS b, random() AS c{more} FROM generate_series(1, {count}) AS n) AS n"


def seed(size: Size, luck: int) -> list[ReviewQueue]:
    """Fill an empty, migrated database, queues too. The same size and luck give the same rows."""
    execute("SET session_replication_role = replica")  # no triggers: what refers is right, and nobody logs a seed
    execute("SELECT setseed(%s)", (luck % 1_000) / 1_000)
    _words()
    past, example = _examples()
    _environments(size)
    _tasks(size)
    _trajectories(size)
    _assessments(size)
    _others(size, past)
    _count()
    for row in reversed(example):
        execute(f"DELETE FROM {row._meta.db_table} WHERE id = %s", EXAMPLE)
    execute("SET session_replication_role = DEFAULT")
    execute("ANALYZE")
    call_command("recount_taxonomy", verbosity=0, stdout=io.StringIO(), stderr=io.StringIO())
    queues = [
        ReviewQueue.objects.create(name=name, kind="task", query=query, order=order, overlap=overlap)
        for name, query, order, overlap in QUEUES
    ]
    queues.append(ReviewQueue.objects.create(name=TOOL_QUEUE, kind="tool", order="blocked"))
    for queue in queues:
        update_queue_items(queue)
    # What autovacuum would have done by the time anybody works: it does not come within a seed.
    execute("VACUUM ANALYZE")
    execute("CHECKPOINT")
    return queues


def _words() -> None:
    execute(
        "CREATE FUNCTION pg_temp.words(count int) RETURNS text LANGUAGE sql VOLATILE AS $$ SELECT string_agg("
        "(ARRAY["
        + ", ".join(f"'{word}'" for word in WORDS)
        + f"])[1 + floor(power(random(), 1.7) * {len(WORDS)})::int]"
        ", ' ') FROM generate_series(1, count) $$"
    )


def _examples() -> tuple[User, list[Model]]:
    """A person who decided long ago, and one row of each table."""
    past = User.objects.create(username="long-ago", role="annotator", is_active=False)
    state = store_state({"rows": {str(number): {"open": True, "owner": "nobody"} for number in range(20)}})
    assert isinstance(state, StateBody)
    pk: dict[str, Any] = {"pk": EXAMPLE}
    environment = Environment.objects.create(**pk, source="batch", key="example", name="Example")
    version = Version.objects.create(
        **pk, environment=environment, number=1, content_hash="0", class_name="Desk", source="class Desk: ..."
    )
    environment.current = version
    environment.save()
    schema = {"type": "object", "properties": {"key": {"type": "string"}}}
    tool = Tool.objects.create(**pk, version=version, position=1, name="look", kind="query", parameters=schema)
    scenario = Scenario.objects.create(**pk, environment=environment, version=version, initial=state, name="Monday")
    task = Task.objects.create(
        **pk, environment=environment, scenario=scenario, source="batch", key="example", title="Example",
        check_count=CHECKS_EACH,
    )  # fmt: skip
    revision = TaskRevision.objects.create(
        **pk, task=task, scenario=scenario, number=1, content_hash="0", instruction="Do it.", verifier_hash="0" * 64
    )
    source = "def check(initial_state, final_state, answer):\n    return final_state['rows']['1']['open'] is False\n"
    check = Check.objects.create(
        **pk, revision=revision, position=0, label="A row is closed", source=source, mark="goal"
    )
    audit = Audit.objects.create(
        **pk, revision=revision, key="0", verifier_hash="0" * 64, audit_version=1, state="green", do_nothing=0.0,
        reference_reward=1.0, mutants=8, below=8,
    )  # fmt: skip
    calls = [{"tool": "order_1", "arguments": {"key": "1"}}]
    reference = TaskReference.objects.create(**pk, revision=revision, content_hash="0", source="solver", calls=calls)
    run = Trajectory.objects.create(
        **pk, environment=environment, task=task, revision=revision, source="rollout", content_hash="0",
        now="2025-01-01T09:00:00+00:00", total=CHECKS_EACH, step_count=STEPS_EACH, call_count=STEPS_EACH - 4,
        replay="made_here",
    )  # fmt: skip
    step = Step.objects.create(**pk, trajectory=run, index=0, kind="query", tool="order_1", snapshot=state, ok=True)
    score = Score.objects.create(
        **pk, trajectory=run, revision=revision, verifier_hash="0" * 64, reward=1.0, passed=CHECKS_EACH,
        total=CHECKS_EACH, source="rollout",
    )  # fmt: skip
    theme = Theme.objects.create(
        **pk, source="mcp", key="example", name="Example", content_hash="0", node_id=_nodes()[0], tool_count=9,
        description="Answers questions, and changes what it is asked to change. " * 6,
    )  # fmt: skip
    job = Job.objects.create(**pk, kind="import", queue="sandbox", title="Example", state="succeeded", attempt=1)
    assessment, case = _assessed(version)
    decision = ReviewDecision.objects.create(
        **pk, task=task, revision=revision, seen="0", user=past, verdict="approve", seconds=40.0
    )
    return past, [
        environment, version, tool, scenario, task, revision, check, audit, reference, run, step, score, theme, job,
        assessment, case, decision,
    ]  # fmt: skip


def _assessed(version: Version) -> tuple[Assessment, ToolCase]:
    """An assessment with one case."""
    pk: dict[str, Any] = {"pk": EXAMPLE}
    assessment = Assessment.objects.create(
        **pk, version=version, content_hash="0" * 64, score=2 / 3, strict=2 / 3, threshold=0.5, kept=True, planned=60,
        made=60, saved=60, passed=40, warned=10, failed=10, roles={"checker": "qwen3-32b"},
    )  # fmt: skip
    [before] = store_values(CaseState, [{"rows": {str(number): {"open": True} for number in range(20)}}])
    case = ToolCase.objects.create(
        **pk, assessment=assessment, position=0, tool="look", case="negative", arguments={"key": "1"}, state=before,
        seed=0, now="2025-01-01T09:00:00+00:00", ok=True, result={"success": True}, digest="0" * 64, verdict="pass",
        reason="It should refuse a row that is closed, and line 9 does not look at that.",
        patch=[{"op": "replace", "path": "/rows/1/open", "value": False}],
    )  # fmt: skip
    return assessment, case


def _nodes() -> list[int]:
    """The nodes of the categories, in their order."""
    found = place_paths(build_category_path(name) for name in CATEGORIES)
    return [found[build_category_path(name)] for name in CATEGORIES]


def _environments(size: Size) -> None:
    categories = ", ".join(f"'{name}'" for name in CATEGORIES)
    each = f"1 + n.n % {len(CATEGORIES)}"
    multiply(
        Environment, numbers(size.environments), id="n.n", key="'environment-' || n.n", current_id="n.n",
        name="initcap(pg_temp.words(2)) || ' ' || n.n", summary="pg_temp.words(12 + n.n::int % 10)",
        category=f"(ARRAY[{categories}])[{each}]", node_id=f"(ARRAY{_nodes()})[{each}]", tool_count=str(TOOLS_EACH),
        scenario_count="1",
    )  # fmt: skip
    multiply(Version, numbers(size.environments), id="n.n", environment_id="n.n", content_hash="md5(n.n::text)")
    multiply(Scenario, numbers(size.environments), id="n.n", environment_id="n.n", version_id="n.n")
    multiply(
        Tool, f"generate_series(1, {size.environments}) AS n, generate_series(1, {TOOLS_EACH}) AS k", version_id="n",
        position="k", name="replace(pg_temp.words(1 + k % 2), ' ', '_') || '_' || k",
        kind="CASE WHEN k % 2 = 0 THEN 'query' ELSE 'change' END", description="pg_temp.words(8 + k % 5)",
    )  # fmt: skip


def _assessments(size: Size) -> None:
    """Programs with their tools in them, and what a checker said of the tools of the first environments."""
    assessed = min(ASSESSED, size.environments)
    execute(
        "UPDATE environments_tool SET source = replace(%s, '%%s', name) WHERE version_id BETWEEN 1 AND %s",
        METHOD, assessed,
    )  # fmt: skip
    head = 'class Desk:\n    """A desk."""\n\n    def __init__(self, state):\n        self.rows = state["rows"]\n'
    execute(
        "UPDATE environments_version AS one SET source = %s || found.methods FROM "
        "(SELECT version_id, string_agg(source, '' ORDER BY position) AS methods FROM environments_tool "
        "WHERE version_id BETWEEN 1 AND %s GROUP BY 1) AS found WHERE found.version_id = one.id",
        head, assessed,
    )  # fmt: skip
    multiply(Assessment, f"generate_series(1, {assessed}) AS n", id="n", version_id="n", content_hash="md5(n::text)")
    tools = f"(SELECT * FROM environments_tool WHERE version_id BETWEEN 1 AND {assessed}) AS tool"
    multiply(
        ToolCase, f"{tools}, generate_series(0, {CASES_EACH - 1}) AS k", assessment_id="tool.version_id",
        position=f"tool.position * {CASES_EACH} + k", tool="tool.name",
        verdict="CASE k WHEN 0 THEN 'fail' WHEN 1 THEN 'warning' ELSE 'pass' END",
    )  # fmt: skip


def _tasks(size: Size) -> None:
    audits = spread({"green": 55, "red": 12, "incomplete": 4, "stale": 3, "": 26}, "n.a")
    reviews = spread({"draft": 60, "in_review": 10, "approved": 18, "changes_requested": 7, "rejected": 5}, "n.b")
    place_of = f"1 + (n.n - 1) % {size.environments}"
    more = ", initcap(pg_temp.words(4 + n % 4)) AS title, pg_temp.words(30 + n % 40) AS said"
    execute(f"CREATE TEMP TABLE made AS SELECT * FROM {numbers(size.tasks, more)}")
    multiply(
        Task, "made AS n", id="n.n", environment_id=place_of, scenario_id=place_of, key="'task-' || n.n",
        title="n.title", words="n.title || E'\\ntask-' || n.n || E'\\n' || n.said", current_id="n.n",
        source="CASE WHEN n.c < 0.7 THEN 'batch' ELSE 'envscaler' END",
        audit_id=f"CASE WHEN {audits} <> '' THEN n.n END",
        audit_state=audits, review_state=reviews, finding_count="greatest(0, floor(n.c * 8) - 5)::int",
        do_nothing="CASE WHEN n.c < 0.9 THEN 0.0 ELSE 0.25 * (n.n % 4) END",
        created_at="now() - (n.n || ' seconds')::interval",
    )  # fmt: skip
    multiply(
        TaskRevision, "made AS n", id="n.n", task_id="n.n", scenario_id=place_of, content_hash="md5(n.n::text)",
        instruction="initcap(n.said) || '.'", verifier_hash="repeat(md5(n.n::text), 2)", review_state=reviews,
    )  # fmt: skip
    multiply(
        Audit, f"(SELECT * FROM made AS n WHERE {audits} <> '') AS n", id="n.n", revision_id="n.n",
        key="md5(n.n::text)", state=f"replace({audits}, 'stale', 'green')", verifier_hash="repeat(md5(n.n::text), 2)",
    )  # fmt: skip
    multiply(TaskReference, f"generate_series(1, {size.tasks}) AS n", revision_id="n", content_hash="md5(n::text)")
    multiply(
        Check, f"generate_series(1, {size.tasks}) AS n, generate_series(0, {CHECKS_EACH - 1}) AS k", revision_id="n",
        position="k", label="initcap(pg_temp.words(5 + k % 3))",
        mark="CASE WHEN k = 0 THEN 'guard' ELSE 'goal' END",
    )  # fmt: skip


def _trajectories(size: Size) -> None:
    """Older tasks have more attempts; of the newest attempts the steps are stored."""
    outcomes = spread(
        {"solved": 42, "failed": 38, "truncated": 9, "agent_error": 6, "infra_error": 3, "cancelled": 2}, "n.b"
    )
    policies = spread({"qwen3-8b": 40, "qwen3-32b": 25, "llama-4-scout": 15, "gpt-5-mini": 15, "random": 5}, "n.c")
    reward = (
        "CASE n.outcome WHEN 'solved' THEN 1.0 WHEN 'infra_error' THEN NULL WHEN 'cancelled' THEN NULL "
        f"ELSE floor(n.c * {CHECKS_EACH}) / {CHECKS_EACH} END"
    )
    rows = (
        f"(SELECT n.*, 1 + floor(n.a * n.a * {size.tasks})::bigint AS task, {outcomes} AS outcome, "
        f"{policies} AS policy FROM {numbers(size.trajectories)}) AS n"
    )
    multiply(
        Trajectory, rows, id="n.n", task_id="n.task", revision_id="n.task",
        environment_id=f"1 + (n.task - 1) % {size.environments}", content_hash="repeat(md5(n.n::text), 2)",
        source="CASE WHEN n.n % 5 = 0 THEN 'envscaler' ELSE 'rollout' END", policy="n.policy", outcome="n.outcome",
        reward=reward, passed=f"({reward}) * {CHECKS_EACH}",
        replay="CASE WHEN n.n % 5 > 0 THEN 'made_here' WHEN n.c < 0.1 THEN 'diverged' ELSE 'identical' END",
        error_count="floor(n.c * 4)::int", final_hash="md5(n.n::text)",
        created_at=f"now() - (({size.trajectories} - n.n) || ' seconds')::interval",
    )  # fmt: skip
    verdicts = (
        f"(SELECT json_agg(json_build_object('passed', k <= run.passed)) FROM generate_series(1, {CHECKS_EACH}) AS k)"
    )
    multiply(
        Score, "(SELECT * FROM trajectories_trajectory WHERE reward IS NOT NULL AND id > 0 ORDER BY id) AS run",
        trajectory_id="run.id", revision_id="run.revision_id", reward="run.reward", passed="run.passed",
        verdicts=verdicts,
    )  # fmt: skip
    edit = "json_build_object('op', 'replace', 'path', '/rows/' || k % 20 || '/open', 'value', false)"
    patch = f"json_build_array({edit})"
    newest = f"generate_series({size.trajectories - size.stepped + 1}, {size.trajectories}) AS n"
    kind = "CASE WHEN k = 0 THEN 'user' WHEN k % 7 = 0 THEN 'message' WHEN k % 3 = 0 THEN 'change' ELSE 'query' END"
    calls = "(k % 7 > 0)"
    multiply(
        Step, f"{newest}, generate_series(0, {STEPS_EACH - 1}) AS k", trajectory_id="n", index="k", turn="k", kind=kind,
        snapshot_id="CASE WHEN k = 0 THEN one.snapshot_id END", ok=f"CASE WHEN {calls} THEN k % 11 > 0 END",
        tool=f"CASE WHEN {calls} THEN 'order_' || k % {TOOLS_EACH} ELSE '' END",
        content=f"CASE WHEN {calls} THEN '' ELSE pg_temp.words(20) END", reasoning="pg_temp.words(10 + k % 9)",
        arguments=f"CASE WHEN {calls} THEN json_build_object('key', k::text) END",
        result=f"CASE WHEN {calls} THEN json_build_object('success', true, 'said', md5((n * k)::text)) END",
        patch=f"CASE WHEN {calls} AND k % 3 = 0 THEN {patch} ELSE '[]' END",
        change_count=f"({calls} AND k % 3 = 0)::int",
    )  # fmt: skip


def _others(size: Size, past: User) -> None:
    """Themes, jobs, and the decisions that the settled tasks come from."""
    multiply(
        Theme, numbers(size.themes), key="'server-' || n.n", name="initcap(pg_temp.words(3)) || ' ' || n.n",
        node_id=f"(ARRAY{_nodes()})[1 + n.n % {len(CATEGORIES)}]",
    )  # fmt: skip
    multiply(
        Job, numbers(size.jobs), title="'Import ' || pg_temp.words(2)", created_by_id=str(past.pk),
        state=spread({"succeeded": 90, "failed": 7, "cancelled": 3}, "n.a"),
        created_at="now() - (n.n || ' minutes')::interval", finished_at="now() - (n.n || ' minutes')::interval",
    )  # fmt: skip
    verdict = (
        "CASE t.review_state " + " ".join(f"WHEN '{state}' THEN '{word}'" for state, word in PAST.items()) + " END"
    )
    settled = ", ".join(f"'{state}'" for state in PAST)
    multiply(
        ReviewDecision, f"(SELECT * FROM scenarios_task WHERE review_state IN ({settled}) AND id > 0) AS t",
        task_id="t.id", revision_id="t.id", verdict=verdict,
        created_at=f"TIMESTAMPTZ '{timezone.now():%Y-%m-%d}' - (t.id || ' seconds')::interval",
    )  # fmt: skip


def _count() -> None:
    """The roll-ups that services keep."""
    execute(
        "UPDATE scenarios_task AS one SET trajectory_count = found.every FROM "
        "(SELECT task_id, count(*) AS every FROM trajectories_trajectory GROUP BY 1) AS found "
        "WHERE found.task_id = one.id"
    )
    execute(
        "UPDATE environments_environment AS one SET trajectory_count = runs.every, scored_count = runs.scored, "
        "solved_count = runs.solved FROM (SELECT environment_id, count(*) AS every, count(reward) AS scored, "
        "count(*) FILTER (WHERE outcome = 'solved') AS solved FROM trajectories_trajectory GROUP BY 1) AS runs "
        "WHERE runs.environment_id = one.id"
    )
    execute(
        "UPDATE environments_environment AS one SET task_count = found.every, green_count = found.green, "
        "red_count = found.red FROM (SELECT environment_id, count(*) AS every, "
        "count(*) FILTER (WHERE audit_state = 'green') AS green, count(*) FILTER (WHERE audit_state = 'red') AS red "
        "FROM scenarios_task GROUP BY 1) AS found WHERE found.environment_id = one.id"
    )
