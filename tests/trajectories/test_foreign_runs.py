"""Trajectories without an environment: files of ATIF into rows, once each, and nothing of them counts as an attempt."""

from __future__ import annotations

import gzip
import io
import json
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction

from synthesis.errors import InputError
from synthesis.parser import TooCostly
from tests.fixtures.atif_files import EVERY, OLDEST, PICTURES, TERMINAL, changed
from tests.importing.test_importer import context_of
from tests.trajectories.loading import has_its_words
from webapp.jobs.registry import KINDS
from webapp.jobs.services import FailedWithResult
from webapp.trajectories import foreign_runs
from webapp.trajectories.models import Score, Step, Trajectory
from webapp.trajectories.services import start_trajectory_import

pytestmark = pytest.mark.django_db


def lines(*records: Any) -> bytes:
    return b"\n".join(json.dumps(record).encode() for record in records)


def import_file(content: bytes, name: str) -> Any:
    job = start_trajectory_import(None, ContentFile(content, name=name))
    return KINDS["import_trajectories"].handler(context_of(job))


def test_a_file_of_many_goes_in_once_with_steps_and_no_judgement() -> None:
    packed = gzip.compress(lines(*EVERY))
    assert import_file(packed, "runs.jsonl.gz") == {"created": 4, "unchanged": 0, "failed": []}
    assert import_file(packed, "again.jsonl.gz") == {"created": 0, "unchanged": 4, "failed": []}
    assert import_file(json.dumps(TERMINAL, indent=2).encode(), "trajectory.json")["unchanged"] == 1
    row = Trajectory.objects.get(title="Count the lines of notes.txt.")
    assert (row.source, row.replay, row.policy, row.outcome) == ("atif", "no_environment", "made/model-small", "")
    assert (row.environment, row.task, row.revision, row.reward, row.recorded_reward) == (None,) * 5
    assert (row.step_count, row.call_count, row.error_count) == (5, 2, 0)
    assert (row.record, row.provenance["agent"]) == (TERMINAL, "terminus-2")
    step = row.steps.get(index=2)
    assert (step.kind, step.tool, step.ok, step.result, step.recorded) == ("call", "run", None, None, "41 notes.txt")
    assert step.details["metrics"]["prompt_tokens"] == 520
    assert Score.objects.count() == 0
    assert Step.objects.count() == 5 + 4 + 4 + 3
    assert all(map(has_its_words, Trajectory.objects.all()))


def test_the_good_go_in_and_the_others_are_listed_with_their_place() -> None:
    result = import_file(lines(TERMINAL, changed(TERMINAL, "steps", 2), {"task_info": {}}, 7), "mixed.jsonl")
    assert (result["created"], [item["place"] for item in result["failed"]]) == (
        1, ["line 3", "line 2.steps[2].step_id", "line 4"]
    )  # fmt: skip
    with pytest.raises(FailedWithResult, match=r"1 of 1 records failed.*steps\[1\]\.step_id"):
        import_file(lines(changed(OLDEST, "steps", 1)), "bad.json")


def test_hostile_values_are_kept_as_text_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    evil = changed(TERMINAL, "steps", 3, "message", to="<script>\u0000\ud800" + "\u202e")
    endless = changed(TERMINAL, "steps", 3, "metrics", "prompt_tokens", to=10**400)
    text = json.dumps(changed(TERMINAL, "session_id", to="deep")).replace('"notes.txt', '"')
    deep = text.replace('"arguments": {', '"arguments": {"x": ' + "[" * 20_000 + "]" * 20_000 + ", ", 1).encode()
    result = import_file(b"\n".join([json.dumps(evil).encode(), json.dumps(endless).encode(), deep]), "evil.jsonl")
    assert result["created"] == 1
    assert [item["place"] for item in result["failed"]] == ["line 2.steps[3].metrics.prompt_tokens", "line 3"]
    assert Trajectory.objects.get().answer == "<script>\u2400\ufffd\u202e"
    bomb = gzip.compress(b'[{"schema_version": "ATIF-v1.4", "steps": [' + b"[]," * 3_000_000 + b"1]}]")
    with pytest.raises(InputError, match="MiB of memory to read"):
        import_file(bomb, "bomb.json.gz")
    limits = foreign_runs.LIMITS.__class__(item_bytes=500, small_bytes=0)
    monkeypatch.setattr(foreign_runs, "LIMITS", limits)
    with pytest.raises(TooCostly, match="One record of this file takes more"):
        import_file(lines(PICTURES), "large.json")


def test_rows_have_all_of_an_environment_or_nothing_of_it() -> None:
    import_file(lines(OLDEST), "old.json")
    with pytest.raises(IntegrityError, match="trajectory_environment_whole"), transaction.atomic():
        Trajectory.objects.update(replay="pending")


def test_the_command_says_what_came_of_it(tmp_path: Any) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(lines(TERMINAL, changed(TERMINAL, "steps", 2)))
    out, err = io.StringIO(), io.StringIO()
    call_command("import_trajectories", str(path), "--json", stdout=out, stderr=err)
    assert json.loads(out.getvalue())["created"] == 1
    assert "trajectories without an environment: 1 created, 0 unchanged, 1 failed" in err.getvalue()
    assert "line 2.steps[2].step_id: expected 3, found 4" in err.getvalue()
    path.write_bytes(lines(changed(TERMINAL, "agent")))
    with pytest.raises(CommandError, match="nothing was imported"):
        call_command("import_trajectories", str(path), stdout=out, stderr=err)
