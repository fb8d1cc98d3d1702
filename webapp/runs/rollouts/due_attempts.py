"""Comparison of a step's reported attempts with those that are due: the dataset's rows, complete in number.

A worker reports the attempts of a step as a file. Each line must be an attempt at a row that the job's dataset names,
all attempts of the step must be there, and each line must agree with itself: the reward that the step learnt from is
the one that the job's rule makes of the attempt. Other lines are refused, with their number.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from synthesis.contracts import SOLVED_AT, is_same_reward
from training.config import EvaluationJob, Masking, Reinforcement, read_config
from training.dataset import SideName
from training.sampler import PlannedReport, plan_reports
from training.schedule import get_horizon
from webapp.common.errors import Unusable
from webapp.datasets.evidence.row_index import IndexedRow, index_rows
from webapp.runs.models import TrainingJob
from webapp.runs.rollouts.rollout_line import RolloutSummary, Scoring

FEWEST = 16
"""A step of fewer attempts is taken as one of so many when its program errors are counted (`training.step.FEWEST`)."""


@dataclass(frozen=True)
class ReportedLine:
    """Line of a step's file that could be read; `index` counts from 0."""

    index: int
    told: RolloutSummary


def get_scoring(job: TrainingJob) -> Scoring:
    """Return how the job makes rewards of attempts. An evaluation scores as the verifier does, without a user's
    errors."""
    config = read_config(job.config)
    if isinstance(config, Reinforcement):
        return Scoring(rule=config.reward, masking=config.masking)
    return Scoring(rule="score", masking=Masking(meu=True, meu_scope="all"))


def require_due_attempts(
    job: TrainingJob, step: int, lines: Sequence[ReportedLine], unreadable: Sequence[str] = ()
) -> None:
    """Compare a step's lines with the attempts that are due. `unreadable`: where and why more lines cannot be read.

    Raises Unusable with the line: a row that the dataset does not name, attempts that are missing, or a line that
    contradicts itself.
    """
    config = read_config(job.config)
    if isinstance(config, Reinforcement):
        due: DueAttempts = DueStep(job, step, config)
    elif isinstance(config, EvaluationJob):
        due = DueReport(job, step, config)
    else:
        raise Unusable(f"rollouts of step {step}: a job that learns from trajectories makes no attempts.")
    due.require(lines, unreadable)


@dataclass(frozen=True)
class DueAttempts(ABC):
    """Attempts that are due in one step of a job."""

    job: TrainingJob
    step: int

    def require(self, lines: Sequence[ReportedLine], unreadable: Sequence[str]) -> None:
        """Raise Unusable unless the lines are the attempts that are due."""
        if self.job.total_steps and not 1 <= self.step <= self.job.total_steps:
            raise Unusable(f"rollouts of step {self.step}: the job has {self.job.total_steps} steps.")
        for line in lines:
            self._require_row(line)
            self._require_consistent(line)
        self._require_number(len(lines) + len(unreadable))
        self._require_places(lines)
        self._require_few_lost(lines, unreadable)

    @property
    @abstractmethod
    def rows(self) -> Mapping[str, IndexedRow]:
        """Rows that attempts may be at, by id."""

    @property
    @abstractmethod
    def source(self) -> str:
        """Description of the rows that are due."""

    @abstractmethod
    def _require_number(self, count: int) -> None:
        """Raise Unusable if more or fewer attempts were sent than are due."""

    @abstractmethod
    def _require_places(self, lines: Sequence[ReportedLine]) -> None:
        """Raise Unusable if an attempt is not at its due place."""

    @abstractmethod
    def _require_few_lost(self, lines: Sequence[ReportedLine], unreadable: Sequence[str]) -> None:
        """Raise Unusable if more attempts were lost than the job's limits allow."""

    def _require_row(self, line: ReportedLine) -> None:
        row = self.rows.get(line.told.row)
        if row is None:
            raise self._refusal(line, f"{line.told.row[:80]!a} is no row of {self.source}")
        for name in ("environment", "category", "setting", "verifier"):
            reported, known = getattr(line.told, name), getattr(row, name)
            if reported != known:
                what = f"the row {row.id!a} has the {name} {known[:80]!a}, not {reported[:80]!a}"
                raise self._refusal(line, what)

    def _require_consistent(self, line: ReportedLine) -> None:
        told = line.told
        if told.masked != told.due_masked:
            due = f"by the job's settings it is masked as {told.due_masked}" if told.due_masked else "it is not masked"
            raise self._refusal(line, f"is masked as {told.masked!a}; for the outcome {told.outcome} {due}")
        if (told.reward is None) != (told.due_reward is None) or (
            told.reward is not None and told.due_reward is not None and not is_same_reward(told.reward, told.due_reward)
        ):
            raise self._refusal(
                line,
                f"the step learnt from {_format_reward(told.reward)}; for the outcome {told.outcome} the job's rule "
                f"makes {_format_reward(told.due_reward)} of what the attempt earned",
            )
        if told.impossible:
            raise self._refusal(line, told.impossible)
        if told.outcome == "solved" and not told.turns:
            raise self._refusal(line, "is reported as solved, without a turn of the agent")
        if told.outcome == "solved" and not told.solved:
            raise self._refusal(line, f"is reported as solved, with a reward below {SOLVED_AT:g}")
        if told.outcome == "failed" and told.solved:
            raise self._refusal(line, "is reported as failed, with the reward of a solved attempt")
        if told.drawn is not None and told.drawn != told.tokens:
            raise self._refusal(line, f"names {told.tokens:,} tokens of the agent, {told.drawn:,} of which were drawn")
        if told.horizon != self.horizon:
            raise self._refusal(line, f"had {told.horizon} turns; at this step an agent has {self.horizon}")
        if told.turns > self.horizon:
            raise self._refusal(line, f"holds {told.turns} turns of the agent; at this step it has {self.horizon}")

    @property
    @abstractmethod
    def horizon(self) -> int:
        """Turns that an agent has at this step."""

    def _require_share(
        self, what: str, count: int, total: int, most: float, setting: str, unreadable: Sequence[str] = ()
    ) -> None:
        if count > most * total:
            first = f" The first that cannot be read: {unreadable[0]}" if unreadable else ""
            raise Unusable(
                f"rollouts of step {self.step}: {count} of {total} attempts {what}, more than the {most:.0%} at which "
                f"a job pauses ({setting}).{first}"
            )

    def _refusal(self, line: ReportedLine, words: str) -> Unusable:
        return Unusable(f"rollouts of step {self.step}, line {line.index + 1}: {words}.")


@dataclass(frozen=True)
class DueStep(DueAttempts):
    """A step of RL: `rollouts` attempts side by side at each task that was drawn."""

    config: Reinforcement

    @cached_property
    def rows(self) -> Mapping[str, IndexedRow]:
        return index_rows(self.job.dataset, "train")

    @property
    def source(self) -> str:
        return f"the {len(self.rows):,} to learn from in the dataset {self.job.dataset.public_id}"

    @property
    def horizon(self) -> int:
        return get_horizon(self.config.horizon, self.step - 1, max(self.config.steps, self.step))

    @property
    def most_tokens(self) -> int:
        """Tokens that an agent may draw in an attempt. If earlier reasoning is stripped, each turn is drawn behind
        another history, so that the limit of a whole attempt holds for each turn alone."""
        decoding = self.config.decoding
        turns = self.horizon * decoding.turn_tokens
        return min(turns, decoding.trajectory_tokens) if self.config.thinking == "kept" else turns

    def _require_number(self, count: int) -> None:
        sampling, dynamic = self.config.sampling, self.config.dynamic_sampling
        least, each = sampling.tasks * sampling.rollouts, sampling.tasks_each * sampling.rollouts
        most = least * (dynamic.rounds if dynamic.enabled else 1)
        if not least <= count <= most or count % each:
            due = f"{least:,}" if least == most else f"{least:,} to {most:,}, a multiple of {each:,},"
            raise Unusable(
                f"rollouts of step {self.step}: {count:,} attempts were sent; {due} are due (sampling: "
                f"{sampling.tasks} tasks, {sampling.rollouts} attempts at each)."
            )

    def _require_places(self, lines: Sequence[ReportedLine]) -> None:
        """Raise Unusable unless attempts at a task lie side by side, numbered from 0, and each task is there once
        within a draw."""
        each, drawn = self.config.sampling.rollouts, self.config.sampling.tasks * self.config.sampling.rollouts
        groups: dict[int, str] = {}
        for line in lines:
            if line.told.policy_step > self.step:
                words = f"names the policy of step {line.told.policy_step}, which is trained after this step"
                raise self._refusal(line, words)
            # An evaluated endpoint may report no token counts; here the trainer itself drew the tokens.
            if line.told.outcome == "solved" and not line.told.tokens:
                raise self._refusal(line, "is reported as solved, without a token of the agent")
            if line.told.tokens > self.most_tokens:
                most = f"the job lets it draw {self.most_tokens:,} (decoding)"
                raise self._refusal(line, f"names {line.told.tokens:,} tokens of the agent; {most}")
            number, ordinal = divmod(line.index, each)
            row = groups.setdefault(number, line.told.row)
            if (line.told.row, line.told.ordinal) != (row, ordinal):
                found = f"attempt {line.told.ordinal} at {line.told.row!a}"
                raise self._refusal(line, f"attempt {ordinal} at {row!a} is due here, not {found}")
        first = [row for number, row in groups.items() if (number + 1) * each <= drawn]
        if twice := next((row for row in first if first.count(row) > 1), None):
            raise Unusable(f"rollouts of step {self.step}: the task {twice!a} is there twice; a step draws it once.")

    def _require_few_lost(self, lines: Sequence[ReportedLine], unreadable: Sequence[str]) -> None:
        total, limits = len(lines) + len(unreadable), self.config.limits
        lost = len(unreadable) + sum(line.told.masked == "infra_error" for line in lines)
        ended = sum(line.told.outcome == "program_error" for line in lines)
        words = "were lost or cannot be read"
        self._require_share(words, lost, total, limits.infra_error_share, "limits.infra_error_share", unreadable)
        words, few = "were ended by programs", max(total, FEWEST)
        self._require_share(words, ended, few, limits.program_error_share, "limits.program_error_share")


@dataclass(frozen=True)
class DueReport(DueAttempts):
    """Report of an evaluation: its plan lists its attempts, in their order."""

    config: EvaluationJob

    @cached_property
    def rows(self) -> Mapping[str, IndexedRow]:
        dataset = self.job.dataset
        held_out: SideName = "test" if dataset.test_rows else "train"
        sides: dict[str, tuple[SideName, ...]] = {
            "held_out": (held_out,),
            "learnt": ("train",),
            "all": ("train", "test") if dataset.test_rows else ("train",),
        }
        return {row.id: row for side in sides[self.config.side] for row in index_rows(dataset, side).values()}

    @property
    def source(self) -> str:
        return f"the {len(self.rows):,} that are evaluated in the dataset {self.job.dataset.public_id}"

    @cached_property
    def planned(self) -> PlannedReport[str]:
        plan = plan_reports(self.config, list(self.rows))
        if not 1 <= self.step <= len(plan):
            raise Unusable(f"rollouts of step {self.step}: the evaluation has {len(plan)} reports.")
        return plan[self.step - 1]

    @property
    def horizon(self) -> int:
        return self.planned.horizon

    def _require_number(self, count: int) -> None:
        if count != len(self.planned.work):
            raise Unusable(
                f"rollouts of step {self.step}: {count:,} attempts were sent; {len(self.planned.work):,} are due in "
                "this report."
            )

    def _require_places(self, lines: Sequence[ReportedLine]) -> None:
        for line in lines:
            row, ordinal = self.planned.work[line.index]
            if (line.told.row, line.told.ordinal) != (row, ordinal):
                found = f"attempt {line.told.ordinal} at {line.told.row!a}"
                raise self._refusal(line, f"attempt {ordinal} at {row!a} is due here, not {found}")

    def _require_few_lost(self, lines: Sequence[ReportedLine], unreadable: Sequence[str]) -> None:
        lost = len(unreadable) + sum(line.told.masked == "infra_error" for line in lines)
        words, most = "were lost or cannot be read", self.config.limits.infra_error_share
        total = len(lines) + len(unreadable)
        self._require_share(words, lost, total, most, "limits.infra_error_share", unreadable)


def _format_reward(reward: float | None) -> str:
    return "no reward" if reward is None else f"a reward of {reward:.4f}"
