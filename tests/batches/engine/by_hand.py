"""What a person does in the kill test, and what can be seen afterwards: asked a line each, answered in JSON.

python -m tests.batches.engine.by_hand, then lines of: start | resume BATCH | again BATCH | seen BATCH
"""

from __future__ import annotations

import json
import sys
from typing import Any

import django

django.setup()

from django.db import connections  # noqa: E402
from django.db.models import Count, Sum  # noqa: E402

from synthesis.pipeline import ENVSCALER  # noqa: E402
from synthesis.scripted import list_bundled_themes  # noqa: E402
from synthesis.stages import StageSettings  # noqa: E402
from tests.batches.support import content  # noqa: E402
from webapp.batches import services  # noqa: E402
from webapp.batches.models import Batch, BatchProduct, BatchStageCount, LLMCall  # noqa: E402
from webapp.batches.spec import ROLES, SCRIPTED, BatchSettings  # noqa: E402
from webapp.environments.models import Assessment, Environment, ToolCase, Version  # noqa: E402
from webapp.scenarios.models import Audit, Check, Scenario, Task, TaskRevision  # noqa: E402
from webapp.trajectories.models import Score, Step, Trajectory  # noqa: E402

STAGES = StageSettings(scenarios=2, tasks=1, teacher_runs=1, assessment_calls=8, solver_runs=1)
THEMES = 3
"""With 6 scenarios, 6 tasks and 12 trajectories, and planted faults among them."""
AT_ONCE = 4
LANES = 2
ROWS = (Environment, Version, Assessment, ToolCase, Scenario, Task, TaskRevision, Check, Audit, Trajectory, Step, Score)


def start() -> int:
    settings = BatchSettings(models=dict.fromkeys(ROLES, SCRIPTED), stages=STAGES, lanes=LANES, at_once=AT_ONCE)
    specs = [services.build_theme_spec(draft) for draft in list_bundled_themes()[:THEMES]]
    return services.create_batch(None, "Disturbed", specs, settings, ENVSCALER).pk


def resume(batch: int) -> str:
    return services.resume_batch(None, batch).state


def again(batch: int) -> int:
    """The same batch once more, for which nothing is stored."""
    LLMCall.objects.all().delete()
    settings = BatchSettings.model_validate(Batch.objects.get(pk=batch).settings)
    return services.clone_batch(None, batch, settings, ENVSCALER).pk


def seen(pk: int) -> dict[str, Any]:
    batch = Batch.objects.get(pk=pk)
    calls = LLMCall.objects.aggregate(calls=Count("id"), requests=Sum("requests"), lost=Sum("lost"), open=Sum("open"))
    counts = BatchStageCount.objects.filter(batch=batch).exclude(count=0).order_by("stage", "state", "reason")
    paths = list(batch.items.values_list("path", flat=True))
    return {
        "state": batch.state,
        "note": batch.note,
        "content": content(batch),
        "items": len(paths),
        "paths": len(set(paths)),
        "products": BatchProduct.objects.filter(item__batch=batch).count(),
        "kept": batch.items.filter(state="kept").count(),
        "rows": {rows.__name__: rows.objects.count() for rows in ROWS},
        "counts": list(counts.values_list("stage", "state", "reason", "count")),
        "keys": sorted(LLMCall.objects.filter(state="done").values_list("key", flat=True)),
        "batch": {"requests": batch.requests, "lost": batch.lost},
        **calls,
    }


def main() -> None:
    acts = {"start": start, "resume": resume, "again": again, "seen": seen}
    for line in sys.stdin:
        act, *given = line.split()
        connections.close_all()  # the server may have been another one then
        print(json.dumps(acts[act](*map(int, given))), flush=True)


if __name__ == "__main__":
    main()
