"""Near-duplicates of a task set, in the batch and among the themes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from synthesis.drafts import ThemeDraft
from synthesis.runtime import default_sandbox
from synthesis.stages import ItemSpec, Kit, StageSettings
from tests.batches.support import settings_at, work_off
from tests.batches.table import TABLE, answer
from tests.fixtures.llm import llm_server
from tests.rollouts_web.support import person
from webapp.batches import services
from webapp.batches.engine import barriers
from webapp.batches.engine.lane import close_lane, run_lane
from webapp.batches.engine.stage_runs import EndedStage, add_run
from webapp.batches.models import Batch, BatchItem, StageState
from webapp.jobs.registry import KINDS, JobKind
from webapp.taxonomy.models import Decision, Theme
from webapp.taxonomy.near_duplicates.services import undo

pytestmark = pytest.mark.django_db(transaction=True)
TEXTS = ("Book a room for Ada.", "Book a room for Bo.", "Lend Ada a drill.")


async def discover(kit: Kit, spec: ItemSpec) -> ThemeDraft:
    """What the first word of a text says."""
    return ThemeDraft(
        key=spec.key, name=spec.text, description=spec.text.split()[0], origin="tasks", origin_text=spec.text
    )


@pytest.fixture(autouse=True)
def _finds_by_first_word() -> None:
    first, *others = TABLE.stages
    pipeline = replace(TABLE, stages=(replace(first, run=discover), *others))
    KINDS["run_batch"] = JobKind(
        "run_batch", "llm", lambda context: run_lane(default_sandbox(), context, pipeline), close_lane
    )


def errands(url: str, texts: Sequence[str] = TEXTS) -> Batch:
    specs = [services.of_text(text, "errands") for text in texts]
    return work_off(services.create_batch(None, "Errands", specs, settings_at(url), TABLE))


def states(batch: Batch) -> list[str]:
    return list(batch.items.filter(level="theme").order_by("position").values_list("state", flat=True))


def folded() -> dict[str, str | None]:
    return dict(Theme.objects.values_list("name", "folded_into__name"))


def test_what_a_batch_leaves_out_is_folded_among_the_themes_and_can_be_undone() -> None:
    with llm_server(answer) as server:
        batch = errands(server.url)
        assert states(batch) == ["kept", "rejected", "kept"]
        assert folded() == {TEXTS[0]: None, TEXTS[1]: TEXTS[0], TEXTS[2]: None}
        decision = Decision.objects.get()
        assert (decision.themes, "Errands" in decision.words) == (1, True)
        undo(decision.pk, person("annotator"))
        assert folded()[TEXTS[1]] is None
        # A later look at the barrier leaves it out of the batch again, and is a decision of its own.
        services.retry_items(None, batch.pk, item=batch.items.get(state="rejected").pk)
        assert states(work_off(batch)) == ["kept", "rejected", "kept"]
        assert Decision.objects.filter(kind="batch").count() == 2


def test_a_duplicate_that_is_kept_all_the_same_is_kept_apart_there_and_in_later_batches() -> None:
    user = person("researcher")
    with llm_server(answer) as server:
        batch = errands(server.url)
        left_out = BatchItem.objects.get(batch=batch, state="rejected")
        services.keep_duplicate(user, batch.pk, left_out.pk, TABLE)
        work_off(batch)
        assert states(batch) == ["kept"] * 3
        assert set(folded().values()) == {None}
        assert Theme.objects.get(name=TEXTS[1]).verdict == "apart"
        again = work_off(services.clone_batch(None, batch.pk, settings_at(server.url), TABLE))
        assert states(again) == ["kept"] * 3
    assert Decision.objects.filter(kind="batch").count() == 1


def test_items_that_move_while_a_barrier_groups_are_grouped_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def alike(settings: StageSettings, themes: Sequence[ThemeDraft]) -> list[list[int]]:
        seen.append(len(themes))
        if len(seen) == 1:  # a person cancels one meanwhile
            BatchItem.objects.filter(position=1).update(state="cancelled")
        return TABLE.stage("deduplicate").group(settings, themes)  # type: ignore[misc]

    first, barrier, *others = TABLE.stages
    pipeline = replace(TABLE, stages=(first, replace(barrier, group=alike), *others))
    with llm_server(answer) as server:
        specs = [services.of_theme(ThemeDraft(key=name, name=name, description="Same.")) for name in ("a", "b", "c")]
        batch = services.create_batch(None, "Alike", specs, settings_at(server.url), TABLE)
        batch.items.update(stage="deduplicate")
        for item in batch.items.all():
            found = {"key": item.path, "name": item.path, "description": "Same."}
            add_run(item, EndedStage("discover", StageState.KEPT, found))
        assert barriers.pass_barrier(batch.pk, pipeline, StageSettings())
        assert barriers.pass_barrier(batch.pk, pipeline, StageSettings())
    assert seen == [3, 2]
    assert states(batch) == ["waiting", "cancelled", "rejected"]
