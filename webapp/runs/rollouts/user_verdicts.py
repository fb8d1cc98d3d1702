"""Verdicts on simulated users as a worker told them, held against what the job's judge said: a fault that nobody found
would take an attempt that failed out of a step."""

from __future__ import annotations

from asgiref.sync import async_to_sync

from synthesis.contracts import SOLVED_AT, Attempt, Reward
from synthesis.errors import LLMError
from synthesis.rollout.user_judge import judge_user, list_talk, user_prompts
from webapp.runs.models import TrainingJob
from webapp.runs.rollouts.recorded_judge import RecordedJudge
from webapp.runs.rollouts.rollout_line import RolloutFileLine

MASKED = "user_fault"


def doubt_verdict(told: RolloutFileLine, job: TrainingJob, intent: str, given: Reward | None) -> str:
    """Return why a told verdict on the user, or what the step made of it, is not believed; empty if nothing differs.

    `given` is what the attempt earned when it was executed again. A verdict that the worker says is unknown masks
    nothing, so nobody looks for it; one by an earlier text of the prompt cannot be asked for again.
    """
    finding = told.attempt.user_fault
    if told.masked == MASKED and not _masks(told.attempt, job, given):
        return (
            "The step left it out for a fault of its simulated user; its verdict or the job's settings say otherwise."
        )
    talk = list_talk(told.attempt.steps)
    if finding not in ("none", "fault") or any(
        told.attempt.prompts.get(name, digest) != digest for name, digest in user_prompts(talk).items()
    ):
        return ""
    try:
        found = async_to_sync(judge_user)(RecordedJudge(job), intent, talk)
    except LLMError:
        return "The worker told a verdict on its simulated user, and the job's judge was asked nothing about it."
    if found.finding != finding:
        return f"The worker told `{finding}` of its simulated user; by the job's judge it is `{found.finding}`."
    return ""


def _masks(attempt: Attempt, job: TrainingJob, given: Reward | None) -> bool:
    """Tell whether the job's settings take an attempt with this verdict out."""
    masking = job.config.get("masking") or {}
    if attempt.user_fault != "fault" or not (job.method == "evaluation" or masking.get("meu", True)):
        return False
    failed = given is None or given.reward < SOLVED_AT
    return masking.get("meu_scope", "all") == "all" or failed
