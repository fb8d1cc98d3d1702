"""A step's attempts as workers send them: kept line by line, or not taken, with where and why."""

from __future__ import annotations

import gzip
import json
import resource
from typing import Any

import pytest

from tests.fixtures import replay_seed
from tests.workers import worker_support as support
from tests.workers.test_checkpoint_uploads import rollouts, stored_names
from tests.workers.worker_support import at_once, blob, claimed, frozen, line
from webapp.errors import Conflict, TooLarge, Unusable
from webapp.runs.models import RolloutFile, RunRollout, TrainingEvent
from webapp.runs.rollouts import rollout_file
from webapp.workers import rollout_uploads
from webapp.workers.errors import WrongHash

pytestmark = pytest.mark.django_db


def test_attempts_of_a_step_become_rows_with_their_tasks() -> None:
    run = replay_seed.make(replay_seed.ordinary())
    job, _, _ = claimed()
    lost = support.attempt(outcome="infra_error", ending="lost", answer="", messages=[])
    lines = [
        line(0, f"revision:{run.revision_id}"),
        line(1, f"revision:{run.revision_id}", reward=None, advantage=None, masked="infra_error", attempt=lost),
        line(2, "revision:999999999"),
        line(3, "trajectory:1"),
    ]
    content = blob(lines)
    assert rollouts(job, content, step=3) == 4
    assert rollouts(job, content, step=3) == 4, "sent again, it is answered alike"
    file = RolloutFile.objects.get()
    assert (file.step, file.count, file.bytes) == (3, 4, len(content))
    rows = list(file.rollouts.order_by("index"))
    assert [row.revision_id for row in rows] == [run.revision_id, run.revision_id, None, None]
    assert rows[0].task_id == run.task_id
    assert (rows[0].outcome, rows[0].reward, rows[0].turns, rows[0].tokens) == ("solved", 0.5, 1, 9)
    assert (rows[1].outcome, rows[1].reward, rows[1].masked) == ("infra_error", None, "infra_error")
    assert rollout_file.line(file, 1).ordinal == 1
    with pytest.raises(Conflict):
        rollouts(job, blob(lines[:1]), step=3)


def test_ids_of_an_uploaded_file_lead_to_no_task() -> None:
    run = replay_seed.make(replay_seed.ordinary())
    job, _, _ = claimed(dataset=frozen(source="file"))
    rollouts(job, blob([line(0, f"revision:{run.revision_id}")]))
    row = RunRollout.objects.get()
    assert (row.revision_id, row.task_id) == (None, None)


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
    job, _, _ = claimed()
    assert rollouts(job, blob([line(), line(surprise=1), line(2), b"[", line(4)])) == 3
    assert list(RunRollout.objects.order_by("index").values_list("index", flat=True)) == [0, 2, 4]
    event = TrainingEvent.objects.get(level="warn")
    assert "2 of 5 attempts of step 1 are not kept" in event.message
    assert "step 1, line 2: is no attempt: surprise" in event.message
    assert "step 1, line 4: not valid JSON" in event.message


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


def test_hostile_texts_are_cut_and_cleaned() -> None:
    job, _, _ = claimed()
    rollouts(
        job, blob([line(0, "a\x00b", environment="e" * 900, setting="s" * 90, verifier="v" * 900, masked="m" * 90)])
    )
    row = RunRollout.objects.get()
    assert "\x00" not in row.row
    assert [len(one) for one in (row.environment, row.setting, row.verifier, row.masked)] == [200, 16, 64, 40]


@pytest.mark.django_db(transaction=True)
def test_attempts_that_arrive_twice_at_once_are_kept_once() -> None:
    job, _, _ = claimed()
    content = blob([line(number) for number in range(50)])
    before = stored_names("rollouts")
    found = at_once(*(lambda: rollouts(job, content) for _ in range(4)))
    assert found == [50] * 4
    assert (RolloutFile.objects.count(), RunRollout.objects.count()) == (1, 50)
    assert len(stored_names("rollouts") - before) == 1
