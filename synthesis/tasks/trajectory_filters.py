"""Selection of trajectories worth training on (EnvScaler, B.2): filters in a fixed order, each with its reason.

They drop unfinished and malformed attempts, tasks that a judge calls impossible, attempts with a user who errs (ours:
the wrong words were not the agent's), too small rewards, and, if requested, too few or too many actions. Filters
without a judge read an `AttemptFacts`, so that stored trajectories pass through the same.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, StrictBool

from synthesis.contracts import SOLVED_AT, Attempt, Frozen, UserFinding, UserVerdict
from synthesis.drafts import FilterCount, TaskDraft
from synthesis.errors import Rejected
from synthesis.formats.records import EnvironmentRecord
from synthesis.prompts import fence_text, get_prompt
from synthesis.rollout.user_judge import RULES, join_lines, judge_user, list_talk
from synthesis.scenarios import prompt_text
from synthesis.stages import ActionRange, Kit
from synthesis.verifiers.frame import format_change_place


def is_proven_possible(task: TaskDraft, attempt: Attempt) -> bool:
    """Return whether the task has been done: by this attempt, or by the reference that was found for it."""
    solved = attempt.reward is not None and attempt.reward.reward >= SOLVED_AT
    return solved or task.reference is not None


RELEASED: dict[bool, tuple[int, int]] = {False: (3, 29), True: (5, 39)}
"""EnvScaler's released ranges, by whether it is a conversation; both ends are allowed."""
UNFINISHED = ("infra_error", "cancelled", "")
NO_CALL = ("malformed", "unknown_tool", "not_offered")
IMPOSSIBLE, USER_FAULT = "impossible_task", "user_fault"
"""The reasons that only a judge gives."""
POSSIBLE, USER = 0, 1
"""The samples of the stage `judge_run` that ask each of the two questions."""
LINE_CHARS = 2_000
REASON_CHARS = 2_000
NAMED = 3
"""So many places and checks are named in a reason."""
LABEL_CHARS = 80


class AttemptFacts(Frozen):
    """Facts of an attempt without its words.

    `actions` counts calls and messages, as EnvScaler does; `refused` are the kinds of error of its calls, `silent` the
    number of turns without any use, or with words instead of the submitted answer, `cut` the number of steps whose turn
    was cut off. `judged_impossible`: a judge called its task impossible when it was made. `user_fault`: the judge's
    finding about its user.
    """

    outcome: str
    user_error: bool = False
    user_fault: UserFinding | Literal[""] = ""
    unusable: bool = False
    conversational: bool = False
    reward: float | None = None
    actions: int = 0
    refused: tuple[str, ...] = ()
    silent: int = 0
    cut: int = 0
    judged_impossible: bool = False
    outside: tuple[str, ...] = ()
    """Places where it changed what the task's frame does not allow; then it earned 0."""
    failed: tuple[str, ...] = ()
    """The checks that do not hold."""


class FilterSettings(Frozen):
    """Choices of a user: the least reward that is kept (None: runs of any reward, and unjudged ones), and the range of
    the number of actions (None: any number).
    """

    least_reward: Annotated[float, Field(ge=0, le=1)] | None = 1.0
    action_range: ActionRange = None


@dataclass(frozen=True)
class TrajectoryFilter:
    """Filter of runs. `why` returns the reason to drop a run, or nothing. `name` is the reason that batches count
    by."""

    name: str
    why: Callable[[AttemptFacts], str]


@dataclass
class FilterTally:
    """Counts of runs that each filter saw and dropped."""

    names: tuple[str, ...]
    seen: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)

    def note(self, name: str, reason: str) -> bool:
        """Count a run; return whether it goes on to the next filter."""
        self.seen[name] += 1
        self.dropped[name] += bool(reason)
        return not reason

    def counts(self) -> tuple[FilterCount, ...]:
        return tuple(FilterCount(name=name, seen=self.seen[name], dropped=self.dropped[name]) for name in self.names)


class PossibleVerdict(BaseModel):
    """Verdict on whether the task can be completed at all."""

    reason: str = Field(min_length=1, max_length=REASON_CHARS)
    possible: StrictBool


def build_first_filters() -> tuple[TrajectoryFilter, ...]:
    """Return the filters before the judge."""
    return (
        TrajectoryFilter("infra_error", _explain_unfinished),
        TrajectoryFilter("program_error", _explain_program_error),
        TrajectoryFilter("user_error", _explain_user_error),
        TrajectoryFilter(USER_FAULT, _explain_user_fault),
        TrajectoryFilter("invalid_format", _explain_malformed),
        TrajectoryFilter("cut_turn", _explain_cut),
        TrajectoryFilter(IMPOSSIBLE, _explain_impossible),
    )


def build_last_filters(chosen: FilterSettings) -> tuple[TrajectoryFilter, ...]:
    """Return the filters after the judge."""
    filters: list[TrajectoryFilter] = []
    if (least := chosen.least_reward) is not None:
        filters.append(TrajectoryFilter("not_solved", lambda run: _explain_unsolved(run, least)))
    if chosen.action_range is not None:
        filters.append(TrajectoryFilter("action_range", lambda run: _explain_action_count(run, chosen.action_range)))
    return tuple(filters)


def find_dropping_filter(run: AttemptFacts, filters: Iterable[TrajectoryFilter]) -> tuple[str, str] | None:
    """Return (name, reason) of the first filter that drops the run."""
    return next(((run_filter.name, why) for run_filter in filters if (why := run_filter.why(run))), None)


def build_attempt_facts(attempt: Attempt, labels: Sequence[str] = ()) -> AttemptFacts:
    """Return the facts of an attempt's agent; `labels` are those of its task's checks."""
    agent_steps = [step for step in attempt.steps if step.by == "agent"]
    return AttemptFacts(
        outcome=attempt.outcome,
        user_error=attempt.user_error,
        user_fault=attempt.user_fault,
        unusable=attempt.ending == "unusable",
        conversational=attempt.conversational,
        reward=attempt.reward.reward if attempt.reward else None,
        actions=sum(step.kind != "user" for step in agent_steps),
        refused=tuple(step.result.error.kind for step in agent_steps if step.result and step.result.error),
        silent=sum(
            step.kind == "message" and bool(step.observation or not step.content.strip()) for step in attempt.steps
        ),
        cut=sum(bool(step.cut) for step in attempt.steps),
        outside=tuple(format_change_place(change) for change in attempt.reward.outside) if attempt.reward else (),
        failed=_list_failed_checks(attempt, labels),
    )


def _list_failed_checks(attempt: Attempt, labels: Sequence[str]) -> tuple[str, ...]:
    verdicts = attempt.reward.verdicts if attempt.reward else ()
    names = [f" “{label[:LABEL_CHARS]}”" if label else "" for label in labels]
    names += [""] * (len(verdicts) - len(names))
    numbered = zip(verdicts, names, strict=False)
    return tuple(f"{number}{name}" for number, (verdict, name) in enumerate(numbered, 1) if not verdict.passed)


async def filter_attempt(
    kit: Kit, record: EnvironmentRecord, task: TaskDraft, attempt: Attempt, *, withheld: bool = False
) -> Attempt:
    """Return the attempt, if it is worth training on; for a conversation with a judge's verdict on its user.

    Raise Rejected (the filter's name) and the errors of `Kit.ask`. A judge is asked only open questions. For a variant
    that withholds something no judge is asked whether it was possible: it was not, and reporting that is right.
    """
    settings, run = kit.settings, build_attempt_facts(attempt, [check.label for check in task.checks])
    _require_passing(run, build_first_filters())
    if not withheld and not is_proven_possible(task, attempt):
        await _require_possible(kit, record, task, attempt)
    if attempt.conversational:
        attempt = await _judge_attempt_user(kit, task, attempt)
    least = settings.least_reward if settings.filter_by_reward else None
    chosen = FilterSettings(least_reward=least, action_range=settings.action_range)
    _require_passing(run, build_last_filters(chosen), attempt.user_verdict)
    return attempt


def _require_passing(
    run: AttemptFacts, filters: Iterable[TrajectoryFilter], verdict: UserVerdict | None = None
) -> None:
    dropped = find_dropping_filter(run, filters)
    if dropped is not None:
        name, why = dropped
        raise Rejected(name, why, evidence=_build_evidence(run, verdict))


def _explain_unfinished(run: AttemptFacts) -> str:
    lost = run.outcome in UNFINISHED and not run.user_error
    return f"The attempt was not finished ({run.outcome or 'nothing judged it'})." if lost else ""


def _explain_program_error(run: AttemptFacts) -> str:
    return "The environment's program brought the attempt to an end." if run.outcome == "program_error" else ""


def _explain_user_error(run: AttemptFacts) -> str:
    return "The simulated user failed." if run.user_error else ""


def _explain_user_fault(run: AttemptFacts) -> str:
    return "A judge found that the simulated user erred." if run.user_fault == "fault" else ""


def _explain_malformed(run: AttemptFacts) -> str:
    wrong = Counter(kind for kind in run.refused if kind in NO_CALL)
    if wrong:
        listed = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in sorted(wrong.items()))
        return f"Calls that could not be carried out at all: {listed}."
    if run.silent or run.unusable:
        return f"{run.silent or 'Some'} turns held neither a call nor words of use."
    return ""


def _explain_cut(run: AttemptFacts) -> str:
    return "A turn was broken off, at the limit of tokens or for repeating itself without end." if run.cut else ""


def _explain_impossible(run: AttemptFacts) -> str:
    return "A judge called the task impossible when the attempt was made." if run.judged_impossible else ""


def _explain_unsolved(run: AttemptFacts, least: float) -> str:
    if run.reward is not None and run.reward >= least - 1e-9:
        return ""
    earned = "nothing that was judged" if run.reward is None else f"{run.reward:g}"
    return " ".join([f"It earned {earned}; kept from {least:g}.", *_explain_reward(run)])


def _explain_reward(run: AttemptFacts) -> Iterable[str]:
    """Yield the causes of the reward: changes outside the task's frame, checks that do not hold."""
    if run.outside:
        shown_names = ", ".join(f"“{place}”" for place in run.outside[:NAMED])
        more = _format_more(len(run.outside) - NAMED)
        yield f"The task's frame made it 0, because it does not allow to change {shown_names}{more}."
    if run.failed:
        shown_names = ", ".join(run.failed[:NAMED])
        yield f"Not passed: check {shown_names}{_format_more(len(run.failed) - NAMED)}."


def _format_more(more: int) -> str:
    return f" and {more} more" if more > 0 else ""


def _explain_action_count(run: AttemptFacts, allowed: ActionRange) -> str:
    low, high = allowed if isinstance(allowed, tuple) else RELEASED[run.conversational]
    return "" if low <= run.actions <= high else f"{run.actions} actions; kept from {low} to {high}."


async def _require_possible(kit: Kit, record: EnvironmentRecord, task: TaskDraft, attempt: Attempt) -> None:
    words = get_prompt("teaching", "possible").render(
        tools=prompt_text.format_tools(record), recording=fence_text("evidence", _format_recording(task, attempt))
    )
    verdict = await kit.ask("judge", "judge_run", words, PossibleVerdict, sample=POSSIBLE, temperature=0.0)
    if not verdict.possible:
        raise Rejected(IMPOSSIBLE, f"The judge calls the task impossible: {verdict.reason}", verdict.model_dump())


async def _judge_attempt_user(kit: Kit, task: TaskDraft, attempt: Attempt) -> Attempt:
    """Return the attempt with a judge's finding about its user. Raise Rejected (`user_fault`)."""
    judge = kit.asker.chat(kit.site("judge", "judge_run", USER))
    verdict = await judge_user(judge, task.instruction, list_talk(attempt.steps))
    judged = attempt.model_copy(update={"user_verdict": verdict})
    if verdict.finding == "fault":
        raise Rejected(USER_FAULT, describe_mistakes(verdict), _build_evidence(build_attempt_facts(judged), verdict))
    return judged


def describe_mistakes(verdict: UserVerdict) -> str:
    """Return the user's mistakes, in one sentence with quotes."""
    listed = "; ".join(
        f"it {RULES[one.rule]}{f' “{one.intent}”' if one.intent else ''}: “{one.quote}” (line {one.line})"
        for one in verdict.mistakes
    )
    return f"The simulated user erred: {listed}."[:REASON_CHARS]


def _build_evidence(run: AttemptFacts, verdict: UserVerdict | None) -> dict[str, Any]:
    verdict_field = {"user_verdict": verdict.model_dump(mode="json")} if verdict is not None else {}
    return run.model_dump(mode="json") | verdict_field


def _format_recording(task: TaskDraft, attempt: Attempt) -> str:
    system_text = next((message.content for message in attempt.messages if message.role == "system"), "")
    lines: list[dict[str, Any]] = [{"task": task.instruction, "must_bring_about": list(task.checklist)}]
    lines.append({"told_of_the_system": system_text[: 4 * LINE_CHARS]})
    for step in attempt.steps:
        if step.content.strip() and step.kind != "call":
            lines.append({"who": "user" if step.kind == "user" else "agent", "said": step.content[:LINE_CHARS]})
        if step.kind == "call":
            arguments_text = json.dumps(step.arguments, ensure_ascii=False)[:LINE_CHARS]
            call_text = {"beside_the_call": step.content[:LINE_CHARS]} if step.content.strip() else {}
            who = {"who": "user"} if step.by == "user" else {}
            lines.append(
                {
                    **who,
                    "call": step.tool,
                    "arguments": arguments_text,
                    **call_text,
                    "returned": step.observation[:LINE_CHARS],
                }
            )
    return join_lines(lines)
