"""Background jobs of the taxonomy."""

from __future__ import annotations

from typing import Any

from django.urls import reverse

from synthesis.formats.mcp import require_few_servers
from webapp.accounts.models import User
from webapp.jobs.context import JobContext
from webapp.jobs.models import Job
from webapp.jobs.registry import register_job_handler
from webapp.jobs.subjects import MadeLink, register_made_links, register_subject_page
from webapp.jobs.uploads import drop_uploads, read_upload, read_upload_bytes, require_records, require_success
from webapp.taxonomy.importer import import_document, import_servers
from webapp.taxonomy.models import Theme
from webapp.taxonomy.near_duplicates.group_job import get_vectoriser, regroup_themes
from webapp.taxonomy.near_duplicates.services import MOST_ASKED
from webapp.taxonomy.near_duplicates.theme_judge import VECTORS_ALONE, find_judge
from webapp.taxonomy.tool_documents import read_tool_document


@register_subject_page("themes")
def themes_page(_: int) -> tuple[str, str]:
    return "Near-duplicates of themes", reverse("taxonomy:duplicates")


@register_made_links("import_mcp_servers")
def link_newest_themes(job: Job) -> list[MadeLink]:
    return [MadeLink("The newest themes", reverse("taxonomy:themes"))]


@register_made_links("import_tool_documents")
def link_document_theme(job: Job) -> list[MadeLink]:
    """Return the theme that the document became."""
    rows = Theme.objects.filter(pk=job.result.get("theme") or 0).only("name")
    return [MadeLink(row.name, reverse("taxonomy:theme", args=[row.pk])) for row in rows]


@register_job_handler("import_mcp_servers", queue="sandbox")
def import_mcp_servers(context: JobContext) -> dict[str, Any]:
    """Import an uploaded file. Servers that went in before a crash are `unchanged` the second time."""
    stored = context.payload["file"]
    entries = require_few_servers(read_upload(stored), stored["original"])
    require_records((stored, entries))
    context.afterwards.append(lambda: drop_uploads(stored))
    return require_success(import_servers(entries, context.payload["source"], context.progress))


@register_job_handler("import_tool_documents", queue="sandbox")
def import_tool_documents(context: JobContext) -> dict[str, Any]:
    """Import an uploaded document, read in a process of its own, as a theme. Run twice, it changes nothing."""
    payload = context.payload
    stored_file, kind = payload["file"], payload.get("kind", "tools")
    record = read_tool_document(
        read_upload_bytes(stored_file), stored_file["original"], payload["name"], payload["category"], kind
    )
    context.afterwards.append(lambda: drop_uploads(stored_file))
    report = import_document(record, payload["source"], kind)
    if note := report.get("note"):
        context.log(note, "warning")
    return report


@register_job_handler("group_themes", queue="llm")  # vectors may come from an endpoint
def group_themes(context: JobContext) -> dict[str, Any]:
    """Compare all themes and fold near-duplicates. A second run of the job finds the grouping and changes nothing."""
    by = User.objects.filter(pk=context.user_id or 0).first()
    chosen_vectoriser = get_vectoriser(context.payload["model"])
    judge = find_judge(context.payload.get("judge", VECTORS_ALONE), context.payload.get("most", MOST_ASKED))
    grouping = regroup_themes(
        context.payload["threshold"], chosen_vectoriser, context.progress, by, context.job_id, judge
    )
    result = {"themes": grouping.themes, "groups": grouping.groups, "folded": grouping.folded, "grouping": grouping.pk}
    if not grouping.judge:
        return result
    return result | {"judge": grouping.judge, "asked": grouping.asked, "undecided": grouping.undecided}
