"""Effects of an edit on stored attempts: their calls executed again, before and after, and the differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from django.db.models import Q

from synthesis.contracts import Reward, VerifierKind, is_refusal, is_same_reward
from synthesis.runtime import Sandbox
from synthesis.verifiers.frame_words import format_outside_change
from webapp.scenarios.models import TaskRevision
from webapp.trajectories.models import Trajectory
from webapp.trajectories.reproduction import Replay, ReplaySetting, replay_run
from webapp.trajectories.steps import ExecutedStep
from webapp.trajectories.stored_runs import StoredRun

WHY_CHARS = 1_000
JUDGED_ANEW = "Its checks cannot be run any more, so it is judged by the new ones."
ASKS_JUDGE = "A judge would have to assess it again: it comes out otherwise, or is judged by other criteria."
MOST_NAMED = 4
"""Number of checks with a different result that are named."""
_NOUNS: dict[VerifierKind, tuple[str, str]] = {
    "checks": ("Check", "checks"),
    "golden": ("Check", "checks"),
    "rubric": ("Criterion", "criteria"),
    "script": ("Assertion", "assertions"),
}
"""What a verdict of each kind of verifier is about."""


@dataclass(frozen=True)
class RunEffect:
    """Effect of an edit on one attempt. `known` is False if it could not be executed again."""

    pk: int
    before: float | None
    after: float | None
    same: bool
    known: bool = True
    why: str = ""

    @property
    def flips(self) -> int:
        """1 if it would earn more, -1 if less, 0 otherwise."""
        if not self.known or self.before is None or self.after is None:
            return 0
        if is_same_reward(self.before, self.after):
            return 0
        return 1 if self.after > self.before else -1


def list_evidence(revision: TaskRevision) -> list[int]:
    """Return the stored attempts at what this revision asks, newest first, including those at earlier revisions that
    ask the same."""
    same = TaskRevision.objects.filter(
        task=revision.task_id, instruction=revision.instruction, verifier_hash=revision.verifier_hash,
        scenario__initial=revision.scenario.initial_id,
    ).values_list("pk", flat=True)  # fmt: skip
    rows = Trajectory.objects.filter(task=revision.task_id, revision__in=list(same), live=False)
    scored = rows.filter(Q(reward__isnull=False) | Q(outcome="program_error"))
    return list(scored.order_by("-id").values_list("pk", flat=True))


def count_left_out_attempts(tasks: Sequence[int], looked_at: int) -> int:
    """Count the stored attempts at these tasks that are no evidence: those at revisions that ask something else."""
    rows = Trajectory.objects.filter(task__in=tasks, live=False)
    scored = rows.filter(Q(reward__isnull=False) | Q(outcome="program_error"))
    return max(0, scored.count() - looked_at)


def compute_run_effect(
    sandbox: Sandbox,
    before: ReplaySetting | None,
    after: ReplaySetting,
    run: StoredRun,
    unjudged: str = ASKS_JUDGE,
) -> RunEffect:
    """Execute an attempt on the program and verifier after the edit, and if that differs, on the present ones.

    Without `before` it is compared with its stored result. `unjudged` is the reason if no judge is asked. Does not use
    the database. Raises SandboxUnavailable.
    """
    then = _replay_run(sandbox, after, run)
    if _is_lost(then):
        return RunEffect(run.pk, run.earned, None, same=False, known=False, why=then.failure[:WHY_CHARS])
    if before is None:
        new_reward = _get_reward(then)
        same = new_reward is not None and run.earned is not None and is_same_reward(new_reward, run.earned)
        return RunEffect(
            run.pk, run.earned, new_reward, same=same, why="" if same else then.failure[:WHY_CHARS] or JUDGED_ANEW
        )
    if run.told and _matches_record(run, then):
        return RunEffect(run.pk, run.earned, _get_reward(then), same=True)
    if then.judged_best is not None:
        why = then.note if after.judge is not None else unjudged
        return RunEffect(run.pk, run.earned, None, same=False, known=False, why=why[:WHY_CHARS])
    now = _replay_run(sandbox, before, run)
    if _is_lost(now):
        return RunEffect(run.pk, run.earned, _get_reward(then), same=False, known=False, why=now.failure[:WHY_CHARS])
    if _is_alike(now, then):
        return RunEffect(run.pk, _get_reward(now), _get_reward(then), same=True)
    why = f"{_describe_difference(now, then, after.verifier.kind)} {_name_judge(run, then)}".strip()
    return RunEffect(run.pk, _get_reward(now), _get_reward(then), same=False, why=why[:WHY_CHARS])


def _name_judge(run: StoredRun, then: Replay) -> str:
    """Return who judged an attempt anew by other criteria; empty if no judge was asked."""
    if then.reward is None or not then.reward.judge:
        return ""
    if run.kept is not None and run.kept.question == then.reward.question:
        return ""
    return f"{then.reward.judge} judged it anew."


def _replay_run(sandbox: Sandbox, setting: ReplaySetting, run: StoredRun) -> Replay:
    """Replay a run; an earlier decision of a judge holds as long as the question is the same."""
    return replay_run(sandbox, replace(setting, kept=run.kept), run.record)


def _is_lost(done: Replay) -> bool:
    """Return whether the system failed, which decides nothing about the attempt."""
    return bool(done.failure) and not done.ended


def _get_reward(done: Replay) -> float | None:
    return done.reward.reward if done.reward is not None else None


def _matches_record(run: StoredRun, done: Replay) -> bool:
    """Return whether the result is the recorded one."""
    if done.failure:
        return run.ended
    new_reward = _get_reward(done)
    if new_reward is None or run.earned is None:
        return new_reward is run.earned
    return is_same_reward(new_reward, run.earned) and _list_passed(done.reward) == _list_passed(run.kept)


def _is_alike(now: Replay, then: Replay) -> bool:
    if bool(now.failure) != bool(then.failure):
        return False
    if now.failure:
        return True
    first, second = _get_reward(now), _get_reward(then)
    if first is None or second is None:
        return first is second
    return is_same_reward(first, second) and _list_passed(now.reward) == _list_passed(then.reward)


def _list_passed(reward: Reward | None) -> list[bool]:
    return [verdict.passed for verdict in reward.verdicts] if reward is not None else []


def _describe_difference(now: Replay, then: Replay, kind: VerifierKind) -> str:
    """Describe the difference of two executions: the first call with another effect, and the checks with other
    verdicts."""
    parts = []
    if then.failure and not now.failure:
        parts.append(f"The program ends the attempt: {then.failure}")
    elif now.failure and not then.failure:
        parts.append("The program lives through the attempt now.")
    parts.append(_describe_first_call(now.played, then.played))
    before, after = _list_passed(now.reward), _list_passed(then.reward)
    if len(before) == len(after):
        gained = [number for number, (old, new) in enumerate(zip(before, after, strict=True), 1) if new and not old]
        lost = [number for number, (old, new) in enumerate(zip(before, after, strict=True), 1) if old and not new]
        parts += [
            _describe_verdicts(kind, gained, "hold now", "holds now"),
            _describe_verdicts(kind, lost, "do not hold any more", "does not hold any more"),
        ]
    outside = len(then.reward.outside) if then.reward is not None else 0
    if outside and not (now.reward is not None and now.reward.outside):
        first = format_outside_change(then.reward.outside[0]) if then.reward is not None else ""
        more = f" and {outside - 1:,} more" if outside > 1 else ""
        where = "Other than the golden state" if kind == "golden" else "Outside the frame"
        parts.append(f"{where}: {first}{more}.")
    return " ".join(part for part in parts if part)


def _describe_first_call(now: Sequence[ExecutedStep], then: Sequence[ExecutedStep]) -> str:
    for number, (old, new) in enumerate(zip(now, then, strict=False), 1):
        if old.result is None or new.result is None:
            continue
        if (old.result.ok, old.result.result, old.patch) == (new.result.ok, new.result.result, new.patch):
            continue
        name = new.step.tool[:80]
        if _is_refused_step(new) and not _is_refused_step(old):
            return f"Call {number}, {name}, is refused now."
        if _is_refused_step(old) and not _is_refused_step(new):
            return f"Call {number}, {name}, is carried out now."
        what = "changes something else" if old.patch != new.patch else "answers something else"
        return f"Call {number}, {name}, {what} now."
    return ""


def _is_refused_step(step: ExecutedStep) -> bool:
    return step.result is None or is_refusal(step.result.ok, step.result.result)


def _describe_verdicts(kind: VerifierKind, numbers: list[int], many: str, one: str) -> str:
    noun, nouns = _NOUNS[kind]
    if not numbers:
        return ""
    if len(numbers) == 1:
        return f"{noun} {numbers[0]} {one}."
    if len(numbers) > MOST_NAMED:
        return f"{len(numbers)} {nouns} {many}."
    return f"{nouns.capitalize()} {', '.join(map(str, numbers[:-1]))} and {numbers[-1]} {many}."
