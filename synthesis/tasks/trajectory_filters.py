"""Which trajectories are worth training on (EnvScaler, B.2): filters in a fixed order, each with its reason.

What was never finished, what was not well formed, what a judge calls impossible, a user who makes facts up (ours: the
wrong words were not the agent's), what earned too little, and, where it is asked for, too few or too many actions.
Those that need no judge look at a `Run`, so that stored trajectories go through the very same.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BaseModel, Field, StrictBool, StrictInt

from synthesis.contracts import Attempt, Frozen, TrajectoryStep
from synthesis.drafts import FilterCount, TaskDraft
from synthesis.errors import InputError, Rejected
from synthesis.formats.records import EnvironmentRecord
from synthesis.prompts import fenced, prompt
from synthesis.scenarios import prompt_text
from synthesis.stages import ActionRange, Kit
from synthesis.tasks.open_questions import is_all_known, is_proven_possible
from synthesis.verifiers.frame import place_of

RELEASED: dict[bool, tuple[int, int]] = {False: (3, 29), True: (5, 39)}
"""EnvScaler's released ranges, by whether it is a conversation; both ends are allowed."""
UNFINISHED = ("infra_error", "cancelled", "")
NO_CALL = ("malformed", "unknown_tool")
IMPOSSIBLE, INVENTED_FACTS = "impossible_task", "user_invented_facts"
"""The reasons that only a judge gives."""
POSSIBLE, INVENTED = 0, 1
"""The samples of the stage `judge_run` that ask each of the two questions."""
LINE_CHARS = 2_000
RECORDING_CHARS = 60_000
REASON_CHARS = 2_000
NAMED = 3
"""So many places and checks are named in a reason."""
LABEL_CHARS = 80


class AttemptFacts(Frozen):
    """What is known of an attempt without its words. `actions` counts calls and messages, as EnvScaler does;
    `refused` are the kinds of error of its calls, `silent` its turns that held nothing of use, or words where the
    answer was to be submitted, `cut` its steps whose turn was broken off. `judged_impossible`: a judge called its task
    impossible when it was made."""

    outcome: str
    user_error: bool = False
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


class InventedFact(BaseModel):
    """One fact that the user made up, in the words of its line."""

    line: StrictInt
    words: str = Field(min_length=1, max_length=REASON_CHARS)
    reason: str = Field(default="", max_length=REASON_CHARS)


class InventedVerdict(BaseModel):
    """Every fact that the user made up."""

    invented: list[InventedFact] = Field(max_length=50)


def first_filters() -> tuple[TrajectoryFilter, ...]:
    """Those before the judge."""
    return (
        TrajectoryFilter("infra_error", _unfinished),
        TrajectoryFilter("program_error", _ended),
        TrajectoryFilter("user_error", _user),
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
    """The facts of an attempt; `labels` are those of its task's checks."""
    return AttemptFacts(
        outcome=attempt.outcome,
        user_error=attempt.user_error,
        unusable=attempt.ending == "unusable",
        conversational=attempt.conversational,
        reward=attempt.reward.reward if attempt.reward else None,
        actions=sum(step.kind != "user" for step in attempt.steps),
        refused=tuple(step.result.error.kind for step in attempt.steps if step.result and step.result.error),
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
    """The attempt, if it is worth training on. Raises Rejected (the filter's name) and what `Kit.ask` raises.

    A judge is asked only what is open (`open_questions.py`). Of a variant that withholds something nobody is asked
    whether it was possible: it was not, and to say so is right.
    """
    settings, run = kit.settings, run_of(attempt, [check.label for check in task.checks])
    _require(run, first_filters())
    if not withheld and not is_proven_possible(task, attempt):
        await _require_possible(kit, record, task, attempt)
    if attempt.conversational and not is_all_known(task.instruction, talk_of(attempt.steps)):
        await _require_faithful_user(kit, task, attempt)
    least = settings.least_reward if settings.filter_by_reward else None
    _require(run, last_filters(FilterSettings(least_reward=least, action_range=settings.action_range)))
    return attempt


def blamed_on_user(attempt: Attempt, note: str) -> Attempt:
    """The attempt as one that the simulated user spoilt: nothing is judged, so there is no reward."""
    changes: dict[str, Any] = {"user_error": True, "outcome": "infra_error", "reward": None, "note": note}
    return attempt.model_copy(update=changes)


def _require(run: AttemptFacts, filters: Iterable[TrajectoryFilter]) -> None:
    dropped = dropped_by(run, filters)
    if dropped is not None:
        name, why = dropped
        raise Rejected(name, why, evidence=run.model_dump(mode="json"))


def _unfinished(run: AttemptFacts) -> str:
    lost = run.outcome in UNFINISHED and not run.user_error
    return f"The attempt was not finished ({run.outcome or 'nothing judged it'})." if lost else ""


def _ended(run: AttemptFacts) -> str:
    return "The environment's program brought the attempt to an end." if run.outcome == "program_error" else ""


def _user(run: AttemptFacts) -> str:
    return "The simulated user failed." if run.user_error else ""


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


async def _require_faithful_user(kit: Kit, task: TaskDraft, attempt: Attempt) -> None:
    talk = talk_of(attempt.steps)
    lines = [{"intent": task.instruction}] + [{"line": n, "who": who, "words": w} for n, (who, w) in enumerate(talk, 1)]
    words = prompt("teaching", "invented").render(talk=fenced("evidence", _joined(lines)))

    def check(reply: InventedVerdict) -> None:
        for fact in reply.invented:
            who, spoken = talk[fact.line - 1] if 0 < fact.line <= len(talk) else ("nobody", "")
            if who != "user":
                raise InputError(f"line {fact.line} is none of the user's")
            if _plain(fact.words) not in _plain(spoken):
                raise InputError(f"the words of line {fact.line} are not quoted exactly: {fact.words[:200]!r}")

    verdict = await kit.ask("judge", "judge_run", words, InventedVerdict, check, sample=INVENTED, temperature=0.0)
    if verdict.invented:
        made_up = "; ".join(f"“{fact.words}” (line {fact.line})" for fact in verdict.invented)
        note = f"The simulated user made facts up: {made_up}."[:REASON_CHARS]
        spoilt = blamed_on_user(attempt, note)
        evidence = run_of(spoilt).model_dump(mode="json") | verdict.model_dump()
        raise Rejected(INVENTED_FACTS, note, evidence)


def talk_of(steps: Iterable[TrajectoryStep]) -> list[tuple[str, str]]:
    """What user and assistant said to each other, in order. Words beside a call reach nobody."""
    spoken = [step for step in steps if step.kind != "call"]
    turns = [("user" if step.kind == "user" else "assistant", step.content.strip()) for step in spoken]
    return [(who, words) for who, words in turns if words]


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
            lines.append({"call": step.tool, "arguments": given, **beside, "returned": step.observation[:LINE_CHARS]})
    return _joined(lines)


def _joined(lines: list[dict[str, Any]]) -> str:
    """One JSON object a line; of a long recording the middle is left out, and it says so."""
    spelled = [json.dumps(line, ensure_ascii=False) for line in lines]
    while len(spelled) > 3 and sum(map(len, spelled)) > RECORDING_CHARS:
        spelled.pop(len(spelled) // 2)
    if len(spelled) < len(lines):
        spelled.insert(len(spelled) // 2, json.dumps({"left_out": f"{len(lines) - len(spelled)} lines"}))
    return "\n".join(spelled)


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()
