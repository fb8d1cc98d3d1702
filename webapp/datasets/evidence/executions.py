"""Executions of rows before they are frozen: rows with another result are left out and counted.

The calls of a trajectory are made again, and end state and reward are compared with what is stored; of a task its
reference is executed, which has to solve it. Several run at once, in the rows' order; what one claim of the job has
executed, the next does not execute again.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Literal

from synthesis.contracts import DEFAULT_NOW, DEFAULT_SEED, SOLVED_AT, Reference, is_same_reward
from synthesis.formats.records import RunRecord, RunStep
from synthesis.formats.values import clean_text
from synthesis.runtime import Sandbox
from synthesis.verifiers.call_sequences import AT_ONCE
from training.dataset import ExecutionReport, TaskRow
from webapp.common.content_store import content_hash
from webapp.datasets.models import Dataset, RowExecution
from webapp.datasets.row_source import LeftOut, SourcedRows
from webapp.jobs.claims import Cancelled
from webapp.scenarios.models import TaskRevision
from webapp.trajectories.models import Trajectory
from webapp.trajectories.reproduction import Replay, ReplaySetting, replay_run
from webapp.trajectories.rollouts.second_execution import quarantine_trajectory
from webapp.trajectories.services import build_replay_setting
from webapp.trajectories.stored_runs import StoredRun, load_stored_run

WRITTEN = 20
"""Results are written so many at a time; what was not written is executed again by the next claim."""
WORDS_CHARS = 500
SETTINGS_KEPT = 8
UNJUDGED = "Nothing could be judged."
Verdict = Literal["same", "differs", "failed"]
LEFT_OUT: dict[str, str] = {
    "differs": "Executed again, it came out otherwise",
    "failed": "Could not be executed again",
}


@dataclass(frozen=True)
class Execution:
    """The result of executing a row again; `words` say what differs, or why it could not be executed."""

    verdict: Verdict
    words: str = ""
    replay: Replay | None = None


@dataclass
class _Waiting:
    """A row in its place: its result is pending, or known already."""

    sourced: SourcedRows
    basis: str
    coming: Future[Execution] | None = None
    known: Execution | None = None
    revision: TaskRevision | None = None


@dataclass
class Executions:
    """Executions of a dataset's rows as they pass, with their counts (`report`)."""

    sandbox: Sandbox
    dataset: Dataset
    left_out: LeftOut
    check: Callable[[], None]
    executed: int = 0
    differing: int = 0
    failed: int = 0
    without_reference: int = 0
    _settings: dict[int, tuple[TaskRevision, ReplaySetting]] = field(default_factory=dict)
    _unwritten: list[RowExecution] = field(default_factory=list)
    _before: dict[str, RowExecution] = field(default_factory=dict)
    _stop: threading.Event = field(default_factory=threading.Event)

    def passed(self, rows: Iterator[SourcedRows]) -> Iterator[SourcedRows]:
        """Yield the rows that came out as stored, in their order. Raises SandboxUnavailable, and what `check`
        raises."""
        self._before = {row.row: row for row in RowExecution.objects.filter(dataset=self.dataset)}
        threads = ThreadPoolExecutor(AT_ONCE)
        pending: deque[_Waiting] = deque()
        try:
            for sourced in rows:
                self.check()
                pending.append(self._begin_execution(threads, sourced))
                while len(pending) >= 2 * AT_ONCE:
                    yield from self._end_execution(pending.popleft())
            while pending:
                self.check()
                yield from self._end_execution(pending.popleft())
            self._write()
        except Cancelled:
            self._write()
            raise
        finally:
            self._stop.set()
            threads.shutdown(wait=True, cancel_futures=True)

    def report(self) -> ExecutionReport:
        return ExecutionReport(
            executed=self.executed,
            differing=self.differing,
            failed=self.failed,
            without_reference=self.without_reference,
        )

    def _begin_execution(self, threads: ThreadPoolExecutor, sourced: SourcedRows) -> _Waiting:
        """Read everything an execution needs here: only the execution itself runs in a thread, which uses no
        database."""
        row = sourced.rows[0]
        if isinstance(row, TaskRow):
            if sourced.reference is None:
                return _Waiting(sourced, "")
            basis = content_hash(
                ["task", row.rollout.model_dump(mode="json"), sourced.reference.model_dump(mode="json")]
            )
            known_execution = self._find_earlier(sourced, basis)
            setting, reference = build_row_setting(row), sourced.reference
            coming = (
                None
                if known_execution
                else threads.submit(self._run, lambda: execute_reference(self.sandbox, setting, reference))
            )
            return _Waiting(sourced, basis, coming, known_execution)
        trajectory = Trajectory.objects.defer("record", "matrix", "provenance", "replay_note", "note").get(
            pk=sourced.pk
        )
        revision, setting = self._get_setting(trajectory.revision_id or 0)
        run = load_stored_run(trajectory, revision)
        compared_values = [run.record.model_dump(mode="json"), run.earned, run.final_hash, revision.verifier_hash]
        basis = content_hash(["trajectory", trajectory.revision_id, compared_values])
        known_execution = self._find_earlier(sourced, basis)
        superseded = revision.superseded
        execute = (
            (lambda: Execution("failed", superseded)) if superseded else lambda: execute_run(self.sandbox, setting, run)
        )
        coming = None if known_execution else threads.submit(self._run, execute)
        return _Waiting(sourced, basis, coming, known_execution, revision)

    def _run(self, execute: Callable[[], Execution]) -> Execution:
        if self._stop.is_set():
            raise Cancelled
        return execute()

    def _find_earlier(self, sourced: SourcedRows, basis: str) -> Execution | None:
        """Return what an earlier claim found, of the same calls and the same end."""
        row = self._before.get(sourced.ident)
        return Execution(row.verdict, row.words) if row is not None and row.basis == basis else None  # type: ignore[arg-type]

    def _end_execution(self, waiting: _Waiting) -> Iterator[SourcedRows]:
        sourced = waiting.sourced
        if waiting.coming is not None:
            execution = waiting.coming.result()
            self._keep(waiting, execution)
        elif waiting.known is not None:
            execution = waiting.known
        else:
            self.without_reference += 1
            yield sourced
            return
        self.executed += execution.verdict != "failed"
        self.differing += execution.verdict == "differs"
        self.failed += execution.verdict == "failed"
        if execution.verdict == "same":
            yield sourced
        else:
            self.left_out.note(LEFT_OUT[execution.verdict], len(sourced.rows))

    def _keep(self, waiting: _Waiting, found: Execution) -> None:
        row = RowExecution(
            dataset=self.dataset,
            row=waiting.sourced.ident,
            basis=waiting.basis,
            verdict=found.verdict,
            words=clean_text(found.words)[:WORDS_CHARS],
        )
        self._unwritten.append(row)
        if found.verdict == "differs" and waiting.revision is not None and found.replay is not None:
            trajectory = Trajectory.objects.get(pk=waiting.sourced.pk)
            quarantine_trajectory(trajectory, waiting.revision, found.words, trajectory.reward, found.replay.reward)
        if len(self._unwritten) >= WRITTEN:
            self._write()

    def _write(self) -> None:
        RowExecution.objects.bulk_create(
            self._unwritten,
            update_conflicts=True,
            unique_fields=["dataset", "row"],
            update_fields=["basis", "verdict", "words"],
        )
        self._unwritten = []

    def _get_setting(self, revision: int) -> tuple[TaskRevision, ReplaySetting]:
        if revision not in self._settings:
            if len(self._settings) >= SETTINGS_KEPT:
                self._settings.pop(next(iter(self._settings)))
            row = TaskRevision.objects.select_related("task", "scenario__version").get(pk=revision)
            self._settings[revision] = row, replace(build_replay_setting(row), keeps_states=False)
        return self._settings[revision]


def build_row_setting(row: TaskRow) -> ReplaySetting:
    """Return how a frozen task is executed: from the row itself, as a trainer attempts it."""
    task = row.rollout
    return ReplaySetting(
        program=task.program,
        initial=task.initial,
        verifier=task.verifier,
        answer_form=task.answer_form,
        instruction=task.instruction,
        keeps_states=False,
    )


def execute_reference(sandbox: Sandbox, setting: ReplaySetting, reference: Reference) -> Execution:
    """Check whether a task's reference solves it; what only a judge can decide counts as met."""
    calls = tuple(RunStep(kind="call", tool=call.tool, arguments=call.arguments) for call in reference.calls)
    record = RunRecord(
        environment_key="", task_key="", steps=calls, answer=reference.answer, seed=DEFAULT_SEED, now=DEFAULT_NOW,
        validation="schema",
    )  # fmt: skip
    outcome = replay_run(sandbox, setting, record)
    if outcome.failure and not outcome.ended:
        return Execution("failed", outcome.failure)
    earned = outcome.reward.reward if outcome.reward is not None else outcome.judged_best
    if earned is None:
        return (
            Execution("differs", outcome.failure, outcome)
            if outcome.failure
            else Execution("failed", outcome.note or UNJUDGED)
        )
    if earned >= SOLVED_AT:
        return Execution("same")
    return Execution("differs", f"Its reference earns {earned:.4f} when it is executed again.", outcome)


def execute_run(sandbox: Sandbox, setting: ReplaySetting, run: StoredRun) -> Execution:
    """Check whether a stored attempt ends in the state, and earns the reward, that it is stored with."""
    if not run.final_hash:
        return Execution("failed", "It has no stored end state to compare with.")
    outcome = replay_run(sandbox, replace(setting, kept=run.kept), run.record)
    if outcome.failure:
        return Execution("differs" if outcome.ended else "failed", outcome.failure, outcome if outcome.ended else None)
    words = []
    if outcome.final_hash != run.final_hash:
        words.append("Executed again for a dataset, it ends in another state than the stored one.")
    if run.earned is not None and outcome.judged_best is None:  # what a judge alone said is not asked again
        if outcome.reward is None:
            return Execution("failed", outcome.note or UNJUDGED)
        reward = outcome.reward.reward
        if not is_same_reward(reward, run.earned):
            words.append(f"It is stored with a reward of {run.earned:.4f}; executed again it earns {reward:.4f}.")
    return Execution("differs", " ".join(words), outcome) if words else Execution("same")
