"""A step's attempts as workers send them: kept line by line, or not taken, with where and why."""

from __future__ import annotations

import gzip
import json
import resource
from typing import Any

import pytest

from tests.fixtures import replay_seed
from tests.workers.test_checkpoint_uploads import rollouts, stored_names
from tests.workers.worker_support import at_once, blob, claimed, frozen, line, queued, step_lines
from webapp.common.errors import Conflict, TooLarge, Unusable
from webapp.runs.models import RolloutFile, RunRollout, TrainingEvent
from webapp.runs.rollouts import rollout_file
from webapp.workers import rollout_uploads
from webapp.workers.errors import WrongHash

pytestmark = pytest.mark.django_db


def test_attempts_of_a_step_become_rows_with_their_tasks() -> None:
    run = replay_seed.make(replay_seed.ordinary())
    name = f"revision:{run.revision_id}"
    job, _, _ = claimed(queued(dataset=frozen(names=[name, "revision:999999999"])))
    lines = step_lines(0.5, None, 1.0, 0.0)
    for place, told in enumerate(lines):
        told["row"] = name if place < 2 else "revision:999999999"
    content = blob(lines)
    assert rollouts(job, content, step=3) == 4
    assert rollouts(job, content, step=3) == 4, "sent again, it is answered alike"
    file = RolloutFile.objects.get()
    assert (file.step, file.count, file.bytes) == (3, 4, len(content))
    rows = list(file.rollouts.order_by("index"))
    assert [row.revision_id for row in rows] == [run.revision_id, run.revision_id, None, None]
    assert rows[0].task_id == run.task_id
    assert (rows[0].outcome, rows[0].reward, rows[0].turns, rows[0].tokens) == ("failed", 0.5, 1, 9)
    assert (rows[1].outcome, rows[1].reward, rows[1].masked) == ("infra_error", None, "infra_error")
    assert rollout_file.read_file_line(file, 1).ordinal == 1
    with pytest.raises(Conflict):
        rollouts(job, blob(step_lines()), step=3)


def test_ids_of_an_uploaded_file_lead_to_no_task() -> None:
    run = replay_seed.make(replay_seed.ordinary())
    name = f"revision:{run.revision_id}"
    job, _, _ = claimed(queued(dataset=frozen(source="file", names=[name])))
    rollouts(job, blob([told | {"row": name} if told["row"] == "row-0" else told for told in step_lines()]))
    row = RunRollout.objects.get(index=0)
    assert (row.row, row.revision_id, row.task_id) == (name, None, None)


def many(size: int) -> bytes:
    """A bomb: a lot of nothing."""
    return gzip.compress(bytes(size), 9)


@pytest.mark.parametrize(
    "content",
    [
        b"no gzip at all",
        gzip.compress(b"{}\n" * 3)[:-6],
        many(64 << 20),
        blob([b"[" * 100_000]),
        blob([b"null"]),
        blob([json.dumps(line()).replace("0.5", "NaN").encode()]),
        blob([json.dumps(line()).replace("0.5", "1e999").encode()]),
        blob([line(tokens=2**31)]),
        blob([line(ordinal=-1)]),
        blob([line(surprise=1), line(surprise=2)]),
        blob([line(attempt={"policy": "x"})]),
        blob([b"\xff\xfe"]),
    ],
    ids=range(12),  # the bytes hold the time at which they were packed
)
def test_hostile_attempts_are_refused_whole(content: bytes) -> None:
    job, _, _ = claimed()
    before = stored_names("rollouts")
    with pytest.raises(Unusable):
        rollouts(job, content)
    assert not RolloutFile.objects.exists()
    assert stored_names("rollouts") == before


def test_lines_that_cannot_be_read_are_left_out_with_their_reason_and_the_rest_goes_in() -> None:
    job, _, _ = claimed(queued(tasks=3))
    lines: list[Any] = step_lines(1.0, 1.0, 1.0, 0.0, 0.0, 0.0)
    lines[1], lines[3] = line(surprise=1), b"["
    assert rollouts(job, blob(lines)) == 4
    assert list(RunRollout.objects.order_by("index").values_list("index", flat=True)) == [0, 2, 4, 5]
    event = TrainingEvent.objects.get(level="warn")
    assert "2 of 6 attempts of step 1 are not kept" in event.message
    assert "step 1, line 2: is no attempt: surprise" in event.message
    assert "step 1, line 4: not valid JSON" in event.message
    lines[2] = lines[4] = b"["
    with pytest.raises(Unusable, match="4 of 6 attempts were lost or cannot be read"):
        rollouts(job, blob(lines), step=2)


def test_a_line_of_countless_values_is_refused_by_its_number_and_costs_no_memory_here() -> None:
    job, _, _ = claimed()
    bomb = json.dumps(line()).encode()[:-1] + b', "surprise": [' + b"[]," * (4 << 20) + b"[]]}"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(Unusable, match=r"step 1, line 1: .*more than 256 MiB of memory"):
        rollouts(job, blob([bomb]))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150 << 10


def test_a_bomb_of_many_good_lines_is_read_no_further_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollout_uploads, "FILE_BYTES", 1 << 20)
    job, _, _ = claimed()
    with pytest.raises(Unusable) as refused:
        rollouts(job, gzip.compress((json.dumps(line()).encode() + b"\n") * 10_000))
    assert "larger" in str(refused.value)
    monkeypatch.setattr(rollout_uploads, "MOST_LINES", 5)
    with pytest.raises(Unusable) as refused:
        rollouts(job, blob([line(number) for number in range(6)]))
    assert "5 attempts" in str(refused.value)


def test_a_body_of_another_hash_or_size_is_not_taken(settings: Any) -> None:
    job, _, _ = claimed()
    with pytest.raises(WrongHash):
        rollouts(job, blob([line()]), sha256="0" * 64)
    settings.UPLOAD_LIMIT_MIB = 0
    with pytest.raises(TooLarge):
        rollouts(job, blob([line()]))


def test_hostile_texts_are_refused_and_shown_in_ascii() -> None:
    job, _, _ = claimed()
    for name, told in (
        ("row", "a\x00b\u202e"),
        ("environment", "e" * 900),
        ("setting", "s" * 90),
        ("verifier", "v" * 9),
    ):
        lines = step_lines()
        lines[2][name] = told
        with pytest.raises(Unusable, match="rollouts of step 1, line 3: ") as refused:
            rollouts(job, blob(lines))
        assert str(refused.value).isascii()
        assert len(str(refused.value)) < 400
    assert TrainingEvent.objects.filter(job=job, kind="refused").count() == 4


@pytest.mark.django_db(transaction=True)
def test_attempts_that_arrive_twice_at_once_are_kept_once() -> None:
    job, _, _ = claimed(queued(tasks=25))
    content = blob(step_lines(*[1.0] * 50))
    before = stored_names("rollouts")
    found = at_once(*(lambda: rollouts(job, content) for _ in range(4)))
    assert found == [50] * 4
    assert (RolloutFile.objects.count(), RunRollout.objects.count()) == (1, 50)
    assert len(stored_names("rollouts") - before) == 1
