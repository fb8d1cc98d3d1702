"""Datasets of an uploaded file: made once for all its jobs, split by what its rows name, refused with its line."""

from __future__ import annotations

import pytest

from synthesis.errors import InputError
from tests.datasets.dataset_support import carry_out, failed, talk, uploaded_file
from training.dataset import Split
from webapp.datasets import services
from webapp.datasets.models import Dataset, DatasetState, FileState
from webapp.datasets.queries import get_sentence

pytestmark = pytest.mark.django_db


def test_a_file_that_a_job_names_becomes_a_dataset_once_all_to_learn_from() -> None:
    file = uploaded_file([talk(number) for number in range(4)])
    row = services.get_dataset_for_job(file.public_id, None)
    assert (row.source, row.kind, row.state) == ("file", "trajectories", DatasetState.FREEZING)
    assert services.get_dataset_for_job(file.public_id, None) == row
    ready = carry_out(row)
    assert (ready.train_rows, ready.test_rows) == (4, 0)
    assert get_sentence(ready) == "4 trajectories, nothing held out"
    assert ready.manifest["selection"]["file"] == file.public_id
    assert services.get_dataset_for_job(file.public_id, None) == ready


def test_a_file_can_be_split_where_its_rows_name_the_unit() -> None:
    file = uploaded_file([talk(number) for number in range(9)])
    row = carry_out(services.create_file_dataset(None, file, Split(unit="environment", test_share=0.5, seed=0)))
    assert row.state == DatasetState.READY, row.error
    assert row.test_rows
    lost = carry_out(services.create_file_dataset(None, file, Split(unit="task", test_share=0.5)))
    assert "has no `task`" in failed(lost)


def test_a_file_that_changed_after_its_check_fails_with_the_line() -> None:
    file = uploaded_file([talk(1), b'{"messages": []}'])
    assert "talks.jsonl line 2" in failed(carry_out(services.create_file_dataset(None, file)))


def test_a_file_with_problems_is_refused_and_one_that_is_being_checked_is_not() -> None:
    problems = {"problems": [{"line": 3, "place": "", "message": "is no JSON"}], "problem_count": 1}
    broken = uploaded_file([talk(1)], state=FileState.ERROR, report=problems)
    with pytest.raises(InputError, match="line 3: is no JSON"):
        services.get_dataset_for_job(broken.public_id, None)
    assert not Dataset.objects.exists()
    unchecked = uploaded_file([talk(1)], state=FileState.UPLOADED)
    assert carry_out(services.get_dataset_for_job(unchecked.public_id, None)).state == DatasetState.READY


@pytest.mark.parametrize("ident", ["ds-unknown", "file-unknown", "anything"])
def test_unknown_ids_are_refused(ident: str) -> None:
    with pytest.raises(InputError, match="There is no"):
        services.get_dataset_for_job(ident, None)
