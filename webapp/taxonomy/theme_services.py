"""Themes that are not imported: typed by a person, or discovered by a batch; and what was judged of each source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from django.db import transaction
from django.db.models import F

from synthesis.drafts import ThemeDraft
from synthesis.formats.records import ThemeRecord, ToolSpec, Workflow
from synthesis.formats.values import clean, shorten
from synthesis.themes.specifications import SpecifiedOrigin, from_specification
from synthesis.themes.typed import typed
from webapp.accounts.services import audit
from webapp.content_store import Saved
from webapp.taxonomy.importer import ThemeTally, save_themes
from webapp.taxonomy.models import IMPORTED, SPECIFIED, JudgedText, Origin, SourceCount, Theme, ThemeSource

TYPED = "typed"
"""The source of what people type."""
TEXT = 20_000
MESSAGE = 500


@dataclass(frozen=True)
class Judgement:
    """What became of one text of a source. `reason` is a slug, empty where a theme came of it."""

    key: str
    text: str
    reason: str = ""
    message: str = ""
    evidence: Any = None


@transaction.atomic
def save_typed(by: Any, name: str, description: str, category: str = "") -> tuple[Saved, Theme]:
    """Keep a theme that a person typed. The same words again are the theme there is. Raises InputError."""
    saved, row = save_draft(typed(name, description, category), TYPED, by=by)
    if saved == "created":
        audit(by, "theme.create", row)
    return saved, row


@transaction.atomic
def save_draft(
    draft: ThemeDraft, source: str, *, provenance: Mapping[str, Any] | None = None, by: Any = None
) -> tuple[Saved, Theme]:
    """Keep a theme under its source and key, hung into the tree by its category. Writing it twice changes nothing.

    `provenance` is JSON: models, prompt hashes, batch, what a stage found. It is that of the first time.
    """
    source = source_name(source)
    record = ThemeRecord(
        key=draft.key[:200],
        name=shorten(clean(draft.name), 300),
        description=clean(draft.description),
        primary=clean(draft.category),
        tools=draft.tools,
        workflows=draft.workflows,
        tasks=draft.tasks,
    )
    tally = ThemeTally()
    save_themes([record], source, tally, Origin(draft.origin))
    row = Theme.objects.get(source=source, key=record.key)
    if tally.created:
        row.origin_text = clean(draft.origin_text)[:TEXT]
        row.provenance = dict(provenance or {})
        row.created_by = by
        row.save(update_fields=["origin_text", "provenance", "created_by"])
    return ("created" if tally.created else "updated" if tally.updated else "unchanged"), row


@transaction.atomic
def save_inverted(before: ThemeDraft, draft: ThemeDraft, made_by: Mapping[str, Any]) -> None:
    """Give the row of a set of tools the name and description that were inverted from it; what it came with stays in
    its provenance. A row that says something else by now, or has been given one before, stays as it is."""
    key = before.origin_text.partition(": ")[0]
    for row in Theme.objects.select_for_update().filter(origin=Origin.DOCUMENTS, key=key).prefetch_related("tools"):
        if IMPORTED in row.provenance or draft_of(row) != before:
            continue
        row.provenance = {**row.provenance, **made_by, IMPORTED: {"name": row.name, "description": row.description}}
        row.name, row.description = shorten(clean(draft.name), 300), clean(draft.description)
        row.save(update_fields=["name", "description", "provenance", "updated_at"])


@transaction.atomic
def note_judged(source: str, judgement: Judgement, origin: Origin = Origin.TASKS) -> None:
    """Count one judged text of a source, once however often it is told; another word on it moves the count."""
    place, _ = ThemeSource.objects.get_or_create(name=source_name(source), defaults={"origin": origin})
    fields = {
        "reason": judgement.reason[:64],
        "message": clean(judgement.message)[:MESSAGE],
        "text": clean(judgement.text)[:TEXT],
        "evidence": judgement.evidence,
    }
    row, is_new = JudgedText.objects.select_for_update().get_or_create(
        source=place, key=judgement.key[:200], defaults=fields
    )
    if is_new:
        _count(place, row.reason, 1)
        return
    if row.reason != fields["reason"]:
        _count(place, row.reason, -1)
        _count(place, fields["reason"], 1)
    for name, value in fields.items():
        setattr(row, name, value)
    row.save()


def source_name(source: str) -> str:
    return shorten(clean(source), 200) or "tasks"


def _count(place: ThemeSource, reason: str, step: int) -> None:
    SourceCount.objects.get_or_create(source=place, reason=reason)
    SourceCount.objects.filter(source=place, reason=reason).update(number=F("number") + step)


def record_of(theme: Theme) -> ThemeRecord:
    """The specification that a theme came from, with the words it came with. Reads its tools."""
    words = {"name": theme.name, "description": theme.description} | theme.provenance.get(IMPORTED, {})
    tools = tuple(
        ToolSpec(name=tool.name, description=tool.description, parameters=tool.parameters) for tool in theme.tools.all()
    )
    labels = list(theme.labels)
    return ThemeRecord(
        key=theme.key,
        name=words["name"],
        description=words["description"],
        primary=labels[0] if labels else "",
        secondary=tuple(labels[1:]),
        usage=theme.usage,
        tools=tools,
        workflows=tuple(Workflow.model_validate(flow) for flow in theme.workflows),
        tasks=tuple(theme.tasks),
    )


def draft_of(theme: Theme) -> ThemeDraft:
    """A kept theme as stages take it. Its key is the same in every installation that keeps the same theme.

    Raises InputError for a specification that says nothing.
    """
    record = record_of(theme)
    origin = Origin(theme.origin).value
    if theme.origin in SPECIFIED:
        draft = from_specification(record, cast(SpecifiedOrigin, origin))
        inverted = {"name": theme.name, "description": theme.description, "tasks": ()}
        return draft.model_copy(update=inverted) if IMPORTED in theme.provenance else draft
    return ThemeDraft(
        key=theme.key,
        name=theme.name,
        description=theme.description,
        category=record.primary,
        origin=origin,
        origin_text=theme.origin_text,
        tools=record.tools,
    )
