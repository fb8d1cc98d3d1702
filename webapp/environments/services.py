"""Writes on environments: versions by content, never two for one content, whoever imports at the same time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import transaction
from django.db.models import Count, F

from synthesis.assessment.environments import view_of
from synthesis.contracts import Finding as FoundDefect
from synthesis.contracts import Program
from synthesis.contracts import Tool as ToolContract
from synthesis.formats.records import EnvironmentRecord, ToolRecord
from synthesis.formats.values import clean
from webapp.content_store import Saved, content_hash
from webapp.environments import totals
from webapp.environments.models import Environment, Finding, Tool, Version
from webapp.environments.program_measures import measures
from webapp.taxonomy.changes.queries import moved_by_people
from webapp.taxonomy.labels import path_of_category
from webapp.taxonomy.services import place


def record_hash(record: EnvironmentRecord) -> str:
    return content_hash([record.key, record.class_name, record.source, record.raw])


def find_unchanged(record: EnvironmentRecord, source: str) -> Version | None:
    """The current version of this environment if its content is this record's; no probing is needed then."""
    rows = Version.objects.filter(
        environment__source=source,
        environment__key=record.key,
        environment__current_id=F("pk"),
        content_hash=record_hash(record),
    )
    return rows.select_related("environment").first()


def find_kept_beside(record: EnvironmentRecord, source: str) -> Version | None:
    """The stored version with this record's content, if a person's version is current instead of it."""
    rows = Version.objects.filter(
        environment__source=source,
        environment__key=record.key,
        environment__current__isnull=False,
        environment__current_by__isnull=False,
        content_hash=record_hash(record),
    )
    return rows.exclude(environment__current_id=F("pk")).select_related("environment").first()


@transaction.atomic
def save_environment(
    record: EnvironmentRecord, findings: Iterable[FoundDefect], source: str, *, chosen_by: Any = None
) -> tuple[Saved, Environment, Version]:
    """Store a record as a version of its environment, and make it current.

    A version that a person made or chose stays current unless a person chooses another one (`chosen_by`). The
    environment's row is locked, so that two imports at once number their versions one after the other.
    """
    Environment.objects.get_or_create(source=source, key=record.key, defaults={"name": record.name})
    environment = Environment.objects.select_for_update(of=("self",)).get(source=source, key=record.key)
    before = totals.standing(environment)
    digest = record_hash(record)
    version = environment.versions.filter(content_hash=digest).first()
    if version is not None and version.pk == environment.current_id:
        return "unchanged", environment, version
    saved: Saved = "updated" if environment.current_id else "created"
    is_kept = chosen_by is None and environment.current_id is not None and environment.current_by_id is not None
    if is_kept:
        saved = "beside" if version is None else "kept"
    if version is None:
        version = _new_version(environment, record, digest)
        _add_tools(version, record)
        _add_findings(version, findings)
    if not is_kept:
        _make_current(environment, version, record, chosen_by)
        totals.settle(before, environment)
    return saved, environment, version


@transaction.atomic
def choose_version(version: Version, user: Any) -> Environment:
    """Make a stored version of an environment the current one, as a person's choice."""
    environment = Environment.objects.select_for_update(of=("self",)).get(pk=version.environment_id)
    before = totals.standing(environment)
    _make_current(environment, version, record_of(version), user)
    totals.settle(before, environment)
    return environment


def _new_version(environment: Environment, record: EnvironmentRecord, digest: str) -> Version:
    last = environment.versions.order_by("-number").values_list("number", flat=True).first() or 0
    return environment.versions.create(
        number=last + 1,
        content_hash=digest,
        class_name=record.class_name,
        source=record.source,
        introduction=record.introduction,
        rules=list(record.rules),
        state_schema=list(record.state_schema),
        record=record.raw,
        **measures(record.rules, record.state_schema, (tool.kind for tool in record.tools)),
    )


def _add_tools(version: Version, record: EnvironmentRecord) -> None:
    """The tools with their working schemas, derived from the signatures, beside the imported ones."""
    view = view_of(record)
    Tool.objects.bulk_create(
        Tool(
            version=version,
            position=position,
            name=tool.name,
            kind=tool.kind,
            description=tool.description,
            parameters=tool.parameters,
            raw_schema=imported.raw_schema,
            source=clean(view.sources.get(tool.name, "")),
        )
        for position, (tool, imported) in enumerate(zip(view.program.tools, record.tools, strict=True))
    )


def finding_fields(defect: FoundDefect) -> dict[str, Any]:
    """A finding as the columns of `FindingBase`, in text that PostgreSQL holds."""
    return {
        "kind": defect.kind[:64],
        "severity": defect.severity,
        "place": clean(defect.place)[:300],
        "message": clean(defect.message),
        "data": defect.data,
    }


def _add_findings(version: Version, findings: Iterable[FoundDefect]) -> None:
    Finding.objects.bulk_create(Finding(version=version, **finding_fields(defect)) for defect in findings)


@transaction.atomic
def replace_findings(version: Version, findings: Iterable[FoundDefect]) -> None:
    """Store what a new look at a version found, instead of what an earlier look found."""
    environment = Environment.objects.select_for_update(of=("self",)).get(pk=version.environment_id)
    version.findings.all().delete()
    _add_findings(version, findings)
    if environment.current_id == version.pk:
        environment.finding_count = version.findings.count()
        environment.save(update_fields=["finding_count", "updated_at"])


def _make_current(environment: Environment, version: Version, record: EnvironmentRecord, chosen_by: Any = None) -> None:
    environment.current = version
    if chosen_by is not None:
        environment.current_by = chosen_by
    environment.name = record.name[:300]
    environment.summary = record.summary
    if environment.node_id is None or (environment.category != record.category and not _is_moved(environment)):
        path = path_of_category(record.category)
        environment.node_id = place([path])[path]
    environment.category = record.category
    environment.tool_count = version.tools.count()
    environment.finding_count = version.findings.count()
    environment.scenario_count = version.scenarios.count()
    environment.save()


def _is_moved(environment: Environment) -> bool:
    """Whether people hung it where it hangs: then a new category leaves it there."""
    return bool(moved_by_people("environments", {environment.pk: environment.node_id or 0}))


def program_of(version: Version) -> Program:
    """What the runtime needs of a version."""
    tools = tuple(
        ToolContract(name=tool.name, description=tool.description, kind=tool.kind, parameters=tool.parameters)
        for tool in version.tools.all()
    )
    return Program(source=version.source, class_name=version.class_name, tools=tools)


def record_of(version: Version) -> EnvironmentRecord:
    """A version as stages of synthesis take it: without what an export alone needs."""
    environment = version.environment
    return EnvironmentRecord(
        key=environment.key,
        name=environment.name,
        summary=environment.summary,
        introduction=version.introduction,
        category=environment.category,
        rules=tuple(version.rules),
        state_schema=tuple(version.state_schema),
        class_name=version.class_name,
        source=version.source,
        tools=tuple(
            ToolRecord(name=tool.name, description=tool.description, kind=tool.kind) for tool in version.tools.all()
        ),
    )


def count_findings(versions: Iterable[int]) -> dict[str, int]:
    """How often each kind of finding stands on these versions."""
    rows = Finding.objects.filter(version__in=list(versions)).values_list("kind").annotate(Count("id"))
    return dict(rows.order_by("kind"))
