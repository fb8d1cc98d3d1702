"""Themes and environments of the taxonomy as items of a batch."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import F

from synthesis.drafts import ThemeDraft
from synthesis.errors import InputError
from synthesis.stages import ItemSpec
from webapp.batches.engine.near_duplicates import name_theme_source
from webapp.batches.engine.stage_runs import EndedStage
from webapp.batches.models import BatchItem, StageState
from webapp.batches.services import build_environment_spec, build_theme_spec
from webapp.environments.models import Version
from webapp.environments.tool_graph.services import read_known_edges
from webapp.taxonomy.models import Theme
from webapp.taxonomy.theme_services import (
    Judgement,
    build_theme_draft,
    note_judged_text,
    save_inverted_words,
    save_theme_draft,
)


def build_theme_specs(ids: Iterable[int]) -> list[ItemSpec]:
    """Return the items of kept themes, in the order given. Raises InputError for a theme that is gone or without
    content."""
    theme_ids = list(dict.fromkeys(ids))
    rows = {row.pk: row for row in Theme.objects.filter(pk__in=theme_ids).prefetch_related("tools")}
    if missing := [pk for pk in theme_ids if pk not in rows]:
        raise InputError(f"There is no theme {missing[0]}.")
    return [build_theme_spec(build_theme_draft(rows[pk])) for pk in theme_ids]


def build_environment_specs(ids: Iterable[int]) -> list[ItemSpec]:
    """Return the items of existing environments in their current versions, in the order given. Raises InputError."""
    environment_ids = list(dict.fromkeys(ids))
    rows = Version.objects.filter(environment__current=F("pk"), environment__in=environment_ids).select_related(
        "environment"
    )
    versions = {row.environment_id: row for row in rows.prefetch_related("tools", "assessments")}
    if missing := [pk for pk in environment_ids if pk not in versions]:
        raise InputError(f"There is no environment {missing[0]}.")
    known_edges = read_known_edges(version.pk for version in versions.values())
    return [build_environment_spec(versions[pk], known_edges) for pk in environment_ids]


def record_theme_result(item: BatchItem, ended: EndedStage, models: dict[str, str]) -> None:
    """Record the result of a text of a task set: count it with its source and keep it as a theme. Idempotent.

    The name found for a theme that consists of tools only is kept with it.
    """
    spec = ItemSpec.model_validate(item.spec)
    made_by = {"batch": item.batch_id, "author": models["author"]}
    if isinstance(ended.output, ThemeDraft) and spec.theme is not None and ended.output != spec.theme:
        save_inverted_words(spec.theme, ended.output, made_by)
    if not spec.text or ended.state == StageState.FAILED:
        return
    source = name_theme_source(spec)
    if ended.state == StageState.REJECTED:
        note_judged_text(source, Judgement(spec.key, spec.text, ended.reason, ended.message, ended.output))
        return
    draft = ended.output
    assert isinstance(draft, ThemeDraft)
    note_judged_text(source, Judgement(spec.key, spec.text))
    save_theme_draft(draft, source, provenance=made_by)
