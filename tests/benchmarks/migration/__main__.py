"""How long `migrate` takes on a home of the last version with so many tasks, against an empty one.

    python -m tests.benchmarks.migration --json [--tasks 1000000] [--worded 0.6]

A database of its own is made by `migrate` (`new_s`), taken back to where the last version left it (`LAST`) and upgraded
empty (`empty_s`); then it is filled by SQL: tasks with a revision, three checks, an attempt and a score each, of which
the share `worded` reads the words of answers as checks did then, so that the upgrade marks it. `seconds` is the upgrade
of all that, `by_migration` where they go; `growth_mib` is what the peak of this process's memory grows by, and
`disk_growth_mib` what the database does. The last line of output is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.benchmarks.databases import own_database

LAST = {"scenarios": "0008_pictures_solved_counts", "trajectories": "0010_pictures_index", "batches": "0008_replaced"}
"""By app, the last migration of the last version, if there are later ones."""
CHECK = """def check(initial_state, final_state, answer):
    orders = [order for order in final_state['orders'].values() if order['customer'] == 'C-%n']
    before = {order['id'] for order in initial_state['orders'].values()}
    added = [order for order in orders if order['id'] not in before and order['status'] == 'paid']
    %end
"""
ENDS = (
    "return len(added) == 1 and added[0]['cents'] == %n",
    "return all(line['count'] > 0 for order in added for line in order['lines'])",
)
WORDED = "return bool(added) and says_money(answer, added[0]['cents'] / 100, 'EUR') and not denies(answer)"
ROWS = 100_000
"""So many rows are inserted at a time, so that it is seen to go on."""


@contextmanager
def django_on_its_own_database() -> Iterator[None]:
    """Django set up on a new, empty database."""
    with own_database("bench_migration") as url:
        os.environ |= {
            "DATABASE_URL": url,
            "DJANGO_SETTINGS_MODULE": "webapp.settings",
            "ENVARIUM_LOG_LEVEL": "WARNING",
        }
        import django

        django.setup()
        from django.db import connection, connections

        try:
            yield
        finally:
            connections.close_all()
            connection.close_pool()  # type: ignore[attr-defined]


def migrate_back() -> Any:
    """Take the database back to the last version, and return that version's models."""
    from django.core.management import call_command
    from django.db import connection
    from django.db.migrations.loader import MigrationLoader

    for app, name in LAST.items():
        call_command("migrate", app, name, verbosity=0)
    loader = MigrationLoader(connection)
    leaves = [(app, LAST.get(app, name)) for app, name in loader.graph.leaf_nodes()]
    return loader.project_state(leaves).apps


def upgrade() -> tuple[float, dict[str, float]]:
    """How long `migrate` takes, and each of the migrations."""
    from django.core.management import call_command
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT max(id), now() FROM django_migrations")
        newest, last = cursor.fetchone()
    began = time.perf_counter()
    call_command("migrate", verbosity=0)
    seconds = time.perf_counter() - began
    with connection.cursor() as cursor:
        cursor.execute("SELECT app || ' ' || name, applied FROM django_migrations WHERE id > %s ORDER BY id", [newest])
        spent = {}
        for name, applied in cursor.fetchall():
            spent[name] = round((applied - last).total_seconds(), 3)
            last = applied
    return round(seconds, 3), spent


def insert(model: Any, count: int, **expressions: str) -> None:
    """Insert rows whose columns are SQL over the number `n`; others get their default."""
    from django.db import connection

    columns, values, parameters = [], [], []
    for field in model._meta.concrete_fields:
        expression = expressions.get(field.column)
        expression = expression and expression.replace("%", "%%")
        if expression is None and (field.null or field.primary_key):
            continue
        columns.append(f'"{field.column}"')
        if expression is None and getattr(field, "auto_now_add", False):
            expression = "now()"
        if expression is None:
            expression = "%s"
            parameters.append(field.get_db_prep_save(field.get_default(), connection))
        values.append(expression)
    sql = f"INSERT INTO {model._meta.db_table} ({', '.join(columns)}) SELECT {', '.join(values)}"
    with connection.cursor() as cursor:
        for start in range(1, count + 1, ROWS):
            stop = min(count, start + ROWS - 1)
            cursor.execute(f"{sql} FROM generate_series({start}, {stop}) AS n", parameters)


def quote(text: str) -> str:
    """SQL of a text in which `%n` stands for the number."""
    literal = text.replace("'", "''").replace("%n", "' || n || '")
    return f"('{literal}')"


def fill(apps: Any, tasks: int, worded: float) -> None:
    """A home with so many tasks of the last version."""
    from django.db import connection, transaction

    model = apps.get_model
    environment = model("environments", "Environment").objects.create(key="shop", name="Shop", source="bench")
    version = model("environments", "Version").objects.create(
        environment=environment, number=1, content_hash="0" * 64, source="", class_name="Shop"
    )
    state = model("scenarios", "StateBody").objects.create(hash="0" * 64, state_hash="0" * 64, body=b"", size=0)
    scenario = model("scenarios", "Scenario").objects.create(
        environment=environment, version=version, initial=state, name="One"
    )
    Task, Revision = model("scenarios", "Task"), model("scenarios", "TaskRevision")
    where = {"environment_id": str(environment.pk), "scenario_id": str(scenario.pk), "source": "'bench'"}
    asked = "Customer C-%n wants to have her order paid, and to be told what it costs. " * 4
    title = "Pay the order of C-%n"
    record = json.dumps({"task": asked, "checklist": [asked] * 3})
    with transaction.atomic():  # each names the other
        insert(
            Task, tasks, id="n", **where, current_id="n", key="'task-' || n", title=quote(title),
            words=quote(f"{title}\n{asked}"),
        )  # fmt: skip
        insert(
            Revision, tasks, id="n", task_id="n", scenario_id=str(scenario.pk), number="1", instruction=quote(asked),
            content_hash="md5(n::text)", verifier_hash="md5(n::text)", record=quote(record) + "::json",
        )  # fmt: skip
    with connection.cursor() as cursor:
        for made in (Task, Revision):
            cursor.execute(f"SELECT setval(pg_get_serial_sequence('{made._meta.db_table}', 'id'), {tasks})")
    for position, end in enumerate((*ENDS, WORDED)):
        source = quote(CHECK.replace("%end", end))
        if end is WORDED:
            plain = quote(CHECK.replace("%end", ENDS[0]))
            source = f"CASE WHEN n % 1000 < {int(worded * 1000)} THEN {source} ELSE {plain} END"
        check = model("scenarios", "Check")
        insert(
            check, tasks, revision_id="n", position=str(position), source=source, label="'It is paid'", mark="'goal'"
        )
    insert(
        model("trajectories", "Trajectory"), tasks, id="n", environment_id=str(environment.pk), task_id="n",
        revision_id="n", source="'bench'", content_hash="md5(n::text)", now="'2026-01-01'", outcome="'failed'",
        failure="CASE WHEN n % 100 = 0 THEN 'uncertain' ELSE 'check' END", answer=quote("It costs %n EUR."),
    )  # fmt: skip
    insert(
        model("trajectories", "Score"), tasks, trajectory_id="n", revision_id="n", verifier_hash="md5(n::text)",
        reward="0", passed="2", total="3", source="'bench'",
    )  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def ask(sql: str) -> int:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(sql)
        return int(cursor.fetchone()[0])


def peak_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def measure(tasks: int, worded: float) -> dict[str, Any]:
    with django_on_its_own_database():
        from django.core.management import call_command

        began = time.perf_counter()
        call_command("migrate", verbosity=0)
        new_s = round(time.perf_counter() - began, 3)
        migrate_back()
        empty_s, _ = upgrade()
        apps = migrate_back()
        began = time.perf_counter()
        fill(apps, tasks, worded)
        fill_s = time.perf_counter() - began
        size, peak = ask("SELECT pg_database_size(current_database())"), peak_kib()
        seconds, by_migration = upgrade()
        grown = ask("SELECT pg_database_size(current_database())") - size
        return {
            "tasks": tasks,
            "new_s": new_s,
            "empty_s": empty_s,
            "fill_s": round(fill_s, 1),
            "seconds": seconds,
            "by_migration": by_migration,
            "marked": ask("SELECT count(*) FROM scenarios_task WHERE superseded"),
            "growth_mib": round((peak_kib() - peak) / 1024, 1),
            "disk_mib": round(size / 2**20),
            "disk_growth_mib": round(grown / 2**20),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tasks", type=int, default=1_000_000)
    parser.add_argument("--worded", type=float, default=0.6, help="share of tasks with a check that reads words")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object, last")
    options = parser.parse_args()
    result = measure(options.tasks, options.worded)
    for name, value in result.items():
        print(f"{name:16} {value}")
    if options.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
