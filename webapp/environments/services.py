"""Writes on environments: versions by content, never two for one content, even with concurrent imports."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import transaction
from django.db.models import Count, F

from synthesis.assessment.environments import build_view
from synthesis.assessment.truncated_names import list_attribute_names
from synthesis.contracts import Finding as FoundDefect
from synthesis.contracts import Program
from synthesis.contracts import Tool as ToolContract
from synthesis.formats.records import EnvironmentRecord, ToolRecord
from synthesis.formats.values import clean_text
from webapp.common.content_store import Saved, content_hash
from webapp.environments import totals
from webapp.environments.models import Environment, Finding, Tool, Version
from webapp.taxonomy.changes.queries import find_moved_by_people
from webapp.taxonomy.labels import build_category_path
from webapp.taxonomy.services import place_paths


def measure_program(rules: Any, state_schema: Any, kinds: Iterable[str]) -> dict[str, Any]:
    """Return the measures as the columns of `Version`.

    A level 1 category is an entity of the state definition (`user`); its level 2 categories are its attributes (`u_id`,
    `u_phone`). `category_sizes` has the number of level 2 categories for each of level 1, in their order; it is empty
    if the record defines no state.
    """
    tools = list(kinds)
    entities = [row for row in state_schema if isinstance(row, dict)] if isinstance(state_schema, list | tuple) else []
    return {
        "rule_count": len(rules) if isinstance(rules, list | tuple) else 0,
        "category_sizes": [len(list_attribute_names(row.get("attributes"))) for row in entities],
        "query_count": tools.count("query"),
        "change_count": tools.count("change"),
    }


def compute_record_hash(record: EnvironmentRecord) -> str:
    return content_hash([record.key, record.class_name, record.source, record.raw])


def find_unchanged(record: EnvironmentRecord, source: str) -> Version | None:
    """Return the current version of this environment if its content is this record's; no probing is needed then."""
    rows = Version.objects.filter(
        environment__source=source,
        environment__key=record.key,
        environment__current_id=F("pk"),
        content_hash=compute_record_hash(record),
    )
    return rows.select_related("environment").first()


def find_noncurrent_version(record: EnvironmentRecord, source: str) -> Version | None:
    """Return the stored version with this record's content if a version that a person chose is current instead."""
    rows = Version.objects.filter(
        environment__source=source,
        environment__key=record.key,
        environment__current__isnull=False,
        environment__current_by__isnull=False,
        content_hash=compute_record_hash(record),
    )
    return rows.exclude(environment__current_id=F("pk")).select_related("environment").first()


@transaction.atomic
def save_environment(
    record: EnvironmentRecord, findings: Iterable[FoundDefect], source: str, *, chosen_by: Any = None
) -> tuple[Saved, Environment, Version]:
    """Store a record as a version of its environment, and make it current.

    A version that a person made or chose stays current unless a person chooses another one (`chosen_by`). The
    environment's row is locked, so that concurrent imports number their versions one after the other.
    """
    Environment.objects.get_or_create(source=source, key=record.key, defaults={"name": record.name})
    environment = Environment.objects.select_for_update(of=("self",)).get(source=source, key=record.key)
    before = totals.get_current_counts(environment)
    digest = compute_record_hash(record)
    version = environment.versions.filter(content_hash=digest).first()
    if version is not None and version.pk == environment.current_id:
        return "unchanged", environment, version
    saved: Saved = "updated" if environment.current_id else "created"
    is_kept = chosen_by is None and environment.current_id is not None and environment.current_by_id is not None
    if is_kept:
        saved = "beside" if version is None else "kept"
    if version is None:
        version = _create_version(environment, record, digest)
        _add_tools(version, record)
        _add_findings(version, findings)
    if not is_kept:
        _make_current(environment, version, record, chosen_by)
        totals.update_tree_counts(before, environment)
    return saved, environment, version


@transaction.atomic
def choose_version(version: Version, user: Any) -> Environment:
    """Make a stored version of an environment the current one, as a person's choice."""
    environment = Environment.objects.select_for_update(of=("self",)).get(pk=version.environment_id)
    before = totals.get_current_counts(environment)
    _make_current(environment, version, build_record(version), user)
    totals.update_tree_counts(before, environment)
    return environment


def _create_version(environment: Environment, record: EnvironmentRecord, digest: str) -> Version:
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
        **measure_program(record.rules, record.state_schema, (tool.kind for tool in record.tools)),
    )


def _add_tools(version: Version, record: EnvironmentRecord) -> None:
    """Store the tools with their working schemas, derived from the signatures, and the imported schemas."""
    view = build_view(record)
    Tool.objects.bulk_create(
        Tool(
            version=version,
            position=position,
            name=tool.name,
            kind=tool.kind,
            description=tool.description,
            parameters=tool.parameters,
            raw_schema=imported.raw_schema,
            source=clean_text(view.sources.get(tool.name, "")),
        )
        for position, (tool, imported) in enumerate(zip(view.program.tools, record.tools, strict=True))
    )


def build_finding_values(defect: FoundDefect) -> dict[str, Any]:
    """Return a finding as the columns of `FindingBase`, in text that PostgreSQL can store."""
    return {
        "kind": defect.kind[:64],
        "severity": defect.severity,
        "place": clean_text(defect.place)[:300],
        "message": clean_text(defect.message),
        "data": defect.data,
    }


def _add_findings(version: Version, findings: Iterable[FoundDefect]) -> None:
    Finding.objects.bulk_create(Finding(version=version, **build_finding_values(defect)) for defect in findings)


@transaction.atomic
def replace_findings(version: Version, findings: Iterable[FoundDefect]) -> None:
    """Store the findings of a new analysis of a version, in place of the earlier ones."""
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
        path = build_category_path(record.category)
        environment.node_id = place_paths([path])[path]
    environment.category = record.category
    environment.variant = environment.variant or record.parts.variant
    environment.tool_count = version.tools.count()
    environment.finding_count = version.findings.count()
    environment.scenario_count = version.scenarios.count()
    environment.save()


def _is_moved(environment: Environment) -> bool:
    """Return whether a user moved the environment to its node: then a new category does not move it."""
    return bool(find_moved_by_people("environments", {environment.pk: environment.node_id or 0}))


def note_variant(environment: int, variant: str) -> None:
    """Store the pipeline variant that made an environment, unless one is stored."""
    Environment.objects.filter(pk=environment, variant="").update(variant=variant)


def build_program(version: Version) -> Program:
    """Return the version as the program that the runtime executes."""
    tools = tuple(
        ToolContract(name=tool.name, description=tool.description, kind=tool.kind, parameters=tool.parameters)
        for tool in version.tools.all()
    )
    return Program(source=version.source, class_name=version.class_name, tools=tools)


def build_record(version: Version) -> EnvironmentRecord:
    """Return a version as the record that stages of synthesis take, without the parts that only an export needs."""
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
    """Return the number of findings of each kind on these versions."""
    rows = Finding.objects.filter(version__in=list(versions)).values_list("kind").annotate(Count("id"))
    return dict(rows.order_by("kind"))
