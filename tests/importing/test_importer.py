"""EnvScaler's files in and out again: idempotent, lossless, one record at a time, and two imports at once."""

from __future__ import annotations

import io
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.core.management import CommandError, call_command
from django.db import connection

from synthesis.errors import InputError
from synthesis.formats.files import parse_entries
from synthesis.runtime import get_default_sandbox
from webapp.environments.models import Environment, Tool, Version
from webapp.jobs.claims import Cancelled
from webapp.jobs.context import JobContext
from webapp.jobs.jobs import execute_job
from webapp.jobs.registry import KINDS
from webapp.jobs.services import claim_job
from webapp.scenarios.importer import import_entries
from webapp.scenarios.models import Check, Scenario, StateBody, Task, TaskRevision
from webapp.scenarios.services import start_envscaler_import
from webapp.scenarios.states import load_state, store_state
from webapp.scenarios.task_records import iterate_exported_scenarios
from webapp.trajectories.importer import import_runs

from . import samples


def load(environments: Any, scenarios: Any = (), **options: Any) -> dict[str, Any]:
    def entries(records: Any) -> list[Any]:
        return parse_entries(json.dumps(records).encode()) if records else []

    return import_entries(get_default_sandbox(), entries(environments), entries(scenarios), "envscaler", **options)


def counts(report: dict[str, Any]) -> list[tuple[int, int, int, int]]:
    names = ("environments", "scenarios", "tasks")
    parts = ("created", "unchanged", "updated", "failed")
    found = [[report[name][part] for part in parts] for name in names]
    return [tuple(len(v) if isinstance(v, list) else v for v in part) for part in found]


@pytest.mark.django_db
def test_a_second_import_changes_nothing() -> None:
    first = load([samples.environment()], [samples.scenario("a"), samples.scenario("b", init_config={"tickets": {}})])
    assert counts(first) == [(1, 0, 0, 0), (2, 0, 0, 0), (2, 0, 0, 0)]
    again = load([samples.environment()], [samples.scenario("a"), samples.scenario("b", init_config={"tickets": {}})])
    assert counts(again) == [(0, 1, 0, 0), (0, 2, 0, 0), (0, 2, 0, 0)]
    assert again["findings"] == first["findings"]
    row = Environment.objects.get()
    assert (row.tool_count, row.scenario_count, row.task_count) == (3, 2, 2)
    assert row.finding_count == row.current.findings.count() > 0
    assert Version.objects.count() == 1
    assert TaskRevision.objects.count() == 2


@pytest.mark.django_db
def test_tools_keep_both_schemas_and_their_source() -> None:
    load([samples.environment()])
    tool = Tool.objects.get(name="open_ticket")
    assert tool.raw_schema["required"] == ["title", "priority"]
    assert tool.parameters["required"] == ["title"]
    assert tool.source.lstrip().startswith("def open_ticket")
    assert tool.kind == "change"


@pytest.mark.django_db
def test_a_changed_record_is_a_new_version_and_the_old_one_can_come_back() -> None:
    load([samples.environment()], [samples.scenario()])
    changed = samples.environment(environment_summary="Ticket desk two")
    report = load([changed], [samples.scenario()])
    assert counts(report) == [(0, 0, 1, 0), (1, 0, 0, 0), (0, 0, 1, 0)], "each record is counted once"
    row = Environment.objects.get()
    assert (row.name, row.current.number, row.versions.count()) == ("Ticket desk two", 2, 2)
    assert (row.scenario_count, row.task_count) == (1, 1)
    task = Task.objects.get()
    assert (task.current.number, task.scenario.version_id) == (2, row.current_id)
    load([samples.environment()], [samples.scenario()])
    row.refresh_from_db()
    task.refresh_from_db()
    assert (row.current.number, row.versions.count(), task.current.number) == (1, 2, 1)
    assert task.scenario.version_id == row.current_id


@pytest.mark.django_db
def test_tasks_on_one_state_share_a_scenario() -> None:
    report = load([samples.environment()], [samples.scenario("a"), samples.scenario("b", task="Another one.")])
    assert counts(report)[1:] == [(1, 1, 0, 0), (2, 0, 0, 0)]
    assert Scenario.objects.get().task_count == 2


@pytest.mark.django_db
def test_marks_and_what_doing_nothing_gives() -> None:
    load([samples.environment()], [samples.scenario()])
    task = Task.objects.get()
    assert [check.mark for check in Check.objects.order_by("position")] == ["goal", "guard", "goal"]
    assert task.do_nothing == pytest.approx(1 / 3)
    assert task.check_count == 3


@pytest.mark.django_db
def test_bad_records_are_reported_and_the_rest_goes_in() -> None:
    environments = [samples.environment("good"), samples.environment("bad", env_class_code=...), 7]
    scenarios = [
        samples.scenario("a", env="good"),
        samples.scenario("b", env="bad"),
        samples.scenario("c", env="good", checklist_with_func=[{"check_func": 3}]),
    ]
    report = load(environments, scenarios)
    assert counts(report) == [(1, 0, 0, 2), (1, 0, 0, 2), (1, 0, 0, 2)]
    assert [item["place"] for item in report["environments"]["failed"]] == ["[1].env_class_code", "[2]"]
    assert [item["place"] for item in report["tasks"]["failed"]] == [
        "[1].env_id",
        "[2].checklist_with_func[0].check_func",
    ]


@pytest.mark.django_db
@pytest.mark.parametrize("text", ["a\x00b", "\ud800", "\u202e<script>", "\U0001d54f" * 5000, "'; DROP TABLE x; --"])
def test_hostile_text_in_every_field(text: str) -> None:
    environment = samples.environment(
        environment_summary=text,
        environment_introduction=text,
        constraints_rules=[text],
        state_space_definition=[{"entity": text, "attributes": text, text: [text]}],
        extra={text: text},
    )
    environment["tools"][0]["function"]["description"] = text
    state = samples.state() | {"agents": {text: {"name": text}}}
    scenario = samples.scenario(task="x" + text, init_config=state)
    scenario["checklist_with_func"][0]["check_item"] = text
    report = load([environment], [scenario])
    assert counts(report) == [(1, 0, 0, 0), (1, 0, 0, 0), (1, 0, 0, 0)], report
    assert next(iter(iterate_exported_scenarios(Task.objects.all()))) == scenario
    assert Environment.objects.get().current.record == environment


@pytest.mark.django_db
@pytest.mark.parametrize(
    "source",
    [
        "class TicketDesk(:",
        "class TicketDesk:\n    def look(self):\n        return 1\nraise SystemExit",
        "class TicketDesk:\n    def __init__(self):\n        while True: pass\n    def look(self):\n        return 1",
        "import os\nclass TicketDesk:\n    def look(self):\n        return os.fork()",
        "class TicketDesk:\n    def look(self):\n        return 1\n" + "#" * 100_000,
        "class TicketDesk:\n    def look(self):\n        return \x00",
    ],
)
@pytest.mark.usefixtures("brief_calls")
def test_a_hostile_program_is_stored_with_its_findings(source: str) -> None:
    report = load([samples.environment(env_class_code=source)], [samples.scenario()])
    assert counts(report)[0] == (1, 0, 0, 0)
    assert report["environments"]["failed"] == report["tasks"]["failed"] == []


@pytest.mark.django_db
@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"properties": []},
        {"properties": {"ticket_id": 3}, "required": "ticket_id"},
        {"properties": {"ticket_id": {"type": {"a": 1}, "enum": {"b": 2}, "anyOf": 5}}, "required": [[]]},
        {"properties": {"ticket_id": {"$ref": "https://example.org/x"}}, "additionalProperties": "no"},
    ],
)
def test_a_malformed_schema_is_shown_and_nothing_else_breaks(schema: dict[str, object]) -> None:
    tools = [
        {"type": "function", "function": {"name": name, "description": "", "parameters": schema}}
        for name in ("get_ticket", "no_such_method")
    ]
    report = load([samples.environment(tools=tools)], [samples.scenario()])
    assert counts(report) == [(1, 0, 0, 0), (1, 0, 0, 0), (1, 0, 0, 0)], report
    assert report["findings"]["no_method"] == 1


@pytest.mark.django_db
def test_states_are_kept_once_with_the_order_of_their_keys() -> None:
    first = store_state({"b": 1, "a": [1, 2]})
    assert store_state({"b": 1, "a": [1, 2]}).pk == first.pk
    other = store_state({"a": [1, 2], "b": 1})
    assert other.pk != first.pk
    assert other.state_hash == first.state_hash
    assert list(load_state(first.pk)) == ["b", "a"]
    StateBody.objects.filter(pk=first.pk).update(body=b"nonsense")
    with pytest.raises(InputError, match="damaged"):
        load_state(first.pk)


def write(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value))
    return path


@pytest.mark.django_db
def test_commands_there_and_back(tmp_path: Path) -> None:
    environments = {
        "desk": samples.environment(),
        "other": samples.environment("other", tools="[]", extra=[1, {"z": 0}]),
    }
    scenarios = [samples.scenario("a"), samples.scenario("b", init_config=json.dumps(samples.state()), checklist=["x"])]
    files = [write(tmp_path / "e.json", environments), write(tmp_path / "s.json", scenarios)]
    out, told = io.StringIO(), io.StringIO()
    call_command("import_envscaler", *files, json=True, stdout=out, stderr=told)
    report = json.loads(out.getvalue())
    assert counts(report) == [(2, 0, 0, 0), (1, 1, 0, 0), (2, 0, 0, 0)]
    assert "2 created" in told.getvalue()
    back = [tmp_path / "e2.json", tmp_path / "s2.json"]
    call_command("export_envscaler", *back)
    assert json.dumps(json.loads(back[0].read_text())) == json.dumps(environments)
    assert json.dumps(json.loads(back[1].read_text())) == json.dumps(scenarios)
    out = io.StringIO()
    call_command("import_envscaler", *back, json=True, stdout=out, stderr=told)
    assert counts(json.loads(out.getvalue())) == [(0, 2, 0, 0), (0, 2, 0, 0), (0, 2, 0, 0)]


@pytest.mark.django_db
def test_an_export_holds_every_source_or_the_one_that_is_named(tmp_path: Path) -> None:
    """Tasks of a batch may stand on environments of another source; an id that two sources share is exported once."""

    def bring(source: str, *keys: str) -> None:
        files = [write(tmp_path / "e.json", [samples.environment(key) for key in keys])]
        files.append(write(tmp_path / "s.json", [samples.scenario(f"of-{key}", key) for key in keys]))
        call_command("import_envscaler", *files, "--source", source, stderr=io.StringIO())

    def exported(*given: str) -> tuple[list[str], list[str], str]:
        told = io.StringIO()
        out = [tmp_path / "e2.json", tmp_path / "s2.json"]
        call_command("export_envscaler", *out, *given, stderr=told)
        tasks = [one["task_id"] for one in json.loads(out[1].read_text())]
        return list(json.loads(out[0].read_text())), tasks, told.getvalue()

    bring("envscaler", "desk", "other")
    bring("synthesis", "desk", "grown")
    Task.objects.filter(source="synthesis", key="of-grown").update(environment=Environment.objects.get(key="other"))
    environments, tasks, told = exported()
    assert (environments, tasks) == (["desk", "other", "grown"], ["of-desk", "of-other", "of-grown"])
    assert "1 environments were left out" in told
    assert exported("--source", "envscaler")[:2] == (["desk", "other"], ["of-desk", "of-other"])
    environments, tasks, told = exported("--source", "synthesis")
    assert (environments, tasks) == (["other", "desk", "grown"], ["of-desk", "of-grown"])
    assert "left out" not in told


@pytest.mark.django_db
@pytest.mark.parametrize("command", ["export_envscaler", "export_trajectories", "export_sft"])
def test_an_unknown_source_is_an_error_that_lists_the_known_ones(tmp_path: Path, command: str) -> None:
    with pytest.raises(CommandError, match="none, as nothing is here yet"):
        call_command(command, tmp_path / "out.json", "--source", "nowhere", stderr=io.StringIO())
    load([samples.environment()], [samples.scenario("a")])
    import_runs(
        get_default_sandbox(), parse_entries(json.dumps([samples.run([samples.CLOSE], 0.6667, key="a")]).encode())
    )
    with pytest.raises(CommandError, match=r"source 'nowhere'. Known sources: envscaler\.") as caught:
        call_command(command, tmp_path / "out.json", "--source", "nowhere", stderr=io.StringIO())
    assert caught.value.returncode == 2
    assert not (tmp_path / "out.json").exists()


@pytest.mark.django_db
@pytest.mark.parametrize("content", [None, b"", b"\x00\xff\x00", b"{]", b"[1, 2"])
def test_an_unusable_file_ends_the_command_with_code_2(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "file.json"
    if content is not None:
        path.write_bytes(content)
    for command in ("import_envscaler", "import_trajectories"):
        with pytest.raises(CommandError) as caught:
            call_command(command, path, stderr=io.StringIO())
        assert caught.value.returncode == 2
        assert "\n" not in str(caught.value)
    assert not Environment.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_two_imports_at_once_make_one_of_everything() -> None:
    reports: list[Any] = []
    barrier = threading.Barrier(3)

    def work() -> None:
        try:
            barrier.wait()
            reports.append(load([samples.environment()], [samples.scenario("a"), samples.scenario("b")]))
        except BaseException as error:
            reports.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(isinstance(report, dict) for report in reports), reports
    for kind in ("environments", "tasks"):
        assert all(report[kind]["failed"] == [] for report in reports), reports
    assert sum(report["environments"]["created"] for report in reports) == 1
    assert sum(report["tasks"]["created"] for report in reports) == 2
    assert (Environment.objects.count(), Version.objects.count(), TaskRevision.objects.count()) == (1, 1, 2)
    row = Environment.objects.get()
    assert (row.scenario_count, row.task_count) == (1, 2)


@pytest.mark.django_db
def test_the_number_of_scenarios_follows_the_current_version() -> None:
    found = []
    load([samples.environment()], [samples.scenario()])
    for summary in ("Ticket desk two", samples.environment()["environment_summary"]):
        load([samples.environment(environment_summary=summary)])
        found.append(Environment.objects.get().scenario_count)
    assert found == [0, 1]


def upload(value: Any, name: str = "x.json") -> ContentFile[bytes]:
    return ContentFile(json.dumps(value).encode(), name=name)


def context_of(job: Any) -> JobContext:
    claimed = claim_job(job.pk, "test")
    assert claimed
    return JobContext.of(claimed)


@pytest.mark.django_db
def test_a_job_imports_an_upload_and_removes_it() -> None:
    job = start_envscaler_import(None, upload([samples.environment()], "../../e.json"), upload([samples.scenario()]))
    stored = job.payload["environments"]
    assert stored["original"] == "e.json"
    assert ".." not in stored["name"]
    claimed = claim_job(job.pk, "test")
    assert claimed
    execute_job(claimed)
    job.refresh_from_db()
    assert counts(job.result) == [(1, 0, 0, 0), (1, 0, 0, 0), (1, 0, 0, 0)]
    assert not default_storage.exists(stored["name"])


@pytest.mark.django_db
def test_a_job_stops_between_records_and_goes_on_where_it_was() -> None:
    job = start_envscaler_import(None, upload([samples.environment(f"e{i}") for i in range(3)]))
    context = context_of(job)

    def stop(done: int, total: int, note: str = "") -> None:
        if done == 2:
            raise Cancelled("stop")

    context.progress = stop  # type: ignore[method-assign]
    with pytest.raises(Cancelled):
        KINDS["import_envscaler"].handler(context)
    assert Environment.objects.count() == 2
    del context.progress  # type: ignore[method-assign]
    report = KINDS["import_envscaler"].handler(context)
    assert counts(report)[0] == (1, 2, 0, 0)


@pytest.mark.django_db
def test_uploads_are_bounded(settings: Any) -> None:
    settings.UPLOAD_LIMIT_MIB = 1
    with pytest.raises(InputError, match="larger"):
        start_envscaler_import(None, ContentFile(b" " * (1 << 21), name="x"))
    with pytest.raises(InputError, match="empty"):
        start_envscaler_import(None, ContentFile(b"", name="x"))


@pytest.mark.data
@pytest.mark.django_db
def test_the_real_files(real_data: Path, tmp_path: Path) -> None:
    folder = real_data / "envscaler"
    files = [folder / "env_metadata.json", folder / "rl_scenarios.json"]
    out = io.StringIO()
    call_command("import_envscaler", *files, json=True, stdout=out, stderr=io.StringIO())
    report = json.loads(out.getvalue())
    assert counts(report) == [(22, 0, 0, 0), (52, 0, 0, 0), (52, 0, 0, 0)]
    scores = list(Task.objects.values_list("do_nothing", flat=True))
    assert sum(score > 0 for score in scores) == report["findings"]["check_true_at_start"] == 35
    assert round(sum(scores) / 52, 3) == 0.139
    assert round(max(scores), 3) == 0.989
    back = [tmp_path / "e.json", tmp_path / "s.json"]
    call_command("export_envscaler", *back)
    for path, original in zip(back, files, strict=True):
        assert json.dumps(json.loads(path.read_text())) == json.dumps(json.loads(original.read_text()))
