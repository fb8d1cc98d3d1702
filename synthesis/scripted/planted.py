"""Faults that are planted on purpose, each with its place and the stage that must catch it."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from synthesis.contracts import Frozen

THEMES = Path(__file__).resolve().parent / "themes"
FaultKind = Literal[
    "bad_json",
    "hopeless_json",
    "refusal",
    "does_not_compile",
    "breaks_its_rule",
    "raises_an_error",
    "always_true",
    "always_false",
    "names_a_tool",
    "invents_facts",
    "cycle",
    "dangling_argument",
    "unchanged_end",
    "no_edge",
    "two_alike",
    "solution_errs",
    "does_nothing",
    "always_passes",
    "passes_permuted",
    "never_passes",
    "invents_tool",
    "unfit_answer",
    "contradicts_trace",
    "tells_order",
]
Outcome = Literal[
    "asked_again",
    "repaired",
    "tool_mended",
    "rejected",
    "failed",
    "unsolved",
    "left_out",
    "left_to_people",
    "dropped",
]


class PlantedFault(Frozen):
    """One planted fault: the reply that it replaces, and its required outcome.

    `item` is the part of the item's path below the theme's key ("" is the environment). `tries` are the replies it
    replaces, from 0: of a question that is asked again, or lines of a user; empty means all of them. `reply` names a
    file next to `planted.json`; without one it is the usual reply, in which the first text of `edit` is replaced by the
    second.

    `caught_by` is the stage of the pipeline that must notice it, at the item `caught_at` if that is another one below
    the theme; `outcome` is the result: `unsolved` is a task without reference, which cannot be approved;
    `left_to_people` is a tool that the checker only warns of, so that no repair is requested; `dropped` is a merge that
    is alike to an earlier one; for `rejected`, `failed` and `left_out`, `reason` is the slug that the item ends with.
    `variant` names the pipeline whose stages reach it; empty, any that has them. `synthesis.scripted.detection` decides
    if that came true.
    """

    theme: str
    kind: FaultKind
    role: str = "author"
    stage: str
    item: str = ""
    sample: int | None = 0
    tries: tuple[int, ...] = ()
    reply: str = ""
    edit: tuple[str, str] | None = None
    caught_by: str
    caught_at: str = ""
    outcome: Outcome
    reason: str = ""
    tool: str = ""
    variant: Literal["", "envscaler", "autoforge", "programmatic", "walk"] = ""
    about: str = Field(min_length=1)

    @property
    def path(self) -> str:
        """The item's whole path."""
        return "/".join(part for part in (self.theme, self.item) if part)

    @property
    def caught_path(self) -> str:
        """The whole path of the item at which it must be noticed."""
        return "/".join(part for part in (self.theme, self.caught_at or self.item) if part)

    def spoil(self, write_usual: Callable[[], str]) -> str:
        """Return the reply, as the model would give it. Raise ValueError if the usual one lacks the text to be
        replaced.
        """
        if self.edit is None:
            return (THEMES / self.theme / self.reply).read_text(encoding="utf-8").rstrip("\n")
        usual = write_usual()
        if self.edit[0] not in usual:
            raise ValueError(f"{self.path}: the usual reply at {self.stage} holds no {self.edit[0]!r}")
        return usual.replace(*self.edit, 1)

    @model_validator(mode="after")
    def _require_one_reply(self) -> Self:
        if bool(self.reply) == (self.edit is not None):
            raise ValueError("a planted fault has either a `reply` or an `edit`")
        return self

    def is_planted_at(self, role: str, stage: str, part: str, sample: int, attempt: int) -> bool:
        is_same_stage = (role, stage, part) == (self.role, self.stage, self.item)
        return is_same_stage and self.sample in (None, sample) and (not self.tries or attempt in self.tries)


@functools.cache
def list_planted_faults() -> tuple[PlantedFault, ...]:
    """Return every planted fault, theme by theme."""
    faults: list[PlantedFault] = []
    for file in sorted(THEMES.glob("*/planted.json")):
        listed = json.loads(file.read_text(encoding="utf-8"))
        faults += [PlantedFault(theme=file.parent.name, **entry) for entry in listed]
    return tuple(faults)
