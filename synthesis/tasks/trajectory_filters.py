"""Which trajectories are worth training on (EnvScaler, B.2): filters in a fixed order, each with its reason.

What was never finished, what was not well formed, what a judge calls impossible, a user who errs (ours: the wrong words
were not the agent's), what earned too little, and, where it is asked for, too few or too many actions.
Those that need no judge look at a `Run`, so that stored trajectories go through the very same.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, StrictBool

from synthesis.contracts import Attempt, Frozen, UserFinding, UserVerdict
from synthesis.drafts import FilterCount, TaskDraft
from synthesis.errors import Rejected
from synthesis.formats.records import EnvironmentRecord
from synthesis.prompts import fenced, prompt
from synthesis.rollout.user_judge import RULES, join_lines, judge_user, list_talk
from synthesis.scenarios import prompt_text
from synthesis.stages import ActionRange, Kit
from synthesis.tasks.open_questions import is_proven_possible
from synthesis.verifiers.frame import place_of

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
    """What is known of an attempt without its words. `actions` counts calls and messages, as EnvScaler does;
    `refused` are the kinds of error of its calls, `silent` its turns that held nothing of use, or words where the
    answer was to be submitted, `cut` its steps whose turn was broken off. `judged_impossible`: a judge called its task
    impossible when it was made. `user_fault`: what a judge found about its user."""

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
    """Where it changed what the task's frame does not allow; then it earned 0."""
    failed: tuple[str, ...] = ()
    """The checks that do not hold."""


class FilterSettings(Frozen):
    """What a person chooses: the least reward that is kept (None: runs of any reward, and unjudged ones), and how many
    actions (None: any number)."""

    least_reward: Annotated[float, Field(ge=0, le=1)] | None = 1.0
    action_range: ActionRange = None


@dataclass(frozen=True)
class TrajectoryFilter:
    """`why` says why a run is left out, or nothing. `name` is the reason that batches count by."""

    name: str
    why: Callable[[AttemptFacts], str]


@dataclass
class FilterTally:
    """How many runs each filter saw and left out."""

    names: tuple[str, ...]
    seen: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)

    def note(self, name: str, reason: str) -> bool:
        """Whether the run goes on to the next filter."""
        self.seen[name] += 1
        self.dropped[name] += bool(reason)
        return not reason

    def counts(self) -> tuple[FilterCount, ...]:
        return tuple(FilterCount(name=name, seen=self.seen[name], dropped=self.dropped[name]) for name in self.names)


class PossibleVerdict(BaseModel):
    """Whether the task can be completed at all."""

    reason: str = Field(min_length=1, max_length=REASON_CHARS)
    possible: StrictBool


def first_filters() -> tuple[TrajectoryFilter, ...]:
    """Those before the judge."""
    return (
        TrajectoryFilter("infra_error", _unfinished),
        TrajectoryFilter("program_error", _ended),
        TrajectoryFilter("user_error", _user),
        TrajectoryFilter(USER_FAULT, _fault),
        TrajectoryFilter("invalid_format", _malformed),
        TrajectoryFilter("cut_turn", _cut),
        TrajectoryFilter(IMPOSSIBLE, _impossible),
    )


def last_filters(chosen: FilterSettings) -> tuple[TrajectoryFilter, ...]:
    """Those after the judge."""
    filters: list[TrajectoryFilter] = []
    if (least := chosen.least_reward) is not None:
        filters.append(TrajectoryFilter("not_solved", lambda run: _unsolved(run, least)))
    if chosen.action_range is not None:
        filters.append(TrajectoryFilter("action_range", lambda run: _outside(run, chosen.action_range)))
    return tuple(filters)


def dropped_by(run: AttemptFacts, filters: Iterable[TrajectoryFilter]) -> tuple[str, str] | None:
    """(name, reason) of the first filter that leaves the run out."""
    return next(((run_filter.name, why) for run_filter in filters if (why := run_filter.why(run))), None)


def run_of(attempt: Attempt, labels: Sequence[str] = ()) -> AttemptFacts:
    """The facts of an attempt's agent; `labels` are those of its task's checks."""
    mine = [step for step in attempt.steps if step.by == "agent"]
    return AttemptFacts(
        outcome=attempt.outcome,
        user_error=attempt.user_error,
        user_fault=attempt.user_fault,
        unusable=attempt.ending == "unusable",
        conversational=attempt.conversational,
        reward=attempt.reward.reward if attempt.reward else None,
        actions=sum(step.kind != "user" for step in mine),
        refused=tuple(step.result.error.kind for step in mine if step.result and step.result.error),
        silent=sum(
            step.kind == "message" and bool(step.observation or not step.content.strip()) for step in attempt.steps
        ),
        cut=sum(bool(step.cut) for step in attempt.steps),
        outside=tuple(place_of(change) for change in attempt.reward.outside) if attempt.reward else (),
        failed=_failed_checks(attempt, labels),
    )


def _failed_checks(attempt: Attempt, labels: Sequence[str]) -> tuple[str, ...]:
    verdicts = attempt.reward.verdicts if attempt.reward else ()
    names = [f" “{label[:LABEL_CHARS]}”" if label else "" for label in labels]
    names += [""] * (len(verdicts) - len(names))
    numbered = zip(verdicts, names, strict=False)
    return tuple(f"{number}{name}" for number, (verdict, name) in enumerate(numbered, 1) if not verdict.passed)


async def filter_attempt(
    kit: Kit, record: EnvironmentRecord, task: TaskDraft, attempt: Attempt, *, withheld: bool = False
) -> Attempt:
    """Return the attempt, if it is worth training on; of a conversation with a judge's verdict on its user.

    Raises Rejected (the filter's name) and what `Kit.ask` raises. A judge is asked only what is open. Of a variant that
    withholds something nobody is asked whether it was possible: it was not, and to say so is right.
    """
    settings, run = kit.settings, run_of(attempt, [check.label for check in task.checks])
    _require(run, first_filters())
    if not withheld and not is_proven_possible(task, attempt):
        await _require_possible(kit, record, task, attempt)
    if attempt.conversational:
        attempt = await _judge_attempt_user(kit, task, attempt)
    least = settings.least_reward if settings.filter_by_reward else None
    chosen = FilterSettings(least_reward=least, action_range=settings.action_range)
    _require(run, last_filters(chosen), attempt.user_verdict)
    return attempt


def _require(run: AttemptFacts, filters: Iterable[TrajectoryFilter], verdict: UserVerdict | None = None) -> None:
    dropped = dropped_by(run, filters)
    if dropped is not None:
        name, why = dropped
        raise Rejected(name, why, evidence=_evidence(run, verdict))


def _unfinished(run: AttemptFacts) -> str:
    lost = run.outcome in UNFINISHED and not run.user_error
    return f"The attempt was not finished ({run.outcome or 'nothing judged it'})." if lost else ""


def _ended(run: AttemptFacts) -> str:
    return "The environment's program brought the attempt to an end." if run.outcome == "program_error" else ""


def _user(run: AttemptFacts) -> str:
    return "The simulated user failed." if run.user_error else ""


def _fault(run: AttemptFacts) -> str:
    return "A judge found that the simulated user erred." if run.user_fault == "fault" else ""


def _malformed(run: AttemptFacts) -> str:
    wrong = Counter(kind for kind in run.refused if kind in NO_CALL)
    if wrong:
        listed = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in sorted(wrong.items()))
        return f"Calls that could not be carried out at all: {listed}."
    if run.silent or run.unusable:
        return f"{run.silent or 'Some'} turns held neither a call nor words of use."
    return ""


def _cut(run: AttemptFacts) -> str:
    return "A turn was broken off, at the limit of tokens or for repeating itself without end." if run.cut else ""


def _impossible(run: AttemptFacts) -> str:
    return "A judge called the task impossible when the attempt was made." if run.judged_impossible else ""


def _unsolved(run: AttemptFacts, least: float) -> str:
    if run.reward is not None and run.reward >= least - 1e-9:
        return ""
    earned = "nothing that was judged" if run.reward is None else f"{run.reward:g}"
    return " ".join([f"It earned {earned}; kept from {least:g}.", *_explain_reward(run)])


def _explain_reward(run: AttemptFacts) -> Iterable[str]:
    """What the reward came of: changes outside the task's frame, checks that do not hold."""
    if run.outside:
        named = ", ".join(f"“{place}”" for place in run.outside[:NAMED])
        more = len(run.outside) - NAMED
        yield f"The task's frame made it 0, because it does not allow to change {named}{_count_more(more)}."
    if run.failed:
        named = ", ".join(run.failed[:NAMED])
        yield f"Not passed: check {named}{_count_more(len(run.failed) - NAMED)}."


def _count_more(more: int) -> str:
    return f" and {more} more" if more > 0 else ""


def _outside(run: AttemptFacts, allowed: ActionRange) -> str:
    low, high = allowed if isinstance(allowed, tuple) else RELEASED[run.conversational]
    return "" if low <= run.actions <= high else f"{run.actions} actions; kept from {low} to {high}."


async def _require_possible(kit: Kit, record: EnvironmentRecord, task: TaskDraft, attempt: Attempt) -> None:
    words = prompt("teaching", "possible").render(
        tools=prompt_text.tools(record), recording=fenced("evidence", _recording(task, attempt))
    )
    verdict = await kit.ask("judge", "judge_run", words, PossibleVerdict, sample=POSSIBLE, temperature=0.0)
    if not verdict.possible:
        raise Rejected(IMPOSSIBLE, f"The judge calls the task impossible: {verdict.reason}", verdict.model_dump())


async def _judge_attempt_user(kit: Kit, task: TaskDraft, attempt: Attempt) -> Attempt:
    """Return the attempt with what a judge finds about its user. Raises Rejected (`user_fault`)."""
    judge = kit.asker.chat(kit.site("judge", "judge_run", USER))
    verdict = await judge_user(judge, task.instruction, list_talk(attempt.steps))
    judged = attempt.model_copy(update={"user_verdict": verdict})
    if verdict.finding == "fault":
        raise Rejected(USER_FAULT, describe_mistakes(verdict), _evidence(run_of(judged), verdict))
    return judged


def describe_mistakes(verdict: UserVerdict) -> str:
    """Return what the user did wrong, in one sentence that quotes it."""
    listed = "; ".join(
        f"it {RULES[one.rule]}{f' “{one.intent}”' if one.intent else ''}: “{one.quote}” (line {one.line})"
        for one in verdict.mistakes
    )
    return f"The simulated user erred: {listed}."[:REASON_CHARS]


def _evidence(run: AttemptFacts, verdict: UserVerdict | None) -> dict[str, Any]:
    told = {"user_verdict": verdict.model_dump(mode="json")} if verdict is not None else {}
    return run.model_dump(mode="json") | told


def _recording(task: TaskDraft, attempt: Attempt) -> str:
    told = next((message.content for message in attempt.messages if message.role == "system"), "")
    lines: list[dict[str, Any]] = [{"task": task.instruction, "must_bring_about": list(task.checklist)}]
    lines.append({"told_of_the_system": told[: 4 * LINE_CHARS]})
    for step in attempt.steps:
        if step.content.strip() and step.kind != "call":
            lines.append({"who": "user" if step.kind == "user" else "agent", "said": step.content[:LINE_CHARS]})
        if step.kind == "call":
            given = json.dumps(step.arguments, ensure_ascii=False)[:LINE_CHARS]
            beside = {"beside_the_call": step.content[:LINE_CHARS]} if step.content.strip() else {}
            who = {"who": "user"} if step.by == "user" else {}
            lines.append(
                {**who, "call": step.tool, "arguments": given, **beside, "returned": step.observation[:LINE_CHARS]}
            )
    return join_lines(lines)
