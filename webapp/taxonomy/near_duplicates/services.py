"""Near-duplicate themes: every fold is a decision that records the state before it, so that each can be undone.

A folded theme points at a kept one, and a kept one at none: there are no chains. A decision that would make one is
refused. Nothing is ever deleted here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction

from synthesis.errors import InputError
from synthesis.themes.dedupe import require_threshold
from synthesis.themes.judged_groups import MOST_PAIRS
from webapp.accounts.access import CAPPED_ROLES
from webapp.accounts.services import write_audit_entry
from webapp.common.errors import Conflict
from webapp.endpoints.queries import find_choice
from webapp.jobs.models import Job
from webapp.jobs.services import enqueue_job
from webapp.taxonomy.models import Decision, DecisionChange, Theme, Verdict
from webapp.taxonomy.near_duplicates.queries import SUBJECT, find_grouping_job
from webapp.taxonomy.near_duplicates.theme_judge import SCRIPTED, VECTORS_ALONE, find_judge
from webapp.taxonomy.services import take_advisory_lock

FOLD_LOCK = 7_305_103
"""Advisory lock for folding, until the end of the transaction."""
MOST_ASKED = 2_000
"""Default number of pairs that a judge is asked about in one grouping."""
LATER = "Themes of it have been decided on since. Undo the later decisions first."


@dataclass(frozen=True)
class Fold:
    """The state of a theme among near-duplicates."""

    into: int | None = None
    similarity: float | None = None
    verdict: str = Verdict.NONE


@transaction.atomic
def separate_theme(theme: int, by: Any) -> Decision:
    """Take a theme out of the group it is folded into, for good. Raises Conflict, Theme.DoesNotExist."""
    take_advisory_lock(FOLD_LOCK)
    row = Theme.objects.select_related("folded_into").get(pk=theme)
    if row.folded_into is None:
        raise Conflict(f"{row.name} is not folded into another theme.")
    words = f"Kept “{shorten_name(row)}” apart from “{shorten_name(row.folded_into)}”"
    return save_decision(Decision.Kind.APART, words, {row.pk: Fold(verdict=Verdict.APART)}, by)


@transaction.atomic
def choose_theme(theme: int, by: Any) -> Decision:
    """Keep a folded theme instead of the one it is folded into. Raises Conflict, Theme.DoesNotExist.

    How similar the others are to it is not known until themes are grouped again.
    """
    take_advisory_lock(FOLD_LOCK)
    row = Theme.objects.select_related("folded_into").get(pk=theme)
    kept_theme = row.folded_into
    if kept_theme is None:
        raise Conflict(f"{row.name} is not folded into another theme.")
    others = Theme.objects.filter(folded_into=kept_theme).exclude(pk=row.pk).values_list("pk", "verdict")
    new_folds = {pk: Fold(row.pk, None, verdict) for pk, verdict in others}
    new_folds[kept_theme.pk] = Fold(
        row.pk, row.similarity, "" if kept_theme.verdict == Verdict.CHOSEN else kept_theme.verdict
    )
    new_folds[row.pk] = Fold(verdict=Verdict.CHOSEN)
    return save_decision(
        Decision.Kind.CHOICE, f"Kept “{shorten_name(row)}” instead of “{shorten_name(kept_theme)}”", new_folds, by
    )


@transaction.atomic
def fold_theme(theme: int, kept: int, by: Any) -> Decision:
    """Fold a theme into another one because a user says that they belong together. Grouping again keeps to it.

    If the other one is folded already, the theme that is kept instead of it is taken; what was folded into `theme`
    comes along. Raises Conflict, Theme.DoesNotExist.
    """
    take_advisory_lock(FOLD_LOCK)
    row = Theme.objects.get(pk=theme)
    target = Theme.objects.select_related("folded_into").get(pk=kept)
    root = target.folded_into or target
    if root.pk == row.pk:
        raise Conflict(f"{shorten_name(target)} is this theme, or folded into it. Choose another theme.")
    if row.folded_into_id == root.pk:
        raise Conflict(f"{shorten_name(row)} is folded into {shorten_name(root)} already.")
    along = Theme.objects.filter(folded_into=row).values_list("pk", "verdict")
    new_folds = {pk: Fold(root.pk, None, verdict) for pk, verdict in along}
    new_folds[row.pk] = Fold(root.pk, None, Verdict.TOGETHER)
    return save_decision(
        Decision.Kind.TOGETHER, f"Folded “{shorten_name(row)}” into “{shorten_name(root)}”", new_folds, by
    )


@transaction.atomic
def fold_themes(pairs: Iterable[tuple[int, int, float | None]], words: str, by: Any = None) -> Decision:
    """Fold themes into kept ones: (duplicate, kept, similarity, None if it is not known).

    If the kept one is folded already its own kept one is taken, and what was folded into the duplicate comes along.
    """
    take_advisory_lock(FOLD_LOCK)
    triples = list(pairs)
    roots = dict(Theme.objects.filter(pk__in=[kept for _, kept, _ in triples]).values_list("pk", "folded_into"))
    verdicts = dict(
        Theme.objects.filter(pk__in=[duplicate for duplicate, _, _ in triples]).values_list("pk", "verdict")
    )
    new_folds: dict[int, Fold] = {}
    for duplicate, kept_theme, similarity in triples:
        root = roots.get(kept_theme) or kept_theme
        if root != duplicate and verdicts.get(duplicate) != Verdict.APART and root not in new_folds:
            new_folds[duplicate] = Fold(root, similarity, verdicts.get(duplicate, ""))
    along = (
        Theme.objects.filter(folded_into__in=new_folds)
        .exclude(pk__in=new_folds)
        .values_list("pk", "folded_into", "verdict")
    )
    new_folds |= {pk: Fold(new_folds[into].into, None, verdict) for pk, into, verdict in along if into is not None}
    return save_decision(Decision.Kind.BATCH, words, new_folds, by)


def fold_alike_themes(source: str, groups: Iterable[Sequence[str]], words: str) -> Decision | None:
    """Fold what a batch found alike among its themes: keys of one source, the kept one first in each group.

    Return None if there is nothing to fold, so that a second call makes no second decision.
    """
    key_pairs = [(key, group[0]) for group in groups for key in group[1:]]
    rows = Theme.objects.filter(source=source, key__in={key for pair in key_pairs for key in pair})
    known_themes = {key: (pk, into) for pk, key, into in rows.values_list("pk", "key", "folded_into")}
    pairs: list[tuple[int, int, float | None]] = [
        (known_themes[key][0], known_themes[kept][0], None)
        for key, kept in key_pairs
        if key in known_themes and kept in known_themes and known_themes[key][1] is None
    ]
    return fold_themes(pairs, words) if pairs else None


@transaction.atomic
def undo_decision(decision: int, by: Any) -> Decision:
    """Undo a decision, one theme at a time: those decided on since stay as they are, and the words say so.

    Raises Conflict if nothing is left to undo, Decision.DoesNotExist.
    """
    take_advisory_lock(FOLD_LOCK)
    row = Decision.objects.select_related("undone_by").get(pk=decision)
    if row.is_undone:
        raise Conflict("This decision is undone already.")
    changes = list(row.changes.all())
    now = load_current_folds(change.theme_id for change in changes)
    same = [change for change in changes if now.get(change.theme_id) == get_fold_after(change)]
    if changes and not same:
        raise Conflict(LATER)
    changed_since = len(changes) - len(same)
    words = f"Undid: {row.words}"[:240] + (f" ({changed_since} decided on since stay)" if changed_since else "")
    return save_decision(
        Decision.Kind.UNDO, words, {change.theme_id: get_fold_before(change) for change in same}, by, row
    )


def save_decision(
    kind: Decision.Kind, words: str, wanted: Mapping[int, Fold], by: Any, undoes: Decision | None = None
) -> Decision:
    """Write a decision and what it changes. The caller holds `FOLD_LOCK` in a transaction. Raises Conflict."""
    now = load_current_folds(wanted)
    changed = {pk: fold for pk, fold in wanted.items() if pk in now and now[pk] != fold}
    _require_flat(changed)
    row = Decision.objects.create(kind=kind, words=words[:300], undoes=undoes, by=by, themes=len(changed))
    DecisionChange.objects.bulk_create(
        (_build_change(row, pk, now[pk], fold) for pk, fold in sorted(changed.items())), batch_size=2000
    )
    _write_folds(changed)
    _count_duplicates({folded.into for folded in (*(now[pk] for pk in changed), *changed.values()) if folded.into})
    if by is not None:
        write_audit_entry(by, f"themes.{kind}", row, themes=len(changed))
    return row


def load_current_folds(themes: Iterable[int]) -> dict[int, Fold]:
    rows = Theme.objects.filter(pk__in=list(themes)).values_list("pk", "folded_into", "similarity", "verdict")
    return {pk: Fold(into, similarity, verdict) for pk, into, similarity, verdict in rows}


def get_fold_before(change: DecisionChange) -> Fold:
    return Fold(change.before_into, change.before_similarity, change.before_verdict)


def get_fold_after(change: DecisionChange) -> Fold:
    return Fold(change.after_into, change.after_similarity, change.after_verdict)


def shorten_name(theme: Theme) -> str:
    return theme.name if len(theme.name) <= 80 else f"{theme.name[:79]}…"


def _require_flat(changed: Mapping[int, Fold]) -> None:
    """Raise Conflict if a theme would end up folded into one that is itself folded, or gone."""
    folded = {pk for pk, fold in changed.items() if fold.into is not None}
    kept_ids = {fold.into for fold in changed.values() if fold.into is not None}
    standing = set(Theme.objects.filter(pk__in=kept_ids, folded_into=None).values_list("pk", flat=True))
    standing |= {pk for pk, fold in changed.items() if fold.into is None}
    followers = Theme.objects.filter(folded_into__in=folded).exclude(pk__in=list(changed))
    if kept_ids & folded or not kept_ids <= standing or followers.exists():
        raise Conflict(LATER)


def _build_change(decision: Decision, theme: int, was: Fold, fold: Fold) -> DecisionChange:
    return DecisionChange(
        decision=decision,
        theme_id=theme,
        before_into=was.into,
        before_similarity=was.similarity,
        before_verdict=was.verdict,
        after_into=fold.into,
        after_similarity=fold.similarity,
        after_verdict=fold.verdict,
    )


def _write_folds(changed: Mapping[int, Fold]) -> None:
    pks = sorted(changed)
    sql = (
        f"UPDATE {Theme._meta.db_table} AS theme "
        "SET folded_into_id = more.into_id, similarity = more.similarity, verdict = more.verdict "
        "FROM unnest(%s::bigint[], %s::bigint[], %s::float8[], %s::text[]) AS more(id, into_id, similarity, verdict) "
        "WHERE theme.id = more.id"
    )
    folds = [changed[pk] for pk in pks]
    with connection.cursor() as cursor:
        cursor.execute(
            sql,
            [
                pks,
                [folded.into for folded in folds],
                [folded.similarity for folded in folds],
                [folded.verdict for folded in folds],
            ],
        )


def _count_duplicates(kept: set[int]) -> None:
    table = Theme._meta.db_table
    sql = (
        f"UPDATE {table} AS theme SET duplicates = "
        f"(SELECT count(*) FROM {table} AS one WHERE one.folded_into_id = theme.id) WHERE theme.id = ANY(%s)"
    )
    with connection.cursor() as cursor:
        cursor.execute(sql, [sorted(kept)])


def start_grouping(
    user: Any, threshold: float, model: str = "", judge: str = VECTORS_ALONE, most: int = MOST_ASKED
) -> Job:
    """Queue a grouping of all themes. `model` is "" or `endpoint id/model`; `judge` decides on `most` pairs at most
    (values: `theme_judge.find_judge`).

    Raises `InputError` (threshold, unknown model, a grouping that has not ended yet, a judge that costs for a user who
    may spend within batches alone).
    """
    require_threshold(threshold)
    if model and find_choice(model) is None:
        raise InputError("This model is not listed at its endpoint. Choose another one.")
    if not 1 <= most <= MOST_PAIRS:
        raise InputError(f"A judge is asked about 1 to {MOST_PAIRS:,} pairs; {most:,} were asked for.")
    theme_judge = find_judge(judge, most)
    if theme_judge is not None and theme_judge.name != SCRIPTED and getattr(user, "role", None) in CAPPED_ROLES:
        raise InputError(
            f"{theme_judge.name} would be asked about up to {most:,} pairs, without a spend cap. Let likeness alone "
            "decide, or ask a researcher or an operator to start it."
        )
    running = find_grouping_job()
    if running is not None:
        raise InputError(f"Job {running.pk} is grouping themes already. Wait for it, or cancel it on its page.")
    judge_value = VECTORS_ALONE if theme_judge is None else theme_judge.value
    payload: dict[str, Any] = {"threshold": threshold, "model": model, "judge": judge_value, "most": most}
    words = f"by {theme_judge.name[:60]}" if theme_judge is not None else f"at {threshold:g}"
    return enqueue_job("group_themes", f"Group themes {words}", payload, user, subject=SUBJECT)
