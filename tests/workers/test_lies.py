"""Reports that are not true: each is refused with its place, contradicted, or stays unverified; none counts in silence.

One job of two tasks with two attempts at each, as a worker would report it; each case changes one thing. Attempts that
are executed again, and come out otherwise, are in `tests/runs/test_doubts.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from tests.fixtures.api import program
from tests.runs import job_support
from tests.workers.test_checkpoint_uploads import rollouts, upload
from tests.workers.worker_support import (
    CONFIG,
    FINAL,
    attempt,
    blob,
    claimed,
    demo_shapes,
    event,
    learning,
    line,
    operator,
    queued,
    safetensors,
    step_lines,
    take,
    values,
)
from training.config import EvaluationJob
from webapp.common.claims import StaleClaim
from webapp.common.errors import Conflict, Unusable
from webapp.runs import control
from webapp.runs.checkpoint_files import find_named_checkpoint
from webapp.runs.curves.series import load_series
from webapp.runs.evaluations.results import get_results
from webapp.runs.models import RolloutFile, TrainingEvent, TrainingJob, TrainingState
from webapp.runs.rollouts import verification
from webapp.runs.transitions import NOT_TRUE, AttemptEnding
from webapp.workers import claims
from webapp.workers.errors import WrongHash

pytestmark = pytest.mark.django_db
Lines = list[dict[str, Any]]


@pytest.fixture
def job(db: None) -> TrainingJob:
    return claimed(queued(total_steps=3))[0]


def changed(place: int, **changes: Any) -> Lines:
    lines = step_lines()
    lines[place] |= changes
    return lines


def named(*names: str) -> Lines:
    return [told | {"row": names[place // 2]} for place, told in enumerate(step_lines(1.0, 1.0, 1.0, 1.0))]


def swapped() -> Lines:
    first, second, *others = step_lines()
    return [second, first, *others]


def earned(reward: float, passed: int = 0, **more: Any) -> dict[str, Any]:
    told = {"reward": reward, "passed": passed, "total": 1, "verdicts": [], "rule": "goals"}
    return attempt(0.5) | {"reward": told} | more


LOST = attempt(None)
LIES: dict[str, tuple[Callable[[], Lines], str]] = {
    # Those that were seen.
    "rows that do not exist": (lambda: named("made-up-1", "made-up-2"), "line 1: 'made-up-1' is no row of the 8 to"),
    "revisions that do not exist": (lambda: named("row-0", "revision:99999999"), "line 3: 'revision:99999999' is no"),
    "a lost attempt with a reward": (
        lambda: changed(2, attempt=LOST), "line 3: is masked as ''; for the outcome infra_error",
    ),
    "a lost attempt with a reward, masked": (
        lambda: changed(2, attempt=LOST, masked="infra_error"), "line 3: the step learnt from a reward of 1.0000",
    ),
    "one attempt where four are due": (lambda: step_lines()[:1], "1 attempts were sent; 4 are due"),
    # Others.
    "one attempt too many": (lambda: [*step_lines(), line(4)], "5 attempts were sent; 4 are due"),
    "a task twice": (
        lambda: [told | {"row": "row-0", "environment": "e0"} for told in step_lines()], "'row-0' is there twice",
    ),
    "an attempt twice": (lambda: changed(1, ordinal=0), "line 2: attempt 1 at 'row-0' is due here, not attempt 0"),
    "an attempt at another task": (
        lambda: changed(1, row="row-1", environment="e1"), "line 2: attempt 1 at 'row-0' is due here",
    ),
    "another environment": (lambda: changed(3, environment="e3"), "line 4: the row 'row-1' has the environment 'e1'"),
    "another verifier": (lambda: changed(0, verifier="0" * 64), "line 1: the row 'row-0' has the verifier"),
    "a better reward than was earned": (
        lambda: changed(1, reward=1.0), "line 2: the step learnt from a reward of 1.0000; for the outcome failed",
    ),
    "a failure that is left out": (
        lambda: changed(3, reward=None, masked="user_error"), "line 4: is masked as 'user_error'; for the outcome",
    ),
    "a solved attempt that earned less": (
        lambda: changed(1, attempt=attempt(0.5, outcome="solved")), "line 2: is reported as solved",
    ),
    "tokens that nobody drew": (lambda: changed(0, drawn=[[0, 4]]), "line 1: names 9 tokens of the agent, 4 of which"),
    "more tokens than the job lets an agent draw": (
        lambda: changed(0, tokens=32_769), "line 1: names 32,769 tokens of the agent; the job lets it draw 32,768",
    ),
    "more turns than an agent has": (
        lambda: changed(0, attempt=attempt(1.0, messages=[{"role": "assistant", "content": "On."}] * 9)),
        "line 1: holds 9 turns of the agent; at this step it has 8",
    ),
    "another horizon": (lambda: changed(0, horizon=30), "line 1: had 30 turns; at this step an agent has 8"),
    "failures that are told as lost": (
        lambda: step_lines(1.0, None, None, None), "3 of 4 attempts were lost or cannot be read, more than the 50%",
    ),
    "a reward beyond all": (
        lambda: changed(1, reward=7.0, attempt=earned(7.0, outcome="solved")), "line 2: is reported to have earned 7",
    ),
    "a reward below none": (
        lambda: changed(1, reward=-5.0, attempt=earned(-5.0)), "line 2: is reported to have earned -5",
    ),
    "more checks passed than there are": (
        lambda: changed(1, attempt=earned(0.5, passed=5)), "line 2: is reported to have passed 5 of 1 checks",
    ),
    "a solved task without a token": (lambda: changed(0, tokens=0), "line 1: is reported as solved, without a token"),
    "a solved task without a turn": (
        lambda: changed(0, attempt=attempt(1.0, messages=[{"role": "user", "content": "Do it."}])),
        "line 1: is reported as solved, without a turn",
    ),
    "rewards swapped within a group": (
        lambda: [told | {"reward": other["reward"]} for told, other in zip(step_lines(), swapped(), strict=True)],
        "line 1: the step learnt from a reward of 0.5000",
    ),
    "attempts swapped within a group": (
        lambda: [told | {"attempt": other["attempt"]} for told, other in zip(step_lines(), swapped(), strict=True)],
        "line 1: the step learnt from a reward of 1.0000",
    ),
    "a policy of the future": (lambda: changed(2, policy_step=3), "line 3: names the policy of step 3, which is"),
    "failures that cannot be read": (
        lambda: [step_lines()[0], *[{"surprise": 1}] * 3], "3 of 4 attempts were lost or cannot be read",
    ),
    "a failure that cannot be read, in place": (
        lambda: [step_lines()[0], *[{"surprise": 1}] * 3], "cannot be read: rollouts of step 2, line 2: is no attempt",
    ),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_attempts_that_cannot_be_tied_to_the_dataset_are_refused_with_their_place(job: TrainingJob, lie: str) -> None:
    lines, words = LIES[lie]
    with pytest.raises(Unusable) as refused:
        rollouts(job, blob(lines()), step=2)
    assert str(refused.value).startswith("rollouts of step 2")
    assert words in str(refused.value)
    assert not RolloutFile.objects.exists()
    assert str(refused.value) in TrainingEvent.objects.get(job=job, kind="refused").message
    rollouts(job, blob(step_lines()), step=2)


@pytest.mark.parametrize(
    ("step", "numbers", "words"),
    [
        (4, {"reward": 1.0}, "is of step 4; the job has 3 steps"),
        (1, {"environment/made-up/reward": 1.0}, "the environment 'made-up', which no row"),
        (1, {"node/made-up/success": 1.0}, "the category 'made-up', which no row"),
        (1, {"check/0123456789abcdef.1/success": 1.0}, "the verifier '0123456789abcdef', which no row"),
        (1, {"evaluation/success": 1.5}, "reports 'evaluation/success' = 1.5; a share is 0 to 1"),
        (1, {"infra_error_share": -0.1}, "reports 'infra_error_share' = -0.1; a share is 0 to 1"),
        (1, {"user_fault": 3.0}, "reports 'user_fault' = 3; a share is 0 to 1"),
        (1, {"outcome/solved": -1.0}, "reports 'outcome/solved' = -1; a share is 0 to 1"),
        (1, {"evaluation/environment/made-up/success": 1.0}, "the environment 'made-up', which no row"),
        (1, {"horizon": 400.0}, "reports a horizon of 400 turns at step 1"),
        (1, {"turns": 99.0}, "'turns' = 99; an agent of the job has"),
        (1, {"step_s": -5.0}, "'step_s' = -5; it cannot be negative"),
    ],
)
def test_numbers_of_what_is_not_there_are_refused(
    job: TrainingJob, step: int, numbers: dict[str, float], words: str
) -> None:
    with pytest.raises(Unusable, match=words):
        take(job, [values(1, step) | {"values": numbers}])


def test_numbers_without_attempts_stay_unverified_and_a_sample_that_is_executed_verifies_them(
    job: TrainingJob,
) -> None:
    take(job, [values(1, 1, reward=1.0, loss=0.5, evaluation__success=1.0), values(2, 2, reward=0.625)])
    rollouts(job, blob(step_lines()), step=2)

    def unverified(name: str) -> int:
        return sum(bucket.unverified for bucket in load_series(job, [name])[name].buckets)

    assert [unverified(name) for name in ("reward", "loss", "evaluation/success")] == [2, 0, 1]
    RolloutFile.objects.update(verified=2)
    assert unverified("reward") == 1, "of the first step no attempt was ever sent"
    RolloutFile.objects.update(unclear=1)
    assert unverified("reward") == 2


def test_numbers_that_are_told_anew_are_said_and_a_mean_that_is_not_its_attempts_is_a_contradiction(
    job: TrainingJob,
) -> None:
    take(job, [values(1, 2, loss=2.0, entropy=1.0), values(2, 1, loss=3.0), values(3, 2, loss=0.1)])
    take(job, [values(4, 2, entropy=0.5, reward=0.625), values(5, 1, loss=3.0)])
    said = TrainingEvent.objects.filter(job=job, kind="rewritten").order_by("pk").values_list("message", flat=True)
    assert [line.partition(": ")[2] for line in said] == ["loss was 2 and is 0.1.", "entropy was 1 and is 0.5."]
    rollouts(job, blob(step_lines()), step=2)
    take(job, [values(6, 2, reward=0.99)])
    job.refresh_from_db()
    assert (job.state, "a mean reward of 0.99 for step 2; its rollouts give 0.62" in job.doubt) == ("paused", True)


def test_a_step_keeps_the_attempts_that_came_first(job: TrainingJob) -> None:
    rollouts(job, blob(step_lines()), step=2)
    with pytest.raises(Conflict, match="Step 2 has other attempts already, which stay"):
        rollouts(job, blob(step_lines(1.0, 1.0, 1.0, 1.0)), step=2)
    with pytest.raises(WrongHash):
        rollouts(job, blob(step_lines()), step=3, sha256=RolloutFile.objects.get().sha256[::-1])


def test_times_of_the_future_are_those_at_which_they_came(job: TrainingJob) -> None:
    take(job, [event(1, message="Ahead.") | {"time": timezone.now().timestamp() + 1e6}])
    assert TrainingEvent.objects.get(job=job, message="Ahead.").at <= timezone.now()


def test_attempts_that_nobody_can_execute_again_verify_nothing(job: TrainingJob, settings: Any) -> None:
    rollouts(job, blob(step_lines()), step=2)
    verification.verify_waiting_files(object(), job.pk, lambda *_: None)  # type: ignore[arg-type] - no program runs
    file = RolloutFile.objects.get()
    assert (file.verified, file.unclear) == (0, 4)
    assert "stay unverified" in TrainingEvent.objects.get(job=job, kind="no_task").message


def ended(job: TrainingJob, message: str = "", **result: Any) -> TrainingJob:
    claims.end_attempt(job.public_id, job.attempt, AttemptEnding("done", message, result=result or None))
    job.refresh_from_db()
    return job


def finish(job: TrainingJob, last: int = 3, final: int = 3, sent: tuple[int, ...] = (1, 2, 3), **result: Any) -> None:
    """Report steps with their attempts, upload the model and end as done."""
    take(job, [values(step, step, reward=0.625, evaluation__success=0.5) for step in range(1, last + 1)])
    for step in sent[:last]:
        rollouts(job, blob(step_lines()), step=step)
    upload(job, final, final=True)
    ended(job, **result)


FINISHES: dict[str, tuple[dict[str, Any], str]] = {
    "done too early": ({"last": 2, "final": 2}, "it ended at step 2 of 3, and no reason was given"),
    "no attempts at all": ({"sent": ()}, "the attempts behind the numbers of these steps were never sent: 1, 2, 3"),
    "a step without attempts": ({"sent": (1, 3)}, "of these steps were never sent: 2"),
    "the model of another step": ({"final": 2}, "its model is said to be of step 2, and the last step"),
    "another result": (
        {"evaluations": [{"step": 3, "success": 0.9}]}, "evaluation/success = 0.9 of step 3, which was not reported",
    ),
}  # fmt: skip


@pytest.mark.parametrize("lie", FINISHES)
def test_done_needs_what_was_asked_for(job: TrainingJob, lie: str) -> None:
    how, words = FINISHES[lie]
    finish(job, **how)
    assert (job.state, job.fine_tuned_model) == (TrainingState.PAUSED, "")
    assert words in job.doubt
    error = program(operator()).get(f"/fine_tuning/jobs/{job.public_id}").json()["error"]
    assert error == {"code": "not_true", "message": f"{NOT_TRUE} {job.doubt}", "param": None}
    with pytest.raises(StaleClaim):
        take(job, [values(4, 3, loss=1.0)])


def test_done_with_all_that_was_asked_for_or_with_a_reason(job: TrainingJob) -> None:
    finish(job, evaluations=[{"step": 3, "success": 0.5, "reward": None}])
    assert (job.state, job.doubt) == (TrainingState.SUCCEEDED, "")
    other, _, _ = claimed(queued(total_steps=3))
    upload(other, 2, final=True)
    ended(other, "Attempts that could not be sent: one has more than 256 MiB.")
    assert other.state == TrainingState.SUCCEEDED
    warned = TrainingEvent.objects.get(job=other, level="warn").message
    assert "ended at step 0 of 3" in warned
    assert "more than 256 MiB" in warned


def test_a_model_of_a_worker_that_is_not_believed_is_given_out_once_a_person_says_so(job: TrainingJob) -> None:
    finish(job)
    TrainingJob.objects.filter(pk=job.pk).update(doubt="Nothing of it is true.")
    job.refresh_from_db()
    with pytest.raises(Exception, match="its models are not given out"):
        find_named_checkpoint(f"ft:{job.public_id}")
    control.resume_job(job, operator())
    job.refresh_from_db()
    assert (job.state, job.doubt) == (TrainingState.SUCCEEDED, "")
    assert find_named_checkpoint(f"ft:{job.public_id}") is not None


def model(shapes: dict[str, list[int]] | None = None, content: bytes = b"", config: bytes = CONFIG) -> dict[str, bytes]:
    return FINAL | {"model.safetensors": content or safetensors(shapes or {}), "config.json": config}


def header(**entry: Any) -> bytes:
    told = {"w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]} | entry}
    text = json.dumps(told).encode()
    return len(text).to_bytes(8, "little") + text + bytes(16)


WHOLE = demo_shapes()
DEEP = CONFIG.replace(b": 4,", b": 5,")
MODELS: dict[str, tuple[dict[str, bytes], str]] = {
    "88 bytes": (model({"w": [16]}), "config.json names 700 tokens of width 128; no tensor holds them"),
    "a layer too few": (
        model({name: shape for name, shape in WHOLE.items() if "layers.3" not in name}), "4 layers; the weights hold 3",
    ),
    "another configuration": (model(WHOLE, config=DEEP), "config.json names 5 layers; the weights hold 4"),
    "no configuration": (model(WHOLE, config=b"{}"), "config.json does not name hidden_size"),
    "far too small": (
        model({"embed": [700, 128]} | {f"layers.{n}.w": [1] for n in range(4)}), "the job's model has 1,000,000",
    ),
    "numbers that are not there": (model(content=header(shape=[4, 4])), "has 16 bytes, its shape needs others"),
    "a hole": (model(content=header(shape=[3], data_offsets=[4, 16])), "does not begin at the end of the one before"),
    "bytes too many": (model(content=header(shape=[3], data_offsets=[0, 12])), "have 12 bytes, the file has 16"),
    "no type": (model(content=header(dtype="X")), "no type of numbers"),
}  # fmt: skip


@pytest.mark.parametrize("lie", MODELS)
def test_weights_that_are_no_such_model_are_not_taken(job: TrainingJob, lie: str) -> None:
    files, words = MODELS[lie]
    with pytest.raises((Unusable, WrongHash)) as refused:
        upload(job, 3, files, final=True)
    assert words in str(refused.value)


def test_weights_are_those_of_the_model_that_the_job_began_with_and_of_its_own_steps(job: TrainingJob) -> None:
    upload(job, 1)
    wider = WHOLE | {"model.embed_tokens.weight": [800, 128]}
    with pytest.raises(Unusable, match=r"has the shape \[800, 128\]; in an earlier checkpoint of the job"):
        upload(job, 3, model(wider, config=CONFIG), final=True)
    assert "The final model was not taken" in TrainingEvent.objects.get(job=job, kind="refused").message
    finish(job)
    after, _, _ = claimed(queued(model="after", after=job))
    with pytest.raises(Unusable, match="in the model that the job began with it has the shape"):
        upload(after, 1, {"model.safetensors": safetensors(wider)})


def test_an_evaluation_of_made_up_rows_does_not_succeed() -> None:
    config = EvaluationJob(repeats=1, horizons=(2,), report_every=3).model_dump(mode="json")
    dataset = job_support.frozen(job_support.tasks(2, 3))
    job, _, _ = claimed(queued(method="evaluation", config=config, dataset=dataset, total_steps=2))
    digest = job_support.task(0, "e0").rollout.verifier_hash

    def report(*names: str, horizon: int = 2, environment: str = "e0") -> bytes:
        told = {"environment": environment, "verifier": digest, "horizon": horizon}
        return blob([line(0, 1.0, row=name, **told) for name in names])

    for content, words in (
        (report("made-up-1", "made-up-2", "made-up-3"), "line 1: 'made-up-1' is no row of the 6 that are evaluated"),
        (report("t0"), "1 attempts were sent; 3 are due in this report"),
        (report("t0", "t0", "t0"), "line 2: attempt 0 at 't1' is due here, not attempt 0 at 't0'"),
        (report("t3", "t4", "t5", environment="e1"), "line 1: attempt 0 at 't0' is due here"),
        (blob([line(0, 1.0, row="t0", environment="e0", verifier=digest, horizon=2, ordinal=1)] * 3), "not attempt 1"),
        (report("t0", "t1", "t2", horizon=9), "line 1: had 9 turns; at this step an agent has 2"),
    ):
        with pytest.raises(Unusable, match=words):
            rollouts(job, content, step=1)
    rollouts(job, report("t0", "t1", "t2"), step=1)
    ended(job)
    assert job.state == TrainingState.PAUSED
    assert "1 of its 2 reports are here" in job.doubt
    assert get_results(job).horizons[0].attempts == 3


def test_rows_that_are_held_out_are_not_learnt_from() -> None:
    dataset = job_support.frozen(job_support.tasks(2, 8), test_share=0.5)
    from webapp.datasets.evidence.row_index import index_rows

    kept = next(iter(index_rows(dataset, "test").values()))
    job, _, _ = claimed(queued(dataset=dataset, config=learning()))
    told = {"row": kept.id, "environment": kept.environment, "verifier": kept.verifier}
    with pytest.raises(Unusable, match=r"line 1: .* is no row of the .* to learn from"):
        rollouts(job, blob([one | told for one in step_lines()]))
