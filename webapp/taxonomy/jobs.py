"""Background jobs of the taxonomy."""

from __future__ import annotations

from typing import Any

from django.urls import reverse

from synthesis.formats.mcp import bounded
from webapp.accounts.models import User
from webapp.jobs.context import JobContext
from webapp.jobs.models import Job
from webapp.jobs.registry import job
from webapp.jobs.subjects import MadeLink, made_by, subject_page
from webapp.taxonomy.importer import import_document, import_servers
from webapp.taxonomy.models import Theme
from webapp.taxonomy.near_duplicates.group_job import regroup, vectoriser
from webapp.taxonomy.near_duplicates.services import MOST_ASKED
from webapp.taxonomy.near_duplicates.theme_judge import VECTORS_ALONE, judge_named
from webapp.taxonomy.tool_documents import read_tool_document
from webapp.uploads import drop_uploads, read_upload, require_records, require_success, upload_bytes


@subject_page("themes")
def themes_page(_: int) -> tuple[str, str]:
    return "Near-duplicates of themes", reverse("taxonomy:duplicates")


@made_by("import_mcp_servers")
def imported(job: Job) -> list[MadeLink]:
    return [MadeLink("The newest themes", reverse("taxonomy:themes"))]


@made_by("import_tool_documents")
def imported_document(job: Job) -> list[MadeLink]:
    """The theme that the document became."""
    rows = Theme.objects.filter(pk=job.result.get("theme") or 0).only("name")
    return [MadeLink(row.name, reverse("taxonomy:theme", args=[row.pk])) for row in rows]


@job("import_mcp_servers", queue="sandbox")
def import_mcp_servers(context: JobContext) -> dict[str, Any]:
    """Import an uploaded file. Servers that went in before a crash are `unchanged` the second time."""
    stored = context.payload["file"]
    entries = bounded(read_upload(stored), stored["original"])
    require_records((stored, entries))
    context.afterwards.append(lambda: drop_uploads(stored))
    return require_success(import_servers(entries, context.payload["source"], context.progress))


@job("import_tool_documents", queue="sandbox")
def import_tool_documents(context: JobContext) -> dict[str, Any]:
    """Import an uploaded document, read in a process of its own, as a theme. Run twice, it changes nothing."""
    payload = context.payload
    stored, kind = payload["file"], payload.get("kind", "tools")
    record = read_tool_document(upload_bytes(stored), stored["original"], payload["name"], payload["category"], kind)
    context.afterwards.append(lambda: drop_uploads(stored))
    report = import_document(record, payload["source"], kind)
    if note := report.get("note"):
        context.log(note, "warning")
    return report


@job("group_themes", queue="llm")  # vectors may come from an endpoint
def group_themes(context: JobContext) -> dict[str, Any]:
    """Compare all themes and fold near-duplicates. A second run of the job finds the grouping and changes nothing."""
    by = User.objects.filter(pk=context.user_id or 0).first()
    chosen = vectoriser(context.payload["model"])
    judge = judge_named(context.payload.get("judge", VECTORS_ALONE), context.payload.get("most", MOST_ASKED))
    grouping = regroup(context.payload["threshold"], chosen, context.progress, by, context.job_id, judge)
    told = {"themes": grouping.themes, "groups": grouping.groups, "folded": grouping.folded, "grouping": grouping.pk}
    if not grouping.judge:
        return told
    return told | {"judge": grouping.judge, "asked": grouping.asked, "undecided": grouping.undecided}
