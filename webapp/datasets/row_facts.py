"""Facts about a dataset's rows for the preflight: environment, setting, turns and length of each."""

from __future__ import annotations

import json
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from django.core.files.base import File
from django.core.files.storage import default_storage

from synthesis.errors import InputError
from synthesis.formats.former_answers import find_gone_helpers
from synthesis.formats.verifier_record import nest_former_fields
from synthesis.json_weight import require_light
from training.dataset import SideName, UploadLimits
from webapp.datasets.models import Dataset, DatasetState, FileState, StoredFile
from webapp.datasets.storage import open_file

MOST_BYTES = 32 << 20
"""Larger datasets are not read for a preflight, which answers at once; the trainer looks at them before it begins."""
LONGEST = UploadLimits().line_bytes + 1
UNREADABLE = (InputError, OSError, ValueError, TypeError, AttributeError, RecursionError)


@dataclass(frozen=True, slots=True)
class RowFact:
    """Facts of one row. `turns` are the agent's that can be learnt; `characters` are of a whole trajectory, or of
    what an agent receives of a task before its first turn. `asks_judge`: a judge decides facts of the task's rubric."""

    environment: str
    setting: str
    turns: int
    characters: int
    asks_judge: bool = False
    is_superseded: bool = False
    """Whether the checks of the task call helpers that this version does not have any more."""
    verifier: str = ""
    """The kind of the task's verifier; empty for a trajectory."""
    tools: tuple[str, ...] = ()
    """Names of the tools of the task's environment, one object for all rows that have the same."""


@dataclass(frozen=True)
class Facts:
    """Facts about the rows of a side, in their order."""

    rows: tuple[RowFact, ...]

    def environments(self) -> Counter[str]:
        return Counter(row.environment for row in self.rows)

    def settings(self) -> set[str]:
        return {row.setting for row in self.rows}


_KNOWN: OrderedDict[str, Facts] = OrderedDict()
"""By hash (with the side, if it is not the one to learn from): a dataset never changes."""
KEPT = 4


def load_facts(dataset: Dataset, side: SideName = "train") -> Facts | None:
    """Return facts about a side of a dataset; None if it is not frozen, too large to read now, or cannot be read."""
    size = int((dataset.manifest.get(side) or {}).get("bytes", dataset.bytes))
    if dataset.state != DatasetState.READY or size > MOST_BYTES:
        return None
    name = dataset.sha256 if side == "train" else dataset.sha256 and f"{dataset.sha256} {side}"
    return _load_known_facts(name, lambda: open_file(dataset, f"{side}.jsonl"))


def load_file_facts(file: StoredFile) -> Facts | None:
    """Return facts about an uploaded file, which is learnt from as a whole. None as for `load_facts`."""
    if file.state != FileState.PROCESSED or file.bytes > MOST_BYTES:
        return None
    return _load_known_facts(file.sha256, lambda: default_storage.open(file.stored, "rb"))


def _load_known_facts(sha256: str, opened: Callable[[], File[bytes]]) -> Facts | None:
    if not sha256:
        return None
    if sha256 not in _KNOWN:
        try:
            with opened() as file:
                _KNOWN[sha256] = Facts(tuple(_iter_row_facts(_iter_lines(file))))
        except UNREADABLE:
            return None  # the trainer says what is wrong with it
        while len(_KNOWN) > KEPT:
            _KNOWN.popitem(last=False)
    return _KNOWN.get(sha256)


def iter_learnt_texts(dataset: Dataset | None, file: StoredFile | None) -> Iterator[list[str]]:
    """Yield for each row that is learnt from what users, the agent and tools say in it, or the instruction of a
    task. Yields nothing if the facts are None."""
    try:
        if dataset is not None:
            stored_file = open_file(dataset, "train.jsonl")
        elif file is not None:
            stored_file = default_storage.open(file.stored, "rb")
        else:
            return
        with stored_file as opened:
            for line in _iter_lines(opened):
                row = _parse_json(line)
                task = _find_row_task(row)
                if task is not None:
                    yield [str(task.get("instruction", ""))]
                else:
                    yield [text for message in _list_messages(row) for text in _iter_message_texts(message)]
    except UNREADABLE:
        return


def _parse_json(text: bytes) -> Any:
    """Parse JSON. Raises ValueError: it is no JSON, or would take too much memory."""
    require_light(text)
    return json.loads(text)


def _find_row_task(row: dict[str, Any]) -> Any:
    """Return a row's task, which may be stored as JSON text; None if the row holds a trajectory."""
    task = row.get("rollout")
    return _parse_json(task.encode("utf-8", "replace")) if isinstance(task, str) else task


def _list_messages(row: dict[str, Any]) -> list[dict[str, Any]]:
    return row.get("messages") or [*(row.get("prompt") or []), *(row.get("completion") or [])]


def _iter_message_texts(message: dict[str, Any]) -> Iterator[str]:
    if message.get("role") != "system":
        yield str(message.get("content") or "")
        for call in message.get("tool_calls") or ():
            called = call.get("function") or {}
            arguments = called.get("arguments")
            known = _parse_json(arguments.encode("utf-8", "replace")) if isinstance(arguments, str) else arguments
            yield json.dumps({**called, "arguments": known}, ensure_ascii=False)


def _iter_lines(file: File[bytes]) -> Iterator[bytes]:
    return iter(lambda: file.readline(LONGEST), b"")


def _iter_row_facts(lines: Iterator[bytes]) -> Iterator[RowFact]:
    tool_names: dict[tuple[str, ...], tuple[str, ...]] = {}
    for line in lines:
        row = _parse_json(line)
        task = _find_row_task(row)
        environment, setting = str(row.get("environment", "")), str(row.get("setting", "task"))
        if task is None:
            yield RowFact(environment, setting, *_measure_trajectory(row))
            continue
        verifier = nest_former_fields(task).get("verifier") or {}
        listed_tools = (task.get("program") or {}).get("tools") or ()
        tools = tuple(str(tool.get("name")) for tool in listed_tools)
        sources = [str(check.get("source")) for check in verifier.get("checks") or ()]
        yield RowFact(
            environment,
            setting,
            1,
            _count_task_characters(task),
            asks_judge=_has_fact(verifier.get("criteria") or ()),
            is_superseded=bool(find_gone_helpers(sources)),
            verifier=str(verifier.get("kind", "checks")),
            tools=tool_names.setdefault(tools, tools),
        )


def _has_fact(criteria: Iterable[Any]) -> bool:
    return any(isinstance(one, str) or one.get("dimension", "fact") == "fact" for one in criteria)


def _count_task_characters(told: dict[str, Any]) -> int:
    tools = json.dumps((told.get("program") or {}).get("tools", []))
    return len(str(told.get("documentation", ""))) + len(str(told.get("instruction", ""))) + len(tools)


def _measure_trajectory(row: dict[str, Any]) -> tuple[int, int]:
    messages = _list_messages(row)
    turns = sum(message.get("role") == "assistant" for message in messages) if row.get("messages") else 1
    return turns, len(json.dumps(messages, ensure_ascii=False)) + len(json.dumps(row.get("tools", [])))
