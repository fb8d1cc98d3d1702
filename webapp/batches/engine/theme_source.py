"""Source of a batch's themes and environments in the taxonomy."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import F

from synthesis.drafts import ThemeDraft
from synthesis.errors import InputError
from synthesis.stages import ItemSpec
from webapp.batches.engine.near_duplicates import source_of
from webapp.batches.engine.stage_runs import EndedStage
from webapp.batches.models import BatchItem, StageState
from webapp.batches.services import of_environment, of_theme
from webapp.environments.models import Version
from webapp.taxonomy.models import Theme
from webapp.taxonomy.theme_services import Judgement, draft_of, note_judged, save_draft, save_inverted


def of_rows(ids: Iterable[int]) -> list[ItemSpec]:
    """Items of kept themes, in the order given. Raises InputError for one that is gone or says nothing."""
    wanted = list(dict.fromkeys(ids))
    rows = {row.pk: row for row in Theme.objects.filter(pk__in=wanted).prefetch_related("tools")}
    if gone := [pk for pk in wanted if pk not in rows]:
        raise InputError(f"There is no theme {gone[0]}.")
    return [of_theme(draft_of(rows[pk])) for pk in wanted]


def of_environments(ids: Iterable[int]) -> list[ItemSpec]:
    """Items of environments that are there, in the order given, in their current versions. Raises InputError."""
    wanted = list(dict.fromkeys(ids))
    rows = Version.objects.filter(environment__current=F("pk"), environment__in=wanted).select_related("environment")
    versions = {row.environment_id: row for row in rows.prefetch_related("tools", "assessments")}
    if gone := [pk for pk in wanted if pk not in versions]:
        raise InputError(f"There is no environment {gone[0]}.")
    return [of_environment(versions[pk]) for pk in wanted]


def note_theme(item: BatchItem, ended: EndedStage, models: dict[str, str]) -> None:
    """What became of a text of a task set: counted with its source, kept as a theme. Written twice it is the same.

    What a theme of mere tools was found to be called is kept with it.
    """
    spec = ItemSpec.model_validate(item.spec)
    made_by = {"batch": item.batch_id, "author": models["author"]}
    if isinstance(ended.output, ThemeDraft) and spec.theme is not None and ended.output != spec.theme:
        save_inverted(spec.theme, ended.output, made_by)
    if not spec.text or ended.state == StageState.FAILED:
        return
    source = source_of(spec)
    if ended.state == StageState.REJECTED:
        note_judged(source, Judgement(spec.key, spec.text, ended.reason, ended.message, ended.output))
        return
    draft = ended.output
    assert isinstance(draft, ThemeDraft)
    note_judged(source, Judgement(spec.key, spec.text))
    save_draft(draft, source, provenance=made_by)
