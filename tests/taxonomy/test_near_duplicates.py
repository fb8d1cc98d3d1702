"""Near-duplicates: one is kept, the rest is folded and never deleted, and every decision can be undone."""

from __future__ import annotations

from typing import Any

import pytest

from synthesis.errors import InputError
from tests.taxonomy.near import WORDS, folds, plant, theme
from tests.taxonomy.samples import entries, server
from webapp.accounts.models import AuditEntry
from webapp.pages.recount import recount_all
from webapp.taxonomy.importer import import_servers
from webapp.taxonomy.models import Decision, Grouping, Theme
from webapp.taxonomy.near_duplicates import services
from webapp.taxonomy.near_duplicates.group_job import regroup_themes

GROUPED = {"1": "2", "3": "2", "4": "5"}
pytestmark = pytest.mark.django_db


@pytest.fixture
def grouped() -> Grouping:
    plant()
    return regroup_themes(0.85)


def test_the_most_used_is_kept_and_the_rest_is_folded_away(grouped: Grouping) -> None:
    assert folds() == GROUPED
    assert (grouped.themes, grouped.groups, grouped.folded) == (6, 2, 3)
    assert theme(1).similarity == 1
    assert 0.85 <= (theme(3).similarity or 0) < 1
    assert Theme.objects.count() == 6
    assert [one["threshold"] for one in grouped.counts][-1] == 1.0
    assert {one["threshold"]: one["folded"] for one in grouped.counts}[0.85] == 3
    assert recount_all() == []


def test_another_threshold_folds_others(grouped: Grouping) -> None:
    assert regroup_themes(1.0).folded == 1
    assert folds() == {"1": "2"}
    regroup_themes(0.85)
    assert folds() == GROUPED
    assert regroup_themes(0.85).decision.themes == 0, "nothing has changed"


def test_a_whole_grouping_is_undone_and_done_again(grouped: Grouping, annotator: Any) -> None:
    undone = services.undo_decision(grouped.decision_id, annotator)
    assert folds() == {}
    assert undone.themes == 3
    with pytest.raises(InputError, match="already"):
        services.undo_decision(grouped.decision_id, annotator)
    services.undo_decision(undone.pk, annotator)
    assert folds() == GROUPED
    assert theme(1).similarity == 1
    assert AuditEntry.objects.filter(action="themes.undo").count() == 2


def test_a_second_grouping_is_undone_to_what_the_first_one_made(grouped: Grouping, annotator: Any) -> None:
    second = regroup_themes(1.0)
    services.undo_decision(second.decision_id, annotator)
    assert folds() == GROUPED


def test_what_a_person_keeps_apart_stays_so(grouped: Grouping, annotator: Any) -> None:
    apart = services.separate_theme(theme(3).pk, annotator)
    assert folds() == {"1": "2", "4": "5"}
    regroup_themes(0.6)
    assert "3" not in folds()
    services.undo_decision(apart.pk, annotator)
    assert theme(3).verdict == ""
    regroup_themes(0.85)
    assert folds() == GROUPED
    with pytest.raises(InputError, match="not folded"):
        services.separate_theme(theme(6).pk, annotator)


def test_another_one_is_kept_instead_and_stays_so(grouped: Grouping, annotator: Any) -> None:
    choice = services.choose_theme(theme(3).pk, annotator)
    assert folds() == {"1": "3", "2": "3", "4": "5"}
    assert theme(1).similarity is None, "not compared to what is kept now"
    assert theme(2).similarity is not None
    regroup_themes(0.85)
    assert folds() == {"1": "3", "2": "3", "4": "5"}
    assert theme(1).similarity is not None
    assert Decision.objects.get(pk=choice.pk).themes == 3


def test_a_choice_is_undone_to_what_was_before(grouped: Grouping, annotator: Any) -> None:
    before = services.load_current_folds(Theme.objects.values_list("pk", flat=True))
    choice = services.choose_theme(theme(3).pk, annotator)
    services.undo_decision(choice.pk, annotator)
    assert services.load_current_folds(Theme.objects.values_list("pk", flat=True)) == before
    assert folds() == GROUPED


def test_undoing_a_grouping_leaves_what_was_decided_on_since(grouped: Grouping, annotator: Any) -> None:
    services.choose_theme(theme(3).pk, annotator)
    undone = services.undo_decision(grouped.decision_id, annotator)
    assert "2 decided on since" in undone.words
    assert folds() == {"1": "3", "2": "3"}


def test_what_cannot_be_undone_any_more_is_refused_and_changes_nothing(grouped: Grouping, annotator: Any) -> None:
    second = regroup_themes(1.0)
    third = regroup_themes(0.85)
    with pytest.raises(InputError, match="later decisions"):
        services.undo_decision(second.decision_id, annotator)
    assert folds() == GROUPED
    services.undo_decision(third.decision_id, annotator)
    services.undo_decision(second.decision_id, annotator)
    assert folds() == GROUPED


def test_no_decision_makes_a_chain(grouped: Grouping) -> None:
    for wanted in ({theme(6).pk: theme(4).pk}, {theme(5).pk: theme(6).pk}, {theme(6).pk: theme(6).pk}):
        with pytest.raises(InputError, match="later decisions"):
            services.save_decision(
                Decision.Kind.BATCH, "a chain", {pk: services.Fold(into, 0.9) for pk, into in wanted.items()}, None
            )
    assert folds() == GROUPED


def test_a_batch_folds_what_it_found_alike_into_what_is_kept(grouped: Grouping) -> None:
    import_servers(entries(server(7, name="Hotel desk", overview=WORDS[0].format(" again")), server(8, name="Other")))
    made = services.fold_themes(
        [(theme(7).pk, theme(1).pk, 0.97), (theme(5).pk, theme(6).pk, 0.9)], "Folded by batch 1"
    )
    assert folds() == {"1": "2", "3": "2", "7": "2", "5": "6", "4": "6"}
    assert made.kind == "batch"
    services.undo_decision(made.pk, None)
    assert folds() == GROUPED
    nothing = services.fold_themes([(theme(2).pk, theme(1).pk, 0.9)], "into itself")
    assert nothing.themes == 0


def test_a_batch_tells_by_key_and_twice_is_once(db: None) -> None:
    plant()
    made = services.fold_alike_themes("mcp", [["1", "2", "gone"], ["4"], ["6", "5"]], "Alike in batch 3")
    assert folds() == {"2": "1", "5": "6"}
    assert services.fold_alike_themes("mcp", [["1", "2"], ["6", "5"]], "Alike in batch 3") is None
    assert made is not None
    services.undo_decision(made.pk, None)
    assert folds() == {}


def test_a_job_that_runs_twice_decides_once(grouped: Grouping) -> None:
    from tests.fixtures import pages_seed

    job = pages_seed.job().pk
    first = regroup_themes(1.0, job=job)
    assert regroup_themes(1.0, job=job).pk == first.pk
    assert Grouping.objects.count() == 2


def test_an_import_leaves_folds_as_they_are(grouped: Grouping) -> None:
    rows = [server(3, name="Hotel desk", overview="Something else entirely.")]
    import_servers(entries(*rows))
    assert folds() == GROUPED
    assert recount_all() == []


def test_thresholds_that_mean_nothing_are_refused(db: None) -> None:
    for wrong in (0.2, 1.5):
        with pytest.raises(InputError):
            regroup_themes(wrong)
    assert not Decision.objects.exists()
