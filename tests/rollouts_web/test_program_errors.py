"""Rollout jobs and pages where the environment's program ends attempts, or returns what is hard to keep."""

from __future__ import annotations

import html
from typing import Any

import pytest
from django.test import Client

from synthesis.contracts import CallResult, ReferenceCall, TrajectoryStep
from tests.rollout.support import SOURCE
from tests.rollouts_web import support
from tests.rollouts_web.support import make_task, person
from tests.rollouts_web.test_jobs import run
from tests.runtime.test_endings import FIND
from webapp.jobs import services as jobs
from webapp.jobs.claims import JobClaim
from webapp.jobs.models import Job, JobState
from webapp.pages.recount import recount_environments
from webapp.trajectories.models import Rollout, Trajectory
from webapp.trajectories.rollouts.attempt_writer import Recorder
from webapp.trajectories.rollouts.queries import build_summary
from webapp.trajectories.rollouts.services import start_rollout
from webapp.trajectories.rollouts.spec import Spec

pytestmark = pytest.mark.django_db(transaction=True)
NOISE: dict[str, Any] = {"policy": "noisy", "noise": 0.6, "attempts": 16, "seed": 59}
"""It solves 9 of 16."""
GUARD = """
CALLS, BOXES = [0], {}
class Guard(list):
    def __iter__(self):
        # Read by what hands over the whole state: that is the end, where checks would look.
        frame, names = sys._getframe(), set()
        while frame: names.add(frame.f_code.co_name); frame = frame.f_back
        if CALLS[0] and "_encode_state" in names and not BOXES["B-1"]["open"]: os._exit(0)
        return list.__iter__(self)
"""


def shelf(monkeypatch: pytest.MonkeyPatch, *changes: tuple[str, str], head: str = "") -> None:
    """Let `make_task` build the shelf with some lines of its program replaced."""
    source = SOURCE
    for old, new in changes:
        assert old in source
        source = source.replace(old, new)
    monkeypatch.setattr(support, "SOURCE", FIND + head + source)


def rolled(**spec: Any) -> tuple[Rollout, Job]:
    rollout = start_rollout(person(), make_task(), Spec(**spec))
    return rollout, run(rollout)


def test_an_agent_that_solves_nine_of_sixteen_solves_nine_of_sixteen() -> None:
    rollout, job = rolled(**NOISE)
    assert job.state == JobState.SUCCEEDED, job.error
    summary = build_summary(rollout)
    assert (summary.solved, summary.scored, dict(summary.outcomes)) == (9, 16, {"solved": 9, "failed": 7})


def test_so_it_does_where_the_program_exits_instead_of_failing(monkeypatch: pytest.MonkeyPatch) -> None:
    call = "        CALLS[0] += 1\n"
    shelf(
        monkeypatch,
        ("        self.log = []\n", "        self.log = Guard()\n        BOXES.update(self.boxes)\n"),
        ('        """Find the boxes of an owner."""\n', f'        """Find the boxes of an owner."""\n{call}'),
        ('        """Open a box."""\n', f'        """Open a box."""\n{call}'),
        head=GUARD,
    )
    rollout, job = rolled(**NOISE)
    assert job.state == JobState.SUCCEEDED, job.error
    summary = build_summary(rollout)
    outcomes = dict(summary.outcomes)
    assert outcomes["program_error"] >= 4
    assert (summary.solved, summary.scored, summary.mean_reward) == (9, 16, 9 / 16)
    assert {line.state for line in summary.lines} == {"done"}, "there is nothing to retry"
    environment = rollout.task.environment
    environment.refresh_from_db()
    assert (environment.solved_count, environment.scored_count, environment.trajectory_count) == (9, 16, 16)
    assert recount_environments() == []
    client = Client()
    client.force_login(rollout.job.created_by)
    page = client.get(f"/trajectories/rollouts/{rollout.pk}/").content.decode()
    assert "9 of 16 solved" in page
    assert "ended by the environment" in page
    ended = Trajectory.objects.filter(outcome="program_error").order_by("pk")
    listed = client.get("/trajectories/", {"outcome": "program_error"}).content.decode()
    assert all(f'href="/trajectories/{row.pk}/"' in listed for row in ended)
    replay = client.get(f"/trajectories/{ended[0].pk}/").content.decode()
    assert "program error" in replay
    assert "It counts as an attempt that did not" in replay
    told = client.get("/api/v1/trajectories", {"outcome": "program_error"})
    assert told.status_code == 200
    assert {row["outcome"] for row in told.json()["data"]} == {"program_error"}


def test_the_call_that_did_it_stands_on_the_replay_page_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    shelf(monkeypatch, ("        if box_id not in", "        os._exit(7)\n        if box_id not in"))
    monkeypatch.setattr(
        support,
        "REFERENCE",
        support.REFERENCE.model_copy(
            update={"calls": (ReferenceCall(tool="open_box", arguments={"box_id": "<b>B-1"}),)}
        ),
    )
    rollout, _ = rolled(policy="reference", attempts=1)
    row = Trajectory.objects.get(task=rollout.task)
    assert (row.outcome, row.reward, row.step_count) == ("program_error", None, 2)
    assert "open_box(box_id='<b>B-1')" in row.note
    assert "it exited with 7" in row.note
    last = row.steps.order_by("index").last()
    assert last is not None
    assert (last.tool, last.ok, last.error_kind) == ("open_box", False, "ended")
    client = Client()
    client.force_login(rollout.job.created_by)
    for path in (f"/trajectories/{row.pk}/", f"/trajectories/{row.pk}/?step=1"):
        answer = client.get(path)
        assert answer.status_code == 200
        assert "<b>B-1" not in answer.content.decode()
        assert html.escape("<b>B-1") in answer.content.decode()


ODD = (
    ("10 ** 5000", "solved"),
    ("{'n': [10 ** 5000], 't': 'a\\0b\\ud800'}", "solved"),
    ("float('nan')", "solved"),
    ("os.write(sock(), b'\\x01' + json.dumps({'id': 3, 'ok': True, 'r': {'$int': '1'}, 'us': 1, "
     "'p': [{'op': 'replace', 'path': '/none/of/it', 'value': 1}]}).encode())", "program_error"),
    ("os.write(sock(), b'\\x01' + json.dumps({'id': 3, 'ok': True, 'r': {'$date': 'never'}, 'us': 2 ** 52, "
     "'p': []}).encode()); sys.modules['select'].poll().poll(60000)", "program_error"),
)  # fmt: skip


@pytest.mark.parametrize(("value", "outcome"), ODD)
def test_an_attempt_with_an_odd_result_is_lost_alone_if_at_all(
    monkeypatch: pytest.MonkeyPatch, value: str, outcome: str
) -> None:
    """The second attempt is spoiled and meets it, the first is the reference."""
    shelf(
        monkeypatch, ('        return {"success": True, "boxes"', f'        return {value}\n        return {{"boxes"')
    )
    rollout, job = rolled(policy="reference", attempts=2)
    assert job.state == JobState.SUCCEEDED, job.error
    rows = list(Trajectory.objects.filter(task=rollout.task))
    assert [row.outcome for row in rows] == [outcome] * 2
    client = Client()
    client.force_login(rollout.job.created_by)
    for step in range(rows[0].step_count):
        assert client.get(f"/trajectories/{rows[0].pk}/?step={step}").status_code == 200


def test_a_step_that_does_not_fit_is_kept_without_its_result() -> None:
    """Whatever hands it over: the rollout's other attempts must not go down with it."""
    rollout = start_rollout(person(), make_task(), Spec(policy="reference", attempts=1))
    claimed = jobs.claim_job(rollout.job_id, "test")
    assert claimed is not None
    recorder = Recorder(rollout, JobClaim(claimed.pk, claimed.attempt))
    recorder.take()
    recorder.begin(0, "p", {"boxes": {}})
    bad = CallResult(ok=True, result=1, patch=[{"op": "replace", "path": "/none/of/it", "value": 1}])
    recorder.step(0, TrajectoryStep(kind="call", turn=1, tool="open_box", arguments={}, result=bad))
    (step,) = Trajectory.objects.get(task=rollout.task).steps.all()
    assert (step.ok, step.patch, step.error_kind) == (False, [], "unencodable")
