"""Trajectories in ATIF 1.0 to 1.8, as written by Harbor's agents and others, read as runs without an environment.

Anything that changes the meaning is refused with its place: an unknown version or speaker, steps out of order, a result
of a call that was not made. Anything else is read as it is: unknown fields, arguments as text, parts in any version.
Images, audio and subagents' trajectories are omitted, and reported at their step and for the whole run.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator, Sequence
from typing import IO, Any

from synthesis.errors import FormatError
from synthesis.formats.answer_form import SUBMIT_ANSWER, serialize_answer
from synthesis.formats.atif_content import LeftOut, note_subagents, read_content_text, read_metrics
from synthesis.formats.files import Entry, parse_entries
from synthesis.formats.records import ForeignRun, ForeignStep
from synthesis.formats.transcript import parse_arguments
from synthesis.formats.values import (
    clean_text,
    read_flag_field,
    read_list_field,
    read_object_field,
    read_or_fail,
    read_text_field,
    require_record,
    shorten_text,
)
from synthesis.json_reader import get_json_type

MARK = re.compile(rb'(?<!\\)"schema_version"\s*:\s*"ATIF', re.IGNORECASE)
VERSION = re.compile(r"ATIF-v1\.([0-8])", re.IGNORECASE)
MOST_STEPS = 20_000
MOST_BYTES = 24 << 20
"""Of one trajectory, spelled as JSON."""
TITLE_CHARS = 200
NAME_CHARS = 200
MOST_TOOLS = 500
SPEAKERS = ("system", "user", "agent")
NOT_RECORDED = "not recorded"
OTHERS = frozenset(("task_info", "env_class_code", "init_config"))
"""Fields that show that a record is not of this format and does not claim to be."""


def has_atif_mark(content: bytes) -> bool:
    """Return whether an unpacked file holds ATIF trajectories, without parsing it as JSON."""
    return MARK.search(content) is not None


def read_atif_records(file: IO[bytes], name: str, limit: int) -> Iterator[dict[str, Any]]:
    """Yield each record of a file as `{place, record}`, or as `{place, at, reason}` if it is not a trajectory.

    A run in another format, an environment or a scenario is yielded as `{place, other}`: an export of this site may
    contain them too.
    """
    for entry in parse_entries(file.read(limit + 1), name, limit=limit):
        if _is_other_format(entry.value):
            yield {"place": entry.place, "other": entry.value}
            continue
        outcome = read_or_fail(read_atif_run, entry)
        if isinstance(outcome, ForeignRun):
            size = len(json.dumps(entry.value))
            if size <= MOST_BYTES:
                yield {"place": entry.place, "record": entry.value}
                continue
            reason = f"a trajectory of {size >> 20} MiB; {MOST_BYTES >> 20} MiB are allowed"
            yield {"place": entry.place, "at": entry.place, "reason": reason}
        else:
            yield {"place": entry.place, "at": outcome.place, "reason": outcome.reason}


def _is_other_format(value: Any) -> bool:
    return isinstance(value, dict) and "schema_version" not in value and not OTHERS.isdisjoint(value)


def read_atif_run(entry: Entry) -> ForeignRun:
    """Return one trajectory as a run. Raise `FormatError` with the place of the error."""
    place = entry.place
    raw = require_record(entry.value, place)
    version = _read_version(raw, place)
    agent = read_object_field(raw, "agent", place)
    if agent is None:
        raise FormatError(f"{place}.agent", "missing")
    listed = read_list_field(raw, "steps", place)
    if not listed:
        raise FormatError(f"{place}.steps", "no step: a trajectory has one at least")
    if len(listed) > MOST_STEPS:
        raise FormatError(f"{place}.steps", f"{len(listed):,} steps; {MOST_STEPS:,} are allowed")
    reader = _StepReader()
    for number, item in enumerate(listed, 1):
        reader.read(item, number, f"{place}.steps[{number - 1}]")
    steps = tuple(reader.steps)
    name = read_text_field(agent, "name", f"{place}.agent", required=True)[:NAME_CHARS]
    user_messages = [step.content for step in steps if step.kind == "user" and step.content.strip()]
    return ForeignRun(
        title=shorten_text(user_messages[0], TITLE_CHARS)
        if user_messages
        else f"A run of {shorten_text(name, TITLE_CHARS)}",
        policy=shorten_text(read_text_field(agent, "model_name", f"{place}.agent") or reader.model or name, NAME_CHARS),
        conversational=sum(step.kind == "user" for step in steps) > 1,
        steps=steps,
        answer=_find_answer(steps),
        about=_build_provenance(raw, agent, version, name, reader, place),
        raw=raw,
    )


def _find_answer(steps: Sequence[ForeignStep]) -> str:
    """Return the answer that the agent submitted at the end, else its last message."""
    last = next((step for step in reversed(steps) if step.kind in ("message", "call")), None)
    if last is not None and last.tool == SUBMIT_ANSWER:
        return serialize_answer(last.arguments)
    messages = (step.content for step in reversed(steps) if step.kind == "message" and step.content.strip())
    return next(messages, "")


def _read_version(raw: dict[str, Any], place: str) -> str:
    version_text = read_text_field(raw, "schema_version", place)
    match = VERSION.fullmatch(version_text.strip())
    if match is None:
        where = f"{place}.schema_version"
        if not version_text:
            raise FormatError(where, "missing: this is no ATIF trajectory; send recorded runs in a file of their own")
        raise FormatError(where, f"the version {version_text[:40]!r} is not known here; ATIF-v1.0 to ATIF-v1.8 are")
    return f"1.{match[1]}"


def _build_provenance(
    raw: dict[str, Any], agent: dict[str, Any], version: str, name: str, reader: _StepReader, place: str
) -> dict[str, Any]:
    """Return the metadata of a record for `Trajectory.provenance`; empty values have no entry."""
    final_metrics = read_object_field(raw, "final_metrics", place)
    metrics = read_metrics(final_metrics, f"{place}.final_metrics", "total_") if final_metrics is not None else {}
    embedded = read_list_field(raw, "subagent_trajectories", place)
    for _ in embedded:
        reader.left_out.add("embedded trajectory of a subagent")
    names = [_read_tool_name(item, f"{place}.agent.tool_definitions[{index}]") for index, item in enumerate(
        read_list_field(agent, "tool_definitions", f"{place}.agent")
    )]  # fmt: skip
    about = {
        "format": f"ATIF {version}",
        "agent": name,
        "agent_version": read_text_field(agent, "version", f"{place}.agent")[:NAME_CHARS],
        "trajectory_id": read_text_field(raw, "trajectory_id", place)[:NAME_CHARS],
        "session_id": read_text_field(raw, "session_id", place)[:NAME_CHARS],
        "notes": read_text_field(raw, "notes", place),
        "continued_in": read_text_field(raw, "continued_trajectory_ref", place)[:NAME_CHARS],
        "tools": [name for name in names if name][:MOST_TOOLS],
        "metrics": metrics or reader.metrics,
        "copied_steps": reader.copied,
        "left_out": reader.left_out.lines(),
    }
    about["agent_version"] = "" if about["agent_version"] == NOT_RECORDED else about["agent_version"]
    return {key: value for key, value in about.items() if value}


def _read_tool_name(item: Any, place: str) -> str:
    if not isinstance(item, dict):
        raise FormatError(place, f"expected an object, found a {get_json_type(item)}")
    inner = item.get("function")
    return read_text_field(inner if isinstance(inner, dict) else item, "name", place)[:NAME_CHARS]


class _StepReader:
    """Reader of the steps of one trajectory in their order."""

    def __init__(self) -> None:
        self.steps: list[ForeignStep] = []
        self.left_out = LeftOut()
        self.metrics: dict[str, float] = {}
        self.turn = self.copied = 0
        self.model = ""

    def read(self, item: Any, number: int, place: str) -> None:
        if not isinstance(item, dict):
            raise FormatError(place, f"expected an object, found a {get_json_type(item)}")
        _require_step_number(item.get("step_id"), number, f"{place}.step_id")
        source = read_text_field(item, "source", place, required=True).strip().lower()
        if source not in SPEAKERS:
            raise FormatError(f"{place}.source", f"{source[:40]!r} is none of {', '.join(SPEAKERS)}")
        missing = LeftOut()
        text = read_content_text(item.get("message"), f"{place}.message", missing)
        details = self._read_details(item, place) | {"step_id": number}
        calls = read_list_field(item, "tool_calls", place)
        if source != "agent":
            if calls or read_text_field(item, "reasoning_content", place):
                raise FormatError(place, f"a step of the {source} holds calls or reasoning, which are an agent's alone")
            self._add(ForeignStep(kind=source, turn=self.turn, content=text), details, missing)
        else:
            self.turn += 1
            self._read_agent_step(item, calls, text, details, missing, place)
        self._read_observation(item, calls, place)

    def _read_agent_step(
        self, item: dict[str, Any], calls: list[Any], text: str, details: dict[str, Any], missing: LeftOut, place: str
    ) -> None:
        reasoning = read_text_field(item, "reasoning_content", place)
        if not calls:
            step = ForeignStep(kind="message", turn=self.turn, content=text, reasoning=reasoning)
            self._add(step, details, missing)
            return
        for index, call in enumerate(calls):
            where = f"{place}.tool_calls[{index}]"
            if not isinstance(call, dict):
                raise FormatError(where, f"expected an object, found a {get_json_type(call)}")
            identity = read_text_field(call, "tool_call_id", where)
            step = ForeignStep(
                kind="call",
                turn=self.turn,
                content=text,
                reasoning=reasoning,
                tool=read_text_field(call, "function_name", where, required=True)[:NAME_CHARS],
                arguments=parse_arguments(call.get("arguments")),
            )
            self._add(step, details | ({"tool_call_id": identity[:NAME_CHARS]} if identity else {}), missing)
            text = reasoning = ""
            details, missing = {"step_id": details["step_id"]}, LeftOut()

    def _read_observation(self, item: dict[str, Any], calls: list[Any], place: str) -> None:
        """Assign each call its result. A result that answers no call becomes a step of its own."""
        observation = read_object_field(item, "observation", place)
        if observation is None:
            return
        places: dict[str, deque[int]] = {}
        for index, call in enumerate(calls, len(self.steps) - len(calls)):
            places.setdefault(call.get("tool_call_id") or "", deque()).append(index)
        answers: dict[int, tuple[list[str], LeftOut]] = {}
        for index, result in enumerate(read_list_field(observation, "results", f"{place}.observation")):
            where = f"{place}.observation.results[{index}]"
            if not isinstance(result, dict):
                raise FormatError(where, f"expected an object, found a {get_json_type(result)}")
            called = read_text_field(result, "source_call_id", where)
            if called and called not in places:
                raise FormatError(f"{where}.source_call_id", f"no call of this step has the id {called[:60]!r}")
            at = _take_call(places.get(called))
            texts, missing = ([], LeftOut()) if at is None else answers.setdefault(at, ([], LeftOut()))
            texts.append(read_content_text(result.get("content"), f"{where}.content", missing))
            note_subagents(result, where, missing)
            if at is None:
                step = ForeignStep(kind="system", turn=self.turn, content=texts[0])
                self._add(step, {"step_id": self.steps[-1].details["step_id"], "observation": True}, missing)
        for at, (texts, missing) in answers.items():
            self._set_result(at, "\n".join(texts), missing)

    def _set_result(self, at: int, text: str, missing: LeftOut) -> None:
        self.left_out.update(missing)
        step = self.steps[at]
        lines = [*step.details.get("left_out", []), *missing.lines()]
        details = step.details | ({"left_out": lines} if lines else {})
        self.steps[at] = step.model_copy(update={"recorded": text, "details": details})

    def _add(self, step: ForeignStep, details: dict[str, Any], missing: LeftOut) -> None:
        self.left_out.update(missing)
        lines = missing.lines()
        step_details = {key: value for key, value in details.items() if value} | ({"left_out": lines} if lines else {})
        self.steps.append(step.model_copy(update={"details": step_details}))

    def _read_details(self, item: dict[str, Any], place: str) -> dict[str, Any]:
        raw_metrics = read_object_field(item, "metrics", place)
        metrics = read_metrics(raw_metrics, f"{place}.metrics") if raw_metrics is not None else {}
        for name, value in metrics.items():
            self.metrics[name] = self.metrics.get(name, 0) + value
        copied = read_flag_field(item, "is_copied_context", place, False)
        self.copied += copied
        model = read_text_field(item, "model_name", place)[:NAME_CHARS]
        self.model = self.model or model
        effort = item.get("reasoning_effort")
        return {
            "time": read_text_field(item, "timestamp", place)[:60],
            "model": model,
            "effort": clean_text(str(effort))[:60] if isinstance(effort, str | int | float) else "",
            "metrics": metrics,
            "copied": copied,
        }


def _take_call(calls: deque[int] | None) -> int | None:
    """Return the next of the calls that share an id (or have none), by order; the last one takes all further
    results."""
    if not calls:
        return None
    return calls.popleft() if len(calls) > 1 else calls[0]


def _require_step_number(value: Any, number: int, place: str) -> None:
    """Raise FormatError if a step's number is not its position, counted from 1. A missing number is accepted."""
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdecimal() and len(value) < 10:
        value = int(value)
    if value is not None and value != number:
        shown_value = clean_text(str(value))[:40]
        raise FormatError(place, f"expected {number}, found {shown_value}: steps are out of order, or some are missing")
