"""Verdicts on simulated users as workers reported them, compared with those of the job's judge: a false fault of the
user would take an attempt that failed out of a step."""

from __future__ import annotations

from asgiref.sync import async_to_sync

from synthesis.contracts import SOLVED_AT, Attempt, Reward
from synthesis.errors import InputError, LLMError
from synthesis.rollout.user_judge import Talk, judge_user, list_talk, list_user_prompts
from webapp.runs.models import TrainingJob
from webapp.runs.rollouts.recorded_judge import RecordedJudge
from webapp.runs.rollouts.rollout_line import RolloutFileLine

MASKED = "user_fault"


def doubt_verdict(told: RolloutFileLine, job: TrainingJob, intent: str, given: Reward | None) -> str:
    """Return why a reported verdict on the user, or its effect on the step, is not believed; empty if nothing differs.

    `given` is what the attempt earned when it was executed again. A verdict that the worker reports as unknown masks
    nothing, so it is not checked; one by an earlier text of the prompt cannot be asked for again.
    """
    finding = told.attempt.user_fault
    if told.masked == MASKED and not _is_masked_by_settings(told.attempt, job, given):
        return (
            "The step left it out for a fault of its simulated user; its verdict or the job's settings say otherwise."
        )
    talk = list_talk(told.attempt.steps)
    if finding not in ("none", "fault") or _has_other_prompts(told.attempt, talk):
        return ""
    try:
        judged = async_to_sync(judge_user)(RecordedJudge(job), intent, talk)
    except LLMError:
        return "The worker reported a verdict on its simulated user, and the job's judge was not asked about it."
    if judged.finding != finding:
        return f"The worker reported `{finding}` for its simulated user; by the job's judge it is `{judged.finding}`."
    return ""


def require_askable_verdict(told: RolloutFileLine) -> None:
    """Raise InputError if an attempt was left out by a verdict on its user that this site cannot ask for again."""
    if told.masked == MASKED and _has_other_prompts(told.attempt, list_talk(told.attempt.steps)):
        raise InputError(
            "An attempt was left out for a fault of its simulated user, found with another text of the judge's prompt "
            "than this site's: it cannot be asked for again. Let the worker run the version of this site."
        )


def _has_other_prompts(attempt: Attempt, talk: Talk) -> bool:
    """Return whether the verdict on the user was made with another text of the prompts than this site's."""
    return any(attempt.prompts.get(name, digest) != digest for name, digest in list_user_prompts(talk).items())


def is_masked_by_rule(told: RolloutFileLine, job: TrainingJob) -> bool:
    """Return whether the job's settings leave an attempt out of its step for the reason that the worker reported.

    A fault of the user is doubted apart (`doubt_verdict`).
    """
    if told.masked == "truncated" == told.attempt.outcome:
        return bool((job.config.get("masking") or {}).get("truncated"))
    return told.masked == MASKED


def _is_masked_by_settings(attempt: Attempt, job: TrainingJob, given: Reward | None) -> bool:
    """Return whether the job's settings take an attempt with this verdict out."""
    masking = job.config.get("masking") or {}
    if attempt.user_fault != "fault" or not (job.method == "evaluation" or masking.get("meu", True)):
        return False
    failed = given is None or given.reward < SOLVED_AT
    return masking.get("meu_scope", "all") == "all" or failed
