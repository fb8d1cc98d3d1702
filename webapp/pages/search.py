"""Search over everything by words: environments, tools, tasks, trajectories, batches, jobs, themes and pages.

A word of three letters or more is found anywhere in a name or text (trigram indexes); shorter ones match only pages and
commands, a number the row that has it. Trajectories are found by whole words of their texts. Every kind reads a bounded
number of rows and is ranked here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import F, Model, Q, QuerySet
from django.urls import reverse

from webapp.batches.models import Batch
from webapp.common.query_params import LARGEST_ID, parse_whole_number
from webapp.common.templatetags.show import row_url
from webapp.environments.models import Environment, Tool
from webapp.jobs.models import Job
from webapp.pages.commands import iterate_commands
from webapp.pages.demo_content import SOURCE as DEMO
from webapp.pages.demo_content import exclude_demo, filter_demo
from webapp.runs.models import TrainingJob
from webapp.scenarios.models import Task
from webapp.taxonomy.models import Theme
from webapp.trajectories.models import Trajectory
from webapp.trajectories.text_search.matches import list_newest_matches
from webapp.trajectories.text_search.snippets import Found, Piece, attach_snippets
from webapp.trajectories.text_search.words import parse_query_words

SHORTEST = 3
"""A shorter word has no trigram: it would be looked for in every row."""
MOST_WORDS = 6
READ = 60
"""Rows that are read of a kind before they are ranked."""
SHOWN, SHOWN_OF_ONE = 4, 40
TEXT_CHARS = 100
NAMES = {
    "TASK": "tasks",
    "TRAJECTORY": "trajectories",
    "ATTEMPT": "trajectories",
    "ENVIRONMENT": "environments",
    "BATCH": "batches",
    "THEME": "themes",
    "JOB": "jobs",
}
"""Words before a number, and the kind that it is a number of."""
GO_TO = ("GO", "TO")


@dataclass(frozen=True)
class Hit:
    """A row or page that was found. `label` and `note` are texts of any user; `state` is a tag's kind and value."""

    label: str
    note: str
    url: str
    state: tuple[str, str] = ("", "")
    key: str = ""
    place: str = ""
    """The place of the words in it, with the text around them in `pieces`."""
    pieces: tuple[Piece, ...] = ()


@dataclass(frozen=True)
class HitGroup:
    """The hits of a kind, best first. `more`: there are others than these."""

    kind: str
    title: str
    hits: tuple[Hit, ...]
    more: bool = False


@dataclass(frozen=True)
class SearchQuery:
    """A typed query: words in capitals, and the number that it may be."""

    text: str
    words: tuple[str, ...] = ()
    number: int | None = None
    commands_only: bool = False
    user: Any = None
    named: tuple[str, int] = ("", 0)
    """Kind and number of "task 14"."""
    most: int = SHOWN_OF_ONE
    """Number of hits of a kind that are shown."""

    @property
    def long_words(self) -> list[str]:
        return [word for word in self.words if len(word) >= SHORTEST]

    @property
    def finds_rows(self) -> bool:
        return not self.commands_only and bool(self.long_words or self.number)

    def of(self, kind: str) -> SearchQuery:
        """Return the query for one kind: only the number if the kind was named with it."""
        return replace(self, words=(str(self.named[1]),), number=self.named[1]) if kind == self.named[0] else self


def parse_query(text: str, user: Any) -> SearchQuery:
    """Parse a typed query; a leading `>` searches only pages and commands."""
    text = " ".join(text.replace("\x00", "").split())[:TEXT_CHARS]
    commands = text.startswith(">")
    words = tuple(_strip_plural(word) for word in text.lstrip("> ").upper().split()[:MOST_WORDS])
    number = parse_whole_number(words[0].lstrip("#"), 1, LARGEST_ID) if len(words) == 1 else None
    named_row = ("", 0)
    if len(words) == 2 and words[0] in NAMES:
        named_row = (NAMES[words[0]], parse_whole_number(words[1].lstrip("#"), 1, LARGEST_ID) or 0)
    return SearchQuery(text, words, number, commands, user, named_row if named_row[1] else ("", 0))


def _strip_plural(word: str) -> str:
    """Return a word without its English plural ending: "AUDITS" finds "audit" too, and still everything with
    "audits"."""
    if len(word) <= SHORTEST + 1 or not word.endswith("S") or word.endswith("SS"):
        return word
    return word[:-3] if word.endswith("IES") and len(word) > SHORTEST + 3 else word[:-1]


def search_all(query: SearchQuery, kind: str = "") -> list[HitGroup]:
    """Return hits kind by kind; all hits of one kind if it is named."""
    groups = []
    most = SHOWN_OF_ONE if kind or query.commands_only else SHOWN
    query = replace(query, most=most)
    for name, (title, find) in KINDS.items():
        if (kind and name != kind) or not (query.words or query.commands_only):
            continue
        if name != "pages" and not query.finds_rows:
            continue
        hits = find(query.of(name))
        if hits:
            groups.append(HitGroup(name, title, tuple(hits[:most]), len(hits) > most))
    return sorted(groups, key=lambda group: not _is_exact_name(group.hits[0].label, query))


def _is_exact_name(name: str, query: SearchQuery) -> bool:
    """Return whether the whole name was typed, which ranks before any other match."""
    return name.casefold() == query.text.casefold()


def _find_matching_rows(
    rows: QuerySet[Any], query: SearchQuery, column: str, environment: str | None = None, name: str = ""
) -> list[Any]:
    """Return rows whose column holds every word, or that have the number: the number first, then by the place of the
    words.

    With the path to their `environment` the content of the training demo comes last. If the column holds more than the
    name of a row, `name` is the column of the name: rows with exactly this name come first, however many hold the
    words.
    """
    where = Q(pk=query.number) if query.number else Q()
    if query.long_words:
        by_words = Q()
        for word in query.words:
            by_words &= Q(**{f"{column}__icontains": word})
        where |= by_words
    parts = [rows] if environment is None else [exclude_demo(rows, environment), filter_demo(rows, environment)]
    rows_found: list[Any] = []
    if name and query.long_words:
        called = exclude_demo(rows, environment) if environment is not None else rows
        rows_found = list(called.filter(**{f"{name}__iexact": query.text}).order_by()[: query.most + 1])
    found_pks = {row.pk for row in rows_found}
    for part in parts:
        read = [row for row in part.filter(where).order_by()[: READ - len(rows_found)] if row.pk not in found_pks]
        rows_found += sorted(read, key=lambda row: (_rank_text(str(getattr(row, column)), query), -row.pk))
    return sorted(rows_found, key=lambda row: row.pk != query.number)


def _rank_text(text: str, query: SearchQuery) -> tuple[bool, int, int]:
    """Return a sort key, smaller is better: not an exact name, the words that begin no part of the text, the first
    place."""
    upper = text.upper()
    starts = set(upper.replace("_", " ").replace("-", " ").split())
    missing = sum(not any(part.startswith(word) for part in starts) for word in query.words)
    return not _is_exact_name(text, query), missing, upper.find(query.words[0])


def _build_hits(query: SearchQuery, rows: Sequence[Model], make: Callable[[Any], Hit]) -> list[Hit]:
    """Return the best of the rows, and one more if there are others."""
    return [make(row) for row in rows[: query.most + 1]]


def _find_environments(query: SearchQuery) -> list[Hit]:
    rows = Environment.objects.only("name", "category", "tool_count", "task_count")
    return _build_hits(
        query,
        _find_matching_rows(rows, query, "name", ""),
        lambda row: Hit(
            row.name,
            f"{row.category or 'no category'} · {row.tool_count:,} tools · {row.task_count:,} tasks",
            row_url("environments:detail", row.pk),
        ),
    )


def _find_tools(query: SearchQuery) -> list[Hit]:
    if not query.long_words:
        return []
    rows = Tool.objects.filter(version__environment__current=F("version")).select_related("version__environment")
    rows = rows.only("name", "kind", "version__environment__name")
    return _build_hits(
        query,
        _find_matching_rows(rows, SearchQuery(query.text, query.words), "name", "version__environment"),
        lambda row: Hit(
            row.name,
            row.version.environment.name,
            f"{row_url('environments:detail', row.version.environment_id)}?tab=tools#tool-{row.name}",
            ("kind", row.kind),
        ),
    )


def _find_tasks(query: SearchQuery) -> list[Hit]:
    rows = Task.objects.select_related("environment").only("title", "words", "audit_state", "environment__name")
    return _build_hits(
        query,
        _find_matching_rows(rows, query, "words", "environment", "title"),
        lambda row: Hit(
            row.title,
            f"{row.environment.name} · task {row.pk}",
            row_url("scenarios:task", row.pk),
            ("audit", row.audit_state),
        ),
    )


def _find_trajectories(query: SearchQuery) -> list[Hit]:
    """Return the one with the number, then the newest whose text has the words, then those at tasks that match, then
    those without an environment that match by a part of a word."""
    rows = Trajectory.objects.select_related("task", "environment", "revision")
    rows = rows.only(*_TRAJECTORY_COLUMNS)
    rows_found = list(rows.filter(pk=query.number)) if query.number else []
    if not query.long_words:
        return _build_hits(query, rows_found, _build_trajectory_hit)
    typed = parse_query_words(query.text)
    newest = rows.filter(pk__in=list_newest_matches(typed, READ)).order_by("-id") if typed else []
    rows_found += _sort_demo_last(row for row in newest if row not in rows_found)
    if len(rows_found) <= query.most:
        words = SearchQuery(query.text, query.words)
        tasks = [
            row.pk for row in _find_matching_rows(Task.objects.only("words"), words, "words", "environment", "title")
        ]
        attempts = rows.filter(task__in=tasks[:20]).order_by("-id")[:READ]
        rows_found += _sort_demo_last(row for row in attempts if row not in rows_found)
        foreign = rows.filter(environment__isnull=True)
        rows_found += [row for row in _find_matching_rows(foreign, words, "words") if row not in rows_found]
    attach_snippets(rows_found[: query.most], typed)
    return _build_hits(query, rows_found, _build_trajectory_hit)


_TRAJECTORY_COLUMNS = (
    *("outcome", "policy", "replay", "title", "words", "answer", "revision__instruction"),
    *("task__title", "environment__name", "environment__source"),
)


def _sort_demo_last(rows: Iterable[Trajectory]) -> list[Trajectory]:
    return sorted(rows, key=lambda row: row.environment is not None and row.environment.source == DEMO)


def _build_trajectory_hit(row: Trajectory) -> Hit:
    policy, url = row.policy or "policy not recorded", row_url("trajectories:detail", row.pk)
    found_text: Found | None = getattr(row, "found", None)
    place, pieces = ("", ()) if found_text is None else (found_text.place, found_text.pieces)
    url += "" if found_text is None else found_text.address
    where = "" if row.environment is None else f" · {row.environment.name}"
    state = ("replay", row.replay) if row.environment is None else ("outcome", row.outcome)
    return Hit(f"{row.pk} {row.name}", f"{policy}{where}", url, state, place=place, pieces=pieces)


def _find_themes(query: SearchQuery) -> list[Hit]:
    rows = Theme.objects.only("name", "tool_count", "source")
    return _build_hits(
        query,
        _find_matching_rows(rows, query, "name"),
        lambda row: Hit(row.name, f"{row.tool_count:,} tools", row_url("taxonomy:theme", row.pk)),
    )


def _find_batches(query: SearchQuery) -> list[Hit]:
    rows = Batch.objects.only("name", "state", "created_at")
    return _build_hits(
        query,
        _find_matching_rows(rows, query, "name"),
        lambda row: Hit(row.name, f"batch {row.pk}", row_url("batches:batch", row.pk), ("batch", row.state)),
    )


def _find_training_jobs(query: SearchQuery) -> list[Hit]:
    rows = TrainingJob.objects.only("name", "state", "public_id")
    return _build_hits(
        query,
        _find_matching_rows(rows, query, "name"),
        lambda row: Hit(
            row.name or row.public_id,
            row.public_id,
            reverse("runs:job", args=[row.public_id]),
            ("training", row.state),
        ),
    )


def _find_jobs(query: SearchQuery) -> list[Hit]:
    rows = Job.objects.only("title", "state")
    return _build_hits(
        query,
        _find_matching_rows(rows, query, "title"),
        lambda row: Hit(row.title, f"job {row.pk}", row_url("jobs:detail", row.pk), ("job", row.state)),
    )


def _find_pages(query: SearchQuery) -> list[Hit]:
    """Return pages and commands whose words begin with the typed ones; all of them for a lone `>`."""
    words = query.words[2:] if query.words[:2] == GO_TO else query.words
    hits = []
    for command in iterate_commands(query.user):
        parts = f"{command.label} {command.note}".upper().replace(",", " ").split()
        if all(any(part.startswith(word) for part in parts) for word in words):
            hits.append(Hit(command.label, command.note, command.url, key=command.key))
    return sorted(hits, key=lambda hit: not _is_exact_name(hit.label, query))


KINDS: dict[str, tuple[str, Callable[[SearchQuery], Sequence[Hit]]]] = {
    "environments": ("Environments", _find_environments),
    "tools": ("Tools", _find_tools),
    "tasks": ("Tasks", _find_tasks),
    "trajectories": ("Trajectories", _find_trajectories),
    "themes": ("Themes", _find_themes),
    "batches": ("Batches", _find_batches),
    "training": ("Training jobs", _find_training_jobs),
    "jobs": ("Background jobs", _find_jobs),
    "pages": ("Pages and commands", _find_pages),
}
