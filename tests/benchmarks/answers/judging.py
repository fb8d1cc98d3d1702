"""How submitted answers are judged: every right one must be paid, and no wrong one.

    python -m tests.benchmarks.answers [--json] [--tasks N] [FILE]

FILE is JSON Lines of `{task, given, right}`; left out, the corpus beside this file. `task` is the key of a starter
task, whose form and expected values are meant; a line may have its own in `form` and `expected` instead. `given` is
what an agent submits: an object, words in which it may write one (as agents without native calls do), or null for
nothing. Each is read as a submission is, and what is accepted is judged by the checks of the form, each in a process of
its own.
`wrong_paid` and `right_refused` count answers that were judged wrongly, `lines` the lines of code that judge answers,
`wrong` names the lines of FILE (from 1). With `--tasks` only the first N tasks are judged.
"""

from __future__ import annotations

import argparse
import inspect
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from synthesis.contracts import AnswerField
from synthesis.errors import InputError
from synthesis.formats import answer_form
from synthesis.formats.answer_form import (
    build_field_checks,
    read_expected,
    read_form,
    read_submission,
    read_written_submission,
    serialize_answer,
)
from synthesis.runtime import Sandbox, get_default_sandbox
from synthesis.runtime.child import answer_values
from synthesis.starter import list_folders, read_tasks

CORPUS = Path(__file__).with_name("corpus.jsonl")
JUDGES = (
    *("read_submission", "read_written_submission", "find_written_value", "serialize_answer"),
    *("build_compare_spec", "build_field_checks", "_build_field_check"),
)
"""What judges answers beside the comparison: the functions of `answer_form` that read them and make their checks."""


@dataclass(frozen=True)
class Case:
    """One line of the corpus: what is submitted to a form, and whether it is right."""

    line: int
    task: str
    form: tuple[AnswerField, ...]
    expected: dict[str, Any]
    given: Any
    right: bool


def read_cases(path: Path) -> list[Case]:
    """Return the cases of a file. Raises KeyError for a task that is not bundled, and FormatError."""
    known = {task.key: task for folder in list_folders() for task in read_tasks(folder)}
    found = []
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        row = json.loads(text)
        if "task" in row:
            form, expected = known[row["task"]].answer_form, known[row["task"]].expected_answer
        else:
            form = read_form({"answer_form": row["form"]}, f"line {number}")
            expected = read_expected({"expected_answer": row["expected"]}, form, f"line {number}")
        name = row.get("task") or f"the form of line {number}"
        found.append(Case(number, name, form, expected, row["given"], row["right"]))
    return found


def read_answer(case: Case) -> str | None:
    """Return the answer as checks get it, None if the agent is told that it does not fit the form."""
    if case.given is None:
        return ""
    try:
        if isinstance(case.given, str):
            return serialize_answer(read_written_submission(case.form, case.given))
        return serialize_answer(read_submission(case.form, case.given))
    except InputError:
        return None


def judge_cases(sandbox: Sandbox, cases: Sequence[Case]) -> list[bool]:
    """Return for each case whether it is paid: it fits the form, and each check of the form says so."""
    answers = [read_answer(case) for case in cases]
    ends = [
        ([check.source for check in build_field_checks(case.form, case.expected)], {}, answer)
        for case, answer in zip(cases, answers, strict=True)
        if answer is not None
    ]
    verdicts = iter(list(sandbox.evaluate_ends({}, ends)))
    return [answer is not None and all(verdict.passed for verdict in next(verdicts)) for answer in answers]


def count_lines() -> int:
    """Return how many lines of code judge answers."""
    sources = [inspect.getsource(answer_values), *(inspect.getsource(getattr(answer_form, name)) for name in JUDGES)]
    return sum(bool(line.strip()) for source in sources for line in source.splitlines())


def measure_judging(sandbox: Sandbox, cases: Sequence[Case]) -> dict[str, Any]:
    began = time.perf_counter()
    paid = judge_cases(sandbox, cases)
    wrong = [case for case, was_paid in zip(cases, paid, strict=True) if was_paid != case.right]
    return {
        "cases": len(cases),
        "right": sum(case.right for case in cases),
        "wrong_paid": sum(not case.right for case in wrong),
        "right_refused": sum(case.right for case in wrong),
        "lines": count_lines(),
        "wrong": [[case.line, case.task, case.given] for case in wrong],
        "seconds": round(time.perf_counter() - began, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path, default=CORPUS)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--tasks", type=int)
    given = parser.parse_args()
    cases = read_cases(given.file)
    chosen = list(dict.fromkeys(case.task for case in cases))[: given.tasks]
    found = measure_judging(get_default_sandbox(), [case for case in cases if case.task in chosen])
    if not given.json:
        for line, task, submitted in found["wrong"]:
            print(f"line {line}: {task}: {json.dumps(submitted, ensure_ascii=False)}")
        found.pop("wrong")
    print(json.dumps(found, ensure_ascii=False))
