"""State changes of stored trajectories in ATIF, and exports over the API."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.datasets.dataset_support import attempts, make_tasks
from tests.datasets.test_datasets_api import downloaded
from tests.datasets.test_export import lines, run
from tests.fixtures.api import program
from tests.fixtures.dataset_seed import TOOLS, frozen, spoken, trajectory_rows
from tests.rollouts_web.support import person
from training.dataset import Row, TrajectoryRow
from webapp.datasets.export.files import write_files
from webapp.datasets.models import Dataset, DatasetExport
from webapp.trajectories.models import Step, Trajectory

pytestmark = pytest.mark.django_db
PATCH = [{"op": "replace", "path": "/boxes/1/open", "value": True}]


def stored(tools: tuple[str, ...]) -> Trajectory:
    """An attempt whose second call changed the state, and whose third changed more than is kept."""
    (row,) = attempts(make_tasks(1, 1)[0], "solved")
    Step.objects.create(trajectory=row, index=0, kind="user", content="Open it.")
    changes: dict[int, dict[str, Any]] = {1: {"patch": PATCH, "change_count": 1}, 2: {"change_count": 900}}
    for index, tool in enumerate(tools):
        Step.objects.create(trajectory=row, index=index + 1, kind="change", tool=tool, **changes.get(index, {}))
    return row


def dataset_of(row: Trajectory) -> Dataset:
    def rows() -> Iterator[Row]:
        told = {"messages": spoken(1), "tools": TOOLS, "environment": "shelf"}
        for ident in (f"trajectory:{row.pk}", "trajectory:999999"):
            yield TrajectoryRow.model_validate({"id": ident, **told})

    return frozen(rows(), test_share=0, source="selection")


def test_state_changes_of_a_stored_trajectory_stand_at_their_steps(tmp_path: Path) -> None:
    write_files(dataset_of(stored(("find_box", "open_box", "close_box"))), "atif", "jsonl", tmp_path)
    known, gone = lines(tmp_path)
    assert known["agent"]["model_name"] == "a model"
    assert known["extra"] == {"environment": "shelf", "setting": "task", "state_changes": "by step"}
    extras = [step.get("extra") for step in known["steps"] if step["source"] == "agent"]
    assert extras == [
        None,
        {"state_changes": [{"tool_call_id": "call_1_1", "patch": PATCH}]},
        {"state_changes": [{"tool_call_id": "call_1_2", "omitted": 900}]},
        None,
    ]
    assert gone["extra"]["state_changes"] == "not known"
    assert "model_name" not in gone["agent"]


def test_changes_of_other_calls_are_not_passed_off_as_these(tmp_path: Path) -> None:
    write_files(dataset_of(stored(("find_box", "close_box", "open_box"))), "atif", "jsonl", tmp_path)
    assert lines(tmp_path)[0]["extra"]["state_changes"] == "not known"


def test_an_uploaded_row_takes_no_trajectory_of_this_site(tmp_path: Path) -> None:
    """Ids of an uploaded file are the uploader's own."""
    dataset = dataset_of(stored(("find_box", "open_box", "close_box")))
    dataset.source = "file"
    write_files(dataset, "atif", "jsonl", tmp_path)
    assert lines(tmp_path)[0]["extra"]["state_changes"] == "not known"


def test_exports_over_the_api() -> None:
    client = program(person("researcher", "ruth"), "read", "train")
    dataset = frozen(trajectory_rows(12))
    base = f"/datasets/{dataset.public_id}/exports"
    asked = client.post(base, {"form": "sharegpt", "format": "parquet"})
    assert asked.status_code == 202, asked.content
    made = asked.json()
    assert (made["object"], made["state"], made["files"]) == ("dataset.export", "making", [])
    assert client.get(f"{base}/{made['id']}/content").status_code == 404
    assert client.send("DELETE", f"{base}/{made['id']}").status_code == 409
    run(DatasetExport.objects.get(public_id=made["id"]))
    again = client.post(base, {"form": "sharegpt", "format": "parquet"})
    assert (again.status_code, again.json()["id"], again.json()["state"]) == (200, made["id"], "ready")
    assert [one["id"] for one in client.get(base).json()["data"]] == [made["id"]]
    done = client.get(f"{base}/{made['id']}").json()
    with zipfile.ZipFile(io.BytesIO(downloaded(client.get(f"{base}/{made['id']}/content")))) as archive:
        assert json.loads(archive.read("manifest.json"))["files"] == done["files"]
    assert client.send("DELETE", f"{base}/{made['id']}").json()["state"] == "cleared"
    assert client.post(base, {"form": "alpaca"}).status_code == 422


@pytest.mark.slow  # loads TRL
def test_trl_formats_rows_of_either_format(tmp_path: Path) -> None:
    """Calls and tools reach a chat template as objects, as `apply_chat_template` of TRL hands them on."""
    library = pytest.importorskip("datasets", reason="of the extra `train`")
    trl = pytest.importorskip("trl.data_utils", reason="of the extra `train`")
    dataset = frozen(trajectory_rows(4), test_share=0)
    for written in ("jsonl", "parquet"):
        (tmp_path / written).mkdir()
        write_files(dataset, "trl", written, tmp_path / written)  # type: ignore[arg-type]
    about = {"cache_dir": str(tmp_path / "cache")}
    files = {"train": str(tmp_path / "parquet" / "train.parquet")}
    rows = library.load_dataset("parquet", data_files=files, **about)["train"]
    for row, told in zip(rows, lines(tmp_path / "jsonl"), strict=True):
        assert trl.is_conversational(row)
        assert (row["messages"], row["tools"]) == (told["messages"], told["tools"])
        assert isinstance(row["messages"][2]["tool_calls"][0]["function"]["arguments"], dict)
