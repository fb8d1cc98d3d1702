"""How many end states that are wrong in one place still earn everything, although the place may change.

    python -m tests.benchmarks.audit_parts.mutated_ends --json [--tasks N]

For the bundled tasks (all, or `N` of them, evenly taken) each place that the reference changes is altered alone in its
end state: a field, a part of it, a part of a record that was added. `paid` is how many of them earn the full reward,
`paid_where_only` how many would if the frame said where something may change, but not to what. `declared` of the paid
ones differ only in what somebody declared free. The last line of output is one JSON object.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

from synthesis.contracts import SOLVED_AT, Frame, State
from synthesis.runtime import Sandbox, get_default_sandbox
from synthesis.verifiers.call_sequences import Subject, run_calls
from synthesis.verifiers.check_table import build_verdict_table
from synthesis.verifiers.checks import compute_reward, derive_mark
from synthesis.verifiers.frame import build_end_key, find_outside_changes, unpin_allowance
from synthesis.verifiers.state_changes import ABSENT, find_state_changes, get_items, get_mapping
from tests.benchmarks.audits import subjects

MOST_OTHERS = 2
MOST_A_TASK = 400
Steps = tuple[str | int, ...]


def mutated_ends(start: State, end: State) -> Iterator[State]:
    """The end with one place altered that differs from the start, again and again."""
    for change in find_state_changes(start, end):
        if change.kind == "changed" and change.new != ABSENT:
            values = [change.new]
        elif change.kind == "added":
            values = [item for _, item in change.items]
        else:
            continue
        for value in values:
            steps = next(_steps_to(end, value, change.keys), None)
            for path, leaf in _leaves(value) if steps is not None else ():
                for other in _others(leaf, path, end):
                    yield _with(end, (*(steps or ()), *path), other)


def _steps_to(value: Any, wanted: Any, keys: tuple[str, ...], steps: Steps = ()) -> Iterator[Steps]:
    """Where in the encoded state that very value stands, below the collection or field with these keys."""
    if value is wanted:
        yield steps
        return
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in pairs:
        if steps or key == keys[0]:
            yield from _steps_to(item, wanted, keys, (*steps, key))


def _leaves(value: Any, path: Steps = ()) -> Iterator[tuple[Steps, Any]]:
    fields, items = get_mapping(value), get_items(value)
    if isinstance(value, dict) and fields is not None:
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
    elif isinstance(value, list) and items is not None:
        for index, item in enumerate(value):
            yield from _leaves(item, (*path, index))
    else:
        yield path, value


def _others(leaf: Any, path: Steps, state: State) -> list[Any]:
    if isinstance(leaf, bool):
        return [not leaf]
    if isinstance(leaf, int | float):
        return [leaf + 1, leaf - 1]
    if leaf is None:
        return ["x"]
    name = next((part for part in reversed(path) if isinstance(part, str)), "")
    same = dict.fromkeys(value for value in _named(state, name) if isinstance(value, str) and value != leaf)
    return [*list(same)[:MOST_OTHERS], f"{leaf}x"]


def _named(value: Any, name: str) -> Iterator[Any]:
    """What stands in fields of this name."""
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        if key == name and name:
            yield item
        yield from _named(item, name)


def _with(value: Any, path: Steps, other: Any) -> Any:
    if not path:
        return other
    copy = value.copy()
    copy[path[0]] = _with(value[path[0]], path[1:], other)
    return copy


def measure_task(sandbox: Sandbox, subject: Subject) -> tuple[int, int, int, int]:
    """(tried, paid, paid with a frame without values, paid in what is declared free)."""
    assert subject.reference is not None
    assert subject.frame is not None
    start, end = (run_calls(sandbox, subject, calls).state for calls in ((), subject.reference.calls))
    assert start is not None
    assert end is not None
    ends = list(mutated_ends(start, end))[:MOST_A_TASK]
    answer = subject.reference.answer
    at_start, *columns = build_verdict_table(
        sandbox, subject.checks, start, [(start, ""), *((one, answer) for one in ends)]
    )
    marks = [derive_mark(verdict) for verdict in at_start]
    where_only = Frame(allowances=tuple(unpin_allowance(item, item.reason) for item in subject.frame.allowances))
    right = build_end_key(subject.frame, start, end)
    paid = loose = declared = 0
    for one, verdicts in zip(ends, columns, strict=True):
        if compute_reward(verdicts, subject.rule, marks).reward < SOLVED_AT:
            continue
        loose += not find_outside_changes(where_only, start, one)
        if not find_outside_changes(subject.frame, start, one):
            paid += 1
            declared += build_end_key(subject.frame, start, one) == right
    return len(ends), paid, loose, declared


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="the last line of output is one JSON object")
    parser.add_argument("--tasks", type=int, help="so many tasks, evenly taken, instead of all")
    options = parser.parse_args()
    sandbox = get_default_sandbox()
    chosen = subjects(options.tasks)
    rows = [measure_task(sandbox, subject) for subject in chosen]
    names = ("tried", "paid", "paid_where_only", "declared")
    found = {"tasks": len(chosen), **dict(zip(names, map(sum, zip(*rows, strict=True)), strict=True))}
    print(json.dumps(found) if options.json else "\n".join(f"{name:16} {value:,}" for name, value in found.items()))


if __name__ == "__main__":
    main()
