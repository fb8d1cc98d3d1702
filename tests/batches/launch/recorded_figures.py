"""Figures of recorded batches: what each item asked for by role and stage, and what became of it.

`recorded_figures.jsonl` holds those of `manage.py run_batch --demo --scenarios 1 --tasks 1`, a line an item, as
`figures_of` gives them.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from django.db.models import Count, Sum

from webapp.batches.models import Batch, BatchItem, Body, LLMCall
from webapp.batches.spec import SCRIPTED, BatchSettings

FILE = Path(__file__).with_suffix(".jsonl")
FIGURES = ("calls", "prompt_tokens", "completion_tokens")


@dataclass(frozen=True)
class ItemFigures:
    """`asked`: by role and stage (`author plan_state`), as FIGURES."""

    path: str
    level: str
    state: str
    asked: dict[str, tuple[int, int, int]]

    @property
    def theme(self) -> str:
        return self.path.partition("/")[0]


def figures_of(batch: Batch) -> Iterator[ItemFigures]:
    calls = LLMCall.objects.filter(batch=batch, state="done").order_by()
    grouped = calls.values_list("path", "role", "stage").annotate(
        Count("pk"), Sum("prompt_tokens"), Sum("completion_tokens")
    )
    asked: defaultdict[str, dict[str, tuple[int, int, int]]] = defaultdict(dict)
    for path, role, stage, *figures in grouped:
        asked[path][f"{role} {stage}"] = (figures[0], figures[1], figures[2])
    for item in batch.items.order_by("path"):
        yield ItemFigures(item.path, item.level, item.state, asked[item.path])


def written(items: Iterable[ItemFigures]) -> str:
    return "".join(json.dumps(asdict(item), sort_keys=True) + "\n" for item in items)


def recorded() -> list[ItemFigures]:
    return [ItemFigures(**json.loads(line)) for line in FILE.read_text().splitlines()]


def total(items: Iterable[ItemFigures]) -> dict[str, int]:
    rows = [figures for item in items for figures in item.asked.values()]
    return {name: sum(row[place] for row in rows) for place, name in enumerate(FIGURES)}


def keep(items: Iterable[ItemFigures], settings: BatchSettings, model: str = SCRIPTED, seconds: float = 0.0) -> Batch:
    """A batch that came to these figures."""
    batch = Batch.objects.create(
        name="Recorded", settings=settings.model_dump(mode="json"), scripted=model == SCRIPTED, state="done"
    )
    body, _ = Body.objects.get_or_create(hash="0" * 64, defaults={"body": b"", "size": 0})
    rows, calls = [], []
    for item in items:
        rows.append(BatchItem(batch=batch, level=item.level, path=item.path, state=item.state, stage="save"))
        for place, (count, prompt, completion) in item.asked.items():
            role, _, stage = place.partition(" ")
            calls += [
                LLMCall(
                    key=f"{batch.pk} {item.path} {place} {number}",
                    batch=batch,
                    path=item.path,
                    role=role,
                    stage=stage,
                    model=model,
                    state="done",
                    request=body,
                    prompt_tokens=prompt // count,
                    completion_tokens=completion // count,
                    seconds=seconds,
                )
                for number in range(count)
            ]
    BatchItem.objects.bulk_create(rows)
    LLMCall.objects.bulk_create(calls)
    return batch
