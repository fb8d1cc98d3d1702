"""What stored attempts would earn after an edit: their calls executed again, before and after, and what parts them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from django.db.models import Q

from synthesis.contracts import GoldenVerifier, Reward, is_refusal, same_reward
from synthesis.runtime import Sandbox
from synthesis.verifiers.frame_words import outside_line
from webapp.scenarios.models import TaskRevision
from webapp.trajectories.models import Trajectory
from webapp.trajectories.reproduction import Replay, ReplaySetting, replay
from webapp.trajectories.steps import ExecutedStep
from webapp.trajectories.stored_runs import StoredRun

WHY_CHARS = 1_000
JUDGED_ANEW = "Its checks cannot be run any more, so it is judged by the new ones."
MOST_NAMED = 4
"""So many checks are named of those that come out otherwise."""


@dataclass(frozen=True)
class RunEffect:
    """What an edit does to one attempt. `known` is False where it could not be executed again."""

    pk: int
    before: float | None
    after: float | None
    same: bool
    known: bool = True
    why: str = ""

    @property
    def flips(self) -> int:
        """1 where it would earn more, -1 where less."""
        if not self.known or self.before is None or self.after is None:
            return 0
        if same_reward(self.before, self.after):
            return 0
        return 1 if self.after > self.before else -1


def evidence(revision: TaskRevision) -> list[int]:
    """The stored attempts at what this revision asks, newest first, at earlier revisions that ask the same too."""
    same = TaskRevision.objects.filter(
        task=revision.task_id, instruction=revision.instruction, verifier_hash=revision.verifier_hash,
        scenario__initial=revision.scenario.initial_id,
    ).values_list("pk", flat=True)  # fmt: skip
    rows = Trajectory.objects.filter(task=revision.task_id, revision__in=list(same), live=False)
    scored = rows.filter(Q(reward__isnull=False) | Q(outcome="program_error"))
    return list(scored.order_by("-id").values_list("pk", flat=True))


def attempts_left_out(tasks: Sequence[int], looked_at: int) -> int:
    """How many stored attempts at these tasks are no evidence: those at revisions that ask something else."""
    rows = Trajectory.objects.filter(task__in=tasks, live=False)
    scored = rows.filter(Q(reward__isnull=False) | Q(outcome="program_error"))
    return max(0, scored.count() - looked_at)


def effect(sandbox: Sandbox, before: ReplaySetting | None, after: ReplaySetting, run: StoredRun) -> RunEffect:
    """Execute an attempt on the program and verifier as they would be, and where that differs as they are. Without
    `before` it is compared with what is stored of it.

    Touches no database. Raises SandboxUnavailable.
    """
    then = _executed(sandbox, after, run)
    if _lost(then):
        return RunEffect(run.pk, run.earned, None, same=False, known=False, why=then.failure[:WHY_CHARS])
    if before is None:
        given = _reward(then)
        same = given is not None and run.earned is not None and same_reward(given, run.earned)
        return RunEffect(
            run.pk, run.earned, given, same=same, why="" if same else then.failure[:WHY_CHARS] or JUDGED_ANEW
        )
    if run.told and _as_told(run, then):
        return RunEffect(run.pk, run.earned, _reward(then), same=True)
    if then.judged_best is not None:
        why = "A judge would have to look at it anew: it comes out otherwise, or is judged by other criteria."
        return RunEffect(run.pk, run.earned, None, same=False, known=False, why=why)
    now = _executed(sandbox, before, run)
    if _lost(now):
        return RunEffect(run.pk, run.earned, _reward(then), same=False, known=False, why=now.failure[:WHY_CHARS])
    if _alike(now, then):
        return RunEffect(run.pk, _reward(now), _reward(then), same=True)
    is_golden = isinstance(after.verifier, GoldenVerifier)
    return RunEffect(run.pk, _reward(now), _reward(then), same=False, why=_why(now, then, is_golden)[:WHY_CHARS])


def _executed(sandbox: Sandbox, setting: ReplaySetting, run: StoredRun) -> Replay:
    """What a judge decided before holds as long as it would be asked the same."""
    return replay(sandbox, replace(setting, kept=run.kept), run.record)


def _lost(done: Replay) -> bool:
    """Whether our side failed, which says nothing of the attempt."""
    return bool(done.failure) and not done.ended


def _reward(done: Replay) -> float | None:
    return done.reward.reward if done.reward is not None else None


def _as_told(run: StoredRun, done: Replay) -> bool:
    """Whether it comes out as it is recorded."""
    if done.failure:
        return run.ended
    given = _reward(done)
    if given is None or run.earned is None:
        return given is run.earned
    return same_reward(given, run.earned) and _passed(done.reward) == _passed(run.kept)


def _alike(now: Replay, then: Replay) -> bool:
    if bool(now.failure) != bool(then.failure):
        return False
    if now.failure:
        return True
    first, second = _reward(now), _reward(then)
    if first is None or second is None:
        return first is second
    return same_reward(first, second) and _passed(now.reward) == _passed(then.reward)


def _passed(reward: Reward | None) -> list[bool]:
    return [verdict.passed for verdict in reward.verdicts] if reward is not None else []


def _why(now: Replay, then: Replay, is_golden: bool) -> str:
    """What parts two executions: the first call that does something else, and the checks that come out otherwise."""
    parts = []
    if then.failure and not now.failure:
        parts.append(f"The program ends the attempt: {then.failure}")
    elif now.failure and not then.failure:
        parts.append("The program lives through the attempt now.")
    parts.append(_first_call(now.played, then.played))
    before, after = _passed(now.reward), _passed(then.reward)
    if len(before) == len(after):
        gained = [number for number, (old, new) in enumerate(zip(before, after, strict=True), 1) if new and not old]
        lost = [number for number, (old, new) in enumerate(zip(before, after, strict=True), 1) if old and not new]
        parts += [
            _checks(gained, "hold now", "holds now"),
            _checks(lost, "do not hold any more", "does not hold any more"),
        ]
    outside = len(then.reward.outside) if then.reward is not None else 0
    if outside and not (now.reward is not None and now.reward.outside):
        first = outside_line(then.reward.outside[0]) if then.reward is not None else ""
        more = f" and {outside - 1:,} more" if outside > 1 else ""
        where = "Other than the golden state" if is_golden else "Outside the frame"
        parts.append(f"{where}: {first}{more}.")
    return " ".join(part for part in parts if part)


def _first_call(now: Sequence[ExecutedStep], then: Sequence[ExecutedStep]) -> str:
    for number, (old, new) in enumerate(zip(now, then, strict=False), 1):
        if old.result is None or new.result is None:
            continue
        if (old.result.ok, old.result.result, old.patch) == (new.result.ok, new.result.result, new.patch):
            continue
        name = new.step.tool[:80]
        if _refused(new) and not _refused(old):
            return f"Call {number}, {name}, is refused now."
        if _refused(old) and not _refused(new):
            return f"Call {number}, {name}, is carried out now."
        what = "changes something else" if old.patch != new.patch else "answers something else"
        return f"Call {number}, {name}, {what} now."
    return ""


def _refused(step: ExecutedStep) -> bool:
    return step.result is None or is_refusal(step.result.ok, step.result.result)


def _checks(numbers: list[int], many: str, one: str) -> str:
    if not numbers:
        return ""
    if len(numbers) == 1:
        return f"Check {numbers[0]} {one}."
    if len(numbers) > MOST_NAMED:
        return f"{len(numbers)} checks {many}."
    return f"Checks {', '.join(map(str, numbers[:-1]))} and {numbers[-1]} {many}."
