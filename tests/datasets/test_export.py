"""Exports of frozen datasets: their files in every form and format, the job, what is refused, what is kept."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.core.management import CommandError, call_command
from django.test import Client

from synthesis.errors import FormatError, InputError
from tests.datasets.dataset_support import add_task, carry_out, make_environment, make_tasks
from tests.fixtures.dataset_seed import frozen, spoken, trajectory_rows
from tests.fixtures.pages_seed import person
from training.dataset import Row, Split, TrajectoryRow, parse_line
from webapp.common.errors import Conflict
from webapp.datasets import services as datasets
from webapp.datasets.export import export_job, services
from webapp.datasets.export.files import write_files
from webapp.datasets.models import Dataset, DatasetExport, ExportState
from webapp.datasets.selection import parse_selection
from webapp.datasets.storage import open_file
from webapp.jobs import services as jobs
from webapp.jobs.jobs import execute_job
from webapp.jobs.models import Job, JobState

pytestmark = pytest.mark.django_db
PAIRS = [(form, written) for form in ("trl", "sharegpt", "envscaler", "atif") for written in ("jsonl", "parquet")]


@pytest.fixture
def talks() -> Dataset:
    return frozen(trajectory_rows(30))


def run(export: DatasetExport) -> DatasetExport:
    """Its job, as a worker does it."""
    assert export.job_id is not None
    claimed = jobs.claim_job(export.job_id, "a test")
    assert claimed is not None
    execute_job(claimed)
    return DatasetExport.objects.select_related("dataset", "job").get(pk=export.pk)


def made(dataset: Dataset, form: str = "trl", written: str = "jsonl") -> DatasetExport:
    return run(services.start_export(None, dataset, form, written)[0])


def archive(export: DatasetExport) -> bytes:
    with default_storage.open(export.stored, "rb") as file:
        content: bytes = file.read()
    return content


def lines(folder: Path, side: str = "train") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / f"{side}.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(("form", "written"), PAIRS)
def test_the_same_dataset_gives_the_same_bytes(talks: Dataset, tmp_path: Path, form: Any, written: Any) -> None:
    """Files whose hashes the manifest tells, sides apart, and a second export is equal to the last byte."""
    found = []
    for turn in ("one", "two"):
        folder = tmp_path / turn
        folder.mkdir()
        told = write_files(talks, form, written, folder)
        assert told.rows == 30
        for file in told.files:
            content = (folder / file.path).read_bytes()
            assert (len(content), hashlib.sha256(content).hexdigest()) == (file.bytes, file.sha256)
        found.append({path.name: path.read_bytes() for path in folder.iterdir()})
        manifest = json.loads(found[-1]["manifest.json"])
        rows = {file["path"]: file["rows"] for file in manifest["files"]}
        assert rows == {f"train.{written}": talks.train_rows, f"test.{written}": talks.test_rows, "README.md": 0}
        assert hashlib.sha256(found[-1]["manifest.json"]).hexdigest() == told.sha256
    assert found[0] == found[1]


def test_rows_in_trls_form_are_those_that_were_frozen(talks: Dataset, tmp_path: Path) -> None:
    write_files(talks, "trl", "jsonl", tmp_path)
    for side in ("train", "test"):
        with open_file(talks, f"{side}.jsonl") as file:
            assert (tmp_path / f"{side}.jsonl").read_bytes() == file.read()


@pytest.mark.parametrize("form", ["trl", "sharegpt", "envscaler", "atif"])
def test_parquet_holds_what_the_lines_hold(talks: Dataset, tmp_path: Path, form: Any) -> None:
    """Read with pyarrow, JSON columns decoded: the same records; in bounded row groups."""
    for written in ("jsonl", "parquet"):
        (tmp_path / written).mkdir()
        write_files(talks, form, written, tmp_path / written)
    table = pq.read_table(tmp_path / "parquet" / "train.parquet")
    features = json.loads(table.schema.metadata[b"huggingface"])["info"]["features"]
    assert decoded(table.to_pylist(), features) == lines(tmp_path / "jsonl")


def decoded(rows: list[dict[str, Any]], features: dict[str, Any]) -> list[dict[str, Any]]:
    def value(name: str, told: Any) -> Any:
        kind = features[name]
        if kind.get("_type") == "Json":
            return json.loads(told)
        if kind.get("_type") == "List" and kind["feature"].get("_type") == "Json":
            return [json.loads(item) for item in told]
        return told

    return [{name: value(name, told) for name, told in row.items()} for row in rows]


def test_parquet_is_written_in_bounded_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.datasets.export.file_writers.GROUP_ROWS", 8)
    write_files(frozen(trajectory_rows(20), test_share=0), "trl", "parquet", tmp_path)
    about = pq.ParquetFile(tmp_path / "train.parquet").metadata
    assert [about.row_group(index).num_rows for index in range(about.num_row_groups)] == [8, 8, 4]


@pytest.mark.parametrize("form", ["trl", "atif"])
def test_the_datasets_library_reads_the_files_as_objects(talks: Dataset, tmp_path: Path, form: Any) -> None:
    library = pytest.importorskip("datasets", reason="of the extra `train`")
    for written in ("jsonl", "parquet"):
        (tmp_path / written).mkdir()
        write_files(talks, form, written, tmp_path / written)
    expected = lines(tmp_path / "jsonl")[0]
    cache = {"cache_dir": str(tmp_path / "cache")}
    files = {"train": str(tmp_path / "parquet" / "train.parquet")}
    assert library.load_dataset("parquet", data_files=files, **cache)["train"][0] == expected
    files = {"train": str(tmp_path / "jsonl" / "train.jsonl")}
    read = library.load_dataset("json", data_files=files, on_mixed_types="use_json", **cache)["train"][0]
    column = "messages" if form == "trl" else "steps"
    assert read[column][-1]["content" if form == "trl" else "message"].startswith("The box of")


def test_sharegpt_and_envscaler_say_what_the_rows_say(talks: Dataset, tmp_path: Path) -> None:
    for form in ("sharegpt", "envscaler"):
        (tmp_path / form).mkdir()
        write_files(talks, form, "jsonl", tmp_path / form)  # type: ignore[arg-type]
    with open_file(talks, "train.jsonl") as file:
        rows = [json.loads(line) for line in file]
    shared, scaled = lines(tmp_path / "sharegpt"), lines(tmp_path / "envscaler")
    assert [turn["from"] for turn in shared[0]["conversations"]] == [
        "human",
        *["function_call", "observation"] * 3,
        "gpt",
    ]
    manifest = json.loads((tmp_path / "sharegpt" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["llamafactory"]["dataset_info"]["train"]["file_name"] == "train.jsonl"
    for row, record in zip(rows, scaled, strict=True):
        spelled = {name: json.loads(record[name]) for name in ("tools", "messages", "user_messages")}
        assert spelled["tools"] == row["tools"]
        assert [message["content"] for message in spelled["messages"]] == [said["content"] for said in row["messages"]]
        assert all("reasoning_content" in said for said in spelled["messages"] if said["role"] == "assistant")
        assert (record["traj_type"] == "conversation") == bool(spelled["user_messages"])
        assert record["task_info"] == {
            "env_id": row["environment"],
            "task_id": row["task"],
            "task": row["messages"][1]["content"],
        }
        assert record["steps"] == 4


def test_tasks_leave_as_prompts_with_the_whole_task_and_in_no_other_form(tmp_path: Path) -> None:
    make_tasks(2, 2)
    dataset = carry_out(datasets.create_dataset(None, parse_selection({"kind": "tasks"}), Split(test_share=0), "tasks"))
    (tmp_path / "made").mkdir()
    write_files(dataset, "trl", "parquet", tmp_path / "made")
    rows = pq.read_table(tmp_path / "made" / "train.parquet").to_pylist()
    assert len(rows) == 4
    for row in rows:
        prompt = [json.loads(message) for message in row["prompt"]]
        again = parse_line(json.dumps(row | {"prompt": prompt}).encode(), "tasks")
        assert prompt[0]["name"] == again.id == row["id"]
    for form in ("sharegpt", "envscaler", "atif"):
        with pytest.raises(InputError, match=r"does not suit a dataset of tasks.*Choose trl"):
            services.start_export(None, dataset, form, "jsonl")
    assert not DatasetExport.objects.exists()


def test_an_export_is_made_once_and_found_again(talks: Dataset) -> None:
    first, now = services.start_export(None, talks, "atif", "jsonl")
    assert now
    assert services.start_export(None, talks, "atif", "jsonl") == (first, False), "while it is being made"
    done = run(first)
    assert (done.state, done.rows) == (ExportState.READY, 30)
    assert services.start_export(None, talks, "atif", "jsonl") == (done, False)
    assert Job.objects.filter(kind=export_job.KIND).count() == 1
    packed = archive(done)
    with zipfile.ZipFile(io.BytesIO(packed)) as opened:
        assert sorted(opened.namelist()) == ["README.md", "manifest.json", "test.jsonl", "train.jsonl"]
        assert hashlib.sha256(opened.read("manifest.json")).hexdigest() == done.sha256
        assert {file["path"]: hashlib.sha256(opened.read(file["path"])).hexdigest() for file in done.files} == {
            file["path"]: file["sha256"] for file in done.files
        }
    default_storage.delete(done.stored)
    again, now = services.start_export(None, talks, "atif", "jsonl")
    assert now
    assert archive(run(again)) == packed, "one whose file was lost is made again, the same"


def test_a_card_says_what_was_frozen_and_names_the_splits(tmp_path: Path) -> None:
    make_tasks(4, 2)
    choice = parse_selection({"kind": "tasks", "source": "test"})
    split = Split(unit="task", test_share=0.5, seed=1)
    dataset = carry_out(datasets.create_dataset(None, choice, split, "Boxes | <b>", "apache-2.0"))
    told = write_files(dataset, "trl", "parquet", tmp_path)
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    front = yaml.safe_load(card.split("---\n")[1])
    assert front["license"] == "apache-2.0"
    assert front["configs"][0]["data_files"] == [
        {"split": "train", "path": "train.parquet"}, {"split": "test", "path": "test.parquet"}
    ]  # fmt: skip
    assert f"# Boxes \\| \\<b\\>\n\n{dataset.train_rows} tasks to learn from" in card
    assert f"Content of the dataset (rows of both sides and the split): `{dataset.sha256}`" in card
    assert "Split by **task**, a share of 0.5, seed 1" in card
    assert "8 tasks have no reference to execute" in card
    assert "- Source: test" in card
    assert "| test | 8 |" in card
    assert all(f"| {file.path} | {file.bytes:,} | `{file.sha256}` |" in card for file in told.files if file.rows)
    manifest = json.loads((tmp_path / "manifest.json").read_text(encoding="utf-8"))
    assert {file["path"] for file in manifest["files"]} == {
        "train.parquet", "test.parquet", "near_duplicates.json", "README.md"
    }  # fmt: skip
    assert manifest["dataset"]["report"]["licence"] == "apache-2.0"


def test_a_card_and_a_page_say_what_judges_the_tasks_and_which_are_weak(client: Client, tmp_path: Path) -> None:
    version = make_environment("shelf")
    for number in range(3):
        add_task(version, f"t{number}", facts=("It is open.",) if number else ())
    choice = parse_selection({"kind": "tasks", "source": "test"})
    dataset = carry_out(datasets.create_dataset(None, choice, Split(unit="task", test_share=0), "Boxes"))
    assert dataset.manifest["report"]["verifiers"] == {"checks": 3}
    write_files(dataset, "trl", "jsonl", tmp_path)
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "Tasks by what judges them: 3 by checks." in card
    assert "**Weak** (`contains`): in 2 of the tasks a check looks for a text in what was said" in card
    assert "for GRPOTrainer and" in card
    client.force_login(person("researcher"))
    page = client.get(f"/training/datasets/{dataset.public_id}/").content.decode()
    assert "2 weak: a substring of what was said" in page


def test_rows_that_were_chosen_here_and_never_executed_again_do_not_leave(talks: Dataset, tmp_path: Path) -> None:
    Dataset.objects.filter(pk=talks.pk).update(source="selection")
    talks.refresh_from_db()
    with pytest.raises(Conflict, match="before rows were executed again"):
        write_files(talks, "trl", "jsonl", tmp_path)
    with pytest.raises(Conflict, match="before rows were executed again"):
        services.start_export(None, talks, "trl", "jsonl")


def test_a_dataset_that_was_tampered_with_is_not_exported(talks: Dataset) -> None:
    name = f"{talks.stored}/train.jsonl"
    with default_storage.open(name, "rb") as file:
        content = file.read()
    default_storage.delete(name)
    default_storage.save(name, ContentFile(content.replace(b"Open the box", b"Burn the box", 1)))
    export = made(talks, "sharegpt")
    assert export.state == ExportState.FAILED
    assert "is not what was frozen" in export.error
    assert export.job is not None
    assert (export.job.state, export.stored) == (JobState.FAILED, "")


def test_a_stopped_export_leaves_nothing(talks: Dataset) -> None:
    export, _ = services.start_export(None, talks, "trl", "parquet")
    assert export.job_id is not None
    claimed = jobs.claim_job(export.job_id, "a test")
    assert claimed is not None
    Job.objects.filter(pk=export.job_id).update(cancel_requested=True)
    execute_job(claimed)
    export.refresh_from_db()
    assert (export.state, export.stored) == (ExportState.FAILED, "")
    assert "stopped" in export.error
    assert services.start_export(None, talks, "trl", "parquet")[1], "it can be asked for again"


def test_a_full_disk_begins_it_again(talks: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    export, _ = services.start_export(None, talks, "trl", "jsonl")
    with monkeypatch.context() as patched:
        patched.setattr(export_job, "pack_folder", full)
        waiting = run(export)
    assert waiting.job is not None
    assert (waiting.state, waiting.job.state) == (ExportState.MAKING, JobState.QUEUED)
    assert "disk was full" in waiting.job.note


def test_old_archives_are_cleared_and_one_can_be_deleted(talks: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_job, "KEPT", 1)
    old = made(talks, "trl")
    new = made(talks, "sharegpt")
    old.refresh_from_db()
    assert (old.state, old.stored, bool(old.sha256)) == (ExportState.CLEARED, "", True)
    assert services.has_archive(new)
    assert services.drop_export(None, new).state == ExportState.CLEARED
    assert not default_storage.exists(new.stored)
    waiting, _ = services.start_export(None, talks, "envscaler", "jsonl")
    with pytest.raises(Conflict, match="being made"):
        services.drop_export(None, waiting)


def test_rows_of_two_shapes_are_lines_and_no_parquet(tmp_path: Path) -> None:
    def mixed() -> Iterator[Row]:
        yield from trajectory_rows(1)
        said = spoken(9)
        yield TrajectoryRow.model_validate(
            {
                "id": "turn",
                "prompt": said[:-1],
                "completion": said[-1:],
                "tools": next(trajectory_rows(1)).trl()["tools"],
            }
        )

    dataset = frozen(mixed(), test_share=0)
    with pytest.raises(FormatError, match=r"row 2.*Choose JSON Lines"):
        write_files(dataset, "trl", "parquet", tmp_path)
    (tmp_path / "lines").mkdir()
    assert write_files(dataset, "atif", "jsonl", tmp_path / "lines").rows == 2


def test_the_command_says_what_it_wrote(
    talks: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    call_command("export_dataset", talks.name, "--form", "sharegpt", "--out", str(tmp_path / "out"), "--json")
    said = json.loads(capsys.readouterr().out)
    assert {"rows": 30, "form": "sharegpt", "dataset": talks.public_id}.items() <= said.items()
    assert said["seconds"] >= 0
    assert said["peak_rss_mib"] > 1
    assert said["sha256"] == made(talks, "sharegpt").sha256, "the job's files are the same"
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        call_command("export_dataset", talks.name, "--json")
        again = json.loads(capsys.readouterr().out)
        assert again.keys() >= {"rows", "seconds", "sha256", "peak_rss_mib"}
        manifest = (tmp_path / f"{talks.public_id}-trl-jsonl" / "manifest.json").read_bytes()
        assert again["sha256"] == hashlib.sha256(manifest).hexdigest()
    with pytest.raises(CommandError, match="something is in it"):
        call_command("export_dataset", talks.public_id, "--out", str(tmp_path / "out"))
    with pytest.raises(CommandError, match="no frozen dataset 'nowhere'"):
        call_command("export_dataset", "nowhere", "--out", str(tmp_path / "other"))
    frozen(trajectory_rows(5), test_share=0)
    with pytest.raises(CommandError, match="name one by its id"):
        call_command("export_dataset", talks.name, "--out", str(tmp_path / "third"))
