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
    """`turns` are the agent's that can be learnt; `characters` of a whole trajectory, or of what an agent is told of a
    task before its first turn. `asks_judge`: a judge decides facts of the task's rubric."""

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
"""By hash (with the side, where it is not the one to learn from): a dataset never changes."""
KEPT = 4


def facts_of(dataset: Dataset, side: SideName = "train") -> Facts | None:
    """Facts about a side of a dataset; None where it is not frozen, too large to read now, or cannot be read."""
    size = int((dataset.manifest.get(side) or {}).get("bytes", dataset.bytes))
    if dataset.state != DatasetState.READY or size > MOST_BYTES:
        return None
    name = dataset.sha256 if side == "train" else dataset.sha256 and f"{dataset.sha256} {side}"
    return _known(name, lambda: open_file(dataset, f"{side}.jsonl"))


def facts_of_file(file: StoredFile) -> Facts | None:
    """Facts about an uploaded file, which is learnt from as a whole. None as `facts_of`."""
    if file.state != FileState.PROCESSED or file.bytes > MOST_BYTES:
        return None
    return _known(file.sha256, lambda: default_storage.open(file.stored, "rb"))


def _known(sha256: str, opened: Callable[[], File[bytes]]) -> Facts | None:
    if not sha256:
        return None
    if sha256 not in _KNOWN:
        try:
            with opened() as file:
                _KNOWN[sha256] = Facts(tuple(_facts(_lines(file))))
        except UNREADABLE:
            return None  # the trainer says what is wrong with it
        while len(_KNOWN) > KEPT:
            _KNOWN.popitem(last=False)
    return _KNOWN.get(sha256)


def texts_of(dataset: Dataset | None, file: StoredFile | None) -> Iterator[list[str]]:
    """Of each row that is learnt from, what users, the agent and tools say in it, or the instruction of a task. Nothing
    where facts are None."""
    try:
        if dataset is not None:
            stored = open_file(dataset, "train.jsonl")
        elif file is not None:
            stored = default_storage.open(file.stored, "rb")
        else:
            return
        with stored as opened:
            for line in _lines(opened):
                row = _loaded(line)
                task = _task(row)
                if task is not None:
                    yield [str(task.get("instruction", ""))]
                else:
                    yield [text for message in _messages(row) for text in _said(message)]
    except UNREADABLE:
        return


def _loaded(text: bytes) -> Any:
    """Raises ValueError: it is no JSON, or would take too much memory."""
    require_light(text)
    return json.loads(text)


def _task(row: dict[str, Any]) -> Any:
    """A row's task, which may stand there as JSON text; None where the row holds a trajectory."""
    task = row.get("rollout")
    return _loaded(task.encode("utf-8", "replace")) if isinstance(task, str) else task


def _messages(row: dict[str, Any]) -> list[dict[str, Any]]:
    return row.get("messages") or [*(row.get("prompt") or []), *(row.get("completion") or [])]


def _said(message: dict[str, Any]) -> Iterator[str]:
    if message.get("role") != "system":
        yield str(message.get("content") or "")
        for call in message.get("tool_calls") or ():
            called = call.get("function") or {}
            arguments = called.get("arguments")
            known = _loaded(arguments.encode("utf-8", "replace")) if isinstance(arguments, str) else arguments
            yield json.dumps({**called, "arguments": known}, ensure_ascii=False)


def _lines(file: File[bytes]) -> Iterator[bytes]:
    return iter(lambda: file.readline(LONGEST), b"")


def _facts(lines: Iterator[bytes]) -> Iterator[RowFact]:
    known: dict[tuple[str, ...], tuple[str, ...]] = {}
    for line in lines:
        row = _loaded(line)
        task = _task(row)
        environment, setting = str(row.get("environment", "")), str(row.get("setting", "task"))
        if task is None:
            yield RowFact(environment, setting, *_spoken(row))
            continue
        verifier = nest_former_fields(task).get("verifier") or {}
        listed = (task.get("program") or {}).get("tools") or ()
        tools = tuple(str(tool.get("name")) for tool in listed)
        sources = [str(check.get("source")) for check in verifier.get("checks") or ()]
        yield RowFact(
            environment,
            setting,
            1,
            _told(task),
            asks_judge=_has_fact(verifier.get("criteria") or ()),
            is_superseded=bool(find_gone_helpers(sources)),
            verifier=str(verifier.get("kind", "checks")),
            tools=known.setdefault(tools, tools),
        )


def _has_fact(criteria: Iterable[Any]) -> bool:
    return any(isinstance(one, str) or one.get("dimension", "fact") == "fact" for one in criteria)


def _told(told: dict[str, Any]) -> int:
    tools = json.dumps((told.get("program") or {}).get("tools", []))
    return len(str(told.get("documentation", ""))) + len(str(told.get("instruction", ""))) + len(tools)


def _spoken(row: dict[str, Any]) -> tuple[int, int]:
    messages = _messages(row)
    turns = sum(message.get("role") == "assistant" for message in messages) if row.get("messages") else 1
    return turns, len(json.dumps(messages, ensure_ascii=False)) + len(json.dumps(row.get("tools", [])))
