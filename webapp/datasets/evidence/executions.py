"""Rows executed again before they are frozen: what comes out otherwise is left out, and said.

Of a trajectory the calls are made again, and end state and reward compared with what is stored; of a task its
reference is, which has to solve it. Several at once, in the rows' order; what one claim of the job has executed, the
next does not execute again.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Literal

from synthesis.contracts import DEFAULT_NOW, DEFAULT_SEED, SOLVED_AT, Reference, same_reward
from synthesis.formats.records import RunRecord, RunStep
from synthesis.formats.values import clean
from synthesis.runtime import Sandbox
from synthesis.verifiers.call_sequences import AT_ONCE
from training.dataset import ExecutionReport, TaskRow
from webapp.content_store import content_hash
from webapp.datasets.models import Dataset, RowExecution
from webapp.datasets.row_source import LeftOut, SourcedRows
from webapp.jobs.claims import Cancelled
from webapp.scenarios.models import TaskRevision
from webapp.trajectories.models import Trajectory
from webapp.trajectories.reproduction import Replay, ReplaySetting, replay
from webapp.trajectories.rollouts.second_execution import quarantine
from webapp.trajectories.services import setting_of
from webapp.trajectories.stored_runs import StoredRun, stored_run

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
    """What executing a row again came to; `words` say what differs, or why it could not be executed."""

    verdict: Verdict
    words: str = ""
    replay: Replay | None = None


@dataclass
class _Waiting:
    """A row in its place: its result is on the way, or known already."""

    sourced: SourcedRows
    basis: str
    coming: Future[Execution] | None = None
    known: Execution | None = None
    revision: TaskRevision | None = None


@dataclass
class Executions:
    """Executes a dataset's rows again as they pass, and counts (`report`)."""

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
        """The rows that came out as stored, in their order. Raises SandboxUnavailable, and what `check` raises."""
        self._before = {row.row: row for row in RowExecution.objects.filter(dataset=self.dataset)}
        threads = ThreadPoolExecutor(AT_ONCE)
        waiting: deque[_Waiting] = deque()
        try:
            for sourced in rows:
                self.check()
                waiting.append(self._begun(threads, sourced))
                while len(waiting) >= 2 * AT_ONCE:
                    yield from self._ended(waiting.popleft())
            while waiting:
                self.check()
                yield from self._ended(waiting.popleft())
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

    def _begun(self, threads: ThreadPoolExecutor, sourced: SourcedRows) -> _Waiting:
        """Read what it takes here: only the execution itself is in a thread, and touches no database."""
        row = sourced.rows[0]
        if isinstance(row, TaskRow):
            if sourced.reference is None:
                return _Waiting(sourced, "")
            basis = content_hash(
                ["task", row.rollout.model_dump(mode="json"), sourced.reference.model_dump(mode="json")]
            )
            known = self._known(sourced, basis)
            setting, reference = setting_of_row(row), sourced.reference
            coming = (
                None
                if known
                else threads.submit(self._run, lambda: execute_reference(self.sandbox, setting, reference))
            )
            return _Waiting(sourced, basis, coming, known)
        stored = Trajectory.objects.defer("record", "matrix", "provenance", "replay_note", "note").get(pk=sourced.pk)
        revision, setting = self._setting(stored.revision_id or 0)
        run = stored_run(stored, revision)
        told = [run.record.model_dump(mode="json"), run.earned, run.final_hash, revision.verifier_hash]
        basis = content_hash(["trajectory", stored.revision_id, told])
        known = self._known(sourced, basis)
        gone = revision.superseded
        execute = (lambda: Execution("failed", gone)) if gone else lambda: execute_run(self.sandbox, setting, run)
        coming = None if known else threads.submit(self._run, execute)
        return _Waiting(sourced, basis, coming, known, revision)

    def _run(self, execute: Callable[[], Execution]) -> Execution:
        if self._stop.is_set():
            raise Cancelled
        return execute()

    def _known(self, sourced: SourcedRows, basis: str) -> Execution | None:
        """What an earlier claim found, of the same calls and the same end."""
        row = self._before.get(sourced.ident)
        return Execution(row.verdict, row.words) if row is not None and row.basis == basis else None  # type: ignore[arg-type]

    def _ended(self, waiting: _Waiting) -> Iterator[SourcedRows]:
        sourced = waiting.sourced
        if waiting.coming is not None:
            found = waiting.coming.result()
            self._keep(waiting, found)
        elif waiting.known is not None:
            found = waiting.known
        else:
            self.without_reference += 1
            yield sourced
            return
        self.executed += found.verdict != "failed"
        self.differing += found.verdict == "differs"
        self.failed += found.verdict == "failed"
        if found.verdict == "same":
            yield sourced
        else:
            self.left_out.note(LEFT_OUT[found.verdict], len(sourced.rows))

    def _keep(self, waiting: _Waiting, found: Execution) -> None:
        row = RowExecution(
            dataset=self.dataset,
            row=waiting.sourced.ident,
            basis=waiting.basis,
            verdict=found.verdict,
            words=clean(found.words)[:WORDS_CHARS],
        )
        self._unwritten.append(row)
        if found.verdict == "differs" and waiting.revision is not None and found.replay is not None:
            stored = Trajectory.objects.get(pk=waiting.sourced.pk)
            quarantine(stored, waiting.revision, found.words, stored.reward, found.replay.reward)
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

    def _setting(self, revision: int) -> tuple[TaskRevision, ReplaySetting]:
        if revision not in self._settings:
            if len(self._settings) >= SETTINGS_KEPT:
                self._settings.pop(next(iter(self._settings)))
            row = TaskRevision.objects.select_related("task", "scenario__version").get(pk=revision)
            self._settings[revision] = row, replace(setting_of(row), keeps_states=False)
        return self._settings[revision]


def setting_of_row(row: TaskRow) -> ReplaySetting:
    """How a frozen task is executed: from the row itself, as a trainer attempts it."""
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
    """Whether a task's reference solves it; what only a judge can decide counts as met."""
    calls = tuple(RunStep(kind="call", tool=call.tool, arguments=call.arguments) for call in reference.calls)
    record = RunRecord(
        environment_key="", task_key="", steps=calls, answer=reference.answer, seed=DEFAULT_SEED, now=DEFAULT_NOW,
        validation="schema",
    )  # fmt: skip
    done = replay(sandbox, setting, record)
    if done.failure and not done.ended:
        return Execution("failed", done.failure)
    earned = done.reward.reward if done.reward is not None else done.judged_best
    if earned is None:
        return Execution("differs", done.failure, done) if done.failure else Execution("failed", done.note or UNJUDGED)
    if earned >= SOLVED_AT:
        return Execution("same")
    return Execution("differs", f"Its reference earns {earned:.4f} when it is executed again.", done)


def execute_run(sandbox: Sandbox, setting: ReplaySetting, run: StoredRun) -> Execution:
    """Whether a stored attempt ends in the state, and earns the reward, that it is stored with."""
    if not run.final_hash:
        return Execution("failed", "It has no stored end state to compare with.")
    done = replay(sandbox, replace(setting, kept=run.kept), run.record)
    if done.failure:
        return Execution("differs" if done.ended else "failed", done.failure, done if done.ended else None)
    words = []
    if done.final_hash != run.final_hash:
        words.append("Executed again for a dataset, it ends in another state than the stored one.")
    if run.earned is not None and done.judged_best is None:  # what a judge alone said is not asked again
        if done.reward is None:
            return Execution("failed", done.note or UNJUDGED)
        given = done.reward.reward
        if not same_reward(given, run.earned):
            words.append(f"It is stored with a reward of {run.earned:.4f}; executed again it earns {given:.4f}.")
    return Execution("differs", " ".join(words), done) if words else Execution("same")
