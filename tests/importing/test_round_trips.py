"""What the site exports comes in again, into a home that has nothing, without help; parts of a split task differ."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.core.files.base import ContentFile
from django.core.management import call_command
from django.test import Client
from django.urls import get_resolver

from synthesis.formats.envscaler import parse_scenarios
from synthesis.formats.files import parse_entries
from synthesis.formats.records import TaskRecord
from synthesis.runtime import get_default_sandbox
from synthesis.starter import load_bundle as bundled
from tests.fixtures import pages_seed
from tests.fixtures.api import program
from tests.fixtures.atif_files import TERMINAL
from tests.importing import samples
from tests.importing.test_importer import load
from webapp.accounts.models import User
from webapp.common.disk import get_disk
from webapp.environments.models import Environment, Version
from webapp.jobs import services as jobs
from webapp.jobs.jobs import execute_job
from webapp.jobs.models import Job, JobState
from webapp.scenarios.models import Task, TaskRevision
from webapp.scenarios.references import find_reference
from webapp.scenarios.services import start_envscaler_import
from webapp.scenarios.starter_set import load_starter
from webapp.scenarios.task_records import iterate_exported_scenarios
from webapp.trajectories.foreign_runs import import_foreign_runs
from webapp.trajectories.importer import import_runs
from webapp.trajectories.models import Trajectory
from webapp.trajectories.rollouts.services import start_rollout
from webapp.trajectories.rollouts.spec import Spec
from webapp.trajectories.services import start_trajectory_import

pytestmark = pytest.mark.django_db(transaction=True)

TRUE = "def check_func(final_state):\n    return True"
CLOSE, LOOK = samples.CLOSE, samples.LOOK


def carry_out(job: Job) -> Job:
    claimed = jobs.claim_job(job.pk, "here")
    assert claimed is not None, (Job.objects.values("state", "worker", "attempt").get(pk=job.pk), get_disk())
    execute_job(claimed)
    job.refresh_from_db()
    assert job.state == JobState.SUCCEEDED, job.error
    return job


@pytest.fixture
def home() -> None:
    """Records of every origin: imported, of two sources with one id, edited, bundled, made here, foreign."""
    load([samples.environment()], [samples.scenario("a"), samples.scenario("b")])
    import_runs(
        get_default_sandbox(), entries(samples.run([CLOSE], 0.6667, key="a"), samples.run([LOOK], None, key="b"))
    )
    changed = samples.scenario("a", task="Close the ticket about the printer, and nothing else.")
    load([samples.environment(environment_summary="Ticket desk two")], [changed])
    other = samples.environment(environment_summary="Another desk", constraints_rules=["None."])
    call_command_with("import_envscaler", [other], [samples.scenario("a")], source="other")
    environments, tasks, runs = bundled()
    key = "clinic_desk" if any(record.key == "clinic_desk" for record in environments) else environments[0].key
    load_starter(
        get_default_sandbox(), [r for r in environments if r.key == key], [t for t in tasks if t.environment_key == key]
    )
    mine = [run.raw for run in runs if run.environment_key == key][:1]
    import_runs(get_default_sandbox(), entries(*mine))
    ann = pages_seed.person("annotator")
    task = Task.objects.filter(source="starter").order_by("id")[0]
    rollouts = [Spec(policy="reference", attempts=2), Spec(policy="noisy", noise=0.6, attempts=2, seed=3)]
    for spec in rollouts:
        carry_out(start_rollout(ann, task, spec).job)
    lost = Trajectory.objects.filter(source="rollout").order_by("-id")[0]
    lost.steps.filter(index__gt=1).delete()
    Trajectory.objects.filter(pk=lost.pk).update(
        record={}, outcome="infra_error", reward=None, passed=None, total=None, note="The worker was lost."
    )
    lost.scores.all().delete()
    import_foreign_runs(json.dumps(TERMINAL).encode(), "atif.json", 1 << 20)


def entries(*records: Any) -> Any:
    return parse_entries(json.dumps(list(records)).encode())


def call_command_with(command: str, *files: Any, **options: Any) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{number}.json" for number, _ in enumerate(files)]
        for path, content in zip(paths, files, strict=True):
            path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        call_command(command, *paths, stderr=io.StringIO(), **options)


def empty_the_home() -> None:
    for model in ("trajectories.Rollout", "trajectories.Trajectory", "scenarios.Task", "scenarios.Scenario"):
        apps.get_model(model).objects.all().delete()
    Environment.objects.update(current=None)
    Environment.objects.all().delete()
    assert not Version.objects.exists()


def environments() -> list[Any]:
    found = [
        (row.source, row.key, row.name, row.category, row.current and (row.current.content_hash, tools_of(row.current)))
        for row in Environment.objects.select_related("current")
    ]
    return sorted(found, key=repr)


def tools_of(version: Version) -> Any:
    return list(
        version.tools.order_by("position").values_list("name", "kind", "description", "parameters", "raw_schema")
    )


def told_task(row: TaskRevision) -> Any:
    reference = find_reference(row)
    task = row.task
    return (
        (task.source, task.environment.source, task.environment.key, task.key, row.content_hash),
        (
            row.instruction,
            row.score_rule,
            row.verifier_kind,
            row.verifier_hash,
            row.frame,
            row.withheld,
            row.do_nothing,
        ),
        (row.scenario.initial_id, row.scenario.version.content_hash, row.golden_id, row.superseded),
        list(row.checks.order_by("position").values_list("label", "source", "mark")),
        reference and (reference.calls, reference.answer),
    )


def tasks() -> list[Any]:
    rows = Task.objects.select_related("current__task__environment", "current__scenario__version")
    return sorted(((row.title, told_task(row.current)) for row in rows if row.current), key=repr)


def runs() -> list[Any]:
    rows = Trajectory.objects.select_related("revision__task__environment", "revision__scenario__version")
    return sorted(map(told_run, rows), key=repr)


def told_run(row: Trajectory) -> Any:
    steps = row.steps.order_by("index")
    names = ("turn", "kind", "content", "reasoning", "tool", "arguments", "ok", "result", "patch")
    return (
        (row.source, row.policy, row.conversational, row.seed, row.now, row.validation, row.answer, row.title),
        (row.outcome, row.reward, row.passed, row.total, row.user_error, row.user_fault, row.note, row.rejected),
        row.revision and told_task(row.revision)[0],
        row.provenance,
        list(steps.values_list(*names)),
    )


def researcher() -> User:
    return User.objects.filter(username="the-researcher").first() or pages_seed.person("researcher")


def page(address: str) -> Callable[[], bytes]:
    def fetch() -> bytes:
        client = Client()
        client.force_login(researcher())
        answer = client.get(address)
        assert answer.status_code == 200, address
        return read(answer)

    return fetch


def api(address: str) -> Callable[[], bytes]:
    def fetch() -> bytes:
        answer = program(researcher(), "read").get(address)
        assert answer.status_code == 200, address
        return read(answer)

    return fetch


def read(answer: Any) -> bytes:
    if not answer.streaming:
        return bytes(answer.content)
    from asgiref.sync import async_to_sync

    async def whole() -> bytes:
        return b"".join([part if isinstance(part, bytes) else part.encode() async for part in answer])

    return async_to_sync(whole)()


def file_of(command: str) -> Callable[[], bytes]:
    def fetch() -> bytes:
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            call_command(command, Path(folder) / "out", stderr=io.StringIO())
            return (Path(folder) / "out").read_bytes()

    return fetch


def take_runs(content: bytes) -> None:
    told = carry_out(start_trajectory_import(None, ContentFile(content, name="export.jsonl"))).result
    assert told["failed"] == [], told


def take_runs_by_command(content: bytes) -> None:
    call_command_with("import_trajectories", content)


def take_environments(content: bytes) -> None:
    told = carry_out(start_envscaler_import(None, ContentFile(content, name="export.json"))).result
    assert [told[kind]["failed"] for kind in ("environments", "tasks")] == [[], []], told


WALKED: dict[str, tuple[Callable[[], bytes], Callable[[bytes], None], Callable[[], list[Any]]]] = {
    "trajectories:export_list": (page("/trajectories/export.jsonl"), take_runs, runs),
    "api:export_trajectories": (api("/trajectories/export"), take_runs_by_command, runs),
    "export_trajectories": (file_of("export_trajectories"), take_runs, runs),
    "environments:export_list": (page("/environments/export"), take_environments, environments),
    "api:export_environments": (api("/environments/export"), take_environments, environments),
    "scenarios:export": (page("/tasks/export/"), take_environments, tasks),
    "api:export_tasks": (api("/tasks/export"), take_environments, tasks),
}


TRAINING_FILES = {
    "api:export_training_data", "api:fetch_training_export", "api:get_file_content", "api:download_dataset",
    "api:download_dataset_export", "trajectories:training_download", "trajectories:training_file",
    "datasets:download", "datasets:export_file",
}  # fmt: skip
"""Come in again as uploads: `tests/datasets/test_round_trips.py`."""
SAME = {"environments:export", "trajectories:export"}
"""One row of a list that is walked."""
ONE_WAY = {
    "api:get_pair", "trajectories:pair", "batches:call_file", "runs:curves_csv", "runs:curves_png",
    "api:get_training_metrics_csv", "api:get_training_curves_png", "runs:checkpoint_file",
    "api:download_checkpoint_file", "api:download_file", "api:download_served_file", "playground:export",
}  # fmt: skip
"""Reports, pictures, weights and pairs of preferences: nothing here reads them."""


def names_of_files(patterns: Any, space: str = "") -> set[str]:
    found = set()
    for pattern in patterns:
        if hasattr(pattern, "url_patterns"):
            found |= names_of_files(
                pattern.url_patterns, f"{space}{pattern.namespace}:" if pattern.namespace else space
            )
        elif re.search(
            r"(export_|:export$|:download|fetch_|_csv$|_png$|[:_]pair$|_file$|_content$|_data$)",
            name := f"{space}{pattern.name}",
        ):
            found.add(name)
    return found


ACTS = {
    "api:create_training_export", "api:list_dataset_exports", "api:create_dataset_export", "api:get_dataset_export",
    "api:delete_dataset_export", "api:upload_file", "api:get_file", "api:delete_file", "datasets:export_start",
    "datasets:export_delete",
}  # fmt: skip
"""Start, list and delete files; none of them gives one."""


def test_every_file_that_leaves_is_walked_or_leaves_for_good() -> None:
    """A route that gives a file is in one of these tables: whoever adds one says how it comes in again."""
    walked = {name for name in WALKED if ":" in name}
    known = walked | TRAINING_FILES | SAME | ONE_WAY | ACTS
    assert names_of_files(get_resolver().url_patterns) <= known


@pytest.mark.parametrize("name", WALKED)
def test_an_export_comes_in_again_as_it_was(home: None, name: str) -> None:
    fetch, take, compared = WALKED[name]
    before, told = compared(), fetch()
    assert len(before) >= 3
    empty_the_home()
    take(told)
    assert compared() == before
    assert sorted(fetch().splitlines()) == sorted(told.splitlines()), "and leaves again as it came"
    count = Trajectory.objects.count()
    take(told)
    assert Trajectory.objects.count() == count, "a second time brings nothing"


def test_exports_of_environments_and_of_tasks_come_in_together(home: None) -> None:
    """Both hold the environments: what stands twice with the same content is no fault."""
    before = (environments(), tasks())
    files = [ContentFile(page(address)(), name="export.json") for address in ("/environments/export", "/tasks/export/")]
    empty_the_home()
    told = carry_out(start_envscaler_import(None, *files)).result
    assert [told[kind]["failed"] for kind in ("environments", "tasks")] == [[], []]
    assert (environments(), tasks()) == before


def test_an_id_that_stands_twice_with_other_content_is_reported() -> None:
    records = [samples.environment("e"), samples.environment("e"), samples.environment("e", environment_summary="Else")]
    told = load(records)
    assert told["environments"]["created"] == 1
    assert [failure["reason"] for failure in told["environments"]["failed"]] == [
        "the id 'e' is already at [0] in this file, with other content"
    ]


def test_a_recorded_run_of_a_bundled_environment_brings_it_along() -> None:
    raw = bundled()[2][0].raw
    first = import_runs(get_default_sandbox(), entries(raw))
    assert (first["created"], first["failed"]) == (1, [])
    row = Trajectory.objects.get()
    assert (row.source, row.environment and row.environment.key) == ("starter", raw["task_info"]["env_id"])
    assert import_runs(get_default_sandbox(), entries(raw))["unchanged"] == 1


def test_what_runs_bring_along_replaces_nothing_that_is_here(home: None) -> None:
    told = file_of("export_trajectories")()
    empty_the_home()
    load([samples.environment(environment_summary="Mine")], [samples.scenario("a", task="Another task of mine.")])
    before = [row for row in tasks() if row[1][0][0] == "envscaler"]
    take_runs(told)
    kept = [row for row in tasks() if row[1][0][0] == "envscaler"]
    assert [row for row in kept if row[1][0][3] == "a"] == before
    assert Environment.objects.get(source="envscaler").name == "Mine"


def test_parts_of_a_split_task_leave_under_their_own_ids() -> None:
    load([samples.environment()], [samples.scenario("a"), samples.scenario("b")])
    first, second = Task.objects.order_by("id")
    # What a split leaves: the other part's record still has the id of the task that it was part of.
    record = {**second.current.record, "task_id": first.key}
    type(second.current).objects.filter(pk=second.current.pk).update(record=record)
    told = list(iterate_exported_scenarios(Task.objects.all()))
    assert [one["task_id"] for one in told] == [first.key, second.key]
    read = [record for _, record in parse_scenarios(parse_entries(json.dumps(told).encode()))]
    assert [one.key for one in read if isinstance(one, TaskRecord)] == [first.key, second.key]
