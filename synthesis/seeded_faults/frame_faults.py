"""Faults of frames: places opened to anything, or closed to right changes as well."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from synthesis.contracts import Allowance, CheckRecord, Frame, Reference, ReferenceCall, State
from synthesis.seeded_faults.check_rewrites import match_contained_words
from synthesis.seeded_faults.sound_tasks import JudgedTask
from synthesis.verifiers.frame import build_frame, unpin_allowance, widen_frame
from synthesis.verifiers.plausible_arguments import list_allowed_values

REASON = "A right way may leave something else here."
WORDING = "It may be worded otherwise."
_WORDS = re.compile(r"(?=.*[A-Z ])[^\W\d][^\d]{3,}")
CONTRARY = ("Not {}", "{} - cancelled", "anything but {}")


def open_frame(frame: Frame, start: State) -> Iterator[tuple[str, Frame | None]]:
    """Yield frames that each accept too much: no frame, a place without its values, all records instead of one, a whole
    record or collection.
    """
    yield "no frame", None
    wide: dict[str, Allowance] = {}
    for at, item in enumerate(frame.allowances):
        rest = (*frame.allowances[:at], *frame.allowances[at + 1 :])
        parts = item.path.split("/")[1:]
        if item.is_pinned:
            yield f"{item.path} may become anything", Frame(allowances=(*rest, unpin_allowance(item, item.reason)))
            free = unpin_allowance(item, REASON).model_copy(update={"source": "author", "most": None})
            yield f"{item.path} is declared free", Frame(allowances=(*rest, free))
        if not item.is_pinned or len(parts) < 2 or not isinstance(start.get(parts[0]), dict):
            continue
        if len(parts) > 2 and parts[1] in start[parts[0]]:
            wide[f"/{parts[0]}/*/{'/'.join(parts[2:])}"] = item
            wide["/" + "/".join(parts[:2])] = item
        wide[f"/{parts[0]}"] = item
    for path in wide:
        free_place = Allowance(path=path, source="author", reason=REASON)
        yield f"{path} is declared free", widen_frame(frame, [free_place])


def accept_words(task: JudgedTask) -> Iterator[tuple[str, JudgedTask, tuple[tuple[str, Reference], ...]]]:
    """Yield variants in which the wording of a text argument is free, and a check only looks for the expected text in
    it.
    """
    assert task.frame is not None
    schemas = {tool.name: tool.parameters.get("properties") or {} for tool in task.program.tools}
    for step, call in enumerate(task.reference.calls):
        for name, text in call.arguments.items():
            rule = schemas.get(call.tool, {}).get(name) or {}
            if (
                not isinstance(text, str)
                or not _WORDS.fullmatch(text)
                or list_allowed_values(rule)
                or name.endswith("_id")
            ):
                continue
            for path, check in _iter_pinned_places(task.frame, text):
                free = Allowance(path=path, source="author", reason=WORDING)
                same = [item for item in task.frame.allowances if item.path != path]
                frame = widen_frame(Frame(allowances=tuple(same)), [free])
                loosened_checks = [
                    one.model_copy(update={"source": match_contained_words(one.source, text)}) for one in task.checks
                ]
                worded = replace(task, frame=frame, checks=(*loosened_checks, check))
                yield (
                    f"{path} is judged by whether it holds {text!r}",
                    worded,
                    _build_contrary_ways(task, step, name, text),
                )


def narrow_frame(
    task: JudgedTask, start: State, end: State
) -> Iterator[tuple[str, JudgedTask, tuple[tuple[str, Reference], ...]]]:
    """Yield frames that forbid right changes besides the reference's: volatile, looked up or declared ones."""
    bare = build_frame(start, end)
    yield "the frame is what the reference changed, and no more", replace(task, frame=bare), ()
    yield "what the reference changed, with what is declared", replace(task, frame=widen_frame(bare, task.free)), ()
    assert task.frame is not None
    declared = {item.path for item in task.free}
    if declared:
        kept_allowances = tuple(
            item for item in task.frame.allowances if item.path not in declared or item.source == "reference"
        )
        yield (
            "what is declared is forgotten",
            replace(task, frame=Frame(allowances=kept_allowances)),
            _build_chosen_ways(task),
        )
    for place in [item for item in task.frame.allowances if item.reason and item.source == "reference"]:
        kept_allowances = tuple(item for item in task.frame.allowances if item is not place)
        yield f"{place.path} is not free", replace(task, frame=Frame(allowances=kept_allowances)), ()


def _iter_pinned_places(frame: Frame, given: str) -> Iterator[tuple[str, CheckRecord]]:
    """Yield the places at which the frame pins a given text, with a check that the place contains the text."""
    for item in frame.allowances:
        parts = item.path.split("/")[1:]
        if parts[-1] == "+" and len(parts) == 2:
            for _, record in item.records:
                for name, value in record.items() if isinstance(record, dict) else ():
                    if value == given:
                        reads = f"any({given!r}.lower() in str(one.get({name!r})).lower() for one in new)"
                        yield f"{item.path}/{name}", _build_check(given, _spell_new_records(parts[0]), reads)
        elif given in item.values and len(parts) > 1:
            reads = "final_state" + "".join(f"[{part!r}]" for part in parts)
            yield item.path, _build_check(given, "", f"{given!r}.lower() in str({reads}).lower()")


def _spell_new_records(collection: str) -> str:
    """Return statements for the records that were added to a collection."""
    return (
        f"    before, now = initial_state[{collection!r}], final_state[{collection!r}]\n"
        "    if isinstance(now, dict):\n"
        "        new = [one for key, one in now.items() if key not in before]\n"
        "    else:\n"
        "        new = [one for one in now if one not in before]\n"
    )


def _build_check(given: str, before: str, condition: str) -> CheckRecord:
    head = "def check(initial_state, final_state, answer):\n"
    return CheckRecord(label=f"It says {given}", source=f"{head}{before}    return {condition}\n")


def _build_contrary_ways(task: JudgedTask, step: int, name: str, given: str) -> tuple[tuple[str, Reference], ...]:
    contrary_ways = []
    for form in CONTRARY:
        other = form.format(given)
        contrary_ways.append((f"{name}={other!r}", _replace_argument(task, step, name, other)))
    return tuple(contrary_ways)


def _build_chosen_ways(task: JudgedTask) -> tuple[tuple[str, Reference], ...]:
    """Return the reference with arguments that are other values of declared choices."""
    choices = [value for item in task.free for value in item.values]
    groups = [item.values for item in task.free if item.values]
    return tuple(
        (f"{name}={other!r}", _replace_argument(task, step, name, other))
        for step, call in enumerate(task.reference.calls)
        for name, given in call.arguments.items()
        if given in choices
        for group in groups[:1]
        for other in group
        if other != given
    )


def _replace_argument(task: JudgedTask, step: int, name: str, value: Any) -> Reference:
    calls = task.reference.calls
    changed = ReferenceCall(tool=calls[step].tool, arguments={**calls[step].arguments, name: value})
    return task.reference.model_copy(update={"calls": (*calls[:step], changed, *calls[step + 1 :])})
