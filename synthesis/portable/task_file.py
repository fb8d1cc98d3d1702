"""Tasks in a folder: one line per task, and each program once, under its hash."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from synthesis.contracts import Frozen, Program
from synthesis.errors import FormatError, InputError
from synthesis.rollout import RolloutTask

PROGRAMS = "programs"
SIDES = ("train", "test")
PROGRAMS_KEPT = 256
"""So many programs stay read."""


class NamedTask(Frozen):
    """Identifying fields of a task. `setting` shows whether a model plays the user."""

    id: str
    environment: str = ""
    category: str = ""
    setting: Literal["task", "conversation"] = "task"


class PortableTask(NamedTask):
    """A task in a package. Its `id` is the key of `task` too."""

    task: RolloutTask


class TaskHead(NamedTask):
    """Summary of a task without its state, checks and program."""

    instruction: str


def write_tasks(folder: Path, side: str, rows: Iterable[PortableTask]) -> None:
    """Write one side into the folder, with programs that are not in it yet."""
    programs = folder / PROGRAMS
    programs.mkdir(exist_ok=True)
    with (folder / f"{side}.jsonl").open("w", encoding="utf-8", newline="\n") as file:
        for row in rows:
            text = json.dumps(row.task.program.model_dump(mode="json"), sort_keys=True)
            program_hash = hashlib.sha256(text.encode()).hexdigest()
            if not (path := programs / f"{program_hash}.json").exists():
                path.write_text(text, encoding="utf-8")
            row_json = row.model_dump(mode="json")
            row_json["task"]["program"] = program_hash
            file.write(json.dumps(row_json, sort_keys=True) + "\n")


class TaskFile:
    """Tasks of a folder: their heads in order, each complete task by its id. Only heads and positions are kept in
    memory.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._places: dict[str, tuple[str, int]] = {}
        self._heads: dict[str, list[TaskHead]] = {}
        for side in SIDES:
            self._heads[side] = list(self._read(side)) if self._path(side).exists() else []

    def heads(self, side: str) -> list[TaskHead]:
        return self._heads[side]

    def __getitem__(self, ident: str) -> PortableTask:
        """Return a task by its id. Raises InputError: it does not exist."""
        if ident not in self._places:
            raise InputError(f"There is no task {ident[:80]!r} in this package.")
        side, place = self._places[ident]
        with self._path(side).open("rb") as file:
            file.seek(place)
            row_json = json.loads(file.readline())
        program_hash = row_json["task"].pop("program")
        row_json["task"]["program"] = read_program(self.folder / PROGRAMS / f"{program_hash}.json")
        return PortableTask.model_validate(row_json)

    def _path(self, side: str) -> Path:
        return self.folder / f"{side}.jsonl"

    def _read(self, side: str) -> Iterator[TaskHead]:
        with self._path(side).open("rb") as file:
            place = 0
            for number, line in enumerate(file, 1):
                try:
                    row_json = json.loads(line)
                    head = TaskHead(
                        **{name: row_json[name] for name in ("id", "environment", "category", "setting")},
                        instruction=row_json["task"]["instruction"],
                    )
                except (ValueError, KeyError) as error:
                    raise FormatError(f"{side}.jsonl line {number}", "is damaged: install the package anew") from error
                self._places[head.id] = (side, place)
                place += len(line)
                yield head


@functools.lru_cache(PROGRAMS_KEPT)
def read_program(path: Path) -> Program:
    """Return the program of a file. Raises FormatError: the file is not the one that was written."""
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != path.stem:
        raise FormatError(path.name, "is not the program that was written: install the package anew")
    return Program.model_validate_json(data)
