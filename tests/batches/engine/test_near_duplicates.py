"""Near-duplicates of a task set, in the batch and among the themes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async

from synthesis.drafts import ThemeDraft
from synthesis.llm.cost import Price
from synthesis.runtime import get_default_sandbox
from synthesis.stages import Barrier, BarrierGroups, ItemSpec, Kit, StageSettings
from synthesis.themes.same_themes import group_same_themes
from tests.batches.support import SMALL, settings_at, work_off
from tests.batches.table import TABLE, answer
from tests.fixtures.llm import Request, Scripted, llm_server, raw, refuse, say
from tests.rollouts_web.support import person
from webapp.batches import services
from webapp.batches.engine import barriers
from webapp.batches.engine.lane import close_lane, run_lane
from webapp.batches.engine.stage_runs import EndedStage, add_run
from webapp.batches.models import Batch, BatchItem, LLMCall, StageState
from webapp.endpoints.models import Endpoint
from webapp.jobs.registry import KINDS, JobKind
from webapp.taxonomy.models import Decision, Theme
from webapp.taxonomy.near_duplicates.services import undo_decision

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
        "run_batch", "llm", lambda context: run_lane(get_default_sandbox(), context, pipeline), close_lane
    )


def errands(url: str, texts: Sequence[str] = TEXTS) -> Batch:
    specs = [services.build_text_spec(text, "errands") for text in texts]
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
        undo_decision(decision.pk, person("annotator"))
        assert folded()[TEXTS[1]] is None
        # A later look at the barrier leaves it out of the batch again, and is a decision of its own.
        services.retry_items(None, batch.pk, item=batch.items.get(state="rejected").pk)
        assert states(work_off(batch)) == ["kept", "rejected", "kept"]
        assert Decision.objects.filter(kind="batch").count() == 2


@pytest.mark.slow
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

    async def alike(barrier: Barrier, themes: Sequence[ThemeDraft]) -> BarrierGroups:
        seen.append(len(themes))
        if len(seen) == 1:  # a person cancels one meanwhile
            await sync_to_async(BatchItem.objects.filter(position=1).update)(state="cancelled")
        return await TABLE.stage("deduplicate").group(barrier, themes)  # type: ignore[misc]

    first, barrier, *others = TABLE.stages
    pipeline = replace(TABLE, stages=(first, replace(barrier, group=alike), *others))
    with llm_server(answer) as server:
        specs = [
            services.build_theme_spec(ThemeDraft(key=name, name=name, description="Same.")) for name in ("a", "b", "c")
        ]
        batch = services.create_batch(None, "Alike", specs, settings_at(server.url), TABLE)
        batch.items.update(stage="deduplicate")
        for item in batch.items.all():
            found = {"key": item.path, "name": item.path, "description": "Same."}
            add_run(item, EndedStage("discover", StageState.KEPT, found))
        for _ in range(2):
            standing = barriers.find_standing_items(batch.pk, batch.lanes.get().job_id, pipeline)
            assert standing is not None
            found = async_to_sync(pipeline.stages[1].group)(  # type: ignore[arg-type]
                Barrier(StageSettings(), lambda index: None),  # type: ignore[arg-type, return-value]
                standing.drafts,
            )
            assert barriers.pass_barrier(batch.pk, pipeline, StageSettings(), standing, found, {})
    assert seen == [3, 2]
    assert states(batch) == ["waiting", "cancelled", "rejected"]


def judged_batch(url: str, names: Sequence[str], **changes: Any) -> Batch:
    first, barrier, *others = TABLE.stages
    pipeline = replace(TABLE, stages=(first, replace(barrier, roles=("judge",), group=group_same_themes), *others))
    KINDS["run_batch"] = JobKind(
        "run_batch", "llm", lambda context: run_lane(get_default_sandbox(), context, pipeline), close_lane
    )
    specs = [services.build_theme_spec(ThemeDraft(key=name, name=name, description=f"{name} lends.")) for name in names]
    settings = settings_at(url).model_copy(update=changes)
    return work_off(services.create_batch(None, "Judged", specs, settings, pipeline))


def says_same(request: Request) -> Scripted:
    """The judge finds that what is called a library is one."""
    text = request["messages"][0]["content"]
    if "The first theme" not in text:
        return answer(request)
    return say(json.dumps({"reason": "Both lend books.", "same": text.count("library") >= 2 and "hotel" not in text}))


def test_the_judge_decides_and_what_it_used_is_counted_with_the_item() -> None:
    with llm_server(says_same) as server:
        prices = {"Server/scripted-1": Price(prompt=1.0, completion=1.0)}
        batch = judged_batch(server.url, ("library", "hotel", "library of a town"), prices=prices)
    assert states(batch) == ["kept", "kept", "rejected"]
    left_out = batch.items.get(state="rejected")
    assert (left_out.reason, "Both lend books." in left_out.message) == ("duplicate", True)
    calls = LLMCall.objects.filter(batch=batch, stage="same_theme")
    assert {call.role for call in calls} == {"judge"}
    counted = batch.counts.filter(stage="deduplicate")
    assert sum(row.requests for row in counted) == calls.count() == 3
    assert sum(row.prompt_tokens for row in counted) == sum(call.prompt_tokens for call in calls)
    run = left_out.runs.get(stage="deduplicate")
    assert run.used["roles"] == ["judge"]
    assert "themes/same_theme" in run.used["prompts"]


def test_a_judge_that_gives_no_usable_reply_leaves_themes_apart_with_the_reason() -> None:
    def useless(request: Request) -> Scripted:
        text = request["messages"][0]["content"]
        return say("I would rather not say.") if "The first theme" in text else answer(request)

    with llm_server(useless) as server:
        batch = judged_batch(server.url, ("library", "library of a town"))
    assert states(batch) == ["kept", "kept"]
    run = batch.items.get(position=1).runs.get(stage="deduplicate")
    assert "could not be decided" in run.message
    assert "no usable reply" in run.message


def by_meaning(request: Request) -> Scripted:
    """Embeddings by what a text is of, and a judge that finds all libraries one."""
    if not request["_path"].endswith("/embeddings"):
        return says_same(request)
    rows = [
        {"index": number, "embedding": [1.0, 0.1] if "library" in text else [0.1, 1.0]}
        for number, text in enumerate(request["input"])
    ]
    return raw(200, json.dumps({"data": rows, "usage": {"prompt_tokens": 7}}))


def embedding(url: str) -> dict[str, Any]:
    settings_at(url)
    return {"embeddings": f"{Endpoint.objects.get(base_url=url).pk}/scripted-1"}


@pytest.mark.slow
def test_an_endpoints_embeddings_choose_what_is_compared_and_are_stored_and_counted_as_calls() -> None:
    names = ("library", "hotel", "inn", "library of a town")
    stages = SMALL.model_copy(update={"duplicate_pairs": 1})
    with llm_server(by_meaning) as server:
        prices = {"Server/scripted-1": Price(prompt=1.0, completion=1.0)}
        chosen = embedding(server.url) | {"prices": prices, "stages": stages}
        batch = judged_batch(server.url, names, **chosen)
        asked = [request for request in server.requests if request["_path"].endswith("/embeddings")]
        assert states(batch) == ["kept", "kept", "kept", "rejected"]
        judged_batch(server.url, names, **chosen)
        assert [request for request in server.requests if request["_path"].endswith("/embeddings")] == asked
    assert len(asked) == 1
    call = LLMCall.objects.get(role="embedder")
    assert (call.stage, call.batch_id, call.prompt_tokens) == ("theme_vectors", batch.pk, 7)
    same = LLMCall.objects.filter(batch=batch, stage="same_theme").count()
    assert same == 2, "each theme is compared with the nearest one alone: two libraries, hotel and inn"
    counted = batch.counts.filter(stage="deduplicate")
    assert sum(row.requests for row in counted) == same + 1
    runs = [run.used["roles"] for item in batch.items.all() for run in item.runs.filter(stage="deduplicate")]
    assert any("embedder" in roles for roles in runs)


def test_a_model_without_embeddings_leaves_the_local_vectors_and_says_so() -> None:
    def chats(request: Request) -> Scripted:
        gone = request["_path"].endswith("/embeddings")
        return refuse(404, "This model does not support embeddings.") if gone else says_same(request)

    with llm_server(chats) as server:
        batch = judged_batch(server.url, ("library", "hotel", "library of a town"), **embedding(server.url))
    assert states(batch) == ["kept", "kept", "rejected"]
    run = batch.items.get(level="theme", position=0).runs.get(stage="deduplicate")
    assert "compared by local vectors" in run.message
    assert "does not support embeddings" in run.message
