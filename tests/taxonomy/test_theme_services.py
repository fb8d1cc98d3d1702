"""Themes that people type or batches discover, and the counts of what was judged."""

from __future__ import annotations

from typing import Any

import pytest

from synthesis.drafts import ThemeDraft
from synthesis.errors import InputError
from synthesis.formats.records import ToolSpec
from tests.taxonomy.samples import entries, server
from webapp.accounts.models import AuditEntry
from webapp.pages.recount import recount_all
from webapp.taxonomy.importer import import_servers
from webapp.taxonomy.models import JudgedText, Node, Theme, ThemeSource
from webapp.taxonomy.near_duplicates.queries import compute_retention
from webapp.taxonomy.theme_services import (
    Judgement,
    build_theme_draft,
    note_judged_text,
    save_theme_draft,
    save_typed_theme,
)

pytestmark = pytest.mark.django_db
WORDS = "Staff lend books to members, take them back and keep a waiting list for each title."
DRAFT = ThemeDraft(
    key="task-1",
    name="Lending desk",
    description=WORDS,
    category="Education",
    origin="tasks",
    origin_text="Renew the loan of Ms Ito.",
    tools=(ToolSpec(name="renew_loan"),),
)


def test_a_typed_theme_hangs_in_the_tree_and_is_kept_once(annotator: Any) -> None:
    saved, row = save_typed_theme(annotator, "Lending desk", WORDS, "education")
    assert (saved, row.origin, row.source, row.created_by) == ("created", "typed", "typed", annotator)
    assert row.node.name == "Education"
    assert save_typed_theme(annotator, " Lending  desk", WORDS, "education") == ("unchanged", row)
    assert Theme.objects.count() == 1
    assert Node.objects.get(path="education").counts.themes == 1
    assert AuditEntry.objects.filter(action="theme.create").count() == 1
    assert recount_all() == []
    draft = build_theme_draft(row)
    assert (draft.key, draft.name, draft.description, draft.category) == (row.key, "Lending desk", WORDS, "education")
    with pytest.raises(InputError):
        save_typed_theme(annotator, "Desk", "x" * 1_000_000, "")


def test_a_discovered_theme_keeps_its_origin_and_provenance(db: None) -> None:
    proof = {"models": {"author": "scripted"}, "prompts": {"themes/judge_task": "0" * 64}, "usefulness": 9}
    saved, row = save_theme_draft(DRAFT, "asked.jsonl", provenance=proof)
    assert (saved, row.origin, row.source, row.origin_text) == ("created", "tasks", "asked.jsonl", DRAFT.origin_text)
    assert row.provenance == proof
    assert save_theme_draft(DRAFT, "asked.jsonl", provenance={"other": 1})[0] == "unchanged"
    row.refresh_from_db()
    assert row.provenance == proof
    assert build_theme_draft(row) == DRAFT
    assert recount_all() == []


def test_a_server_is_the_same_draft_wherever_it_was_imported(db: None) -> None:
    import_servers(entries(server(1)))
    row = Theme.objects.get()
    assert row.origin == "servers"
    first = build_theme_draft(row)
    Theme.objects.all().delete()
    import_servers(entries(server(9, name="Another"), server(1)))
    assert build_theme_draft(Theme.objects.get(key="1")) == first
    assert first.tools[0].name == "get_forecast"


def test_each_text_is_counted_once_and_by_its_last_word(db: None) -> None:
    for key in ("a", "b", "c"):
        note_judged_text("asked.jsonl", Judgement(key, f"text {key}"))
    note_judged_text("asked.jsonl", Judgement("d", "text d", "not_stateful", "No records.", {"reasoning": "chat"}))
    note_judged_text("asked.jsonl", Judgement("a", "text a"))
    note_judged_text("asked.jsonl", Judgement("b", "text b", "not_useful", "2 of 10"))
    save_theme_draft(DRAFT, "asked.jsonl")
    found = compute_retention(list(ThemeSource.objects.all()))[0]
    assert (found.judged, found.kept_texts) == (4, 2)
    assert found.rejected == {"not_stateful": 1, "not_useful": 1}
    assert (found.themes, found.folded, found.left, found.share) == (1, 0, 1, 0.25)
    assert JudgedText.objects.get(key="d").evidence == {"reasoning": "chat"}


def test_retention_of_what_is_never_judged_is_of_its_themes(annotator: Any) -> None:
    import_servers(entries(server(1), server(2)))
    save_typed_theme(annotator, "Lending desk", WORDS)
    rows = {one.source.name: one for one in compute_retention(list(ThemeSource.objects.all()))}
    assert {name: (one.judged, one.themes, one.share) for name, one in rows.items()} == {
        "mcp": (None, 2, 1.0),
        "typed": (None, 1, 1.0),
    }


def test_hostile_drafts_are_bounded_and_storable(db: None) -> None:
    odd = DRAFT.model_copy(
        update={"name": "\x00" + "n" * 5_000, "category": "\ud800" * 900, "origin_text": "o" * 99_999}
    )
    row = save_theme_draft(odd, "s\x00" * 500)[1]
    assert len(row.name) <= 300
    assert len(row.origin_text) <= 20_000
    note_judged_text("s\x00" * 500, Judgement("k" * 999, "t" * 99_999, "r" * 99, "m\x00" * 999))
    assert recount_all() == []
