"""Search over everything by words: environments, tools, tasks, trajectories, batches, jobs, themes and pages.

A word of three letters or more is found anywhere in a name or text (trigram indexes); shorter ones match pages and
commands alone, a number what has it. Trajectories are found by whole words of all that was said and done in them.
Every kind reads a bounded number of rows and is ranked here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import F, Model, Q, QuerySet
from django.urls import reverse

from webapp.batches.models import Batch
from webapp.environments.models import Environment, Tool
from webapp.jobs.models import Job
from webapp.pages.commands import commands_of
from webapp.pages.demo_content import SOURCE as DEMO
from webapp.pages.demo_content import only_demo, without_demo
from webapp.query_params import LARGEST_ID, whole_number
from webapp.runs.models import TrainingJob
from webapp.scenarios.models import Task
from webapp.taxonomy.models import Theme
from webapp.templatetags.show import row_url
from webapp.trajectories.models import Trajectory
from webapp.trajectories.text_search.matches import newest_matches
from webapp.trajectories.text_search.snippets import Found, Piece, tell_found
from webapp.trajectories.text_search.words import read_words

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
    """Something that was found. `label` and `note` are texts of anybody; `state` is a tag's kind and value."""

    label: str
    note: str
    url: str
    state: tuple[str, str] = ("", "")
    key: str = ""
    place: str = ""
    """Where in it the words stand, with the text around them in `pieces`."""
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
    """What was typed: words in capitals, the number that it may be."""

    text: str
    words: tuple[str, ...] = ()
    number: int | None = None
    commands_only: bool = False
    user: Any = None
    named: tuple[str, int] = ("", 0)
    """Kind and number of "task 14"."""
    most: int = SHOWN_OF_ONE
    """So many hits of a kind are shown."""

    @property
    def long_words(self) -> list[str]:
        return [word for word in self.words if len(word) >= SHORTEST]

    @property
    def finds_rows(self) -> bool:
        return not self.commands_only and bool(self.long_words or self.number)

    def of(self, kind: str) -> SearchQuery:
        """The query as one kind takes it: the number alone where it was named with the number."""
        return replace(self, words=(str(self.named[1]),), number=self.named[1]) if kind == self.named[0] else self


def read_query(text: str, user: Any) -> SearchQuery:
    """A query out of what somebody typed; `>` at its beginning asks for pages and commands alone."""
    text = " ".join(text.replace("\x00", "").split())[:TEXT_CHARS]
    commands = text.startswith(">")
    words = tuple(_singular(word) for word in text.lstrip("> ").upper().split()[:MOST_WORDS])
    number = whole_number(words[0].lstrip("#"), 1, LARGEST_ID) if len(words) == 1 else None
    named = ("", 0)
    if len(words) == 2 and words[0] in NAMES:
        named = (NAMES[words[0]], whole_number(words[1].lstrip("#"), 1, LARGEST_ID) or 0)
    return SearchQuery(text, words, number, commands, user, named if named[1] else ("", 0))


def _singular(word: str) -> str:
    """A word without what makes an English plural: "AUDITS" finds "audit" too, and still everything with "audits"."""
    if len(word) <= SHORTEST + 1 or not word.endswith("S") or word.endswith("SS"):
        return word
    return word[:-3] if word.endswith("IES") and len(word) > SHORTEST + 3 else word[:-1]


def search(query: SearchQuery, kind: str = "") -> list[HitGroup]:
    """What was found, kind by kind; all of one where it is named."""
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
    return sorted(groups, key=lambda group: not _is_named(group.hits[0].label, query))


def _is_named(name: str, query: SearchQuery) -> bool:
    """Whether the whole name was typed: that comes before whatever else holds the words."""
    return name.casefold() == query.text.casefold()


def _matching(
    rows: QuerySet[Any], query: SearchQuery, column: str, environment: str | None = None, name: str = ""
) -> list[Any]:
    """Rows whose column holds every word, or that have the number: the number first, then by where words stand.

    With the path to their `environment` what the training demo brought in comes last. Where the column holds more than
    what a row is called, `name` is the column of that: rows called just so come first, however many hold the words.
    """
    where = Q(pk=query.number) if query.number else Q()
    if query.long_words:
        by_words = Q()
        for word in query.words:
            by_words &= Q(**{f"{column}__icontains": word})
        where |= by_words
    parts = [rows] if environment is None else [without_demo(rows, environment), only_demo(rows, environment)]
    found: list[Any] = []
    if name and query.long_words:
        called = without_demo(rows, environment) if environment is not None else rows
        found = list(called.filter(**{f"{name}__iexact": query.text}).order_by()[: query.most + 1])
    known = {row.pk for row in found}
    for part in parts:
        read = [row for row in part.filter(where).order_by()[: READ - len(found)] if row.pk not in known]
        found += sorted(read, key=lambda row: (_rank(str(getattr(row, column)), query), -row.pk))
    return sorted(found, key=lambda row: row.pk != query.number)


def _rank(text: str, query: SearchQuery) -> tuple[bool, int, int]:
    """Smaller is better: whether it is not just what was typed, how many words begin none of it, where the first is."""
    upper = text.upper()
    starts = set(upper.replace("_", " ").replace("-", " ").split())
    missing = sum(not any(part.startswith(word) for part in starts) for word in query.words)
    return not _is_named(text, query), missing, upper.find(query.words[0])


def _hits(query: SearchQuery, rows: Sequence[Model], make: Callable[[Any], Hit]) -> list[Hit]:
    """The best of the rows, and one more where there are others."""
    return [make(row) for row in rows[: query.most + 1]]


def _environments(query: SearchQuery) -> list[Hit]:
    rows = Environment.objects.only("name", "category", "tool_count", "task_count")
    return _hits(
        query,
        _matching(rows, query, "name", ""),
        lambda row: Hit(
            row.name,
            f"{row.category or 'no category'} · {row.tool_count:,} tools · {row.task_count:,} tasks",
            row_url("environments:detail", row.pk),
        ),
    )


def _tools(query: SearchQuery) -> list[Hit]:
    if not query.long_words:
        return []
    rows = Tool.objects.filter(version__environment__current=F("version")).select_related("version__environment")
    rows = rows.only("name", "kind", "version__environment__name")
    return _hits(
        query,
        _matching(rows, SearchQuery(query.text, query.words), "name", "version__environment"),
        lambda row: Hit(
            row.name,
            row.version.environment.name,
            f"{row_url('environments:detail', row.version.environment_id)}?tab=tools#tool-{row.name}",
            ("kind", row.kind),
        ),
    )


def _tasks(query: SearchQuery) -> list[Hit]:
    rows = Task.objects.select_related("environment").only("title", "words", "audit_state", "environment__name")
    return _hits(
        query,
        _matching(rows, query, "words", "environment", "title"),
        lambda row: Hit(
            row.title,
            f"{row.environment.name} · task {row.pk}",
            row_url("scenarios:task", row.pk),
            ("audit", row.audit_state),
        ),
    )


def _trajectories(query: SearchQuery) -> list[Hit]:
    """The one of the number, then the newest whose text has the words, then those at tasks that match, then those
    without an environment that match by a part of a word."""
    rows = Trajectory.objects.select_related("task", "environment", "revision")
    rows = rows.only(*_TRAJECTORY_COLUMNS)
    found = list(rows.filter(pk=query.number)) if query.number else []
    if not query.long_words:
        return _hits(query, found, _trajectory_hit)
    typed = read_words(query.text)
    newest = rows.filter(pk__in=newest_matches(typed, READ)).order_by("-id") if typed else []
    found += _demo_last(row for row in newest if row not in found)
    if len(found) <= query.most:
        words = SearchQuery(query.text, query.words)
        tasks = [row.pk for row in _matching(Task.objects.only("words"), words, "words", "environment", "title")]
        attempts = rows.filter(task__in=tasks[:20]).order_by("-id")[:READ]
        found += _demo_last(row for row in attempts if row not in found)
        foreign = rows.filter(environment__isnull=True)
        found += [row for row in _matching(foreign, words, "words") if row not in found]
    tell_found(found[: query.most], typed)
    return _hits(query, found, _trajectory_hit)


_TRAJECTORY_COLUMNS = (
    *("outcome", "policy", "replay", "title", "words", "answer", "revision__instruction"),
    *("task__title", "environment__name", "environment__source"),
)


def _demo_last(rows: Iterable[Trajectory]) -> list[Trajectory]:
    return sorted(rows, key=lambda row: row.environment is not None and row.environment.source == DEMO)


def _trajectory_hit(row: Trajectory) -> Hit:
    policy, url = row.policy or "policy not recorded", row_url("trajectories:detail", row.pk)
    found: Found | None = getattr(row, "found", None)
    place, pieces = ("", ()) if found is None else (found.place, found.pieces)
    url += "" if found is None else found.address
    where = "" if row.environment is None else f" · {row.environment.name}"
    state = ("replay", row.replay) if row.environment is None else ("outcome", row.outcome)
    return Hit(f"{row.pk} {row.name}", f"{policy}{where}", url, state, place=place, pieces=pieces)


def _themes(query: SearchQuery) -> list[Hit]:
    rows = Theme.objects.only("name", "tool_count", "source")
    return _hits(
        query,
        _matching(rows, query, "name"),
        lambda row: Hit(row.name, f"{row.tool_count:,} tools", row_url("taxonomy:theme", row.pk)),
    )


def _batches(query: SearchQuery) -> list[Hit]:
    rows = Batch.objects.only("name", "state", "created_at")
    return _hits(
        query,
        _matching(rows, query, "name"),
        lambda row: Hit(row.name, f"batch {row.pk}", row_url("batches:batch", row.pk), ("batch", row.state)),
    )


def _training(query: SearchQuery) -> list[Hit]:
    rows = TrainingJob.objects.only("name", "state", "public_id")
    return _hits(
        query,
        _matching(rows, query, "name"),
        lambda row: Hit(
            row.name or row.public_id,
            row.public_id,
            reverse("runs:job", args=[row.public_id]),
            ("training", row.state),
        ),
    )


def _jobs(query: SearchQuery) -> list[Hit]:
    rows = Job.objects.only("title", "state")
    return _hits(
        query,
        _matching(rows, query, "title"),
        lambda row: Hit(row.title, f"job {row.pk}", row_url("jobs:detail", row.pk), ("job", row.state)),
    )


def _pages(query: SearchQuery) -> list[Hit]:
    """Pages and commands whose words begin with those that were typed; all of them where `>` alone was."""
    words = query.words[2:] if query.words[:2] == GO_TO else query.words
    hits = []
    for command in commands_of(query.user):
        parts = f"{command.label} {command.note}".upper().replace(",", " ").split()
        if all(any(part.startswith(word) for part in parts) for word in words):
            hits.append(Hit(command.label, command.note, command.url, key=command.key))
    return sorted(hits, key=lambda hit: not _is_named(hit.label, query))


KINDS: dict[str, tuple[str, Callable[[SearchQuery], Sequence[Hit]]]] = {
    "environments": ("Environments", _environments),
    "tools": ("Tools", _tools),
    "tasks": ("Tasks", _tasks),
    "trajectories": ("Trajectories", _trajectories),
    "themes": ("Themes", _themes),
    "batches": ("Batches", _batches),
    "training": ("Training jobs", _training),
    "jobs": ("Background jobs", _jobs),
    "pages": ("Pages and commands", _pages),
}
