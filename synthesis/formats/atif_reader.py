"""Trajectories in ATIF 1.0 to 1.8, as Harbor's agents and others write them, read as runs without an environment.

What changes the meaning is refused with its place: an unknown version or speaker, steps out of order, a result of a
call that nobody made. What does not is read as it comes: fields nobody knows, arguments as text, parts in any version.
Images, audio and subagents' trajectories are left out, and what was left out is said at its step and of the whole.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator, Sequence
from typing import IO, Any

from synthesis.errors import FormatError
from synthesis.formats.answer_form import SUBMIT_ANSWER, answer_text
from synthesis.formats.atif_content import LeftOut, content_of, metrics_of, subagents_of
from synthesis.formats.files import Entry, parse_entries
from synthesis.formats.records import ForeignRun, ForeignStep
from synthesis.formats.transcript import arguments_of
from synthesis.formats.values import (
    clean,
    flag_field,
    list_field,
    object_field,
    read_or_fail,
    record_of,
    shorten,
    text_field,
)
from synthesis.json_reader import json_type

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
"""Fields by which a record is told that is none of this format, and none that wants to be."""


def holds_atif(content: bytes) -> bool:
    """Whether the bytes of a file, unpacked, are of ATIF trajectories: decided without reading them as JSON."""
    return MARK.search(content) is not None


def records_in(file: IO[bytes], name: str, limit: int) -> Iterator[dict[str, Any]]:
    """Each record of a file as `{place, record}`, or as `{place, at, reason}` where it is no trajectory.

    A run in another format, an environment or a scenario is given on as `{place, other}`: an export of this site may
    have them beside it."""
    for entry in parse_entries(file.read(limit + 1), name, limit=limit):
        if _is_other(entry.value):
            yield {"place": entry.place, "other": entry.value}
            continue
        found = read_or_fail(run, entry)
        if isinstance(found, ForeignRun):
            size = len(json.dumps(entry.value))
            if size <= MOST_BYTES:
                yield {"place": entry.place, "record": entry.value}
                continue
            reason = f"a trajectory of {size >> 20} MiB; {MOST_BYTES >> 20} MiB are allowed"
            yield {"place": entry.place, "at": entry.place, "reason": reason}
        else:
            yield {"place": entry.place, "at": found.place, "reason": found.reason}


def _is_other(value: Any) -> bool:
    return isinstance(value, dict) and "schema_version" not in value and not OTHERS.isdisjoint(value)


def run(entry: Entry) -> ForeignRun:
    """One trajectory. Raises `FormatError` with the place of what is wrong."""
    place = entry.place
    raw = record_of(entry.value, place)
    version = _version(raw, place)
    agent = object_field(raw, "agent", place)
    if agent is None:
        raise FormatError(f"{place}.agent", "missing")
    listed = list_field(raw, "steps", place)
    if not listed:
        raise FormatError(f"{place}.steps", "no step: a trajectory has one at least")
    if len(listed) > MOST_STEPS:
        raise FormatError(f"{place}.steps", f"{len(listed):,} steps; {MOST_STEPS:,} are allowed")
    reader = _StepReader()
    for number, item in enumerate(listed, 1):
        reader.read(item, number, f"{place}.steps[{number - 1}]")
    steps = tuple(reader.steps)
    name = text_field(agent, "name", f"{place}.agent", required=True)[:NAME_CHARS]
    asked = [step.content for step in steps if step.kind == "user" and step.content.strip()]
    return ForeignRun(
        title=shorten(asked[0], TITLE_CHARS) if asked else f"A run of {shorten(name, TITLE_CHARS)}",
        policy=shorten(text_field(agent, "model_name", f"{place}.agent") or reader.model or name, NAME_CHARS),
        conversational=sum(step.kind == "user" for step in steps) > 1,
        steps=steps,
        answer=_find_answer(steps),
        about=_about(raw, agent, version, name, reader, place),
        raw=raw,
    )


def _find_answer(steps: Sequence[ForeignStep]) -> str:
    """The answer that the agent submitted in the end, else its last words."""
    last = next((step for step in reversed(steps) if step.kind in ("message", "call")), None)
    if last is not None and last.tool == SUBMIT_ANSWER:
        return answer_text(last.arguments)
    said = (step.content for step in reversed(steps) if step.kind == "message" and step.content.strip())
    return next(said, "")


def _version(raw: dict[str, Any], place: str) -> str:
    told = text_field(raw, "schema_version", place)
    match = VERSION.fullmatch(told.strip())
    if match is None:
        where = f"{place}.schema_version"
        if not told:
            raise FormatError(where, "missing: this is no ATIF trajectory; send recorded runs in a file of their own")
        raise FormatError(where, f"the version {told[:40]!r} is not known here; ATIF-v1.0 to ATIF-v1.8 are")
    return f"1.{match[1]}"


def _about(
    raw: dict[str, Any], agent: dict[str, Any], version: str, name: str, reader: _StepReader, place: str
) -> dict[str, Any]:
    """What the record says of itself, as `Trajectory.provenance` keeps it; what is empty has no entry."""
    told = object_field(raw, "final_metrics", place)
    metrics = metrics_of(told, f"{place}.final_metrics", "total_") if told is not None else {}
    embedded = list_field(raw, "subagent_trajectories", place)
    for _ in embedded:
        reader.left_out.add("embedded trajectory of a subagent")
    names = [_tool_name(item, f"{place}.agent.tool_definitions[{index}]") for index, item in enumerate(
        list_field(agent, "tool_definitions", f"{place}.agent")
    )]  # fmt: skip
    about = {
        "format": f"ATIF {version}",
        "agent": name,
        "agent_version": text_field(agent, "version", f"{place}.agent")[:NAME_CHARS],
        "trajectory_id": text_field(raw, "trajectory_id", place)[:NAME_CHARS],
        "session_id": text_field(raw, "session_id", place)[:NAME_CHARS],
        "notes": text_field(raw, "notes", place),
        "continued_in": text_field(raw, "continued_trajectory_ref", place)[:NAME_CHARS],
        "tools": [name for name in names if name][:MOST_TOOLS],
        "metrics": metrics or reader.metrics,
        "copied_steps": reader.copied,
        "left_out": reader.left_out.lines(),
    }
    about["agent_version"] = "" if about["agent_version"] == NOT_RECORDED else about["agent_version"]
    return {key: value for key, value in about.items() if value}


def _tool_name(item: Any, place: str) -> str:
    if not isinstance(item, dict):
        raise FormatError(place, f"expected an object, found a {json_type(item)}")
    inner = item.get("function")
    return text_field(inner if isinstance(inner, dict) else item, "name", place)[:NAME_CHARS]


class _StepReader:
    """Reads the steps of one trajectory in their order."""

    def __init__(self) -> None:
        self.steps: list[ForeignStep] = []
        self.left_out = LeftOut()
        self.metrics: dict[str, float] = {}
        self.turn = self.copied = 0
        self.model = ""

    def read(self, item: Any, number: int, place: str) -> None:
        if not isinstance(item, dict):
            raise FormatError(place, f"expected an object, found a {json_type(item)}")
        _require_number(item.get("step_id"), number, f"{place}.step_id")
        source = text_field(item, "source", place, required=True).strip().lower()
        if source not in SPEAKERS:
            raise FormatError(f"{place}.source", f"{source[:40]!r} is none of {', '.join(SPEAKERS)}")
        missing = LeftOut()
        text = content_of(item.get("message"), f"{place}.message", missing)
        details = self._details(item, place) | {"step_id": number}
        calls = list_field(item, "tool_calls", place)
        if source != "agent":
            if calls or text_field(item, "reasoning_content", place):
                raise FormatError(place, f"a step of the {source} holds calls or reasoning, which are an agent's alone")
            self._add(ForeignStep(kind=source, turn=self.turn, content=text), details, missing)
        else:
            self.turn += 1
            self._agent(item, calls, text, details, missing, place)
        self._observed(item, calls, place)

    def _agent(
        self, item: dict[str, Any], calls: list[Any], text: str, details: dict[str, Any], missing: LeftOut, place: str
    ) -> None:
        reasoning = text_field(item, "reasoning_content", place)
        if not calls:
            step = ForeignStep(kind="message", turn=self.turn, content=text, reasoning=reasoning)
            self._add(step, details, missing)
            return
        for index, call in enumerate(calls):
            where = f"{place}.tool_calls[{index}]"
            if not isinstance(call, dict):
                raise FormatError(where, f"expected an object, found a {json_type(call)}")
            identity = text_field(call, "tool_call_id", where)
            step = ForeignStep(
                kind="call",
                turn=self.turn,
                content=text,
                reasoning=reasoning,
                tool=text_field(call, "function_name", where, required=True)[:NAME_CHARS],
                arguments=arguments_of(call.get("arguments")),
            )
            self._add(step, details | ({"tool_call_id": identity[:NAME_CHARS]} if identity else {}), missing)
            text = reasoning = ""
            details, missing = {"step_id": details["step_id"]}, LeftOut()

    def _observed(self, item: dict[str, Any], calls: list[Any], place: str) -> None:
        """Give each call its result. What answers no call is a step of its own."""
        observation = object_field(item, "observation", place)
        if observation is None:
            return
        places: dict[str, deque[int]] = {}
        for index, call in enumerate(calls, len(self.steps) - len(calls)):
            places.setdefault(call.get("tool_call_id") or "", deque()).append(index)
        answers: dict[int, tuple[list[str], LeftOut]] = {}
        for index, result in enumerate(list_field(observation, "results", f"{place}.observation")):
            where = f"{place}.observation.results[{index}]"
            if not isinstance(result, dict):
                raise FormatError(where, f"expected an object, found a {json_type(result)}")
            called = text_field(result, "source_call_id", where)
            if called and called not in places:
                raise FormatError(f"{where}.source_call_id", f"no call of this step has the id {called[:60]!r}")
            at = _take(places.get(called))
            texts, missing = ([], LeftOut()) if at is None else answers.setdefault(at, ([], LeftOut()))
            texts.append(content_of(result.get("content"), f"{where}.content", missing))
            subagents_of(result, where, missing)
            if at is None:
                step = ForeignStep(kind="system", turn=self.turn, content=texts[0])
                self._add(step, {"step_id": self.steps[-1].details["step_id"], "observation": True}, missing)
        for at, (texts, missing) in answers.items():
            self._answer(at, "\n".join(texts), missing)

    def _answer(self, at: int, text: str, missing: LeftOut) -> None:
        self.left_out.update(missing)
        step = self.steps[at]
        lines = [*step.details.get("left_out", []), *missing.lines()]
        details = step.details | ({"left_out": lines} if lines else {})
        self.steps[at] = step.model_copy(update={"recorded": text, "details": details})

    def _add(self, step: ForeignStep, details: dict[str, Any], missing: LeftOut) -> None:
        self.left_out.update(missing)
        lines = missing.lines()
        told = {key: value for key, value in details.items() if value} | ({"left_out": lines} if lines else {})
        self.steps.append(step.model_copy(update={"details": told}))

    def _details(self, item: dict[str, Any], place: str) -> dict[str, Any]:
        given = object_field(item, "metrics", place)
        metrics = metrics_of(given, f"{place}.metrics") if given is not None else {}
        for name, value in metrics.items():
            self.metrics[name] = self.metrics.get(name, 0) + value
        copied = flag_field(item, "is_copied_context", place, False)
        self.copied += copied
        model = text_field(item, "model_name", place)[:NAME_CHARS]
        self.model = self.model or model
        effort = item.get("reasoning_effort")
        return {
            "time": text_field(item, "timestamp", place)[:60],
            "model": model,
            "effort": clean(str(effort))[:60] if isinstance(effort, str | int | float) else "",
            "metrics": metrics,
            "copied": copied,
        }


def _take(calls: deque[int] | None) -> int | None:
    """The next of the calls that share an id (or have none), by order; the last one takes all that follows."""
    if not calls:
        return None
    return calls.popleft() if len(calls) > 1 else calls[0]


def _require_number(value: Any, number: int, place: str) -> None:
    """Steps count from 1. One without a number stands where it stands."""
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdecimal() and len(value) < 10:
        value = int(value)
    if value is not None and value != number:
        told = clean(str(value))[:40]
        raise FormatError(place, f"expected {number}, found {told}: steps are out of order, or some are missing")
