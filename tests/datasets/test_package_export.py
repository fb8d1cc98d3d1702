"""Datasets of tasks that leave as a package for `verifiers`: by the job, the page, the API and the command."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from synthesis.errors import InputError
from synthesis.portable.task_file import TaskFile
from tests.datasets.dataset_support import carry_out, make_tasks
from tests.datasets.test_export import archive, run
from tests.fixtures import pages_seed
from tests.fixtures.api import problem, program
from tests.fixtures.dataset_seed import frozen, trajectory_rows
from training.dataset import Split, TaskRow, parse_line
from webapp.accounts.models import Role
from webapp.datasets import services as datasets
from webapp.datasets.export import services
from webapp.datasets.export.files import write_files
from webapp.datasets.export.package import get_package_id
from webapp.datasets.models import Dataset, DatasetExport
from webapp.datasets.selection import parse_selection
from webapp.datasets.storage import open_file

pytestmark = pytest.mark.django_db
HOSTILE = 'Boxes """ <b>\n---'


@pytest.fixture
def tasks() -> Dataset:
    make_tasks(2, 2)
    split = Split(unit="task", test_share=0.5, seed=1)
    return carry_out(datasets.create_dataset(None, parse_selection({"kind": "tasks"}), split, HOSTILE, "apache-2.0"))


def frozen_tasks(dataset: Dataset, side: str) -> list[TaskRow]:
    with open_file(dataset, f"{side}.jsonl") as file:
        rows = [parse_line(line, "tasks") for line in file]
    return [row for row in rows if isinstance(row, TaskRow)]


def test_the_job_packs_a_wheel_that_holds_the_frozen_tasks(tasks: Dataset, tmp_path: Path) -> None:
    export = run(services.start_export(None, tasks, "verifiers", "")[0])
    assert (export.format, export.rows, export.error) == ("wheel", 4, "")
    wheel = next(file["path"] for file in export.files if file["rows"])
    with zipfile.ZipFile(io.BytesIO(archive(export))) as opened:
        assert set(opened.namelist()) >= {wheel, "README.md", "manifest.json"}
        card, packed = opened.read("README.md").decode(), opened.read(wheel)
    assert (
        f"```sh\npip install ./{get_package_id(tasks).replace('-', '_')}-*.whl\nvf-eval {get_package_id(tasks)} "
        in card
    )
    assert f"| train | {tasks.train_rows} |" in card
    with zipfile.ZipFile(io.BytesIO(packed)) as opened:
        opened.extractall(tmp_path)
    module = get_package_id(tasks).replace("-", "_")
    compile((tmp_path / module / "__init__.py").read_text(), "__init__.py", "exec")
    about = next(tmp_path.glob("*.dist-info")).joinpath("METADATA").read_text()
    head, readme = about.split("\n\n", 1)
    assert {line.partition(":")[0] for line in head.splitlines()} == {
        "Metadata-Version", "Name", "Version", "Summary", "Requires-Python", "License-File", "Requires-Dist",
        "Description-Content-Type",
    }  # fmt: skip
    assert "Licence of the tasks: apache-2.0" in readme
    kept = TaskFile(tmp_path / module / "envarium" / "portable" / "data")
    for side in ("train", "test"):
        rows = frozen_tasks(tasks, side)
        assert [kept[head.id].task for head in kept.heads(side)] == [row.rollout for row in rows]
        assert [(head.environment, head.category) for head in kept.heads(side)] == [
            (row.environment, row.category) for row in rows
        ]


def test_the_command_writes_the_same_and_again(
    tasks: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other").mkdir()
    other = write_files(tasks, "verifiers", "wheel", tmp_path / "other")
    for _ in range(2):
        call_command("export_dataset", tasks.public_id, "--form", "verifiers", "--json")
        said = json.loads(capsys.readouterr().out)
        assert (said["format"], said["rows"], said["sha256"]) == ("wheel", 4, other.sha256)
    folder = tmp_path / f"{tasks.public_id}-verifiers-wheel"
    for file in other.files:
        assert hashlib.sha256((folder / file.path).read_bytes()).hexdigest() == file.sha256


def test_what_does_not_suit_is_refused() -> None:
    talks = frozen(trajectory_rows(4))
    with pytest.raises(InputError, match="Verifiers does not suit a dataset of trajectories"):
        services.start_export(None, talks, "verifiers", "wheel")
    with pytest.raises(InputError, match="TRL has no format 'wheel'; choose jsonl or parquet"):
        services.start_export(None, talks, "trl", "wheel")
    assert not DatasetExport.objects.exists()


def test_page_and_api_offer_it(tasks: Dataset, client: Client) -> None:
    researcher = pages_seed.person(Role.RESEARCHER)
    client.force_login(researcher)
    page = client.get(reverse("datasets:dataset", args=[tasks.public_id])).content.decode()
    assert '<option value="verifiers">Verifiers</option>' in page
    sent: dict[str, Any] = {"form": "verifiers", "format": "jsonl"}
    client.post(reverse("datasets:export_start", args=[tasks.public_id]), sent)
    made = run(DatasetExport.objects.get(form="verifiers"))
    assert made.format == "wheel", "the field beside it is of other forms"
    page = client.get(reverse("datasets:exports", args=[tasks.public_id])).content.decode()
    assert f"vf-eval {get_package_id(tasks)} -m MODEL" in page
    base = f"/datasets/{tasks.public_id}/exports"
    caller = program(researcher, "read", "train")
    found = caller.post(base, {"form": "verifiers"})
    assert (found.status_code, found.json()["id"], found.json()["format"]) == (200, made.public_id, "wheel")
    problem(caller.post(base, {"form": "verifiers", "format": "jsonl"}), 422)
    problem(program(researcher, "read").post(base, {"form": "verifiers"}), 403)
    content = caller.client.get(f"/api/v1{base}/{made.public_id}/content", headers=caller.headers)
    assert f"{tasks.public_id}-verifiers-wheel.zip" in content.headers["Content-Disposition"]
