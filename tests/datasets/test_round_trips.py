"""Training files that the site exports come in again, with the same meaning or to be read; bad rows alone stay out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from synthesis.contracts import Message
from synthesis.errors import FormatError
from synthesis.formats.sft import Conversation, Shape, build_sft_records, format_record_line
from synthesis.runtime import get_default_sandbox
from tests.datasets.test_export import archive, made
from tests.fixtures import pages_seed
from tests.fixtures.api import BASE, program, token_of
from tests.fixtures.dataset_seed import frozen, trajectory_rows
from tests.runs.job_support import tasks
from tests.training_data.talks import TOOLS, called, talk
from training.dataset import TrajectoryRow, parse_line
from webapp.datasets.export.files import write_files
from webapp.trajectories.importer import import_file

pytestmark = pytest.mark.django_db
HARD = Conversation(
    tools=TOOLS,
    messages=(
        Message(role="user", content="Line one\n\nline two </think"),
        Message(role="assistant", tool_calls=(called("x", "open_box", box_id="</tool_call> <|im_end|> \u2028"),)),
        Message(role="tool", content="  {'spaces': 'stay'}  ", tool_call_id="x"),
        Message(role="assistant", content="[1, 2] is no call\n\nNor is this."),
    ),
)


def meaning(row: TrajectoryRow) -> Any:
    """All that is learnt from a row: ids are names, and names follow from the calls."""
    spoken = row.messages or (*row.prompt, *row.completion)
    told = [
        (
            m.role,
            m.content,
            m.reasoning_content,
            [(c.function.name, c.function.arguments) for c in m.tool_calls],
            m.is_learnt,
        )
        for m in spoken
    ]
    return told, bool(row.completion), [tool.function.model_dump() for tool in row.tools]


@pytest.mark.parametrize("name", ["sharegpt", "alpaca"])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("conversation", [talk(), HARD], ids=["ordinary", "hard"])
def test_rows_of_other_formats_mean_what_they_meant(name: Any, masked: bool, conversation: Conversation) -> None:
    shape = Shape(format=name, mask_history=masked)
    plain = shape.model_copy(update={"format": "trl"})
    lines = [format_record_line(record).encode() for record in build_sft_records(conversation, shape)]
    read = [parse_line(line, "trajectories") for line in lines]
    expected = [TrajectoryRow.model_validate(record) for record in build_sft_records(conversation, plain)]
    assert [meaning(row) for row in read if isinstance(row, TrajectoryRow)] == [meaning(row) for row in expected]
    if masked:
        assert len(lines) == sum(message.role == "assistant" for message in conversation.messages)


@pytest.mark.parametrize(
    ("row", "place"),
    [
        ({"conversations": []}, "conversations"),
        ({"conversations": [{"from": "robot", "value": "x"}]}, "conversations.0.from"),
        ({"conversations": [{"from": "human", "value": ["x"]}]}, "conversations.0.value"),
        (
            {"conversations": [{"from": "human", "value": "x"}, {"from": "function_call", "value": "{"}]},
            "conversations.1",
        ),
        (
            {"conversations": [{"from": "human", "value": "x"}, {"from": "observation", "value": "y"}]},
            "conversations.1",
        ),
        ({"instruction": "x", "output": "y", "history": [["a"]]}, "history.0"),
        ({"instruction": "x", "output": 5}, "output"),
        ({"instruction": "x", "output": "y", "images": []}, "images"),
        ({"messages": "[", "tools": "[]"}, "messages"),
    ],
)
def test_what_cannot_be_read_for_certain_is_refused_with_its_place(row: Any, place: str) -> None:
    with pytest.raises(FormatError) as refused:
        parse_line(json.dumps(row).encode(), "trajectories")
    assert refused.value.place.startswith(place)


def upload(content: bytes, name: str = "train.jsonl", **more: str) -> Any:
    user = pages_seed.User.objects.filter(username="the-researcher").first() or pages_seed.person("researcher")
    headers = {"Authorization": f"Bearer {token_of(user, 'read', 'train')}"}
    form = {"file": SimpleUploadedFile(name, content), "purpose": "fine-tune", **more}
    return Client().post(f"{BASE}/files", form, headers=headers)


@pytest.mark.parametrize("form", ["trl", "sharegpt", "envscaler"])
def test_exports_of_datasets_come_in_again_as_files(form: Any, tmp_path: Path) -> None:
    write_files(frozen(trajectory_rows(12)), form, "jsonl", tmp_path)
    content = (tmp_path / "train.jsonl").read_bytes()
    answer = upload(content)
    assert answer.status_code == 200, answer.content
    expected = {json.dumps(meaning(row)) for row in trajectory_rows(12) if isinstance(row, TrajectoryRow)}
    read = [parse_line(line, "trajectories") for line in content.splitlines()]
    assert {json.dumps(meaning(row)) for row in read if isinstance(row, TrajectoryRow)} <= expected
    assert len(read) == answer.json()["report"]["rows"] if "report" in answer.json() else len(read) > 0


def test_a_download_of_tasks_comes_in_again_as_a_file(tmp_path: Path) -> None:
    dataset = frozen(tasks(2, 3), test_share=0)
    write_files(dataset, "trl", "jsonl", tmp_path)
    content = (tmp_path / "train.jsonl").read_bytes()
    assert upload(content).status_code == 200
    assert [parse_line(line, "tasks").trl() for line in content.splitlines()] == [row.trl() for row in tasks(2, 3)]


def test_an_export_in_atif_comes_in_to_be_read(tmp_path: Path) -> None:
    write_files(frozen(trajectory_rows(6), test_share=0), "atif", "jsonl", tmp_path)
    told = import_file(get_default_sandbox(), (tmp_path / "train.jsonl").read_bytes(), "train.jsonl", 1 << 24)
    assert (told["created"], told["failed"]) == (6, [])


def test_an_archive_is_refused_with_what_to_do() -> None:
    packed = archive(made(frozen(trajectory_rows(3), test_share=0)))
    told = upload(packed, "export.zip").json()["detail"]
    assert "unpack it and upload the file of rows in it, such as train.jsonl" in told


@pytest.mark.parametrize("written", ["jsonl", "parquet"])
def test_one_bad_row_never_costs_the_good_ones(written: str, tmp_path: Path) -> None:
    rows = list(trajectory_rows(5))
    spoilt = json.loads(json.dumps(rows[2].trl()))
    spoilt["messages"][-1]["content"] = "It ends with </tool_call>."
    rows[2] = TrajectoryRow.model_validate(spoilt)
    dataset = frozen(iter(rows), test_share=0)
    export = made(dataset, "sharegpt", written)
    assert (export.state, export.rows) == ("ready", 4)
    assert export.job is not None
    assert export.job.result["left_out"] == 1
    told_by_api = program(pages_seed.person("viewer")).get(f"/datasets/{dataset.public_id}/exports/{export.public_id}")
    assert (told_by_api.json()["rows"], told_by_api.json()["left_out"]) == (4, 1)
    told = write_files(dataset, "sharegpt", "jsonl", tmp_path)
    assert (told.rows, told.left_out) == (4, 1)
    (named,) = json.loads((tmp_path / "manifest.json").read_text())["rows_left_out"]
    assert (named["file"], named["line"], named["id"]) == ("train.jsonl", 3, "run-2")
    assert "spells </tool_call>" in named["reason"]
    assert "do not fit ShareGPT" in (tmp_path / "README.md").read_text()


def test_a_dataset_of_which_no_row_fits_says_so(tmp_path: Path) -> None:
    (row,) = trajectory_rows(1)
    spoilt = row.trl()
    spoilt["messages"][-1]["content"] = "</think>"
    with pytest.raises(FormatError, match=r"none of them fits this form; the first, line 1: .*Choose the form TRL"):
        write_files(frozen([TrajectoryRow.model_validate(spoilt)], test_share=0), "sharegpt", "jsonl", tmp_path)
