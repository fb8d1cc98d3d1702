"""What a worker reports and is not true: the whole step is executed again, the job stands still, a person sees both."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from synthesis.contracts import Attempt
from synthesis.errors import InputError
from synthesis.rollout.user_judge import list_talk, list_user_prompts, spell_question
from synthesis.verifiers.rubric import hash_question
from tests.fixtures import pages_seed, runs_seed
from tests.fixtures.api import program
from tests.rollouts_web.support import make_task
from tests.runs.test_rollouts_open import arrived, exiting, looked, opened, revision_of, told
from training.config import Reinforcement, read_config
from webapp.accounts.models import AuditEntry
from webapp.jobs.models import Job
from webapp.runs import control
from webapp.runs.curves.marks import list_marks
from webapp.runs.models import JudgeReply, RolloutFile, RunRollout, TrainingEvent, TrainingJob, TrainingState
from webapp.runs.rollouts import verification
from webapp.runs.rollouts.rollout_line import RolloutFileLine
from webapp.runs.rollouts.user_verdicts import require_askable_verdict
from webapp.runs.rollouts.verified_steps import list_verified_steps
from webapp.scenarios.models import Task

pytestmark = pytest.mark.django_db
UNEARNED = {"reward": 1.0, "attempt": {"steps": []}}


@pytest.fixture(autouse=True)
def _by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.jobs.services.wake_job", lambda job_id, queue: None)


@pytest.fixture
def task(db: None) -> Task:
    return make_task()


@pytest.fixture
def job(db: None) -> TrainingJob:
    return runs_seed.training_job(steps=3, environments=2)


def lying(task: Task, job: TrainingJob) -> dict[str, Any]:
    """An attempt that did nothing and is told to have solved its task."""
    line = told(task, job, **UNEARNED)
    line["attempt"]["steps"] = [step for step in line["attempt"]["steps"] if step.get("kind") != "call"]
    return line


def test_the_first_mismatch_executes_the_whole_file_and_the_job_stands_still(
    task: Task, job: TrainingJob, settings: Any
) -> None:
    settings.ROLLOUT_SAMPLE = 2
    lines = [lying(task, job) if place % 2 else told(task, job) for place in range(12)]
    file = arrived(task, job, *lines)
    while not {row.index for row in verification.draw_sample(file)} & {1, 3, 5, 7, 9, 11}:
        settings.SECRET_KEY += "x"
    assert looked(job) == {"files": 1, "executed": 12, "quarantined": 6, "unclear": 0, "reason": ""}
    file.refresh_from_db()
    job.refresh_from_db()
    assert file.verified == 12
    assert [bool(row.quarantined) for row in file.rollouts.order_by("index")] == [False, True] * 6
    assert (job.state, job.worker) == (TrainingState.PAUSED, ""), "nothing of its worker is taken any more"
    assert "6 of 12 attempts of step 3 came out otherwise" in job.doubt
    assert "The worker reported a mean reward of 1.0000 for the 12 of them that count" in job.doubt
    assert "executed again they give 0.5000" in job.doubt
    event = TrainingEvent.objects.get(job=job, level="error")
    assert (event.kind, event.data["reported"], event.data["found"]) == ("alarm", 1.0, 0.5)


def test_the_points_of_a_step_that_came_out_otherwise_are_not_verified_and_marked(task: Task, job: TrainingJob) -> None:
    file = arrived(task, job, lying(task, job))
    assert file.step not in [mark.step for mark in list_marks(job) if mark.kind == "doubt"]
    looked(job)
    assert file.step not in list_verified_steps(job)
    (mark,) = [mark for mark in list_marks(job) if mark.kind == "doubt" and mark.step == file.step]
    assert mark.words == "1 of 1 attempts came out otherwise when executed again here."
    RolloutFile.objects.filter(pk=file.pk).update(superseded=True)
    assert file.step not in [mark.step for mark in list_marks(job) if mark.kind == "doubt"], "the step was made anew"


def test_what_waits_at_a_job_that_reports_no_more_is_verified_all_the_same(task: Task, job: TrainingJob) -> None:
    TrainingJob.objects.update(state=TrainingState.CANCELLED)
    file = arrived(task, job, told(task, job))
    assert verification.verify_forgotten() == 0, "the next report may start it"
    RolloutFile.objects.update(created_at=timezone.now() - 2 * verification.EVERY)
    assert verification.verify_forgotten() == 1
    assert verification.verify_forgotten() == 0, "it is queued"
    Job.objects.update(state="failed")
    assert verification.verify_forgotten() == 0, "what fails is not tried again and again"
    assert looked(job)["executed"] == 1
    assert list_verified_steps(job) == [file.step]


def test_a_sample_without_a_mismatch_stays_a_sample(task: Task, job: TrainingJob, settings: Any) -> None:
    settings.ROLLOUT_SAMPLE = 2
    arrived(task, job, *[told(task, job)] * 6)
    assert looked(job)["executed"] == 2
    job.refresh_from_db()
    assert (job.wish, job.doubt) == ("", "")


@pytest.mark.parametrize("reward", [0.0, None])
def test_failures_that_the_program_is_said_to_have_ended_are_executed_again(
    task: Task, job: TrainingJob, settings: Any, reward: float | None
) -> None:
    """Two of eight attempts failed; with masking on, told as the program's doing, they would leave the mean at 1."""
    settings.ROLLOUT_SAMPLE = 1
    failed = lying(task, job) | {"reward": reward, "masked": "" if reward == 0.0 else "program_error"}
    failed["attempt"] |= {"outcome": "program_error", "ending": "program_ended", "reward": None, "final_hash": ""}
    file = arrived(task, job, *[told(task, job)] * 6, failed, failed)
    assert {row.outcome for row in verification.draw_sample(file)} == {"solved", "program_error"}
    assert looked(job) == {"files": 1, "executed": 8, "quarantined": 2, "unclear": 0, "reason": ""}
    job.refresh_from_db()
    assert job.state == TrainingState.PAUSED
    assert "2 of 8 attempts of step 3 came out otherwise" in job.doubt
    assert "reported that the program ended the attempt; executed again it does not, and they give 0.0000" in job.doubt
    reported = "0.7500 for the 8 of them" if reward == 0.0 else "1.0000 for the 6 of them"
    assert f"a mean reward of {reported}" in job.doubt
    found = "they give 0.7500" if reward == 0.0 else "8 count and give 0.7500"
    assert f"executed again {found}" in job.doubt


def test_what_a_program_really_ended_is_believed(job: TrainingJob, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = exiting(monkeypatch)
    arrived(ends, job, told(ends, job, reward=0.0, masked=""), told(ends, job, masked="program_error"))
    assert looked(job)["quarantined"] == 0
    job.refresh_from_db()
    assert (job.wish, job.doubt) == ("", "")


def test_a_program_that_is_out_of_time_at_a_slower_worker_is_no_mismatch(task: Task, job: TrainingJob) -> None:
    slow = told(task, job, reward=0.0, masked="")
    ended = {"outcome": "program_error", "ending": "program_ended", "reward": None, "final_hash": ""}
    slow["attempt"] |= ended | {"ended_by": "time"}
    file = arrived(task, job, slow, slow | {"reward": 0.7}, slow | {"attempt": slow["attempt"] | {"ended_by": "died"}})
    assert looked(job)["quarantined"] == 2
    by_time, learnt, died = file.rollouts.order_by("index")
    assert by_time.quarantined == ""
    assert "learnt from a reward of 0.7000" in learnt.quarantined
    assert "executed again it does not" in died.quarantined
    _, row = opened(file)
    assert (row.outcome, row.reward, row.replay) == ("program_error", None, "identical")
    assert "ran out of time at the worker" in row.replay_note


def test_more_attempts_out_of_time_than_a_slower_worker_explains_are_a_mismatch(
    task: Task, job: TrainingJob, settings: Any
) -> None:
    settings.ROLLOUT_SAMPLE = 1
    slow = told(task, job, reward=None, masked="program_error")
    ended = {
        "outcome": "program_error",
        "ending": "program_ended",
        "reward": None,
        "final_hash": "",
        "ended_by": "time",
    }
    slow["attempt"] |= ended
    few = arrived(task, job, *[told(task, job)] * 12, *[slow] * 3)
    assert looked(job) == {"files": 1, "executed": 4, "quarantined": 0, "unclear": 0, "reason": ""}
    few.delete()
    many = arrived(task, job, *[told(task, job)] * 12, *[slow] * 4)
    assert looked(job)["quarantined"] == 4
    assert [bool(row.quarantined) for row in many.rollouts.order_by("index")] == [False] * 12 + [True] * 4
    job.refresh_from_db()
    assert job.state == TrainingState.PAUSED
    assert "4 of 16 attempts of the step are reported as out of time, and here they are not" in job.doubt


@pytest.mark.parametrize(
    ("state", "then"),
    [
        (TrainingState.QUEUED, TrainingState.PAUSED),
        (TrainingState.PAUSED, TrainingState.PAUSED),
        (TrainingState.SUCCEEDED, TrainingState.SUCCEEDED),
    ],
)
def test_a_job_that_no_worker_holds_is_doubted_at_once(
    task: Task, job: TrainingJob, state: TrainingState, then: TrainingState
) -> None:
    TrainingJob.objects.update(state=state)
    arrived(task, job, lying(task, job))
    looked(job)
    job.refresh_from_db()
    assert (job.state, bool(job.doubt)) == (then, True)


def test_page_and_api_show_both_numbers_and_who_resumes_is_in_the_audit_log(task: Task, job: TrainingJob) -> None:
    TrainingJob.objects.update(state=TrainingState.QUEUED)
    arrived(task, job, lying(task, job))
    looked(job)
    client = Client()
    viewer = pages_seed.person("viewer")
    client.force_login(viewer)
    page = client.get(reverse("runs:job", args=[job.public_id])).content.decode()
    for words in ("What its worker reported is not true", "a mean reward of 1.0000", "they give 0.0000"):
        assert page.count(words) == 1
    told_by_api = program(viewer).get(f"/fine_tuning/jobs/{job.public_id}").json()
    assert "executed again they give 0.0000" in told_by_api["envarium"]["doubt"]
    assert told_by_api["status"] == "paused"
    row = control.resume_job(job, pages_seed.person("researcher"))
    assert row.doubt == ""
    entry = AuditEntry.objects.get(action="training.resume")
    assert "executed again they give 0.0000" in entry.detail["despite"]
    page = client.get(reverse("runs:job", args=[job.public_id])).content.decode()
    assert "is not true" not in page.partition("marks-legend")[0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seed": 7}, "The seed that the worker names is 7; that of this site is 0."),
        ({"now": "2031-01-01T00:00:00+00:00"}, "The clock that the worker names is 2031-01-01T00:00:00+00:00"),
        ({"now": "no moment at all"}, "The clock that the worker names is no moment at all"),
        ({"validation": "source"}, "The validation that the worker names is source; that of this site is schema."),
    ],
)
def test_seed_clock_and_validation_are_this_site_s(
    task: Task, job: TrainingJob, changes: dict[str, Any], words: str
) -> None:
    """A worker that could choose them would choose those in which an attempt succeeds."""
    rollout, row = opened(arrived(task, job, told(task, job, attempt=changes)))
    assert words in rollout.quarantined
    assert (row.seed, row.now, row.validation) == (0, "2025-01-01T09:00:00+00:00", "schema")


def test_an_attempt_that_is_left_out_of_the_mean_though_it_has_a_reward_is_a_mismatch(
    task: Task, job: TrainingJob
) -> None:
    line = told(task, job, reward=None, masked="infra_error")
    rollout, _ = opened(arrived(task, job, line))
    assert "The step left it out, though nothing of it was lost; it earns 1.0000." in rollout.quarantined


def test_an_attempt_that_was_cut_is_left_out_if_the_job_masks_such(task: Task, job: TrainingJob) -> None:
    line = told(task, job, reward=None, masked="truncated", attempt={"outcome": "truncated", "ended_by": "turn_limit"})

    def doubt() -> str:
        job.rollout_files.all().delete()
        return opened(arrived(task, job, line))[0].quarantined

    assert "The step left it out, though nothing of it was lost" in doubt()
    job.config = {**job.config, "masking": {"truncated": True}}
    job.save()
    assert "The step left it out" not in doubt()


def test_a_verdict_by_another_text_of_the_prompt_verifies_nothing(task: Task, job: TrainingJob) -> None:
    line = told(task, job, reward=None, masked="user_fault")
    line["attempt"]["user_verdict"] = {"finding": "fault", "mistakes": [], "judge": "judge"}
    line["attempt"]["steps"] = [{"kind": "user", "content": "I want a pony."}, *line["attempt"]["steps"][1:]]
    name = next(iter(dict(list_user_prompts(list_talk(Attempt.model_validate(line["attempt"]).steps)))))
    line["attempt"]["prompts"] = {name: "0" * 64}
    with pytest.raises(InputError, match="cannot be asked for again"):
        require_askable_verdict(RolloutFileLine.model_validate(line))
    line["attempt"]["prompts"] = {}
    require_askable_verdict(RolloutFileLine.model_validate(line))


def test_a_fault_of_the_user_masks_only_what_the_jobs_judge_said(task: Task, job: TrainingJob) -> None:
    """A worker that could make faults up would leave out what failed."""
    said = "I want a pony."
    mistake = {"rule": 2, "line": 1, "quote": "a pony", "intent": "", "reason": ""}
    verdict = {"finding": "fault", "mistakes": [mistake], "judge": "judge"}
    line = told(task, job, reward=None, masked="user_fault")
    line["attempt"]["user_verdict"] = verdict
    line["attempt"]["steps"] = [{"kind": "user", "content": said}, *line["attempt"]["steps"][1:]]

    def doubt(line: dict[str, Any]) -> str:
        job.rollout_files.all().delete()
        return opened(arrived(task, job, line))[0].quarantined

    assert "the job's judge was not asked about it" in doubt(line)
    steps = Attempt.model_validate(line["attempt"]).steps
    question = hash_question([("user", spell_question(str(task.current.instruction), list_talk(steps)))])
    reply = json.dumps({"mistakes": [mistake], "erred": True})
    JudgeReply.objects.create(job=job, question=question, reply=reply, model="judge")
    assert doubt(line) == ""
    assert RunRollout.objects.get(file__job=job).user_fault == "fault"
    faultless = {"attempt": {**line["attempt"], "user_verdict": {"finding": "none", "judge": "judge"}}}
    assert "reported `none` for its simulated user; by the job's judge it is `fault`" in doubt(
        {**line, "reward": 1.0, "masked": "", **faultless}
    )
    assert "The step left it out for a fault of its simulated user" in doubt({**line, **faultless})
    job.config = {**job.config, "masking": {"meu": False}}
    job.save()
    assert "The step left it out for a fault of its simulated user" in doubt(line)


def test_opening_one_that_differs_has_the_whole_file_executed_again(
    task: Task, job: TrainingJob, settings: Any
) -> None:
    settings.ROLLOUT_SAMPLE = 1
    file = arrived(task, job, told(task, job), lying(task, job), told(task, job), lying(task, job))
    file.verified = 1
    file.save()
    client = Client()
    client.force_login(pages_seed.person("annotator"))
    client.post(reverse("runs:rollout", args=[job.public_id, file.rollouts.get(index=1).pk]))
    assert Job.objects.filter(kind="verify_rollouts", state="queued").count() == 1
    assert looked(job)["executed"] == 4
    assert file.rollouts.exclude(quarantined="").count() == 2
    job.refresh_from_db()
    assert job.doubt


def disturbed(task: Task, job: TrainingJob, ordinal: int) -> dict[str, Any]:
    """The line of the attempt by the reference, disturbed as the job's settings and its row want it."""
    config = read_config(job.config)
    assert isinstance(config, Reinforcement)
    revision = revision_of(task)
    attempt = runs_seed.disturbed_attempt(revision, config.attempts.disturbance, config.seed, ordinal)
    return runs_seed.line_of(revision, attempt, 0.0, 3)


def draw_every_disturbance(task: Task, job: TrainingJob) -> list[dict[str, Any]]:
    """Return lines of attempts in which both faults and both rewards occur.

    What is drawn depends on the id of the task's revision, which depends on the tests before this one.
    """
    lines: list[dict[str, Any]] = []
    for ordinal in range(64):
        lines.append(disturbed(task, job, ordinal))
        steps = [step for line in lines for step in line["attempt"]["steps"]]
        faults = {step["injected"].get("fault", "") for step in steps if "injected" in step}
        if faults == {"", "unavailable", "error"} and {line["reward"] for line in lines} == {0.0, 1.0}:
            return lines
    raise AssertionError("64 attempts did not draw both faults and both rewards")


def test_calls_that_a_worker_says_were_disturbed_are_those_that_the_settings_disturb(
    task: Task, job: TrainingJob, settings: Any
) -> None:
    """Honest attempts come out alike when they are executed again; who chooses the calls that fail is caught."""
    settings.ROLLOUT_SAMPLE = 64
    rates = {"failures": 0.3, "error_results": 0.3, "latency": 0.3, "latency_s": 60.0}
    job.config = {**job.config, "attempts": {"disturbance": rates}}
    job.save()
    lines = draw_every_disturbance(task, job)
    file = arrived(task, job, *lines)
    expected = {"files": 1, "executed": len(lines), "quarantined": 0, "unclear": 0, "reason": ""}
    assert looked(job) == expected
    for index, line in enumerate(lines):
        _, row = opened(file, index)
        assert (row.replay, row.reward) == ("identical", line["reward"])
        assert row.injected_count == sum("injected" in step for step in line["attempt"]["steps"])
    RolloutFile.objects.all().delete()
    lucky, unlucky = (next(line for line in lines if line["reward"] == reward) for reward in (1.0, 0.0))
    plain = told(task, job, ordinal=unlucky["ordinal"], attempt={"ordinal": unlucky["ordinal"]})
    swapped = copy.deepcopy(lucky) | {"ordinal": unlucky["ordinal"]}
    file = arrived(task, job, plain, swapped, copy.deepcopy(lucky))
    assert looked(job)["quarantined"] == 2
    spared, chosen, honest = file.rollouts.order_by("index")
    assert honest.quarantined == ""
    for row in (spared, chosen):
        assert "with a disturbance that the job's settings do not make" in row.quarantined
        assert "executing the calls again gives 0.0000" in row.quarantined
