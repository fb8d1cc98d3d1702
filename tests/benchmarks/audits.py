"""What an audit costs, and what judging each end state in a process of its own adds to it.

    python -m tests.benchmarks.audits --json [--tasks N] [--rounds 1]

For the bundled tasks (all, or `N` of them, evenly taken) the end states of an audit are made once. They are then
judged, in turns in one run, in the shape that audits had before (a check meets many states in one process, as patches,
where a score meets one) and in the shape of a score. `table_ratio` is the second by the first, over all tasks;
`judging_ratio` is that with the ends that are scored once more (`score_comparison.py`); `audit_ratio` adds to both
what the episodes take. Costs of an audit are those of the new shape. Each is wall time; `cpu_` is the same of processor
time, of this process and all of the sandbox's, which other work on the machine disturbs less. The last line of output
is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import psutil

from synthesis.contracts import Program, State, Tool, Verdict
from synthesis.runtime import Sandbox, encode_state, get_default_sandbox, hash_state, make_patch
from synthesis.starter import list_folders, read_environment, read_tasks
from synthesis.starter.record import build_program
from synthesis.verifiers.audit import audit_task
from synthesis.verifiers.call_sequences import AT_ONCE, Subject, run_calls, run_reference, run_variants
from synthesis.verifiers.check_reads import find_check_reads
from synthesis.verifiers.check_table import build_verdict_table
from synthesis.verifiers.probe_families import choose_variants, spread_evenly
from synthesis.verifiers.score_comparison import JudgedEnd, sample_checks, score_faults

MOST_STATES = 200
OLD_SHAPE = '''
import sys


class OldShape:
    def __init__(self, init_config=None):
        self.judged = 0

    def judge(self, source, initial, final, answer, patches):
        """Judge."""
        modules = sys.modules
        evaluate, apply_patch = modules["envbox.check_run"].evaluate_check, modules["envbox.patches"].apply_patch
        dumps, loads = modules["marshal"].dumps, modules["marshal"].loads
        states = [final]
        for patch in patches:
            states.append(apply_patch(states[-1], patch))
        said = ""
        for state in states:
            code = compile(source, "<check>", "exec")
            said += str(int(evaluate(code, loads(dumps(initial, 2)), loads(dumps(state, 2)), answer)[0]))
        return said
'''
"""A program that evaluates a check on many states in one process, as audits did: a check itself could not."""
OLD_PROGRAM = Program(source=OLD_SHAPE, class_name="OldShape", tools=(Tool(name="judge"),))
END = tuple[State, str]


@dataclass
class Case:
    """A task with the end states of its audit; the first is the start, the second the reference's."""

    subject: Subject
    start: State
    ends: list[END]
    digests: list[str]
    variants: int


class Meter:
    """Wall and processor seconds by part; the second are of this process and all that it started."""

    def __init__(self) -> None:
        self.spent: dict[str, list[float]] = {}

    @contextmanager
    def of(self, part: str) -> Iterator[None]:
        began = time.perf_counter(), _processor_seconds()
        yield
        ended = time.perf_counter(), _processor_seconds()
        known = self.spent.setdefault(part, [0.0, 0.0])
        for place, (start, end) in enumerate(zip(began, ended, strict=True)):
            known[place] += end - start


def _processor_seconds() -> float:
    own = psutil.Process()
    seconds = sum(own.cpu_times()[:2])
    for process in own.children(recursive=True):
        with suppress(psutil.Error):
            # With those of its children that have ended, and that it waited for.
            seconds += sum(process.cpu_times()[:4])
    return seconds


def subjects(most: int | None) -> list[Subject]:
    """The bundled tasks, or so many of them, evenly taken."""
    found = []
    for folder in list_folders():
        program = build_program(read_environment(folder))
        for task in read_tasks(folder):
            found.append(
                Subject(
                    program=program,
                    initial=encode_state(task.initial_state),
                    answer_form=task.answer_form,
                    verifier=task.verifier,
                    reference=task.reference,
                )
            )
    return spread_evenly(found, most) if most else found


def case_of(sandbox: Sandbox, subject: Subject) -> Case:
    """A task's end states, executed once."""
    assert subject.reference is not None
    start = run_calls(sandbox, subject, ()).state
    assert start is not None
    own = run_reference(sandbox, subject, start, subject.reference.calls)
    chosen = [variant for family in choose_variants(sandbox, subject, start, own.first) for variant in family.variants]
    runs = run_variants(sandbox, subject, start, chosen, own.first, AT_ONCE, lambda: None)
    answer = subject.reference.answer
    ends = [(start, "")] + [(run.state, answer) for _, run in own.list_named() if run.state is not None]
    ends += [
        (run.state, mutant.reference.answer) for mutant, run in zip(chosen, runs, strict=True) if run.state is not None
    ]
    return Case(subject, start, ends, [hash_state(state) for state, _ in ends], len(chosen))


def judged_before(sandbox: Sandbox, case: Case) -> list[str]:
    """By process what its check says of each end: blind ones meet all states in one, others all of one answer."""
    distinct = _distinct(case.ends)
    by_answer: dict[str, list[END]] = {}
    for end in distinct:
        by_answer.setdefault(end[1], []).append(end)
    asked: list[tuple[str, list[END]]] = []
    for source in case.subject.checks:
        groups = list(by_answer.values()) if find_check_reads(source).answer else [distinct]
        for group in groups:
            asked += [(source, group[at : at + MOST_STATES]) for at in range(0, len(group), MOST_STATES)]
    # The reference's end once more, as audits had it.
    asked += [(source, [case.ends[1]]) for source in case.subject.checks]
    with ThreadPoolExecutor(AT_ONCE) as threads:
        return list(threads.map(lambda question: _judged_together(sandbox, case.start, *question), asked))


def _judged_together(sandbox: Sandbox, start: State, source: str, ends: Sequence[END]) -> str:
    states = [state for state, _ in ends]
    patches = [make_patch(old, new) for old, new in pairwise(states)]
    world = {"source": source, "initial": start, "final": states[0], "answer": ends[0][1], "patches": patches}
    with sandbox.reset(OLD_PROGRAM, {}) as episode:
        return str(episode.call("judge", world).result)


def _distinct(ends: Iterable[END]) -> list[END]:
    return list({json.dumps(end, sort_keys=True): end for end in ends}.values())


def scored_again(sandbox: Sandbox, case: Case, columns: list[list[Verdict]]) -> None:
    """The start, the reference and a sample, as an audit has them scored once more."""
    judged = [
        JudgedEnd("", state, digest, answer, column)
        for (state, answer), digest, column in zip(case.ends, case.digests, columns, strict=True)
    ]
    chosen = sample_checks(case.subject.checks, judged[0], judged[1], judged[5:])
    assert not score_faults(sandbox, case.subject, case.start, chosen)


class Counting:
    """The sandbox, with the questions that it was asked counted."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sandbox, name)

    def verdicts(self, asked: Iterable[tuple[str, str]]) -> Any:
        for verdict in self.sandbox.verdicts(asked):
            self.count += 1
            yield verdict


def measure(most: int | None, rounds: int) -> dict[str, Any]:
    """The figures, over all tasks together."""
    sandbox = get_default_sandbox()
    counting, meter = Counting(sandbox), Meter()
    with meter.of("episodes"):
        cases = [case_of(sandbox, subject) for subject in subjects(most)]
    processes = 0
    for case in cases * rounds:
        with meter.of("before"):
            old = judged_before(sandbox, case)
        processes += len(old)
        with meter.of("table"):
            columns = build_verdict_table(counting, case.subject.checks, case.start, case.ends)  # type: ignore[arg-type]
        with meter.of("scored_again"):
            scored_again(sandbox, case, columns)
        assert old[-len(case.subject.checks) :] == [str(int(verdict.passed)) for verdict in columns[1]]
    seconds = []
    for case in cases:
        started = time.perf_counter()
        audit_task(sandbox, case.subject)
        seconds.append(time.perf_counter() - started)
    return {
        "tasks": len(cases),
        "mutants": sum(case.variants for case in cases),
        "states": sum(len(case.ends) for case in cases),
        "pairs": sum(len(case.ends) * len(case.subject.checks) for case in cases),
        "questions": counting.count // rounds,
        "processes_before": processes // rounds,
        **_figures(meter, rounds, 0, ""),
        **_figures(meter, rounds, 1, "cpu_"),
        "audit_median_s": statistics.median(seconds),
        "audit_max_s": max(seconds),
    }


def _figures(meter: Meter, rounds: int, kind: int, name: str) -> dict[str, float]:
    """Seconds a round and ratios, of wall time or of processor time."""
    episodes = meter.spent["episodes"][kind]
    before, table, scored = (meter.spent[part][kind] / rounds for part in ("before", "table", "scored_again"))
    return {
        f"{name}before_s": before,
        f"{name}table_s": table,
        f"{name}scored_again_s": scored,
        f"{name}table_ratio": table / before,
        f"{name}judging_ratio": (table + scored) / before,
        f"{name}audit_ratio": (episodes + table + scored) / (episodes + before),
    }


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="the last line of output is one JSON object")
    parser.add_argument("--tasks", type=int, help="so many tasks, evenly taken, instead of all")
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    found = measure(options.tasks, options.rounds)
    if options.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name:16} {value:,.3f}" if isinstance(value, float) else f"{name:16} {value:,}")


if __name__ == "__main__":
    main()
