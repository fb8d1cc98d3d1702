"""Themes that are not imported: typed by a user, or discovered by a batch; and counts of what was judged of each
source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from django.db import transaction
from django.db.models import F

from synthesis.drafts import ThemeDraft
from synthesis.formats.records import ThemeRecord, ToolSpec, Workflow
from synthesis.formats.values import clean_text, shorten_text
from synthesis.themes.specifications import SpecifiedOrigin, build_specified_theme
from synthesis.themes.typed import build_typed_theme
from webapp.accounts.services import write_audit_entry
from webapp.common.content_store import Saved
from webapp.taxonomy.importer import ThemeTally, save_themes
from webapp.taxonomy.models import IMPORTED, SPECIFIED, JudgedText, Origin, SourceCount, Theme, ThemeSource

TYPED = "typed"
"""The source of what people type."""
TEXT = 20_000
MESSAGE = 500


@dataclass(frozen=True)
class Judgement:
    """The verdict on one text of a source. `reason` is a slug, empty if a theme came of it."""

    key: str
    text: str
    reason: str = ""
    message: str = ""
    evidence: Any = None


@transaction.atomic
def save_typed_theme(by: Any, name: str, description: str, category: str = "") -> tuple[Saved, Theme]:
    """Store a theme that a user typed. The same words again return the existing theme. Raises InputError."""
    saved, row = save_theme_draft(build_typed_theme(name, description, category), TYPED, by=by)
    if saved == "created":
        write_audit_entry(by, "theme.create", row)
    return saved, row


@transaction.atomic
def save_theme_draft(
    draft: ThemeDraft, source: str, *, provenance: Mapping[str, Any] | None = None, by: Any = None
) -> tuple[Saved, Theme]:
    """Store a theme under its source and key, hung into the tree by its category. Writing it twice changes nothing.

    `provenance` is JSON: models, prompt hashes, batch, what a stage found. It is that of the first time.
    """
    source = clean_source_name(source)
    record = ThemeRecord(
        key=draft.key[:200],
        name=shorten_text(clean_text(draft.name), 300),
        description=clean_text(draft.description),
        primary=clean_text(draft.category),
        tools=draft.tools,
        workflows=draft.workflows,
        tasks=draft.tasks,
    )
    tally = ThemeTally()
    save_themes([record], source, tally, Origin(draft.origin))
    row = Theme.objects.get(source=source, key=record.key)
    if tally.created:
        row.origin_text = clean_text(draft.origin_text)[:TEXT]
        row.provenance = dict(provenance or {})
        row.created_by = by
        row.save(update_fields=["origin_text", "provenance", "created_by"])
    return ("created" if tally.created else "updated" if tally.updated else "unchanged"), row


@transaction.atomic
def save_inverted_words(before: ThemeDraft, draft: ThemeDraft, made_by: Mapping[str, Any]) -> None:
    """Give the row of a set of tools the name and description that were inverted from it; its original ones stay in
    its provenance. A row that was changed meanwhile, or was given inverted ones before, stays as it is."""
    key = before.origin_text.partition(": ")[0]
    for row in Theme.objects.select_for_update().filter(origin=Origin.DOCUMENTS, key=key).prefetch_related("tools"):
        if IMPORTED in row.provenance or build_theme_draft(row) != before:
            continue
        row.provenance = {**row.provenance, **made_by, IMPORTED: {"name": row.name, "description": row.description}}
        row.name, row.description = shorten_text(clean_text(draft.name), 300), clean_text(draft.description)
        row.save(update_fields=["name", "description", "provenance", "updated_at"])


@transaction.atomic
def note_judged_text(source: str, judgement: Judgement, origin: Origin = Origin.TASKS) -> None:
    """Count one judged text of a source, once however often it is reported; another verdict on it moves the count."""
    place, _ = ThemeSource.objects.get_or_create(name=clean_source_name(source), defaults={"origin": origin})
    fields = {
        "reason": judgement.reason[:64],
        "message": clean_text(judgement.message)[:MESSAGE],
        "text": clean_text(judgement.text)[:TEXT],
        "evidence": judgement.evidence,
    }
    row, is_new = JudgedText.objects.select_for_update().get_or_create(
        source=place, key=judgement.key[:200], defaults=fields
    )
    if is_new:
        _add_to_count(place, row.reason, 1)
        return
    if row.reason != fields["reason"]:
        _add_to_count(place, row.reason, -1)
        _add_to_count(place, fields["reason"], 1)
    for name, value in fields.items():
        setattr(row, name, value)
    row.save()


def clean_source_name(source: str) -> str:
    return shorten_text(clean_text(source), 200) or "tasks"


def _add_to_count(place: ThemeSource, reason: str, step: int) -> None:
    SourceCount.objects.get_or_create(source=place, reason=reason)
    SourceCount.objects.filter(source=place, reason=reason).update(number=F("number") + step)


def build_theme_record(theme: Theme) -> ThemeRecord:
    """Return the specification that a theme came from, with its original words. Reads its tools."""
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


def build_theme_draft(theme: Theme) -> ThemeDraft:
    """Return a stored theme as stages take it. Its key is the same in every installation that has the same theme.

    Raises InputError for a specification without content.
    """
    record = build_theme_record(theme)
    origin = Origin(theme.origin).value
    if theme.origin in SPECIFIED:
        draft = build_specified_theme(record, cast(SpecifiedOrigin, origin))
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
